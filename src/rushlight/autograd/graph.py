"""The recorded graph: nodes, edges, and what they keep."""

from __future__ import annotations

import _thread
from collections import namedtuple

from rushlight import _C
from rushlight._C import Node as Node
from rushlight.utils.hooks import RemovableHandle, add_hook

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any


def _register_hook(self: Any, fn: Callable[..., Any]) -> RemovableHandle:
    """Calls ``fn(grad_inputs, grad_outputs)`` after the node ran."""
    return add_hook(self._hook_dict("post"), fn)


def _register_prehook(self: Any, fn: Callable[..., Any]) -> RemovableHandle:
    """Calls ``fn(grad_outputs)`` before the node runs."""
    return add_hook(self._hook_dict("pre"), fn)


def _register_hook_dict(self: _C.Node, tensor: Any) -> None:
    """Calls the hooks in ``tensor._backward_hooks`` on the gradient of that output of the node.

    The hooks of the node's own outputs are called without it.
    """
    if not isinstance(tensor, _C.Tensor):
        raise TypeError(f"_register_hook_dict(): expected a Tensor, got {type(tensor).__name__}")
    if tensor.grad_fn is self:
        return
    number = tensor.output_nr

    def call(grads: Any) -> Any:
        changed = list(grads)
        for hook in list((tensor._backward_hooks or {}).values()):
            result = hook(changed[number])
            changed[number] = changed[number] if result is None else result
        return tuple(changed)

    self.register_prehook(call)


_C._add_node_methods(
    {
        "register_hook": _register_hook,
        "register_prehook": _register_prehook,
        "_register_hook_dict": _register_hook_dict,
    }
)


class GradientEdge(namedtuple("GradientEdge", "node output_nr ownership_token", defaults=(None,))):
    """The place of a tensor in the graph: a node and which of its outputs.

    >>> import rushlight as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> edge = torch.autograd.graph.get_gradient_edge(x * 2)
    >>> edge.node.name(), edge.output_nr
    ('MulBackward0', 0)
    """

    __slots__ = ()


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """The edge that the gradient of ``tensor`` flows into.

    >>> import rushlight as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> edge = torch.autograd.graph.get_gradient_edge(x * 2)
    >>> edge.node.name(), edge.output_nr
    ('MulBackward0', 0)
    """
    return GradientEdge(*_C._gradient_edge(tensor))


def increment_version(tensor: Any) -> None:
    """Counts an in-place change that the engine could not see.

    >>> import rushlight as torch
    >>> x = torch.ones(2)
    >>> torch.autograd.graph.increment_version(x)
    >>> x._version
    1
    """
    tensors = (tensor,) if isinstance(tensor, _C.Tensor) else tensor
    for t in tensors:
        _C._increment_version(t)


class SavedTensorInfo(
    namedtuple("SavedTensorInfo", "node argument is_output is_parameter is_leaf line")
):
    """What a tensor is saved for: the node's name, the argument, and whose tensor it is.

    ``line`` is (file, line, function) of the forward operation, or None.

    >>> import rushlight as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> def pack(tensor, info):
    ...     print(info.node, info.argument, info.is_leaf)
    ...     return tensor
    >>> with torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept, with_info=True):
    ...     y = x.sin()
    SinBackward0 self True
    """

    __slots__ = ()


class saved_tensors_hooks(_C._Scope):
    """Inside, tensors saved for backward go through ``pack_hook``, and back by ``unpack_hook``.

    Where blocks nest, the innermost pair packs the tensor, alone. With ``compose=True`` what it
    makes of the tensor, if that is a tensor, is packed by the next pair outwards as well; unpacking
    goes the other way round.

    With ``with_info=True`` the hook is called ``pack_hook(tensor, info)``, where ``info`` is a
    :class:`SavedTensorInfo`. With ``share=True`` a tensor that several nodes save unchanged is
    packed once.

    >>> import rushlight as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> def pack(t):
    ...     return t.numpy(force=True)
    >>> with torch.autograd.graph.saved_tensors_hooks(pack, torch.from_numpy):
    ...     y = x * x
    >>> y.sum().backward()
    >>> x.grad
    tensor([2., 2.])
    """

    def __init__(
        self,
        pack_hook: Callable[..., Any],
        unpack_hook: Callable[[Any], Any],
        *,
        with_info: bool = False,
        share: bool = False,
        compose: bool = False,
    ) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook
        pack = _with_info(pack_hook) if with_info else pack_hook
        if share:
            pack = _sharing(pack)
        self._set_parts(("saved_hooks", (pack, unpack_hook, bool(with_info), bool(compose))))


def _with_info(pack: Callable[[Any, SavedTensorInfo], Any]) -> Callable[..., Any]:
    def detailed(tensor: Any, node: str, argument: str, is_output: bool, line: Any) -> Any:
        from rushlight.nn import Parameter

        parameter = isinstance(tensor, Parameter)
        info = SavedTensorInfo(node, argument, is_output, parameter, tensor.is_leaf, line)
        return pack(tensor, info)

    return detailed


def _sharing(pack: Callable[..., Any]) -> Callable[..., Any]:
    """Packs a tensor once per version; the entry goes when the tensor does."""
    from weakref import ref

    packed: dict[int, tuple[Any, int, Any]] = {}

    def pack_once(tensor: Any, *details: Any) -> Any:
        key = id(tensor)
        known = packed.get(key)
        if known and known[0]() is tensor and known[1] == tensor._version:
            return known[2]
        content = pack(tensor, *details)
        packed[key] = (ref(tensor, lambda _: packed.pop(key, None)), tensor._version, content)
        return content

    return pack_once


