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


_C._add_node_methods({"register_hook": _register_hook, "register_prehook": _register_prehook})


class GradientEdge(namedtuple("GradientEdge", "node output_nr ownership_token", defaults=(None,))):
    """The place of a tensor in the graph: a node and which of its outputs."""

    __slots__ = ()


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """The edge that the gradient of ``tensor`` flows into."""
    return GradientEdge(*_C._gradient_edge(tensor))


def increment_version(tensor: Any) -> None:
    """Counts an in-place change that the engine could not see."""
    tensors = (tensor,) if isinstance(tensor, _C.Tensor) else tensor
    for t in tensors:
        _C._increment_version(t)


_state = _thread._local()


def _stack() -> list[Any]:
    if not hasattr(_state, "hooks"):
        _state.hooks = []
        _state.disabled = []
    return _state.hooks


def _apply_stack() -> None:
    stack = _stack()
    _C._set_saved_hooks(*(stack[-1] if stack else (None, None)))


class saved_tensors_hooks:
    """Inside, tensors saved for backward go through ``pack_hook``, and back by ``unpack_hook``.

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

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        stack = _stack()
        if _state.disabled:
            raise RuntimeError(_state.disabled[-1])
        stack.append((self.pack_hook, self.unpack_hook))
        _apply_stack()

    def __exit__(self, *error: Any) -> None:
        _stack().pop()
        _apply_stack()


class disable_saved_tensors_hooks:
    """Inside, entering ``saved_tensors_hooks`` raises with the given message."""

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message

    def __enter__(self) -> None:
        if _stack():
            raise RuntimeError(self.error_message)
        _state.disabled.append(self.error_message)

    def __exit__(self, *error: Any) -> None:
        _state.disabled.pop()


class save_on_cpu(saved_tensors_hooks):
    """Keeps saved tensors in main memory, where they lie already: copies of them."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda tensor: tensor.detach().clone(), lambda kept: kept)


def register_multi_grad_hook(
    tensors: Sequence[Any], fn: Callable[..., Any], *, mode: str = "all"
) -> Any:
    """Calls ``fn`` once per backward: with all gradients (``mode="all"``), or the first."""
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    lock = _thread.allocate_lock()
    grads: list[Any] = [None] * len(tensors)
    state = {"count": 0}

    def hook_for(index: int) -> Callable[[Any], None]:
        def hook(grad: Any) -> None:
            with lock:
                if mode == "any":
                    first, state["count"] = state["count"] == 0, state["count"] + 1
                    if state["count"] == len(tensors):
                        state["count"] = 0
                    if first:
                        fn(grad)
                    return
                grads[index] = grad
                state["count"] += 1
                if state["count"] < len(tensors):
                    return
                state["count"] = 0
                ready = list(grads)
                grads[:] = [None] * len(tensors)
            fn(ready)

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
