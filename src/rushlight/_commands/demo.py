"""train a small GPT on Python's own source

Trains for half a minute, compares a gradient with finite differences, writes a sample, and a page
with the loss and the rest, whose place it says.
"""

from __future__ import annotations

import argparse

from rushlight.cli import positive, written

EXAMPLES = (
    ("rushlight demo", "35 seconds of training"),
    ("rushlight demo --seconds 5 --seed 1", "shorter, with other random numbers"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--steps", type=positive(int), default=1500, help="training steps (1500)")
    parser.add_argument(
        "--seconds", type=positive(float), default=35.0, help="stop training after this time (35)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers (0)")
    parser.add_argument(
        "--report",
        type=written,
        metavar="FILE",
        default="rushlight-demo.html",
        help="the page to write (rushlight-demo.html)",
    )
    parser.add_argument(
        "--no-report", dest="report", action="store_const", const=None, help="write no page"
    )


def run(arguments: argparse.Namespace) -> int:
    from rushlight import _demo

    return _demo.run(arguments.steps, arguments.seconds, arguments.seed, arguments.report)
