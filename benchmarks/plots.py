"""Bars of how much quicker rushlight is, one SVG file for each script.

`run.py --plots FOLDER` draws what it measured; `python benchmarks/plots.py` draws the README's
table for the documentation, in docs/images/benchmarks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

ROW, LABEL, BARS, FIGURE = 22, 400, 330, 70
ROOT = Path(__file__).resolve().parent.parent
QUICKER, SLOWER = "#2f9e6e", "#c2571a"


def plots(rows: Iterable[dict[str, Any]], folder: Path) -> list[Path]:
    """Writes `script.svg` for every script that has ratios; returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["ratio"] is not None and row["unit"] != "yes/no":
            groups.setdefault(Path(row["script"]).stem, []).append(row)
    written = []
    for name, found in groups.items():
        written.append(folder / f"{name}.svg")
        written[-1].write_text(bars(name, found), encoding="utf-8")
    return written


def bars(name: str, rows: list[dict[str, Any]]) -> str:
    """Horizontal bars from 1×, on a logarithmic scale: to the right quicker, to the left slower."""
    logs = [math.log2(row["ratio"]) for row in rows]
    low, high = min(0.0, *logs) - 0.15, max(1.0, *logs)
    width, height = LABEL + BARS + FIGURE, ROW * (len(rows) + 2)

    def x(value: float) -> float:
        return LABEL + BARS * (value - low) / (high - low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(name)}: ratios of PyTorch to rushlight" '
        'font-family="system-ui, sans-serif" font-size="12" fill="currentColor">',
        "<style>svg{color:#333}@media(prefers-color-scheme:dark){svg{color:#ddd}}</style>",
    ]
    for power in range(math.ceil(low), math.floor(high) + 1):
        at, label = x(power), f"{2.0**power:g}×"
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{ROW}" y2="{height - ROW + 4}" '
            f'stroke="currentColor" opacity="{0.6 if power == 0 else 0.12}"/>'
            f'<text x="{at:.1f}" y="{ROW - 8}" text-anchor="middle" opacity=".7">{label}</text>'
        )
    for i, (row, log) in enumerate(zip(rows, logs, strict=True)):
        y = ROW * (i + 1)
        left, right = sorted((x(0), x(log)))
        colour = QUICKER if log >= 0 else SLOWER
        parts.append(
            f'<text x="{LABEL - 8}" y="{y + 15}" text-anchor="end">{escape(row["name"])}</text>'
            f'<rect x="{left:.1f}" y="{y + 4}" width="{max(right - left, 1):.1f}" '
            f'height="{ROW - 8}" rx="2" fill="{colour}"/>'
            f'<text x="{right + 6:.1f}" y="{y + 15}" font-weight="600">{row["ratio"]:.3g}×</text>'
        )
    return "".join(parts) + "</svg>\n"


def readme_rows(text: str) -> list[dict[str, Any]]:
    """The ratios of the README's table. A row of several has its name at the first alone."""
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        if len(cells) != 5 or not cells[4].endswith(".py`"):
            continue
        name = cells[0].replace("`", "")
        for i, ratio in enumerate(re.findall(r"([\d.]+)×", cells[3])):
            shown = name if i == 0 else ""
            found.append(
                {"script": cells[4].strip("`"), "name": shown, "ratio": float(ratio), "unit": ""}
            )
    return found


if __name__ == "__main__":
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for path in plots(readme_rows(readme), ROOT / "docs" / "images" / "benchmarks"):
        print(f"wrote {path}")
