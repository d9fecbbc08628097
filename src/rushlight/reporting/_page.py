"""The report's page: its data, and the template it goes into."""

from __future__ import annotations

import linecache
import os
import platform
import time
from typing import TYPE_CHECKING, Any

from rushlight import _pages

if TYPE_CHECKING:
    from rushlight.reporting import Report

_LINES = 25


def facts_of(report: Report) -> str:
    """When and where the program ran."""
    import rushlight

    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(report.started))
    threads = rushlight.get_num_threads()
    return f"{when} · Python {platform.python_version()} · {threads} thread{'s' * (threads != 1)}"


def _lines(report: Report) -> dict[str, Any]:
    measurer = report._measurer
    if measurer is None or not measurer.lines:
        return {"steps": 0, "rows": []}
    rows = sorted(measurer.lines.items(), key=lambda item: -(item[1][0] + item[1][1]))
    steps = max(measurer.line_steps, 1)
    total = sum(times[0] + times[1] for _, times in rows)
    return {
        "steps": steps,
        "total": total / steps,
        "rows": [
            {
                "line": f"{os.path.basename(file)}:{line}",
                "file": f"{file}:{line}",
                "source": linecache.getline(file, line).strip(),
                "forward": times[0] / steps,
                "backward": times[1] / steps,
                "calls": times[2] / steps,
            }
            for (file, line), times in rows[:_LINES]
        ],
    }


def _layers(report: Report) -> dict[str, Any]:
    measurer = report._measurer
    samples = list(measurer.layers) if measurer is not None else []
    names: dict[str, None] = {}
    for sample in samples:
        names.update(dict.fromkeys(sample["norms"]))
    return {
        "names": list(names),
        "steps": [sample["step"] for sample in samples],
        "total": [sample["total"] for sample in samples],
        "norms": [[sample["norms"].get(name) for sample in samples] for name in names],
        "ratios": [[sample["ratios"].get(name) for sample in samples] for name in names],
        "grads": [[sample["grads"].get(name) for sample in samples] for name in names],
        "weights": [[sample["weights"].get(name) for sample in samples] for name in names],
    }


def data_of(report: Report) -> dict[str, Any]:
    """What the page's script draws."""
    measurer = report._measurer
    return {
        "title": report.title,
        "facts": facts_of(report),
        "error": report.error,
        "running": report._running,
        "steps": report.steps,
        "seconds": report.seconds,
        "overhead": report.overhead,
        "scalars": {name: series.data() for name, series in list(report.scalars.items())},
        "layers": _layers(report),
        "activations": list(measurer.activations.items()) if measurer is not None else [],
        "activations_step": measurer.activations_step if measurer is not None else 0,
        "lines": _lines(report),
    }


def page_of(report: Report, live: bool = False) -> str:
    """The page as text."""
    return _pages.page(
        report.title,
        body=_pages.read("report.html"),
        facts=facts_of(report),
        data={**data_of(report), "live": live},
        styles=["report.css"],
        scripts=["plots.js", "report.js"],
    )
