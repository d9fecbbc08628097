"""From the nodes of autograd to facts that can be shown: names, shapes, bytes, lines, modules."""

from __future__ import annotations

import linecache
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rushlight import _C, strided

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass
class Saved:
    """A tensor that a node keeps for its backward pass."""

    argument: str
    shape: tuple[int, ...] | None  # None: packed by hooks, or freed
    dtype: str
    nbytes: int
    note: str  # "parameter", "counted above", "packed" or nothing


@dataclass
class Step:
    """A node of the graph, or a leaf that gradients are accumulated into."""

    id: int
    name: str  # MulBackward0; of a leaf: its name in the model
    kind: str  # "op", "parameter", "leaf" or "output"
    shape: tuple[int, ...] | None
    dtype: str
    place: tuple[str, int, str] | None  # file, line, function
    sequence: int
    module: str = ""
    saved: list[Saved] = field(default_factory=list)
    nbytes: int = 0  # kept for backward by this node and by none that is shown before it
    freed: bool = False
    inputs: list[int] = field(default_factory=list)
    seconds: float | None = None  # of its backward
    norm: float | None = None  # of the gradient that arrived
    node: Any = None
    op: str = ""  # the operation, where the node knows it

    @property
    def label(self) -> str:
        """The operation's name: ``mul`` for MulBackward0."""
        if self.kind in ("op", "output"):
            return self.op.lstrip("_") or _label(self.name)
        return self.name

    @property
    def line(self) -> str:
        """``train.py:12``, or nothing."""
        return f"{os.path.basename(self.place[0])}:{self.place[1]}" if self.place else ""

    @property
    def source(self) -> str:
        """The text of that line, as far as it can be read."""
        return linecache.getline(self.place[0], self.place[1]).strip() if self.place else ""


def _label(name: str) -> str:
    stem = name.rstrip("0123456789").removesuffix("Backward")
    if not stem or "_" in stem or name.rstrip("0123456789") == stem:
        return name
    pieces = []
    for i, letter in enumerate(stem):
        if letter.isupper() and i and not stem[i - 1].isupper():
            pieces.append("_")
        pieces.append(letter.lower())
    return "".join(pieces)


def _dtype(value: Any) -> str:
    return str(value).rpartition(".")[2]


def names_of_parameters(model: Any = None) -> dict[int, str]:
    """The names of parameters by their id: of a model, of pairs, or of all live modules."""
    if model is None:
        return _live_names()
    if isinstance(model, dict):
        pairs: Iterable[Any] = model.items()
    elif hasattr(model, "named_parameters"):
        pairs = model.named_parameters(remove_duplicate=False)
    else:
        pairs = model
    names: dict[int, str] = {}
    for name, tensor in pairs:
        names.setdefault(id(tensor), name)
    return names


def _live_names() -> dict[int, str]:
    modules = _C._live_modules()
    inner = {
        id(child)
        for module in modules
        for child in module.__dict__.get("_modules", {}).values()
        if child is not None
    }
    roots = [module for module in modules if id(module) not in inner]
    names: dict[int, str] = {}
    taken: dict[str, int] = {}
    for root in roots:
        for name, tensor in root.named_parameters():
            # Two models may use the same names: then the model's class is told as well.
            other = taken.setdefault(name, id(root))
            full = name if other == id(root) else f"{type(root).__name__}.{name}"
            names.setdefault(id(tensor), full)
    return names


def roots_of(outputs: Any) -> list[tuple[Any, Any]]:
    """Pairs of a tensor, if known, and the node that made it."""
    given = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    roots: list[tuple[Any, Any]] = []
    for output in given:
        if isinstance(output, _C.Node):
            roots.append((None, output))
        elif not isinstance(output, _C.Tensor):
            raise TypeError(f"graph() takes tensors or nodes, got {type(output).__name__}")
        elif not output.requires_grad:
            from rushlight.autograd._explain import explain

            raise RuntimeError(
                f"graph(): element of shape {list(output.shape)} does not require grad and does "
                f"not have a grad_fn: there is no graph. {explain(output)}"
            )
        else:
            roots.append((output, _C._gradient_edge(output)[0]))
    return roots


def _walk(roots: Sequence[Any]) -> list[Any]:
    """All nodes, those made first at the front; leaves stand before their first user."""
    seen: dict[Any, int] = {}
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen[node] = node._sequence_nr()
        stack.extend(step for step, _ in node.next_functions if step is not None)
    first_use: dict[Any, tuple[int, int]] = {}
    for node, number in seen.items():
        for at, (step, _) in enumerate(node.next_functions):
            if step is not None and hasattr(step, "variable"):
                use = (number, at)
                first_use[step] = min(first_use.get(step, use), use)
    last = 1 << 30  # after its leaves
    return sorted(seen, key=lambda node: first_use.get(node) or (seen[node], last))


def _memory_of(tensor: Any) -> int:
    """Tells tensors on the same memory by the same number."""
    storage = tensor.untyped_storage()
    return storage.data_ptr() or id(storage)


def _saved(
    node: Any, counted: set[int], leaves: set[int], is_parameter: Any
) -> tuple[list[Saved], int]:
    """What a node keeps, and how many bytes of that nobody before it keeps."""
    found, total = [], 0
    for argument, tensor, packed in node._kept:
        if tensor is None:
            found.append(Saved(argument, None, "", 0, "packed by hooks" if packed else "freed"))
            continue
        if not isinstance(tensor, _C.Tensor):
            continue  # a number
        note, size = "", 0
        if tensor.is_leaf and tensor.requires_grad:
            note = "parameter" if is_parameter(tensor) else "leaf"
        elif tensor.device.type == "meta" or tensor.layout is not strided:
            note = "meta" if tensor.device.type == "meta" else "sparse"
        else:
            key = _memory_of(tensor)
            if key in leaves:
                note = "view of a leaf"
            elif key in counted:
                note = "shared"
            else:
                counted.add(key)
                size = tensor.untyped_storage().nbytes()
        found.append(Saved(argument, tuple(tensor.shape), _dtype(tensor.dtype), size, note))
        total += size
    return found, total


