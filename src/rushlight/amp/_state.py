"""The switches of mixed precision, one set per thread and type of device."""

from __future__ import annotations

import _thread

import rushlight
from rushlight import _C

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = [
    "autocast_decrement_nesting", "autocast_increment_nesting", "clear_autocast_cache",
    "get_autocast_cpu_dtype", "get_autocast_dtype", "get_autocast_gpu_dtype",
    "is_autocast_cache_enabled", "is_autocast_cpu_enabled", "is_autocast_enabled",
    "set_autocast_cache_enabled", "set_autocast_cpu_dtype", "set_autocast_cpu_enabled",
    "set_autocast_dtype", "set_autocast_enabled", "set_autocast_gpu_dtype",
]  # fmt: skip

_DEFAULT_DTYPES = {
    **dict.fromkeys(("cpu", "hpu", "maia", "xla"), _C.bfloat16),
    **dict.fromkeys(("cuda", "ipu", "mps", "mtia", "privateuseone", "xpu"), _C.float16),
}


class _Elsewhere(_thread._local):
    """What was set for other devices, whose ops the core does not run."""

    def __init__(self) -> None:
        self.enabled: dict[str, bool] = {}
        self.dtypes: dict[str, _C.dtype] = {}


_elsewhere = _Elsewhere()


def device_kind(device_type: str, function: str) -> str:
    """The type of device, without its number; raises on what is no device."""
    if not isinstance(device_type, str):
        raise TypeError(
            f"{function}(): argument 'device_type' (position 1) must be str, "
            f"not {type(device_type).__name__}"
        )
    kind = device_type.partition(":")[0]
    return kind if kind in _DEFAULT_DTYPES else rushlight.device(device_type).type


def has_cuda() -> bool:
    from rushlight import cuda

    return cuda.is_available()


def is_supported(kind: str) -> bool:
    return kind in _DEFAULT_DTYPES


def switches(kind: str) -> tuple[bool, _C.dtype]:
    """Whether ops on this type of device cast, and to which dtype."""
    if kind == "cpu":
        return _C._is_autocast(), _C._autocast_dtype()
    if kind == "cuda":
        return _C._autocast_cuda()
    enabled = _elsewhere.enabled.get(kind, False)
    return enabled, _elsewhere.dtypes.get(kind, _DEFAULT_DTYPES[kind])


def switch(kind: str, enabled: bool, dtype: _C.dtype) -> None:
    """Sets both."""
    if kind == "cpu":
        _C._set_autocast_dtype(dtype)
        _C._set_autocast(enabled)
    elif kind == "cuda":
        _C._set_autocast_cuda(enabled, dtype)
    else:
        _elsewhere.dtypes[kind] = dtype
        _elsewhere.enabled[kind] = enabled


def part_of(kind: str, enabled: bool, dtype: _C.dtype, cached: bool) -> tuple[str, Any]:
    """What a region on a type of device sets and sets back."""
    if kind == "cpu":
        return "autocast", (enabled, dtype, cached)
    if kind == "cuda":
        return "autocast_cuda", (enabled, dtype, cached)
    changed = ((_elsewhere.dtypes, kind, dtype), (_elsewhere.enabled, kind, enabled))
    return "autocast_elsewhere", (changed, cached)


def _autocast_kind(device_type: str, function: str) -> str:
    kind = device_kind(device_type, function)
    if kind not in _DEFAULT_DTYPES:
        raise RuntimeError(
            f"{function}(): unknown device type for autocast: {device_type!r}. "
            f"Mixed precision knows {', '.join(sorted(_DEFAULT_DTYPES))}."
        )
    return kind


def _checked_bool(value: bool, function: str, position: int) -> bool:
    if not isinstance(value, bool):
        raise TypeError(
            f"{function}(): argument 'enabled' (position {position}) must be bool, "
            f"not {type(value).__name__}"
        )
    return value


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether ops on this type of device cast their arguments now.

    >>> with torch.autocast("cpu"):
    ...     torch.is_autocast_enabled("cpu")
    True
    """
    return switches(_autocast_kind(device_type, "is_autocast_enabled"))[0]


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Switches mixed precision in this thread; ``torch.autocast`` does so for a region.

    With one argument, a bool, it is meant for CUDA.

    >>> torch.set_autocast_enabled("cpu", True)
    >>> (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
    torch.bfloat16
    >>> torch.set_autocast_enabled("cpu", False)
    """
    if enabled is None:
        enabled = _checked_bool(device_type, "set_autocast_enabled", 1)  # type: ignore[arg-type]
        device_type = "cuda"
    kind = _autocast_kind(device_type, "set_autocast_enabled")  # type: ignore[arg-type]
    _checked_bool(enabled, "set_autocast_enabled", 2)
    switch(kind, enabled, switches(kind)[1])