class disable_saved_tensors_hooks(_C._Scope):
    """Inside, entering ``saved_tensors_hooks`` raises with the given message.

    >>> import rushlight as torch
    >>> with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
    ...     y = torch.ones(2, requires_grad=True).exp()
    >>> y.requires_grad
    True
    """

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message
        self._set_parts(("no_saved_hooks", error_message))


class save_on_cpu(saved_tensors_hooks):
    """Keeps copies of saved tensors in main memory; backward takes them to their device again.

    >>> import rushlight as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.autograd.graph.save_on_cpu():
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 2.])
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: Any) -> Any:
            kept = tensor.detach()
            if not kept.is_cuda:
                return kept.clone()
            host = _C._cuda_pinned(kept).copy_(kept) if pin_memory else kept.cpu()
            return kept.device, host

        def unpack(kept: Any) -> Any:
            if not isinstance(kept, tuple):
                return kept
            device, host = kept
            return host.to(device, non_blocking=pin_memory)

        super().__init__(pack, unpack, share=True)


class allow_mutation_on_saved_tensors(_C._Scope):
    """Inside, tensors saved for backward may be written in place: backward sees the old values.

    Nothing is copied until such a write happens; the backward pass may run inside or outside.

    >>> import rushlight as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x.clone()
    ...     z = (y * y).sum()
    ...     _ = y.fill_(100.0)
    ...     z.backward()
    >>> x.grad
    tensor([2., 2.])
    """

    @staticmethod
    def _parts_of() -> Any:
        return (("copy_on_write", True),)

    def clear(self) -> None:
        """Nothing to clear: copies belong to the nodes that saved them and go with these."""


class node_creation_hook(_C._Scope):
    """Inside, ``hook(node)`` is called for every node this thread makes, once it is complete.

    The hook may read the node, write its ``metadata`` and register hooks on it. Nodes made in a
    backward pass with ``create_graph=True`` are reported too.

    >>> import rushlight as torch
    >>> names = []
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.autograd.graph.node_creation_hook(lambda node: names.append(node.name())):
    ...     y = (x * 2).sum()
    >>> names
    ['MulBackward0', 'SumBackward0']
    """

    def __init__(self, hook: Callable[[Any], None]) -> None:
        self.hook = hook
        self._set_parts(("node_hook", hook))


def live() -> list[Any]:
    """The graphs that are alive now, the largest first: nodes, bytes, line and holders of each.

    >>> import rushlight as torch
    >>> x = torch.ones(1000, requires_grad=True)
    >>> total = (x.exp() * 2).sum()
    >>> (graph,) = (g for g in torch.autograd.graph.live() if "total" in g.holders)
    >>> graph.nodes, graph.root, graph.holders
    (3, 'SumBackward0', ('total',))
    """
    from rushlight.autograd._growth import live

    return live()


def region_activation_memory_budget(budget: float) -> Any:
    """For compiled regions only, as in PyTorch; raises in eager code.

    ``utils.checkpoint.checkpoint(..., memory_budget=...)`` does this for eager regions.

    >>> import rushlight as torch
    >>> torch.autograd.graph.region_activation_memory_budget(0.5)
    Traceback (most recent call last):
        ...
    RuntimeError: region_activation_memory_budget is for compiled regions; ...
    """
    raise RuntimeError(
        "region_activation_memory_budget is for compiled regions; in eager code use "
        f"utils.checkpoint.checkpoint(function, ..., memory_budget={budget})"
    )


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Accepted for compatibility: there is one stream per device, so nothing can mismatch.

    >>> import rushlight as torch
    >>> torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)
    """


def set_override_stale_capture_stream(enabled: bool) -> None:
    """Accepted for compatibility: there is one stream per device, so none can be stale.

    >>> import rushlight as torch
    >>> torch.autograd.graph.set_override_stale_capture_stream(True)
    """


def register_multi_grad_hook(
    tensors: Sequence[Any], fn: Callable[..., Any], *, mode: str = "all"
) -> Any:
    """Calls ``fn`` once per backward pass that reaches one of ``tensors``.

    With ``mode="all"`` it gets the list of their gradients, None for tensors that the pass does not
    reach, once the last of them is ready; with ``mode="any"`` the first gradient that is.

    >>> import rushlight as torch
    >>> x, y, z = (torch.ones((), requires_grad=True) for _ in range(3))
    >>> handle = torch.autograd.graph.register_multi_grad_hook((x, y, z), print)
    >>> (x * y).backward()
    [tensor(1.), tensor(1.), None]
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    if mode == "any":
        tensors = [t for t in tensors if t.requires_grad]
    lock = _thread.allocate_lock()
    nodes = [_C._gradient_edge(t)[0] for t in tensors]
    passes: dict[int, list[Any]] = {}  # the gradients of passes that run now, by number

    def hook_for(index: int) -> Callable[[Any], None]:
        def hook(grad: Any) -> None:
            number = _C._current_graph_task_id()
            with lock:
                first = number not in passes
                if first:
                    reached = sum(map(_C._will_execute, nodes))
                    passes[number] = [reached, [None] * len(nodes)]
                state = passes[number]
                state[0] -= 1
                state[1][index] = grad
                last = state[0] == 0
                if last:
                    del passes[number]
            if mode == "any" and first:
                fn(grad)
            elif mode == "all" and last:
                fn(state[1])

        return hook

    return _MultiHandle([t.register_hook(hook_for(i)) for i, t in enumerate(tensors)])


class _MultiHandle:
    def __init__(self, handles: Iterable[RemovableHandle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> _MultiHandle:
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()
