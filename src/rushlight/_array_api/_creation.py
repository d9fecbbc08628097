"""New arrays."""

from __future__ import annotations

import rushlight as torch
from rushlight._C import Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like",
    "linspace", "meshgrid", "ones", "ones_like", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip


def asarray(
    obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None
) -> Tensor:
    """An array of numbers, sequences, buffers or another array, which is shared if it can be.

    >>> import rushlight as torch
    >>> torch.ones(1).__array_namespace__().asarray([1, 2])
    tensor([1, 2])
    """
    if copy is False and not isinstance(obj, Tensor) and not _has_memory(obj):
        raise ValueError(f"asarray: numbers have no memory to share; got {type(obj).__name__}")
    return torch.asarray(obj, dtype=dtype, device=device, copy=copy)


def _has_memory(obj: Any) -> bool:
    if hasattr(obj, "__array_interface__") or hasattr(obj, "__dlpack__"):
        return True
    try:
        memoryview(obj)
    except TypeError:
        return False
    return True


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """``start, start + step, ...`` below ``stop``; none where there is no such number.

    >>> import rushlight as torch
    >>> torch.ones(1).__array_namespace__().arange(5, 1)
    tensor([], dtype=torch.int64)
    """
    first, last = (0, start) if stop is None else (start, stop)
    if (last - first) * step < 0:
        last = first
    return torch.arange(first, last, step, dtype=dtype, device=device)


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of a shape whose elements nobody wrote."""
    return torch.empty(_shape(shape), dtype=dtype, device=device)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of zeros."""
    return torch.zeros(_shape(shape), dtype=dtype, device=device)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of ones."""
    return torch.ones(_shape(shape), dtype=dtype, device=device)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of one number."""
    return torch.full(_shape(shape), fill_value, dtype=dtype, device=device)


def _shape(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def empty_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """``empty`` of the shape and dtype of another array."""
    return torch.empty_like(x, dtype=dtype, device=device)


def zeros_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Zeros of the shape and dtype of another array."""
    return torch.zeros_like(x, dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones of the shape and dtype of another array."""
    return torch.ones_like(x, dtype=dtype, device=device)


def full_like(x: Tensor, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """One number, of the shape and dtype of another array."""
    return torch.full_like(x, fill_value, dtype=dtype, device=device)


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None
) -> Tensor:
    """Ones on a diagonal, ``k`` above the main one, and zeros.

    >>> import rushlight as torch
    >>> torch.ones(1).__array_namespace__().eye(2, 3, k=1)
    tensor([[0., 1., 0.],
            [0., 0., 1.]])
    """
    columns = n_rows if n_cols is None else n_cols
    found = torch.zeros((n_rows, columns), dtype=dtype, device=device)
    if -n_rows < k < columns:
        found.diagonal(k).fill_(1)
    return found


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """An array over the memory of another library's."""
    return torch.from_dlpack(x, device=device, copy=copy)


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
) -> Tensor:
    """So many evenly spaced numbers, the last one included or not.

    >>> import rushlight as torch
    >>> torch.ones(1).__array_namespace__().linspace(0, 1, 4, endpoint=False)
    tensor([0.0000, 0.2500, 0.5000, 0.7500])
    """
    if isinstance(start, complex) or isinstance(stop, complex):
        a, b = complex(start), complex(stop)
        work = torch.float64 if dtype in (None, torch.complex128) else torch.float32
        parts = [
            linspace(p, q, num, dtype=work, device=device, endpoint=endpoint)
            for p, q in ((a.real, b.real), (a.imag, b.imag))
        ]
        return torch.complex(*parts).to(dtype or torch.get_default_dtype().to_complex())
    if endpoint:
        return torch.linspace(start, stop, num, dtype=dtype, device=device)
    return torch.linspace(start, stop, num + 1, dtype=dtype, device=device)[:-1]


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """Coordinates of a grid.

    >>> import rushlight as torch
    >>> xp = torch.ones(1).__array_namespace__()
    >>> xp.meshgrid(torch.ones(2), torch.ones(3))[0].shape
    torch.Size([3, 2])
    """
    return list(torch.meshgrid(*arrays, indexing=indexing)) if arrays else []


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The lower triangle."""
    return torch.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The upper triangle."""
    return torch.triu(x, k)
