"""Private helpers of PyTorch that libraries import."""

from __future__ import annotations

import sys
import traceback

from rushlight import _C

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

_ops = _C._namespaces[""]


def _flatten_dense_tensors(tensors: Sequence[Any]) -> Any:
    """All elements as one vector."""
    if len(tensors) == 1:
        return tensors[0].reshape(-1)
    return _ops["cat"]([t.reshape(-1) for t in tensors])


def _unflatten_dense_tensors(flat: Any, tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Views of a vector, of the tensors' shapes."""
    found, at = [], 0
    for t in tensors:
        found.append(flat[at : at + t.numel()].view_as(t))
        at += t.numel()
    return tuple(found)


def _take_tensors(tensors: Iterable[Any], size_limit: int) -> Iterator[list[Any]]:
    """Groups of tensors of one dtype, of at most so many bytes each."""
    groups: dict[Any, list[Any]] = {}
    for t in tensors:
        group = groups.setdefault(t.dtype, [])
        size = sum(each.numel() * each.element_size() for each in group)
        if group and size + t.numel() * t.element_size() > size_limit:
            yield groups.pop(t.dtype)
            group = groups.setdefault(t.dtype, [])
        group.append(t)
    yield from groups.values()


def _reorder_tensors_as(tensors: Iterable[Any], ordered_tensors: Iterable[Any]) -> tuple[Any, ...]:
    """The tensors, each dtype's in turn, in the order of dtypes of the others."""
    by_dtype: dict[Any, list[Any]] = {}
    for t in tensors:
        by_dtype.setdefault(t.dtype, []).append(t)
    queues = {dtype: iter(group) for dtype, group in by_dtype.items()}
    return tuple(next(queues[t.dtype]) for t in ordered_tensors)


def _get_available_device_type() -> None:
    """None: there is no device besides the CPU."""
    return None


def _get_all_device_indices() -> list[int]:
    return []


_get_devices_properties = _get_all_device_indices


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The number of a device; -1 for the CPU where it may be one."""
    if isinstance(device, int):
        return device
    if isinstance(device, str):
        device = _C.device(device)
    if isinstance(device, _C.device):
        if device.type == "cpu" and not allow_cpu:
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        return -1 if device.index is None else device.index
    if device is None and optional:
        return -1
    raise ValueError(
        f"Expected a torch.device with a specified index or an integer, but got: {device}"
    )


def _handle_complex(tensor: Any) -> Any:
    """A complex tensor as one of pairs."""
    return _ops["view_as_real"](tensor) if tensor.is_complex() else tensor


def _element_size(dtype: Any) -> int:
    return int(dtype.itemsize)


def _import_dotted_name(name: str) -> Any:
    from importlib import import_module

    first, *rest = name.split(".")
    found: Any = import_module(first)
    for part in rest:
        found = getattr(found, part)
    return found


def _type(self: Any, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    return self.type(dtype, non_blocking, **kwargs)


class KeyErrorMessage(str):
    """The text of a KeyError of another process, which is shown as it is."""

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """An exception of another thread or process, to be raised here."""

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        info = sys.exc_info() if exc_info is None else exc_info
        self.exc_type: Any = info[0]
        self.exc_msg = "".join(traceback.format_exception(*info))
        self.where = where

    def reraise(self) -> None:
        """Raises it, with its traceback in the text."""
        text = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            text = KeyErrorMessage(text)
        elif getattr(self.exc_type, "message", None):
            raise self.exc_type(message=text)
        try:
            exception = self.exc_type(text)
        except Exception:
            raise RuntimeError(text) from None  # its class wants other arguments
        raise exception


def render_call(fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """A call as one would write it."""
    from rushlight.overrides import resolve_name

    texts = [repr(a) for a in args] + [f"{k}={v!r}" for k, v in kwargs.items()]
    return f"{resolve_name(fn) or fn}({', '.join(texts)})"


class classproperty:
    """A property of a class."""

    def __init__(self, func: Callable[[Any], Any]) -> None:
        self.func = func

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self.func(owner)


def __getattr__(name: str) -> Any:
    """What pickles of PyTorch name: the functions that build tensors are those of files."""
    if name.startswith("_rebuild"):
        from rushlight._serialization import building

        found = vars(building).get(name.removeprefix("_rebuild"))
        if found is not None:
            return found
    from rushlight._missing import MissingAttribute

    raise MissingAttribute("rushlight._utils", name)