def collect(
    outputs: Any, model: Any = None, spans: Sequence[tuple[int, int, str]] = ()
) -> list[Step]:
    """The steps of the graph of some outputs, in the order in which they ran forward."""
    from rushlight.nn import Parameter

    roots = roots_of(outputs)
    names = names_of_parameters(model)
    nodes = _walk([node for _, node in roots])
    numbers = {node: i for i, node in enumerate(nodes)}
    ends = {node for _, node in roots}
    counted: set[int] = set()
    variables = [v for node in nodes if (v := getattr(node, "variable", None)) is not None]
    leaves = {_memory_of(v) for v in variables if v.device.type != "meta" and v.layout is strided}

    def is_parameter(tensor: Any) -> bool:
        return id(tensor) in names or isinstance(tensor, Parameter)

    steps = []
    unnamed = 0
    for i, node in enumerate(nodes):
        inputs = [numbers[step] for step, _ in node.next_functions if step is not None]
        variable = getattr(node, "variable", None)
        if variable is not None and not inputs:
            name = names.get(id(variable))
            if name is None:
                name, unnamed = f"leaf {unnamed}", unnamed + 1
            step = Step(
                i, name, "parameter" if is_parameter(variable) else "leaf",
                tuple(variable.shape), _dtype(variable.dtype), None, -1,
                module=name.rpartition(".")[0] if id(variable) in names else "",
            )  # fmt: skip
            grad = variable.grad
            if grad is not None and not grad.is_sparse:
                step.norm = float(grad.detach().norm())
        else:
            metadata = node._input_metadata
            saved, total = _saved(node, counted, leaves, is_parameter)
            step = Step(
                i, node.name(), "output" if node in ends else "op",
                tuple(metadata[0].shape) if metadata else None,
                _dtype(metadata[0].dtype) if metadata else "",
                node._where, node._sequence_nr(),
                saved=saved, nbytes=total, freed=node._freed, inputs=inputs, op=node._op or "",
            )  # fmt: skip
        step.node = node
        steps.append(step)
    _place_in_modules(steps, spans)
    return steps


def _place_in_modules(steps: list[Step], spans: Sequence[tuple[int, int, str]]) -> None:
    """Says of every node in which module it ran: by its number, or by parameters around it."""
    if spans:
        for step in steps:
            for first, last, path in spans:  # inner modules come after those around them
                if step.kind in ("op", "output") and first <= step.sequence < last:
                    step.module = path
        return
    ops = [step for step in steps if step.kind in ("op", "output")]
    anchors: list[str | None] = []
    for step in ops:
        owners = [steps[i].module for i in step.inputs if steps[i].kind == "parameter"]
        anchors.append(_common(owners) if owners else None)
    # A step without parameters belongs to what holds the ones before and after it.
    before: list[str | None] = []
    latest: str | None = None
    for anchor in anchors:
        latest = anchor if anchor is not None else latest
        before.append(latest)
    after: str | None = None
    for i in range(len(ops) - 1, -1, -1):
        anchor = anchors[i]
        after = anchor if anchor is not None else after
        prior = before[i]
        if anchor is not None:
            ops[i].module = anchor
        elif prior is not None and after is not None:
            ops[i].module = _common([prior, after])


def _common(paths: Sequence[str]) -> str:
    """The innermost module that holds them all."""
    parts = [path.split(".") for path in paths]
    common: list[str] = []
    for names in zip(*parts, strict=False):
        if len(set(names)) > 1:
            break
        common.append(names[0])
    return ".".join(common)


class Spans:
    """Inside, notes which modules run and the numbers of the nodes that are made meanwhile."""

    def __init__(self, model: Any = None) -> None:
        self.spans: list[tuple[int, int, str]] = []
        self._open: list[tuple[Any, int, int, str]] = []
        self._known: dict[int, str] = {}
        if model is not None and hasattr(model, "named_modules"):
            self._known = {id(module): name for name, module in model.named_modules()}
        self._probe = _C.Tensor([0.0]).requires_grad_()
        self._hooks: list[Any] = []

    def _number(self) -> int:
        from rushlight import enable_grad

        with enable_grad():
            node: Any = (self._probe * 1).grad_fn
            return int(node._sequence_nr())

    def _name(self, module: Any) -> str:
        if id(module) not in self._known:
            from rushlight.nn._names import path_of

            self._known[id(module)] = path_of(module)[0]
        return self._known[id(module)]

    def _enter(self, module: Any, inputs: Any) -> None:
        self._open.append((module, len(self.spans), self._number(), self._name(module)))
        self.spans.append((0, 0, ""))

    def _leave(self, module: Any, inputs: Any, output: Any) -> None:
        while self._open:
            top, at, first, name = self._open.pop()
            self.spans[at] = (first, self._number(), name)
            if top is module:
                return

    def __enter__(self) -> Spans:
        from rushlight.nn.modules import module as modules

        self._hooks = [
            modules.register_module_forward_pre_hook(self._enter),
            modules.register_module_forward_hook(self._leave, always_call=True),
        ]
        return self

    def __exit__(self, *error: object) -> None:
        for hook in self._hooks:
            hook.remove()
        while self._open:
            self._leave(self._open[-1][0], None, None)
