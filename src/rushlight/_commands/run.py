"""run a PyTorch program: torch is rushlight there

`torch` and all its submodules are rushlight in that process and its workers, and a seed gives
PyTorch's random numbers. Arguments after the program's name belong to the program.
"""

from __future__ import annotations

import argparse

from rushlight.cli import written

PROGRAM = True
EXAMPLES = (
    ("rushlight run train.py --epochs 3", "a script, with its own arguments"),
    ("rushlight run -m package.train", "a module"),
    ("rushlight run - < train.py", "a program from standard input"),
    ("rushlight run --report out.html train.py", "with a report of its training"),
    ("rushlight run --serve train.py", "with a report that is shown while it trains"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--report", type=written, metavar="FILE", help="write a page about the training"
    )
    parser.add_argument(
        "--serve", action="store_true",
        help="show that page in a browser while the program runs (on this machine alone)",
    )  # fmt: skip
    parser.add_argument("--port", type=_port, default=0, help="the port of --serve (any)")


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port < 65536:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, got {text}")
    return port


def run(arguments: argparse.Namespace) -> int:
    from rushlight import _run

    if not arguments.report and not arguments.serve:
        return _run.main(arguments.program)
    import sys

    from rushlight.reporting import report

    title = f"Training report: {_run.program_name(arguments.program)}"
    serve = (arguments.port or True) if arguments.serve else None
    with report(arguments.report, title=title, serve=serve) as watched:
        status = _run.finished(arguments.program)
        if status:
            watched.error = f"the program ended with status {status}"
    if arguments.report:
        steps = f"{watched.steps:,} step{'s' * (watched.steps != 1)}"
        print(f"report of {steps}: {watched.path}", file=sys.stderr)
    return status
