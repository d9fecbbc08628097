"""list the names of torch that a program uses, and which are missing

Reads a script (and the files beside it that it imports), a notebook, a folder or an installed
package, and runs none of it. Methods of tensors are seen where the text says that something is a
tensor. Exit status 1 when a name is missing that the program does not do without.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

EXAMPLES = (
    ("rushlight compat train.py", "a script and its neighbours"),
    ("rushlight compat transformers", "an installed package"),
    ("rushlight compat src/ --missing", "a folder; only what is missing"),
    ("rushlight compat train.py --json", "for other programs"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", nargs="+", help="script.py, notebook.ipynb, folder or package")
    parser.add_argument("--missing", action="store_true", help="only what is missing")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> int:
    from rushlight._compat import Report, sources
    from rushlight._terminal import Progress

    report = Report()
    for target in arguments.target:
        try:
            files, folder = sources(target)
        except FileNotFoundError as error:
            print(f"rushlight compat: error: {error}", file=sys.stderr)
            return 2
        with Progress(len(files), "files") as progress:
            report.read(files, folder, follow=len(files) == 1, tick=progress.update)
    if arguments.json:
        import json

        print(json.dumps(report.to_dict(), indent=1))
    else:
        _show(report, " ".join(arguments.target), arguments.missing)
    return 1 if report.missing else 0


def _show(report: Any, what: str, only_missing: bool) -> None:
    from rushlight._terminal import paint

    used, lost = len(report.names), report.missing
    verdict = paint(f"{len(lost)} missing", "bold", "red") if lost else paint("all there", "green")
    files = f"{report.files} file{'s' if report.files != 1 else ''}"
    if not report.files:
        print(f"{what}: no Python files")
    elif not used:
        print(f"{what}: no name of torch in {files}")
    else:
        print(f"{what}: {used} name{'s' if used != 1 else ''} of torch in {files}, {verdict}")
    if not only_missing:
        _show_present(report)
    groups = (
        ("missing", lost),
        ("missing, and not needed", report.optional),
        ("left out: an error says so when it is called", report.left_out),
    )
    for title, names in groups:
        if names:
            print(f"\n{paint(title, 'bold')}")
        for each in names:
            uses = list(each.uses)
            more = f" and {len(uses) - 2} more" if len(uses) > 2 else ""
            hint = "" if each.present else each.hint
            print(f"  {each.name}  {', '.join(uses[:2])}{more}{hint}")
    for text in report.unread:
        print(f"not read: {text}", file=sys.stderr)


def _show_present(report: Any) -> None:
    """The names that are there, by module."""
    import textwrap

    from rushlight._terminal import paint

    groups: dict[str, list[str]] = {}
    for each in report.names.values():
        if each.present and not each.raises:
            parent, _, last = each.name.rpartition(".")
            groups.setdefault(parent or "modules", []).append(last)
    for parent, names in sorted(groups.items()):
        print(f"\n{paint(parent, 'bold')}")
        text = ", ".join(names)
        print(textwrap.fill(text, 98, initial_indent="  ", subsequent_indent="  "))
