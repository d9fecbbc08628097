"""run a training program and report its mistakes

Each finding has the line, the numbers that show it, and the fix. Options of the doctor stand before
the program. The exit status is 1 when something serious was found, otherwise the program's.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import Any

from rushlight.cli import written

PROGRAM = True
EXAMPLES = (
    ("rushlight doctor train.py --epochs 2", "a script, with its own arguments"),
    ("rushlight doctor -m package.train", "a module"),
    ("rushlight doctor --html report.html train.py", "the report as a page, too"),
    ("rushlight doctor --silence slow-loader train.py", "without one of the findings"),
)


class _List(argparse.Action):
    """Shows all findings and ends."""

    def __init__(self, option_strings: Any, dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *args: Any) -> None:
        from rushlight._terminal import paint
        from rushlight.doctor._check import all_checks

        lines = []
        for name, check in all_checks().items():
            summary = (check.__doc__ or "").strip().splitlines()[0]
            lines.append(f"{paint(f'{name:<32}', 'bold')}{check.severity:<9}{summary}\n")
        sys.stdout.write("".join(lines))
        parser.exit()


def _json(text: str) -> str:
    return text if text == "-" else written(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from rushlight.doctor._check import all_checks

    parser.add_argument(
        "--json", type=_json, metavar="FILE", help="write the report as JSON; - is stdout"
    )
    parser.add_argument(
        "--html", type=written, metavar="FILE", help="write the report as one HTML page"
    )
    parser.add_argument(
        "--silence", metavar="NAME", action="append", default=[], choices=list(all_checks()),
        help="leave out a finding",
    )  # fmt: skip
    parser.add_argument(
        "--every-step", action="store_true", help="watch all steps closely, whatever it costs"
    )
    parser.add_argument("--list", action=_List, help="show all findings there are, and end")


def run(arguments: argparse.Namespace) -> int:
    from rushlight import _run
    from rushlight.doctor import Doctor

    doctor = Doctor(silence=arguments.silence, every_step=arguments.every_step)
    # Standard output is the report's alone where that is asked for.
    alone = arguments.json == "-"
    quiet: Any = contextlib.redirect_stdout(sys.stderr) if alone else contextlib.nullcontext()
    with quiet:
        status = _run.finished(arguments.program, around=doctor)
    _write(doctor, arguments)
    return 1 if doctor.serious else status


def _write(doctor: Any, arguments: argparse.Namespace) -> None:
    if arguments.html:
        doctor.to_html(arguments.html, title=" ".join(arguments.program))
    if arguments.json == "-":
        print(doctor.to_json(), end="")
        return
    if arguments.json:
        doctor.to_json(arguments.json)
    print(f"\n{doctor.to_text()}")
    if arguments.html:
        print(f"\nreport: {arguments.html}")
