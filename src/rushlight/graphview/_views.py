"""What is drawn: single steps, or groups of them by module or by source line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rushlight.graphview._layout import Layout, layered

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rushlight.graphview._collect import Step

HEIGHT = 40.0
_LETTER = 7.0  # of a monospaced label
_WIDEST = 240.0


@dataclass
class Item:
    """A box: one step, or several of one module or line."""

    title: str
    detail: str
    kind: str  # "op", "parameter", "leaf", "output" or "group"
    members: list[int]


@dataclass
class View:
    """Boxes, edges between them, and a drawing."""

    name: str
    items: list[Item]
    edges: list[tuple[int, int]]
    layout: Layout
    widths: list[float]


def _shape(step: Step) -> str:
    return "×".join(map(str, step.shape)) if step.shape else ("scalar" if step.shape == () else "")


def _build(
    name: str,
    steps: Sequence[Step],
    key_of: Callable[[Step], str | None],
    describe: Callable[[str, list[Step]], Item],
) -> View:
    items: list[Item] = []
    box_of: list[int] = []
    by_key: dict[str, int] = {}
    groups: list[list[Step]] = []
    for step in steps:
        key = key_of(step)
        if key is None or key not in by_key:
            if key is not None:
                by_key[key] = len(groups)
            box_of.append(len(groups))
            groups.append([step])
        else:
            box_of.append(by_key[key])
            groups[by_key[key]].append(step)
    for group in groups:
        key = key_of(group[0])
        single = key is None or len(group) == 1
        items.append(single_item(group[0]) if single else describe(key or "", group))
    edges: dict[tuple[int, int], None] = {}
    for step in steps:
        for source in step.inputs:
            pair = (box_of[source], box_of[step.id])
            if pair[0] != pair[1]:
                edges[pair] = None
    found = list(edges)
    pulled = [item.kind in ("parameter", "leaf") for item in items]
    widths = [
        min(_WIDEST, max(64.0, 22 + _LETTER * max(len(i.title), 0.9 * len(i.detail))))
        for i in items
    ]
    drawn = layered(widths, [HEIGHT] * len(items), found, pulled)
    return View(name, items, found, drawn, widths)


def single_item(step: Step) -> Item:
    """The box of one step."""
    return Item(step.label, _shape(step), step.kind, [step.id])


def by_step(steps: Sequence[Step]) -> View:
    """Every step has a box."""
    return _build("operations", steps, lambda step: None, lambda key, group: single_item(group[0]))


def by_line(steps: Sequence[Step]) -> View:
    """A box for every source line; parameters go with the line that uses them first."""
    users: dict[int, str] = {}
    for step in steps:
        if step.line and step.place:
            for i in step.inputs:
                users.setdefault(i, f"{step.place[0]}:{step.place[1]}")

    def key(step: Step) -> str | None:
        if step.place:
            return f"{step.place[0]}:{step.place[1]}"
        return users.get(step.id) if step.kind == "parameter" else None

    def describe(_: str, group: list[Step]) -> Item:
        first = next(step for step in group if step.place)
        text = first.source
        return Item(first.line, text if len(text) < 48 else text[:46] + "…", "group", _ids(group))

    return _build("lines", steps, key, describe)


def by_module(steps: Sequence[Step], depth: int) -> View:
    """A box for every module down to a depth; steps outside of modules have their own."""

    def key(step: Step) -> str | None:
        return ".".join(step.module.split(".")[:depth]) or None

    def describe(path: str, group: list[Step]) -> Item:
        parameters = sum(step.kind == "parameter" for step in group)
        ops = len(group) - parameters
        detail = f"{ops} op{'s' * (ops != 1)}"
        if parameters:
            detail += f", {parameters} parameter{'s' * (parameters != 1)}"
        return Item(path, detail, "group", _ids(group))

    return _build(f"modules {depth}", steps, key, describe)


def _ids(group: Sequence[Step]) -> list[int]:
    return [step.id for step in group]


def depth_of(steps: Sequence[Step]) -> int:
    """How deep modules nest."""
    return max((step.module.count(".") + 1 for step in steps if step.module), default=0)
