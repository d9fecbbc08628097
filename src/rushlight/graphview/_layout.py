"""A layered drawing of a directed graph: layers, an order within each, and places.

Edges lead downwards. Edges over several layers are led around the boxes between; those over very
many are drawn as one curve. All steps are linear in the size of the graph but for sorting.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

GAP_X = 24.0
GAP_Y = 34.0
_LONG = 10  # edges over more layers are one curve
_SWEEPS = 6


@dataclass
class Layout:
    """Where the boxes stand (left, top) and the points that edges pass."""

    x: list[float]
    y: list[float]
    width: float
    height: float
    routes: list[list[tuple[float, float]]]


def _layers(count: int, edges: Sequence[tuple[int, int]], pulled: Sequence[bool]) -> list[int]:
    """By the longest path. What is pulled (leaves) stands right above its first user.

    Edges lead from lower to higher numbers but for those that close a cycle; these are left out.
    """
    below: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        if a < b:
            below[a].append(b)
    layer = [0] * count
    for a in range(count):
        if pulled[a]:
            continue
        for b in below[a]:
            layer[b] = max(layer[b], layer[a] + 1)
    needs_top = any(pulled[a] and any(layer[b] == 0 for b in below[a]) for a in range(count))
    if needs_top:
        layer = [number + 1 for number in layer]
    for a in range(count - 1, -1, -1):
        if pulled[a]:
            layer[a] = max(0, min((layer[b] for b in below[a]), default=1) - 1)
    return layer


def layered(
    widths: Sequence[float],
    heights: Sequence[float],
    edges: Sequence[tuple[int, int]],
    pulled: Sequence[bool],
) -> Layout:
    """Places boxes of the given sizes, numbered along the edges."""
    count = len(widths)
    if not count:
        return Layout([], [], 0.0, 0.0, [])
    layer = _layers(count, edges, pulled)
    sizes = list(widths)
    rows: list[list[int]] = [[] for _ in range(max(layer) + 1)]
    for i, number in enumerate(layer):
        rows[number].append(i)
    chains: list[list[int]] = []  # of each edge: its boxes, with bends between
    up: list[list[int]] = [[] for _ in range(count)]
    down: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        span = layer[b] - layer[a]
        chain = [a]
        if 1 < span <= _LONG:
            for number in range(layer[a] + 1, layer[b]):
                bend = len(sizes)
                sizes.append(0.0)
                up.append([])
                down.append([])
                rows[number].append(bend)
                chain.append(bend)
        chain.append(b)
        chains.append(chain)
        if 0 < span <= _LONG:
            for one, next_ in pairwise(chain):
                down[one].append(next_)
                up[next_].append(one)
    _order(rows, up, down)
    weights = [0.25 if leaf else 4.0 for leaf in pulled] + [1.0] * (len(sizes) - count)
    x = _places(rows, sizes, weights, _guides(up, pulled), _guides(down, pulled))
    left = min(x[i] - sizes[i] / 2 for row in rows for i in row)
    tops, y = [], 0.0
    for row in rows:
        tops.append(y)
        y += max((heights[i] for i in row if i < count), default=0.0) + GAP_Y
    height = y - GAP_Y
    routes = []
    for (a, b), chain in zip(edges, chains, strict=True):
        points = [(x[a] - left, tops[layer[a]] + heights[a])]
        for i, bend in enumerate(chain[1:-1], 1):
            top = tops[layer[a] + i]
            points += [(x[bend] - left, top), (x[bend] - left, top + heights[a])]
        points.append((x[b] - left, tops[layer[b]]))
        routes.append(points)
    return Layout(
        [x[i] - left - widths[i] / 2 for i in range(count)],
        [tops[layer[i]] for i in range(count)],
        max(x[i] + sizes[i] / 2 for row in rows for i in row) - left,
        height,
        routes,
    )


def _guides(near: list[list[int]], pulled: Sequence[bool]) -> list[list[int]]:
    """Whom boxes follow: operations if there are any, else bends, else leaves.

    So the main line stays straight, and what leads around it makes way.
    """
    count = len(pulled)
    found = []
    for around in near:
        ops = [i for i in around if i < count and not pulled[i]]
        found.append(ops or [i for i in around if i >= count] or around)
    return found


def _order(rows: list[list[int]], up: list[list[int]], down: list[list[int]]) -> None:
    """Sorts every row by the mean place of its neighbours, down and up in turn."""
    place = [0.0] * len(up)
    for row in rows:
        for at, i in enumerate(row):
            place[i] = at - len(row) / 2
    for sweep in range(_SWEEPS):
        near = up if sweep % 2 == 0 else down
        for row in rows if sweep % 2 == 0 else reversed(rows):
            if len(row) < 2:
                continue
            keys = {
                i: sum(map(place.__getitem__, near[i])) / len(near[i]) if near[i] else place[i]
                for i in row
            }
            row.sort(key=keys.__getitem__)
            for at, i in enumerate(row):
                place[i] = at - len(row) / 2


def _places(
    rows: list[list[int]],
    sizes: list[float],
    weights: list[float],
    up: list[list[int]],
    down: list[list[int]],
) -> list[float]:
    """The middles of boxes: near the mean of their neighbours, and apart from each other."""
    x = [0.0] * len(sizes)
    for row in rows:
        at = -sum(sizes[i] + GAP_X for i in row) / 2
        for i in row:
            x[i] = at + sizes[i] / 2
            at += sizes[i] + GAP_X
    for sweep in range(2 * _SWEEPS):
        near = up if sweep % 2 == 0 else down
        for row in rows if sweep % 2 == 0 else reversed(rows):
            _settle(row, sizes, weights, x, near, up if near is down else down)
    return x


def _settle(
    row: list[int],
    sizes: list[float],
    weights: list[float],
    x: list[float],
    near: list[list[int]],
    others: list[list[int]],
) -> None:
    """Moves a row's boxes to where they would like to be, then pushes those apart that overlap.

    Boxes that collide share their wishes: a block of them stands at the mean of what its members
    ask for, so that neither side is preferred; operations ask louder than bends and leaves.
    """
    blocks: list[list[float]] = []  # wished left end, weight, width, members
    for i in row:
        around = near[i] or others[i]
        wish = sum(map(x.__getitem__, around)) / len(around) if around else x[i]
        width = sizes[i] + GAP_X
        block = [wish - sizes[i] / 2, weights[i], width, 1]
        while blocks and blocks[-1][0] + blocks[-1][2] > block[0]:
            start, weight, wide, members = blocks.pop()
            total = weight + block[1]
            block = [
                (start * weight + (block[0] - wide) * block[1]) / total,
                total,
                wide + block[2],
                members + block[3],
            ]
        blocks.append(block)
    member = iter(row)
    for start, _, _, members in blocks:
        at = start
        for _ in range(int(members)):
            i = next(member)
            x[i] = at + sizes[i] / 2
            at += sizes[i] + GAP_X
