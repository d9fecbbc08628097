"""The graph as text: a line for each step, or Graphviz's language."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rushlight.graphview._collect import Saved, Step


def size_text(nbytes: float) -> str:
    """``1.5 KiB``.

    >>> from rushlight.graphview._text import size_text
    >>> size_text(1536), size_text(12)
    ('1.5 KiB', '12 B')
    """
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if abs(nbytes) >= 1024**power:
            value = nbytes / 1024**power
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.1f} {unit}"
    return f"{nbytes:.0f} B"


def shape_text(shape: tuple[int, ...] | None) -> str:
    """``[2, 3]``; nothing for a shape that is not known."""
    return "" if shape is None else str(list(shape))


def saved_text(saved: Saved) -> str:
    """``self [2, 3], 24 B``, or why it takes no memory of its own."""
    what = f"{saved.argument} {shape_text(saved.shape)}".strip()
    return f"{what} ({saved.note})" if saved.note else what


def _keeps(step: Step) -> str:
    if step.freed:
        return "freed"
    if not step.saved:
        return ""
    return f"{size_text(step.nbytes)}: {', '.join(map(saved_text, step.saved))}"


def _leaf(step: Step) -> bool:
    return step.kind in ("parameter", "leaf")


def head_of(steps: Sequence[Step]) -> str:
    """How large the graph is, in a sentence."""
    leaves = sum(map(_leaf, steps))
    kept = size_text(sum(step.nbytes for step in steps))
    if any(step.freed for step in steps):
        kept += " (freed by a backward pass)"
    ops = len(steps) - leaves
    return (
        f"{ops:,} operation{'s' * (ops != 1)}, {leaves:,} lea{'ves' if leaves != 1 else 'f'}; "
        f"{kept} kept for backward"
    )


def text_of(steps: Sequence[Step]) -> str:
    """A table in the order of the forward pass."""
    rows = [("#", "node", "shape", "from", "keeps for backward", "line", "module")]
    for step in steps:
        if _leaf(step):
            continue
        inputs = []
        for i in step.inputs:
            source = steps[i]
            named = f"{source.name} {shape_text(source.shape)}" if _leaf(source) else f"#{i}"
            inputs.append(named)
        rows.append(
            (
                f"#{step.id}",
                step.name,
                shape_text(step.shape),
                ", ".join(inputs),
                _keeps(step),
                step.line,
                step.module,
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([head_of(steps), *lines])


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


_FILLS = {"parameter": "#fdeedd", "leaf": "#e8f0fb", "output": "#dff0e4", "op": "#ffffff"}


def dot_of(steps: Sequence[Step]) -> str:
    """Graphviz's language: forward order downwards, clusters by module."""
    lines = [
        "digraph rushlight {",
        '  node [shape=box style="filled,rounded" fontname="monospace" fontsize=10];',
        '  edge [arrowsize=0.6 color="#8a857c"];',
    ]
    modules: dict[str, list[Step]] = {}
    for step in steps:
        modules.setdefault(step.module, []).append(step)
    for number, (module, members) in enumerate(modules.items()):
        inside = "    " if module else "  "
        if module:
            lines.append(f"  subgraph cluster_{number} {{")
            lines.append(f'    label={_quoted(module)}; fontname="monospace"; color="#cfc9be";')
        for step in members:
            facts = [step.name, shape_text(step.shape), step.line]
            if step.nbytes:
                facts.append(f"keeps {size_text(step.nbytes)}")
            label = _quoted("\n".join(filter(None, facts)))
            lines.append(f'{inside}n{step.id} [label={label} fillcolor="{_FILLS[step.kind]}"];')
        if module:
            lines.append("  }")
    for step in steps:
        lines += [f"  n{i} -> n{step.id};" for i in step.inputs]
    return "\n".join([*lines, "}"])
