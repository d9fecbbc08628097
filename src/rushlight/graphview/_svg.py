"""A drawing of a view: boxes and curves, readable on light and on dark."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from rushlight.graphview._text import shape_text, size_text
from rushlight.graphview._views import HEIGHT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rushlight.graphview._collect import Step
    from rushlight.graphview._views import Item, View

_MARGIN = 16
_STYLE = """
.rl text{font:12px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#1d1c1a}
.rl .d{font-size:10.5px;fill:#6b665e}
.rl rect{fill:#fff;stroke:#cfc9be}
.rl .parameter rect{fill:#fdeedd;stroke:#e0b98c}
.rl .leaf rect{fill:#e8f0fb;stroke:#a9c4ea}
.rl .output rect{fill:#e5f4ea;stroke:#8fc7a4}
.rl .group rect{fill:#f3f1ec;stroke:#b9b2a5}
.rl .e{fill:none;stroke:#a8a297;stroke-width:1.2}
.rl .h{fill:#a8a297}
@media(prefers-color-scheme:dark){
.rl text{fill:#f0ede6}.rl .d{fill:#a09a8e}.rl rect{fill:#1f1e1b;stroke:#4a4740}
.rl .parameter rect{fill:#3a2a17;stroke:#7d5a30}.rl .leaf rect{fill:#1c2a40;stroke:#3f608f}
.rl .output rect{fill:#17301f;stroke:#3d7a53}.rl .group rect{fill:#2b2925;stroke:#5d5950}
.rl .e{stroke:#6b665e}.rl .h{fill:#6b665e}}
"""


def path_of(points: Sequence[tuple[float, float]]) -> str:
    """A smooth way through points, upright at each."""
    x, y = points[0]
    pieces = [f"M{x:.1f} {y:.1f}"]
    for to_x, to_y in points[1:]:
        if abs(to_x - x) < 0.05:
            pieces.append(f"V{to_y:.1f}")
        else:
            middle = (y + to_y) / 2
            pieces.append(f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    return "".join(pieces)


def _fitted(text: str, width: float, letter: float) -> str:
    room = int((width - 16) / letter)
    return text if len(text) <= room else text[: max(1, room - 1)] + "…"


def _title(item: Item, steps: Sequence[Step]) -> str:
    first = steps[item.members[0]]
    if len(item.members) > 1:
        kept = size_text(sum(steps[i].nbytes for i in item.members))
        return f"{item.title}: {item.detail}, keeps {kept}"
    facts = [first.name, shape_text(first.shape), first.line, first.module]
    if first.nbytes:
        facts.append(f"keeps {size_text(first.nbytes)}")
    return ", ".join(filter(None, facts))


def svg_of(view: View, steps: Sequence[Step]) -> str:
    """The drawing, with a tooltip for each box."""
    drawn = view.layout
    width, height = drawn.width + 2 * _MARGIN, drawn.height + 2 * _MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="rl" role="img" '
        f'viewBox="{-_MARGIN} {-_MARGIN} {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" aria-label="Graph of {len(view.items)} boxes">',
        f"<style>{_STYLE}</style>",
    ]
    for points in drawn.routes:
        x, y = points[-1]
        tail = [*points[:-1], (x, y - 5)]
        lines.append(f'<path class="e" d="{path_of(tail)}"/>')
        lines.append(f'<path class="h" d="M{x - 3.5:.1f} {y - 6.5:.1f}h7L{x:.1f} {y:.1f}z"/>')
    for item, x, y, wide in zip(view.items, drawn.x, drawn.y, view.widths, strict=True):
        radius = HEIGHT / 2 if item.kind in ("parameter", "leaf") else 6
        middle = x + wide / 2
        low = 25 if not item.detail else 18
        lines.append(
            f'<g class="{item.kind}"><title>{escape(_title(item, steps))}</title>'
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{HEIGHT:.0f}" '
            f'rx="{radius:.0f}"/><text x="{middle:.1f}" y="{y + low:.1f}" text-anchor="middle">'
            f"{escape(_fitted(item.title, wide, 7.3))}</text>"
        )
        if item.detail:
            lines.append(
                f'<text class="d" x="{middle:.1f}" y="{y + 32:.1f}" text-anchor="middle">'
                f"{escape(_fitted(item.detail, wide, 6.4))}</text>"
            )
        lines.append("</g>")
    return "\n".join([*lines, "</svg>"])
