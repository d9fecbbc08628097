"""run a PyTorch program: torch is rushlight there

`torch` and all its submodules are rushlight in that process and its workers, and a seed gives
PyTorch's random numbers. Arguments after the program's name belong to the program.
"""

from __future__ import annotations

import argparse

PROGRAM = True
EXAMPLES = (
    ("rushlight run train.py --epochs 3", "a script, with its own arguments"),
    ("rushlight run -m package.train", "a module"),
    ("rushlight run - < train.py", "a program from standard input"),
)


def run(arguments: argparse.Namespace) -> int:
    from rushlight import _run

    return _run.main(arguments.program)
