"""What `rushlight demo` writes: one page with the loss, the gradient's check and the sample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rushlight import _pages

WIDTH, HEIGHT, LEFT, BOTTOM = 720, 260, 44, 28
SHOWN = 400  # points of a curve; more cannot be told apart


def smoothed(losses: Sequence[float]) -> list[tuple[int, float]]:
    """At most `SHOWN` steps with the mean loss around each.

    >>> from rushlight._demo_page import smoothed
    >>> smoothed([3.0, 1.0])
    [(1, 3.0), (2, 1.0)]
    """
    size = math.ceil(len(losses) / SHOWN)
    parts = [losses[i : i + size] for i in range(0, len(losses), size)]
    return [(size * i + len(part), sum(part) / len(part)) for i, part in enumerate(parts)]


def curve(losses: Sequence[float], marks: dict[str, float]) -> str:
    """The loss over the steps, with levels to compare it with."""
    points = smoothed(losses)
    top = max(*(value for _, value in points), *marks.values()) * 1.05
    last = max(points[-1][0], 2)

    def x(step: float) -> float:
        return LEFT + (WIDTH - LEFT - 10) * (step - 1) / (last - 1)

    def y(value: float) -> float:
        return 8 + (HEIGHT - BOTTOM - 8) * (1 - value / top)

    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Loss by step: from '
        f'{losses[0]:.2f} to {points[-1][1]:.2f}" font-size="11" fill="var(--ink-3)">'
    ]
    for tick in range(int(top) + 1):
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - 10}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" '
            f'stroke="var(--grid)"/><text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" '
            f'text-anchor="end">{tick}</text>'
        )
    for name, value in marks.items():
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - 10}" y1="{y(value):.1f}" y2="{y(value):.1f}" '
            f'stroke="var(--c2)" stroke-dasharray="4 4"/><text x="{WIDTH - 12}" '
            f'y="{y(value) - 5:.1f}" text-anchor="end">{_pages.escape(name)}</text>'
        )
    line = " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in points)
    parts.append(
        f'<polyline points="{line}" fill="none" stroke="var(--c1)" stroke-width="2"/>'
        f'<text x="{LEFT}" y="{HEIGHT - 8}">step 1</text>'
        f'<text x="{WIDTH - 10}" y="{HEIGHT - 8}" text-anchor="end">step {last}</text></svg>'
    )
    return "".join(parts)


def page(
    facts: str,
    figures: dict[str, str],
    losses: Sequence[float],
    marks: dict[str, float],
    gradient: Sequence[tuple[Any, float, float]],
    sample: str,
) -> str:
    """The page's text."""
    stats = "".join(
        f"<div><dt>{_pages.escape(name)}</dt><dd>{_pages.escape(value)}</dd></div>"
        for name, value in figures.items()
    )
    rows = "".join(
        f'<tr><td>{_pages.escape(index)}</td><td class="num">{rule:.9f}</td>'
        f'<td class="num">{step:.9f}</td></tr>'
        for index, rule, step in gradient
    )
    body = (
        f'<dl class="stats">{stats}</dl>'
        '<section class="card"><header><h2>Loss</h2><span class="quiet">nats per letter</span>'
        f"</header>{curve(losses, marks)}</section>"
        '<section class="card"><header><h2>A gradient against differences</h2>'
        '<span class="quiet">blocks.0.qkv.weight, in float64</span></header>'
        '<table class="data"><thead><tr><th scope="col">entry</th>'
        '<th scope="col" class="num">by autograd</th>'
        f'<th scope="col" class="num">by differences</th></tr></thead><tbody>{rows}</tbody></table>'
        '</section><section class="card"><header><h2>A sample</h2></header>'
        f'<pre tabindex="0">{_pages.escape(sample)}</pre></section>'
    )
    return _pages.page("A small GPT learns to write Python", body=body, facts=facts)
