"""measure this machine: the README's comparison with PyTorch

Runs the benchmarks behind the README's table, each in a process of its own, rushlight and PyTorch
in turns; where PyTorch is not installed, rushlight alone. The quickest round of each counts.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys

from rushlight.cli import positive, written

EXAMPLES = (
    ("rushlight bench", "all of the README's table: some minutes"),
    ("rushlight bench overhead train", "small operations, and training steps"),
    ("rushlight bench overhead --only 'size 10,'", "rows whose name contains a text"),
    ("rushlight bench --json rows.json --plots plots/", "figures to keep, and their plots"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    known = subjects()
    parser.add_argument(
        "subject", nargs="*", choices=known, metavar="subject",
        help=f"{', '.join(known)} (the README's)",
    )  # fmt: skip
    parser.add_argument("--rounds", type=positive(int), default=8, help="slices of each (8)")
    parser.add_argument(
        "--threads", type=positive(int), default=os.cpu_count() or 1, help="of each (all cores)"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose name contains it")
    parser.add_argument("--json", type=written, metavar="FILE", help="also write the rows there")
    parser.add_argument(
        "--plots", type=_folder, metavar="FOLDER", help="also draw the ratios there, as SVG"
    )


def _folder(text: str) -> str:
    if os.path.exists(text) and not os.path.isdir(text):
        raise argparse.ArgumentTypeError(f"cannot write into {text}: it is no folder")
    return text


def folder() -> str:
    """Where the benchmarks lie: in the package when it is installed, beside src/ otherwise."""
    import rushlight

    package = os.path.dirname(os.path.abspath(rushlight.__file__ or ""))
    inside = os.path.join(package, "_installed", "benchmarks")
    return inside if os.path.isdir(inside) else os.path.join(package, "../../benchmarks")


def subjects() -> list[str]:
    """The benchmarks that there are: the scripts that have rows."""
    found = []
    where = folder()
    files = sorted(os.listdir(where)) if os.path.isdir(where) else []
    for name in [each for each in files if each.endswith(".py")]:
        with open(os.path.join(where, name), encoding="utf-8") as file:
            if "    main(rows, " in file.read():
                found.append(name[:-3])
    return found


def run(arguments: argparse.Namespace) -> int:
    import subprocess

    where = folder()
    if not os.path.isdir(where):
        print(f"rushlight bench: error: the benchmarks are not in {where}", file=sys.stderr)
        return 2
    options = [f"--rounds={arguments.rounds}", f"--threads={arguments.threads}"]
    options += [f"--{name}={getattr(arguments, name)}" for name in ("json", "plots", "only")
                if getattr(arguments, name)]  # fmt: skip
    chosen = arguments.subject or ["--headlines"]
    sys.stdout.flush()
    command = [sys.executable, os.path.join(where, "run.py"), *options, *chosen]
    with subprocess.Popen(command) as child:
        try:
            return child.wait()
        except KeyboardInterrupt:  # which the terminal sent to the child, too
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(10)
            child.kill()
            raise
