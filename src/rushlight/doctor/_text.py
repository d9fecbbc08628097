"""The report as text."""

from __future__ import annotations

import textwrap
from typing import Any

from rushlight._terminal import paint
from rushlight.doctor._finding import SEVERITIES, number, shown

_COLOURS = {"serious": "red", "warning": "yellow", "note": "cyan"}
WIDTH = 88


def counted(count: int, what: str) -> str:
    """``1 step`` or ``3 steps``."""
    if count == 1:
        return f"1 {what}"
    return f"{count:,} {what}{'es' if what.endswith('s') else 's'}"


def place_text(place: dict[str, Any] | None) -> str:
    """``train.py:12``; nothing for a finding without a line."""
    return f"{shown(place['file'])}:{place['line']}" if place else ""


def evidence_text(evidence: dict[str, Any]) -> list[tuple[str, str]]:
    """Names and values to be read: ``update_ratio`` becomes "update ratio"."""
    rows = []
    for name, value in evidence.items():
        plain = isinstance(value, (int, float)) and not isinstance(value, bool)
        rows.append((name.replace("_", " "), number(value) if plain else str(value)))
    return rows


def summary(report: dict[str, Any]) -> str:
    """One line: how much was found, in what."""
    found = report["findings"]
    ran = f"{counted(report['steps'], 'optimizer step')}, "
    ran += counted(report["backward_passes"], "backward pass")
    if not found and not report["backward_passes"]:
        return "doctor: nothing to examine: the program ran no backward pass"
    if not found:
        return f"doctor: no mistakes found ({ran})"
    by_severity = {s: sum(f["severity"] == s for f in found) for s in SEVERITIES}
    parts = [f"{n} {s}" for s, n in by_severity.items() if n]
    return f"doctor: {counted(len(found), 'finding')} ({', '.join(parts)}; {ran})"


def text(report: dict[str, Any]) -> str:
    """All of it, in colour where standard output shows colours."""
    blocks = [paint(summary(report), "bold")]
    for finding in report["findings"]:
        severity = finding["severity"]
        head = f"{paint(severity, _COLOURS[severity])}  {paint(finding['name'], 'bold')}"
        place = finding["place"]
        lines = [head + (f"  {place_text(place)}" if place else "")]
        if place and place["source"]:
            lines.append(f"    {paint(place['source'], 'dim')}")
        lines += _paragraph("", finding["message"])
        lines += [
            line
            for name, value in evidence_text(finding["evidence"])
            for line in _paragraph(f"{name}: ", value, "  - ")
        ]
        lines += _paragraph("fix: ", finding["fix"])
        blocks.append("\n".join(lines))
    blocks += [f"broken check (please report it): {broken}" for broken in report["broken_checks"]]
    return "\n\n".join(blocks)


def _paragraph(label: str, content: str, bullet: str = "  ") -> list[str]:
    indent = " " * len(bullet)
    return textwrap.wrap(
        label + content,
        WIDTH,
        initial_indent=bullet,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