def get_autocast_dtype(device_type: str) -> _C.dtype:
    """The dtype that matrix products take in a mixed precision region.

    >>> torch.get_autocast_dtype("cpu"), torch.get_autocast_dtype("cuda")
    (torch.bfloat16, torch.float16)
    """
    return switches(_autocast_kind(device_type, "get_autocast_dtype"))[1]


def set_autocast_dtype(device_type: str, dtype: _C.dtype) -> None:
    """Sets the dtype of mixed precision in this thread.

    >>> torch.set_autocast_dtype("cpu", torch.float16)
    >>> torch.get_autocast_dtype("cpu")
    torch.float16
    >>> torch.set_autocast_dtype("cpu", torch.bfloat16)
    """
    kind = _autocast_kind(device_type, "set_autocast_dtype")
    if not isinstance(dtype, _C.dtype):
        raise TypeError(
            "set_autocast_dtype(): argument 'dtype' (position 2) must be torch.dtype, "
            f"not {type(dtype).__name__}"
        )
    switch(kind, switches(kind)[0], dtype)


def is_autocast_cache_enabled() -> bool:
    """Whether a region casts each parameter once only.

    >>> torch.is_autocast_cache_enabled()
    True
    """
    return _C._is_autocast_cached()


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Says whether a region casts each parameter once only.

    >>> torch.set_autocast_cache_enabled(True)
    """
    _C._set_autocast_cached(_checked_bool(enabled, "set_autocast_cache_enabled", 1))


def clear_autocast_cache() -> None:
    """Forgets the parameters that were cast.

    >>> with torch.autocast("cpu"):
    ...     product = torch.nn.Linear(2, 2)(torch.ones(2))
    ...     torch.clear_autocast_cache()
    """
    _C._clear_autocast_cache()


def autocast_increment_nesting() -> int:
    """Enters a region: how many there are now, one in the other.

    >>> torch.autocast_increment_nesting(), torch.autocast_decrement_nesting()
    (1, 0)
    """
    return _C._enter_autocast()


def autocast_decrement_nesting() -> int:
    """Leaves a region: how many there are still.

    >>> torch.autocast_increment_nesting(), torch.autocast_decrement_nesting()
    (1, 0)
    """
    return _C._leave_autocast()


def _deprecated(
    old: str, new: Callable[..., object], device: str, doc: str
) -> Callable[..., object]:
    def function(*args: object) -> object:
        import warnings

        hint = f"torch.{new.__name__}({device!r}{', ...' if args else ''})"
        warnings.warn(
            f"torch.{old}() is deprecated. Please use {hint} instead.",
            DeprecationWarning,
            stacklevel=2,
        )
        return new(device, *args)

    function.__name__ = function.__qualname__ = old
    function.__doc__ = doc
    return function


is_autocast_cpu_enabled = _deprecated(
    "is_autocast_cpu_enabled", is_autocast_enabled, "cpu", 'Deprecated: is_autocast_enabled("cpu").'
)
set_autocast_cpu_enabled = _deprecated(
    "set_autocast_cpu_enabled",
    set_autocast_enabled,
    "cpu",
    'Deprecated: set_autocast_enabled("cpu", …).',
)
get_autocast_cpu_dtype = _deprecated(
    "get_autocast_cpu_dtype", get_autocast_dtype, "cpu", 'Deprecated: get_autocast_dtype("cpu").'
)
set_autocast_cpu_dtype = _deprecated(
    "set_autocast_cpu_dtype", set_autocast_dtype, "cpu", 'Deprecated: set_autocast_dtype("cpu", …).'
)
get_autocast_gpu_dtype = _deprecated(
    "get_autocast_gpu_dtype", get_autocast_dtype, "cuda", 'Deprecated: get_autocast_dtype("cuda").'
)
set_autocast_gpu_dtype = _deprecated(
    "set_autocast_gpu_dtype",
    set_autocast_dtype,
    "cuda",
    'Deprecated: set_autocast_dtype("cuda", …).',
)
