"""The table of all findings in the guide."""

from __future__ import annotations

from rushlight.doctor import _checks
from rushlight.doctor._check import all_checks
from rushlight.doctor._finding import SEVERITIES


def reference() -> str:
    """Every finding in Markdown, the worst first.

    >>> from rushlight.doctor._reference import reference
    >>> reference().splitlines()[0]
    '| finding | what it is | example | fix |'
    """
    rows = ["| finding | what it is | example | fix |", "| --- | --- | --- | --- |"]
    for severity in SEVERITIES:
        for name, check in all_checks().items():
            if check.severity == severity and check.__module__.startswith(_checks.__name__):
                what = " ".join((check.__doc__ or "").split()).removesuffix(".")
                example = f"`{check.example}`" if check.example else ""
                rows.append(f"| `{name}` ({severity}) | {what} | {example} | {check.fix} |")
    return "\n".join(rows) + "\n"
