"""Regions of mixed precision."""

from __future__ import annotations

import functools

from rushlight import _C
from rushlight.amp import _state

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["autocast", "autocast_decorator", "custom_bwd", "custom_fwd", "is_autocast_available"]

_HALVES = (_C.bfloat16, _C.float16)


def is_autocast_available(device_type: str) -> bool:
    """Whether there is mixed precision for a type of device.

    >>> import rushlight as torch
    >>> torch.amp.is_autocast_available("cpu"), torch.amp.is_autocast_available("meta")
    (True, False)
    """
    return _state.is_supported(_state.device_kind(device_type, "is_autocast_available"))


def autocast_decorator(autocast_instance: autocast, func: Callable[..., Any]) -> Callable[..., Any]:
    """The function, run in the region.

    >>> import rushlight as torch
    >>> from rushlight.amp.autocast_mode import autocast_decorator
    >>> multiply = autocast_decorator(torch.autocast("cpu"), torch.matmul)
    >>> multiply(torch.eye(2), torch.eye(2)).dtype
    torch.bfloat16
    """

    @functools.wraps(func)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        with autocast_instance:
            return func(*args, **kwargs)

    return decorated


class autocast(_C._Scope):
    """A region in which products run in half precision and what needs range runs in float32.

    Matrix products, convolutions and attention cast float32 arguments to ``dtype`` (bfloat16 on the
    CPU); losses, ``prod``, ``quantile`` and the like cast halves to float32; ``cat`` and ``stack``
    take the widest of theirs; all others compute in the dtype they are given. Parameters are cast
    once in a region, unless ``cache_enabled`` is False, and their gradients are float32. A backward
    pass needs no region. Also a decorator.

    >>> import rushlight as torch
    >>> x, w = torch.ones(2, 3), torch.ones(3, 4, requires_grad=True)
    >>> with torch.autocast("cpu"):
    ...     y = x @ w
    ...     loss = torch.nn.functional.mse_loss(y, torch.zeros(2, 4))
    >>> y.dtype, loss.dtype
    (torch.bfloat16, torch.float32)
    >>> loss.backward()
    >>> w.grad.dtype
    torch.float32
    """

    def __init__(
        self,
        device_type: str,
        dtype: _C.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self.device = device_type
        self._kind = _state.device_kind(device_type, "autocast")
        if not _state.is_supported(self._kind):
            raise RuntimeError(
                f"User specified an unsupported autocast device_type '{device_type}'"
            )
        self.fast_dtype = _state.switches(self._kind)[1] if dtype is None else dtype
        if not isinstance(self.fast_dtype, _C.dtype):
            raise TypeError(f"autocast: dtype must be a torch.dtype, got {dtype!r}")
        if cache_enabled is None:
            cache_enabled = _C._is_autocast_cached()
        self._cache_enabled = bool(cache_enabled)
        self._enabled = bool(enabled) and self._can_run()
        self._set_parts(_state.part_of(self._kind, self._enabled, self.fast_dtype, cache_enabled))

    def _can_run(self) -> bool:
        if self._kind == "cuda":
            if _state.has_cuda():
                return True
            problem = "CUDA is not available. Disabling autocast."
        else:
            if self.fast_dtype in _HALVES:
                return True
            name = self.device.upper()
            problem = (
                f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"{name} Autocast only supports dtypes of torch.bfloat16, torch.float16 currently, "
                f"got {self.fast_dtype}."
            )
        import warnings

        warnings.warn(problem, stacklevel=3)
        return False

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(func):
            raise TypeError(
                f"autocast()(func) requires a callable, but got {type(func).__name__}. As a "
                "context manager it is used thus: with torch.autocast('cpu'): y = model(x)"
            )
        return autocast_decorator(self, func)


def _enter_autocast(*args: Any) -> autocast:
    region = autocast(*args)
    region.__enter__()
    return region


def _exit_autocast(mode: autocast) -> None:
    mode.__exit__(None, None, None)


def _cast(value: Any, device_type: str, dtype: _C.dtype) -> Any:
    """The value with the floating-point tensors in it (but float64 ones) in another dtype."""
    if isinstance(value, _C.Tensor):
        floats = value.is_floating_point() and value.dtype is not _C.float64
        return value.to(dtype) if floats and value.device.type == device_type else value
    if isinstance(value, (str, bytes)) or hasattr(value, "__array_interface__"):
        return value
    if isinstance(value, (list, tuple)):
        items = [_cast(v, device_type, dtype) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    from collections.abc import Iterable, Mapping

    if isinstance(value, Mapping):
        cast = functools.partial(_cast, device_type=device_type, dtype=dtype)
        return {cast(k): cast(v) for k, v in value.items()}
    if isinstance(value, Iterable):
        return (_cast(v, device_type, dtype) for v in value)
    return value


def _check_device_type(device_type: str) -> None:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")


def custom_fwd(
    fwd: Callable[..., Any] | None = None,
    *,
    device_type: str,
    cast_inputs: _C.dtype | None = None,
) -> Callable[..., Any]:
    """Decorates the ``forward`` of a Function for mixed precision; ``custom_bwd`` goes with it.

    With ``cast_inputs``, a call inside a region casts floating-point tensors to that dtype and runs
    the function without mixed precision. Without, its ops follow the region, and the backward pass
    follows suit.

    >>> import rushlight as torch
    >>> class Square(torch.autograd.Function):
    ...     @staticmethod
    ...     @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     @torch.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, grad):
    ...         return 2 * grad * ctx.saved_tensors[0]
    >>> with torch.autocast("cpu"):
    ...     Square.apply(torch.ones(2, dtype=torch.bfloat16)).dtype
    torch.float32
    """
    _check_device_type(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        inside = _state.is_autocast_enabled(device_type)
        ctx._dtype = _state.get_autocast_dtype(device_type)
        ctx._fwd_used_autocast = inside and cast_inputs is None
        if cast_inputs is None or not inside:
            return fwd(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(
                ctx,
                *_cast(args, device_type, cast_inputs),
                **_cast(kwargs, device_type, cast_inputs),
            )

    return decorated


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Callable[..., Any]:
    """Decorates the ``backward`` of a Function: it runs under the mixed precision of its forward.

    See ``custom_fwd``.

    >>> import rushlight as torch
    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    ...     def forward(ctx, x):
    ...         return 2 * x
    ...     @staticmethod
    ...     @torch.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, g):
    ...         return 2 * g
    >>> with torch.autocast("cpu"):
    ...     y = Double.apply(torch.ones(2, dtype=torch.bfloat16, requires_grad=True))
    >>> y.dtype
    torch.float32
    """
    _check_device_type(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, dtype=ctx._dtype, enabled=ctx._fwd_used_autocast):
            return bwd(ctx, *args, **kwargs)

    return decorated
