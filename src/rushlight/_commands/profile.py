"""show where a program's time and memory go

Runs a program, records some of its training steps, and writes a page: a flame graph by source
line with forward and backward joined, the memory's course, and the lines that hold its peak.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from rushlight.cli import positive, written

PROGRAM = True
EXAMPLES = (
    ("rushlight profile train.py", "writes profile.html"),
    ("rushlight profile --steps 50 --wait 10 train.py", "50 steps, after the first 10"),
    ("rushlight profile -o eval.html evaluate.py", "without an optimizer: the whole program"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", type=written, default="profile.html", metavar="FILE",
        help="the page (profile.html)",
    )  # fmt: skip
    parser.add_argument(
        "--steps", type=positive(int), default=20, help="steps of the optimizer to record (20)"
    )
    parser.add_argument("--wait", type=_wait, default=1, help="steps before them (1)")
    parser.add_argument(
        "--continue", dest="goes_on", action="store_true",
        help="let the program run on to its end after these steps",
    )  # fmt: skip


def _wait(text: str) -> int:
    if int(text) < 0:
        raise argparse.ArgumentTypeError(f"expected a number of steps, got {text}")
    return int(text)


class _Done(SystemExit):
    """Ends the program when enough has been seen."""


class Recorder:
    """A profile of the steps that were asked for: optimizers tell when one ends."""

    def __init__(self, steps: int, wait: int, goes_on: bool) -> None:
        self.steps, self.wait, self.goes_on = steps, wait, goes_on
        self.seen = 0
        self.profile: Any = None
        self._clock: Any = None

    def _begin(self) -> None:
        from rushlight.autograd.profiler import profile

        self.profile = profile(with_stack=True, profile_memory=True)
        self.profile.__enter__()

    def _end(self) -> None:
        if self.profile.entered:
            self.profile.__exit__()

    def __enter__(self) -> Recorder:
        from rushlight.optim.optimizer import register_optimizer_step_post_hook

        self._hook = register_optimizer_step_post_hook(self._stepped)
        self._begin()
        return self

    def __exit__(self, *error: object) -> None:
        self._hook.remove()
        self._end()

    def _stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._clock is None:
            self._clock = optimizer
        if optimizer is not self._clock or not self.profile.entered:
            return
        self.seen += 1
        if self.seen == self.wait:
            self._end()
            self._begin()
        elif self.seen >= self.wait + self.steps:
            self._end()
            if not self.goes_on:
                raise _Done


def run(arguments: argparse.Namespace) -> int:
    from rushlight import _run

    with Recorder(arguments.steps, arguments.wait, arguments.goes_on) as recorder:
        status = _run.finished(arguments.program)
    title = f"Profile of {_run.program_name(arguments.program)}"
    recorder.profile.to_html(arguments.output, title=title)
    steps = max(0, recorder.seen - arguments.wait)
    what = f"{steps} step{'s' * (steps != 1)}" if recorder.seen else "the program"
    print(f"profile of {what}: {arguments.output}", file=sys.stderr)
    return status
