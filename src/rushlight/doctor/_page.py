"""The report as one HTML page."""

from __future__ import annotations

import os
from typing import Any

from rushlight import _pages
from rushlight._pages import escape
from rushlight.doctor._finding import SEVERITIES
from rushlight.doctor._text import counted, evidence_text, place_text

_LOOK = {"serious": "bad", "warning": "warn", "note": "note"}
_MEANING = {
    "serious": "results are wrong, or nothing is learnt",
    "warning": "likely harm",
    "note": "lost time or memory",
}
AROUND = 2  # lines of source shown on either side


def page(report: dict[str, Any], title: str = "") -> str:
    """The whole page: it can be read without its script, which filters."""
    found = report["findings"]
    parts = [_stats(report)]
    if len({finding["severity"] for finding in found}) > 1:
        parts.append(_controls(found))
    if found:
        parts += [_finding(i, finding) for i, finding in enumerate(found)]
    elif report["backward_passes"]:
        parts.append(_plain("all well", "No mistakes found"))
    else:
        parts.append(_plain("nothing", "Nothing to examine: the program ran no backward pass"))
    if report["silenced"]:
        names = ", ".join(f"<code>{escape(name)}</code>" for name in report["silenced"])
        parts.append(f'<p class="quiet">Silenced: {names}</p>')
    parts += [f'<p class="quiet">Broken check: {escape(b)}</p>' for b in report["broken_checks"]]
    return _pages.page(
        f"Doctor: {title}" if title else "Doctor",
        body=f'<div class="wrap">{"".join(parts)}</div>',
        facts=f"{counted(report['steps'], 'optimizer step')}, "
        f"{counted(report['backward_passes'], 'backward pass')}",
        data=report,
        styles=["doctor.css"],
        scripts=["doctor.js"],
    )


def _plain(badge: str, text: str) -> str:
    return (
        f'<section class="finding good"><span class="badge">{badge}</span><h2>{text}</h2></section>'
    )


def _stats(report: dict[str, Any]) -> str:
    cells = ""
    for severity in SEVERITIES:
        count = sum(finding["severity"] == severity for finding in report["findings"])
        cells += (
            f"<div><dt>{severity} <small>{_MEANING[severity]}</small></dt><dd>{count}</dd></div>"
        )
    return f'<dl class="stats">{cells}</dl>'


def _controls(found: list[dict[str, Any]]) -> str:
    there = [s for s in SEVERITIES if any(finding["severity"] == s for finding in found)]
    buttons = "".join(
        f'<button type="button" data-show="{s}" aria-pressed="false">{s}</button>' for s in there
    )
    return (
        '<div class="controls filter" role="group" aria-label="Show findings">'
        '<span class="segments"><button type="button" data-show="" aria-pressed="true">all'
        f"</button>{buttons}</span></div>"
    )


def _finding(number: int, finding: dict[str, Any]) -> str:
    severity, place = finding["severity"], finding["place"]
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>'
        for name, value in evidence_text(finding["evidence"])
    )
    table = (
        f'<div class="scroll"><table class="data"><caption class="sr">Evidence</caption>'
        f"<tbody>{rows}</tbody></table></div>"
        if rows
        else ""
    )
    return (
        f'<section class="finding {_LOOK[severity]}" data-severity="{severity}" '
        f'aria-labelledby="f{number}"><span class="badge">{severity}</span>'
        f'<h2 id="f{number}">{escape(finding["name"])}</h2>'
        + (f'<span class="loc">{escape(place_text(place))}</span>' if place else "")
        + f"<p>{escape(finding['message'])}</p>{_source(place)}{table}"
        f"<p><strong>Fix:</strong> {escape(finding['fix'])}</p></section>"
    )


def _source(place: dict[str, Any] | None) -> str:
    """The line in question among its neighbours."""
    if not place or not os.path.exists(place["file"]):
        return ""
    import linecache
    import textwrap

    first = max(1, place["line"] - AROUND)
    block = linecache.getlines(place["file"])[first - 1 : place["line"] + AROUND]
    listing = ""
    for number, text in enumerate(textwrap.dedent("".join(block)).split("\n")[: len(block)], first):
        here = ' class="here"' if number == place["line"] else ""
        listing += f"<span{here}><i>{number:>4}</i> {escape(text)}\n</span>"
    label = escape(place_text(place))
    return f'<pre tabindex="0" role="region" aria-label="Source at {label}">{listing}</pre>'
