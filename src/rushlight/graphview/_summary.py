"""A model's layers in a table: shapes, parameters, arithmetic and memory."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import rushlight
from rushlight._C import Tensor
from rushlight.graphview._text import shape_text, size_text

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class Layer:
    """A module: where it stands, what came out, what it has and does."""

    path: str
    kind: str
    depth: int
    shape: tuple[int, ...] | None = None
    parameters: int = 0  # of its own and of modules inside, each once
    flops: int = 0  # forward, multiplications and additions of products
    output_bytes: int = 0
    calls: int = 0
    shared: bool = False  # stands elsewhere too: counted there


@dataclass
class Summary:
    """What :func:`summary` gives; ``print`` shows it.

    >>> import rushlight as torch
    >>> s = torch.summary(torch.nn.Linear(3, 2), torch.ones(4, 3))
    >>> s.parameters, s.trainable, s.flops
    (8, 8, 48)
    """

    layers: list[Layer] = field(default_factory=list)
    parameters: int = 0
    trainable: int = 0
    parameter_bytes: int = 0
    buffer_bytes: int = 0
    flops: int = 0
    kept_bytes: int = 0  # for the backward pass, input included

    def __str__(self) -> str:
        rows = [("layer", "output", "parameters", "flops", "output size")]
        for layer in self.layers:
            name = layer.path.rpartition(".")[2] or layer.kind
            label = "  " * layer.depth + (f"{name} ({layer.kind})" if layer.path else layer.kind)
            if layer.calls > 1:
                label += f" ×{layer.calls}"
            rows.append(
                (
                    label,
                    shape_text(layer.shape),
                    "(shared)" if layer.shared else f"{layer.parameters:,}",
                    f"{layer.flops:,}" if layer.flops else "",
                    size_text(layer.output_bytes) if layer.output_bytes else "",
                )
            )
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        lines = []
        for row in rows:
            cells = [row[0].ljust(widths[0]), row[1].ljust(widths[1])]
            cells += [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
            lines.append("  ".join(cells).rstrip())
        rule = "-" * max(map(len, lines))
        lines.insert(1, rule)
        frozen = self.parameters - self.trainable
        lines += [
            rule,
            f"parameters           {self.parameters:,}"
            + (f" ({frozen:,} of them frozen)" if frozen else ""),
            f"flops, forward       {self.flops:,}",
            f"memory, parameters   {size_text(self.parameter_bytes)}"
            + (f" and {size_text(self.buffer_bytes)} of buffers" if self.buffer_bytes else ""),
            f"memory, backward     {size_text(self.kept_bytes)} kept by the forward pass",
        ]
        return "\n".join(lines)


def summary(model: Any, *inputs: Any, depth: int | None = None, **kwargs: Any) -> Summary:
    """Runs ``model(*inputs, **kwargs)`` once and tells of its layers.

    An input may be given by its shape: ``summary(model, (8, 3, 32, 32))``. ``depth`` limits how
    deep the table goes. Buffers, random numbers and gradients are left as they were.

    >>> import rushlight as torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    >>> print(torch.summary(model, (5, 4)))
    layer         output  parameters  flops  output size
    ----------------------------------------------------
    Sequential    [5, 2]          58    480         40 B
      0 (Linear)  [5, 8]          40    320        160 B
      1 (ReLU)    [5, 8]           0               160 B
      2 (Linear)  [5, 2]          18    160         40 B
    ----------------------------------------------------
    parameters           58
    flops, forward       480
    memory, parameters   232 B
    memory, backward     240 B kept by the forward pass
    """
    from rushlight.utils.flop_counter import FlopCounterMode

    if not isinstance(model, rushlight.nn.Module):
        raise TypeError(f"summary(): expected a module, got {type(model).__name__}")
    if not inputs and not kwargs and _wants_input(model):
        raise TypeError(
            "summary(): the model is run once to see shapes: give its input, or the input's shape, "
            "as in summary(model, (8, 3, 32, 32))"
        )
    given = [_input(value, model) for value in inputs]
    layers = _layers(model)
    hooks = [m.register_forward_hook(_noter(layer)) for m, layer in layers if not layer.shared]
    counter = FlopCounterMode(display=False)
    try:
        with _undisturbed(model), rushlight.enable_grad(), counter:
            output = model(*given, **kwargs)
    finally:
        for hook in hooks:
            hook.remove()
    root = layers[0][1].kind  # what it was when the run began: a lazy module has another name now
    found = _counted(model, layers)
    for _, layer in layers:
        path = f"{root}.{layer.path}" if layer.path else root
        layer.flops = sum(counter.flop_counts.get(path, {}).values())
    found.flops = counter.get_total_flops()
    found.kept_bytes = _kept(output)
    found.layers = [layer for _, layer in layers if depth is None or layer.depth <= depth]
    return found


def _input(value: Any, model: Any) -> Any:
    if isinstance(value, Tensor) or not isinstance(value, (tuple, list)):
        return value
    if not all(isinstance(n, int) for n in value):
        return value
    first = next(iter(model.parameters()), None)
    if first is None:
        return rushlight.zeros(tuple(value))
    return rushlight.zeros(tuple(value), dtype=first.dtype, device=first.device)


def _wants_input(model: Any) -> bool:
    import inspect

    return any(
        p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        for p in inspect.signature(model.forward).parameters.values()
    )


def _layers(model: Any) -> list[tuple[Any, Layer]]:
    seen: set[int] = set()
    layers = []
    for path, module in model.named_modules(remove_duplicate=False):
        layer = Layer(path, type(module).__name__, path.count(".") + 1 if path else 0)
        layer.shared = id(module) in seen
        seen.add(id(module))
        layers.append((module, layer))
    return layers


def _counted(model: Any, layers: list[tuple[Any, Layer]]) -> Summary:
    """Parameters as they are after the run: lazy modules have none before."""
    for module, layer in layers:
        layer.parameters = sum(p.numel() for p in module.parameters())
        layer.kind = type(module).__name__
    parameters = list(model.parameters())
    return Summary(
        parameters=sum(p.numel() for p in parameters),
        trainable=sum(p.numel() for p in parameters if p.requires_grad),
        parameter_bytes=sum(p.nbytes for p in parameters),
        buffer_bytes=sum(buffer.nbytes for buffer in model.buffers()),
    )


def _noter(layer: Layer) -> Any:
    def note(module: Any, inputs: Any, output: Any) -> None:
        first = output
        while isinstance(first, (tuple, list, dict)) and first:
            first = next(iter(first.values())) if isinstance(first, dict) else first[0]
        layer.calls += 1
        if isinstance(first, Tensor):
            layer.shape = tuple(first.shape)
            layer.output_bytes = first.nbytes

    return note


@contextmanager
def _undisturbed(model: Any) -> Iterator[None]:
    """Inside, a forward pass may write buffers and draw numbers: all is set back afterwards."""
    state = rushlight.get_rng_state()
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    try:
        yield
    finally:
        with rushlight.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
        rushlight.set_rng_state(state)


def _kept(output: Any) -> int:
    from rushlight.graphview._collect import collect
    from rushlight.utils._pytree import tree_leaves

    tensors = [t for t in tree_leaves(output) if isinstance(t, Tensor) and t.requires_grad]
    return sum(step.nbytes for step in collect(tensors)) if tensors else 0
