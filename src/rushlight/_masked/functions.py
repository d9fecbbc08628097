"""Reductions and normalisations over the elements that a mask selects."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp",
    "logsumexp", "mean", "median", "norm", "normalize", "prod", "softmax", "softmin", "std",
    "sum", "var",
]  # fmt: skip

_ops = _C._namespaces[""]
_inf = float("inf")


def _data(input: Any, mask: Any) -> tuple[Tensor, Any]:
    """The elements and the mask, which a masked tensor has itself."""
    from rushlight._masked.tensor import MaskedTensor

    if isinstance(input, MaskedTensor):
        return input.get_data(), input.get_mask() if mask is None else mask
    if not isinstance(input, Tensor):
        raise TypeError(
            f"input type must be a Tensor or a MaskedTensor, got {type(input).__name__}"
        )
    return input, mask


def _input_mask(input: Any, *args: Any, mask: Any = None, **options: Any) -> Any:
    """The mask with the shape of the input."""
    x, mask = _data(input, mask)
    if mask is None:
        return None
    if not isinstance(mask, Tensor):
        raise TypeError(f"the mask must be a Tensor, got {type(mask).__name__}")
    if mask.dim() > x.dim():
        raise IndexError(
            "_input_mask expected broadcastable mask (got mask dimensionality higher than of the "
            f"input): {mask.dim()} and {x.dim()}"
        )
    return mask.to(_C.bool).expand(x.shape)


def _dims(dim: Any, dims: int) -> list[int]:
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return list(range(dims))
    found = []
    for d in (dim,) if isinstance(dim, int) else dim:
        if not -max(dims, 1) <= d < max(dims, 1):
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-max(dims, 1)}, "
                f"{max(dims, 1) - 1}], but got {d})"
            )
        d %= max(dims, 1)
        if d in found:
            raise RuntimeError(f"dim={d} appears multiple times in the list of dims")
        found.append(d)
    return found


def _output_mask(op: Any, input: Any, *args: Any, dim: Any = None, keepdim: bool = False,
                 mask: Any = None, **options: Any) -> Any:  # fmt: skip
    """Where the result of an operation was made of anything."""
    name = getattr(op, "__name__", None)
    if name not in __all__ or name == "logaddexp":
        raise ValueError(f"_output_mask expected masked operation (got {op!r})")
    found = _input_mask(input, mask=mask)
    if name in ("cumprod", "cumsum", "log_softmax", "normalize", "softmax", "softmin"):
        return found
    rest = args[1:] if name == "norm" else args
    dims = _dims(rest[0] if rest else dim, found.dim())
    return found.any(dims, keepdim) if found.dim() else found


def _filled(x: Tensor, mask: Any, value: Any) -> Tensor:
    """The elements, with a value where the mask does not hold."""
    if mask is None:
        return x
    return _ops["where"](mask, x, _ops["full"]((), value, dtype=x.dtype))


def _lowest(x: Tensor) -> Any:
    return -_inf if x.is_floating_point() else _bounds(x)[0]


def _highest(x: Tensor) -> Any:
    return _inf if x.is_floating_point() else _bounds(x)[1]


def _bounds(x: Tensor) -> tuple[int, int]:
    from rushlight._numeric import iinfo

    if x.dtype is _C.bool:
        return 0, 1
    info = iinfo(x.dtype)
    return int(info.min), int(info.max)


def _whole(x: Tensor, dtype: Any) -> Tensor:
    """Integers are added up as int64."""
    if dtype is not None:
        return x.to(dtype)
    exact = x.is_floating_point() or x.is_complex()
    return x if exact else x.to(_C.int64)


def _floating(name: str, x: Tensor, dtype: Any) -> Tensor:
    if dtype is not None:
        x = x.to(dtype)
    if not (x.is_floating_point() or x.is_complex()):
        raise ValueError(
            f"{name}(): Could not infer output dtype. Input dtype must be either a floating point "
            f"or complex dtype. Got: {x.dtype}"
        )
    return x


def sum(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
        mask: Any = None) -> Tensor:  # fmt: skip
    """The sum of the selected elements; 0 of none.

    >>> import rushlight as torch
    >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> torch.masked.sum(x, 1, mask=x != 2)
    tensor([1., 7.])
    """
    x, mask = _data(input, mask)
    mask = _input_mask(x, mask=mask)
    x = _filled(_whole(x, dtype), mask, 0)
    return x.sum(_dims(dim, x.dim()), keepdim) if x.dim() else x.sum()


def prod(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
         mask: Any = None) -> Tensor:  # fmt: skip
    """The product of the selected elements; 1 of none.

    >>> import rushlight as torch
    >>> torch.masked.prod(torch.tensor([2.0, 3.0, 0.0]), mask=torch.tensor([True, True, False]))
    tensor(6.)
    """
    x, mask = _data(input, mask)
    mask = _input_mask(x, mask=mask)
    x = _filled(_whole(x, dtype), mask, 1)
    if not x.dim():
        return x.prod()
    for d in sorted(_dims(dim, x.dim()), reverse=True):
        x = x.prod(d, keepdim)
    return x


def _extreme(name: str, input: Any, dim: Any, keepdim: bool, dtype: Any, mask: Any) -> Tensor:
    x, mask = _data(input, mask)
    mask = _input_mask(x, mask=mask)
    x = x if dtype is None else x.to(dtype)
    x = _filled(x, mask, _lowest(x) if name == "amax" else _highest(x))
    dims = _dims(dim, x.dim())
    if any(x.shape[d] == 0 for d in dims if x.dim()):
        raise ValueError(
            f"identity of {name} for an empty dimension is undefined: {tuple(x.shape)}"
        )
    return getattr(x, name)(dims, keepdim) if x.dim() else getattr(x, name)()


def amax(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
         mask: Any = None) -> Tensor:  # fmt: skip
    """The largest of the selected elements; minus infinity of none.

    >>> import rushlight as torch
    >>> torch.masked.amax(torch.tensor([1.0, 5.0, 3.0]), mask=torch.tensor([True, False, True]))
    tensor(3.)
    """
    return _extreme("amax", input, dim, keepdim, dtype, mask)


def amin(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
         mask: Any = None) -> Tensor:  # fmt: skip
    """The smallest of the selected elements; infinity of none.

    >>> import rushlight as torch
    >>> torch.masked.amin(torch.tensor([1.0, 5.0, 3.0]), mask=torch.tensor([False, True, True]))
    tensor(3.)
    """
    return _extreme("amin", input, dim, keepdim, dtype, mask)


def _arg(name: str, input: Any, dim: Any, keepdim: bool, dtype: Any, mask: Any) -> Tensor:
    x, mask = _data(input, mask)
    mask = _input_mask(x, mask=mask)
    x = x if dtype is None else x.to(dtype)
    filled = _filled(x, mask, _lowest(x) if name == "argmax" else _highest(x))
    return getattr(filled, name)(dim, keepdim).to(x.dtype)


def argmax(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
           mask: Any = None) -> Tensor:  # fmt: skip
    """Where the largest of the selected elements is; as PyTorch's, of the input's dtype.

    >>> import rushlight as torch
    >>> x, mask = torch.tensor([1.0, 5.0, 3.0]), torch.tensor([True, False, True])
    >>> torch.masked.argmax(x, 0, mask=mask)
    tensor(2.)
    """
    return _arg("argmax", input, dim, keepdim, dtype, mask)


def argmin(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
           mask: Any = None) -> Tensor:  # fmt: skip
    """Where the smallest of the selected elements is; as PyTorch's, of the input's dtype.

    >>> import rushlight as torch
    >>> x, mask = torch.tensor([1.0, 5.0, 3.0]), torch.tensor([False, True, True])
    >>> torch.masked.argmin(x, 0, mask=mask)
    tensor(2.)
    """
    return _arg("argmin", input, dim, keepdim, dtype, mask)


def _count(x: Tensor, mask: Any, dims: list[int], keepdim: bool) -> Tensor:
    ones = _ops["ones"]((), dtype=_C.int64).expand(x.shape) if mask is None else mask
    return ones.sum(dims, keepdim) if x.dim() else ones.sum()


def mean(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
         mask: Any = None) -> Tensor:  # fmt: skip
    """The mean of the selected elements; NaN of none.

    >>> import rushlight as torch
    >>> torch.masked.mean(torch.tensor([1.0, 9.0, 3.0]), mask=torch.tensor([True, False, True]))
    tensor(2.)
    """
    x, mask = _data(input, mask)
    mask = _input_mask(x, mask=mask)
    x = _floating("mean", x, dtype)
    dims = _dims(dim, x.dim())
    total = sum(x, dims or None, keepdim=keepdim, mask=mask)
    return total / _count(x, mask, dims, keepdim)


def median(input: Any, dim: int = -1, *, keepdim: bool = False, dtype: Any = None,
           mask: Any = None) -> Tensor:  # fmt: skip
    """The median of the selected elements, the lower one of two; NaN of none.

    >>> import rushlight as torch
    >>> torch.masked.median(torch.tensor([1.0, 9.0, 3.0]), mask=torch.tensor([True, False, True]))
    tensor(1.)
    """
    from rushlight._composed import nanmedian

    x, mask = _data(input, mask)
    mask = _input_mask(x, mask=mask)
    x = x if dtype is None else x.to(dtype)
    if not x.is_floating_point():
        if mask is not None and not bool(mask.all()):
            raise ValueError(
                "masked median expects a floating dtype, whose masked elements can be NaN; got "
                f"{x.dtype}"
            )
        return x.median(dim, keepdim).values
    if bool((x.isnan() if mask is None else x.isnan() & mask).any()):
        raise ValueError(
            "masked median expects no fully masked out rows if dtype is not floating, and no NaN "
            "among the selected elements"
        )
    return nanmedian(_filled(x, mask, float("nan")), dim, keepdim)[0]


def logsumexp(input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
              mask: Any = None) -> Tensor:  # fmt: skip
    """The logarithm of the sum of exponentials of the selected elements.

    >>> import rushlight as torch
    >>> x, mask = torch.tensor([0.0, 9.0, 0.0]), torch.tensor([True, False, True])
    >>> torch.masked.logsumexp(x, mask=mask)
    tensor(0.6931)
    """
    x, mask = _data(input, mask)
    mask = _input_mask(x, mask=mask)
    x = x if dtype is None else x.to(dtype)
    if not x.is_floating_point() and not x.is_complex():
        x = x.to(_C.get_default_dtype())
    x = _filled(x, mask, -_inf)
    return _ops["logsumexp"](x, _dims(dim, x.dim()) or [0], keepdim)


def logaddexp(input: Any, other: Any, *, dtype: Any = None, input_mask: Any = None,
              other_mask: Any = None) -> Tensor:  # fmt: skip
    """``log(exp(input) + exp(other))`` where each is left out by its own mask.

    >>> import rushlight as torch
    >>> torch.masked.logaddexp(torch.tensor([0.0, 1.0]), torch.tensor([0.0, 5.0]),
    ...                        other_mask=torch.tensor([True, False]))
    tensor([0.6931, 1.0000])
    """
    (x, input_mask), (y, other_mask) = _data(input, input_mask), _data(other, other_mask)
    if dtype is not None:
        x, y = x.to(dtype), y.to(dtype)
    a = _filled(x, _input_mask(x, mask=input_mask), -_inf)
    b = _filled(y, _input_mask(y, mask=other_mask), -_inf)
    return _ops["logaddexp"](a, b)


def norm(input: Any, ord: Any = 2.0, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
         mask: Any = None) -> Tensor:  # fmt: skip
    """The norm of the vector of selected elements.

    >>> import rushlight as torch
    >>> torch.masked.norm(torch.tensor([3.0, 9.0, 4.0]), mask=torch.tensor([True, False, True]))
    tensor(5.)
    """
    x, mask = _data(input, mask)
    mask = _input_mask(x, mask=mask)
    x = x if dtype is None else x.to(dtype)
    order = 2.0 if ord is None else float(ord)
    x = _filled(x, mask, _inf if order < 0 else 0)
    dims = _dims(dim, x.dim())
    return _C._namespaces["linalg"]["vector_norm"](x, order, dims or None, keepdim)


def _spread(input: Any, dim: Any, unbiased: Any, correction: Any, keepdim: bool, dtype: Any,
            mask: Any, root: bool) -> Tensor:  # fmt: skip
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    less = 1 if unbiased is None and correction is None else int(unbiased or 0)
    less = correction if correction is not None else less
    x, mask = _data(input, mask)
    mask = _input_mask(x, mask=mask)
    if dtype is not None:
        x = x.to(dtype)
    elif not (x.is_floating_point() or x.is_complex()):
        x = x.to(_C.get_default_dtype())
    dims = _dims(dim, x.dim())
    if mask is None and x.dim():
        found = (_ops["std"] if root else _ops["var"])(x, dims, correction=less, keepdim=keepdim)
        return found.to(x.dtype)  # complex ones stay so, as PyTorch's do
    center = mean(x, dims or None, keepdim=True, mask=mask)
    off = _filled(x - center, mask, 0)
    squares = off * off.conj()
    total = squares.sum(dims, keepdim) if x.dim() else squares
    count = (_count(x, mask, dims, keepdim) - less).clamp(min=0)
    found = total / count
    return found.sqrt() if root else found


def var(input: Any, dim: Any = None, unbiased: bool | None = None, *, correction: Any = None,
        keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:  # fmt: skip
    """The variance of the selected elements.

    >>> import rushlight as torch
    >>> torch.masked.var(torch.tensor([1.0, 9.0, 3.0]), mask=torch.tensor([True, False, True]))
    tensor(2.)
    """
    return _spread(input, dim, unbiased, correction, keepdim, dtype, mask, False)


def std(input: Any, dim: Any = None, unbiased: bool | None = None, *, correction: Any = None,
        keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Tensor:  # fmt: skip
    """The standard deviation of the selected elements.

    >>> import rushlight as torch
    >>> torch.masked.std(torch.tensor([1.0, 9.0, 3.0]), mask=torch.tensor([True, False, True]))
    tensor(1.4142)
    """
    return _spread(input, dim, unbiased, correction, keepdim, dtype, mask, True)


def _along(func: Callable[..., Tensor], input: Any, dim: int, dtype: Any, mask: Any,
           fill: Any) -> Tensor:  # fmt: skip
    x, mask = _data(input, mask)
    mask = _input_mask(x, mask=mask)
    x = x if dtype is None else x.to(dtype)
    return func(_filled(x, mask, fill), _dims(dim, x.dim())[0]).to(x.dtype)


def cumsum(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """Sums of the selected elements so far.

    >>> import rushlight as torch
    >>> torch.masked.cumsum(torch.tensor([1, 2, 3]), 0, mask=torch.tensor([True, False, True]))
    tensor([1, 1, 4])
    """
    return _along(_ops["cumsum"], input, dim, dtype, mask, 0)


def cumprod(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """Products of the selected elements so far.

    >>> import rushlight as torch
    >>> torch.masked.cumprod(torch.tensor([1, 2, 3]), 0, mask=torch.tensor([True, False, True]))
    tensor([1, 1, 3])
    """
    return _along(_ops["cumprod"], input, dim, dtype, mask, 1)


def softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """Softmax of the selected elements; 0 elsewhere.

    >>> import rushlight as torch
    >>> x, mask = torch.tensor([1.0, 9.0, 1.0]), torch.tensor([True, False, True])
    >>> torch.masked.softmax(x, 0, mask=mask)
    tensor([0.5000, 0.0000, 0.5000])
    """
    return _along(_ops["softmax"], input, dim, dtype, mask, -_inf)


def log_softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """The logarithm of softmax of the selected elements; minus infinity elsewhere.

    >>> import rushlight as torch
    >>> torch.masked.log_softmax(torch.zeros(3), 0, mask=torch.tensor([True, False, True]))
    tensor([-0.6931,    -inf, -0.6931])
    """
    return _along(_ops["log_softmax"], input, dim, dtype, mask, -_inf)


def softmin(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Tensor:
    """Softmax of the negative selected elements; 0 elsewhere.

    >>> import rushlight as torch
    >>> x, mask = torch.tensor([1.0, 0.0, 1.0]), torch.tensor([True, False, True])
    >>> torch.masked.softmin(x, 0, mask=mask)
    tensor([0.5000, 0.0000, 0.5000])
    """
    return _along(lambda x, d: _ops["softmax"](-x, d), input, dim, dtype, mask, _inf)


def normalize(input: Any, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None,
              mask: Any = None) -> Tensor:  # fmt: skip
    """The selected elements divided by their norm; 0 elsewhere.

    >>> import rushlight as torch
    >>> x, mask = torch.tensor([3.0, 9.0, 4.0]), torch.tensor([True, False, True])
    >>> torch.masked.normalize(x, 2, 0, mask=mask)
    tensor([0.6000, 0.0000, 0.8000])
    """
    x, mask = _data(input, mask)
    mask = _input_mask(x, mask=mask)
    x = x if dtype is None else x.to(dtype)
    length = norm(x, ord, dim, keepdim=True, mask=mask)
    return _filled(x, mask, 0) / length.clamp(min=eps)
