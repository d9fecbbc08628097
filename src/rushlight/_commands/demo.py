"""train a small GPT on Python's own source

Trains for half a minute, compares a gradient with finite differences, and writes a sample.
"""

from __future__ import annotations

import argparse

from rushlight.cli import positive

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


def run(arguments: argparse.Namespace) -> int:
    from rushlight import _demo

    return _demo.run(steps=arguments.steps, seconds=arguments.seconds, seed=arguments.seed)
