"""Modes and classes of tensors that see calls as ops of aten: ``__torch_dispatch__``.

>>> import rushlight as torch
>>> from rushlight.utils._python_dispatch import TorchDispatchMode
>>> class Names(TorchDispatchMode):
...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
...         print(func)
...         return func(*args, **(kwargs or {}))
>>> with Names():
...     y = torch.nn.functional.linear(torch.ones(1, 2), torch.ones(3, 2)).relu()
aten.ones.default
aten.ones.default
aten.t.default
aten.mm.default
aten.relu.default

What a program calls is seen; what a backward pass computes is not, and tensors keep their history.
"""

from __future__ import annotations

import threading

from rushlight import _C
from rushlight._C import Tensor
from rushlight._operators.dispatch import deliver
from rushlight.overrides import TorchFunctionMode

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

_state = threading.local()


def modes() -> list[Any]:
    """The modes that are entered in this thread and in force, innermost last."""
    found: list[Any] = _state.__dict__.setdefault("modes", [])
    return found


class _suspended:
    """A mode does not see the ops that its own answer calls."""

    def __init__(self, mode: TorchDispatchMode) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        self.stack = modes()
        at = next(i for i in reversed(range(len(self.stack))) if self.stack[i] is self.mode)
        self.rest = self.stack[at:]
        del self.stack[at:]

    def __exit__(self, *error: object) -> None:
        self.stack += self.rest


class TorchDispatchMode(TorchFunctionMode):
    """Calls its ``__torch_dispatch__`` for every op of aten while it is entered."""

    def __init__(self, _dispatch_key: Any = None) -> None:
        pass

    def __enter__(self) -> Any:
        entered = super().__enter__()
        modes().append(self)
        return entered

    def __exit__(self, *error: Any) -> Any:
        stack = modes()
        for at in reversed(range(len(stack))):
            if stack[at] is self:
                del stack[at]
                break
        return super().__exit__(*error)

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define __torch_dispatch__")

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        def answer(overload: Any, values: tuple[Any, ...], named: dict[str, Any]) -> Any:
            return self.__torch_dispatch__(overload, tuple(types), values, named)

        if not any(mode is self for mode in modes()):  # it answers for an op of a program
            return func(*args, **(kwargs or {}))
        with _suspended(self):
            result = deliver(answer, func, args, kwargs or {})
            return func(*args, **(kwargs or {})) if result is NotImplemented else result

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> TorchDispatchMode:
        """Deprecated: the mode itself."""
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls) -> bool:
        return False


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that does what would be done without it."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return func(*args, **(kwargs or {}))


def of_class(
    cls: Any,
    func: Callable[..., Any],
    types: Sequence[type],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """``__torch_function__`` of a class that defines ``__torch_dispatch__``."""

    def answer(overload: Any, values: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return cls.__torch_dispatch__(overload, tuple(types), values, named)

    result = deliver(answer, func, args, kwargs or {})
    if result is NotImplemented:
        return _C._disabled_torch_function_impl(func, tuple(types), tuple(args), kwargs or {})
    return result


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    return bool(modes())


def is_in_any_mode_without_ignore_compile_internals() -> bool:
    return bool(modes())


def _get_current_dispatch_mode() -> Any:
    return modes()[-1] if modes() else None


def _get_current_dispatch_mode_stack() -> list[Any]:
    return list(modes())


def _len_torch_dispatch_stack() -> int:
    return len(modes())


class _disable_current_modes:
    """A block that no mode sees."""

    def __enter__(self) -> list[Any]:
        self._left = list(modes())
        modes().clear()
        return self._left

    def __exit__(self, *error: object) -> None:
        modes()[:] = self._left


class _pop_mode_temporarily:
    """A block that the innermost mode does not see."""

    def __init__(self, k: Any = None) -> None:
        pass

    def __enter__(self) -> Any:
        self._mode = modes().pop()
        return self._mode

    def __exit__(self, *error: object) -> None:
        modes().append(self._mode)


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Whether a tensor holds others and says how it is taken apart and put together."""
    is_subclass = isinstance(t, Tensor) and type(t) is not Tensor
    return (
        is_subclass
        and hasattr(t, "__tensor_flatten__")
        and hasattr(type(t), "__tensor_unflatten__")
    )


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """The same of a class."""
    return (
        issubclass(t, Tensor)
        and t is not Tensor
        and hasattr(t, "__tensor_flatten__")
        and hasattr(t, "__tensor_unflatten__")
    )


def transform_subclass(
    t: Any, callback: Callable[[str, Any], Any], outer_size: Any = None, outer_stride: Any = None
) -> Any:
    """The tensor with ``callback(name, inner)`` in the place of each that it holds."""
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    size = t.size() if outer_size is None else outer_size
    stride = t.stride() if outer_stride is None else outer_stride
    made = type(t).__tensor_unflatten__(inner, context, size, stride)
    if made.shape != size or made.stride() != tuple(stride):
        raise AssertionError(
            f"transform_subclass: {type(t).__name__}.__tensor_unflatten__ gave {made.shape} with "
            f"strides {made.stride()}, expected {size} with {stride}"
        )
    return made


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """What an op that writes to an argument returns is that argument."""
    schema = func._schema
    written = [a for a in schema.arguments if a.is_write]
    if not written:
        return out
    positions = {a.name: i for i, a in enumerate(schema.arguments) if not a.kwarg_only}
    targets = [
        args[positions[a.name]]
        if a.name in positions and positions[a.name] < len(args)
        else (kwargs or {}).get(a.name)
        for a in written
    ]
    if not schema.returns:
        return out
    return targets[0] if len(schema.returns) == 1 else tuple(targets)


def autograd_would_have_decomposed(func: Any, flat_args: Sequence[Any]) -> bool:
    return False


__all__ = [
    "BaseTorchDispatchMode", "TorchDispatchMode", "is_in_torch_dispatch_mode",
    "is_traceable_wrapper_subclass", "is_traceable_wrapper_subclass_type",
    "return_and_correct_aliasing", "transform_subclass",
]  # fmt: skip
