"""Functions of sparse tensors.

>>> import rushlight as torch
>>> a = torch.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse_csr()
>>> torch.sparse.mm(a, torch.tensor([[1.0], [10.0]]))
tensor([[20.],
        [ 3.]])

``torch.sparse_coo_tensor`` and its relatives make such tensors, ``Tensor.to_sparse`` converts.
"""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor
from rushlight._sparse import construct as _construct
from rushlight._sparse import products as _products
from rushlight._sparse import reductions as _reductions
from rushlight._sparse.construct import spdiags as spdiags
from rushlight._sparse.table import is_sparse as _is_sparse

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = [
    "addmm",
    "as_sparse_gradcheck",
    "check_sparse_tensor_invariants",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "spdiags",
    "spsolve",
    "sum",
]


def mm(mat1: Any, mat2: Any, reduce: str | None = None) -> Any:
    """The product of matrices of which one at least is sparse; sparse if both are.

    With `reduce` ('sum', 'mean', 'amax', 'amin'), mat1 is in CSR and that is made of the terms of
    each element.

    >>> import rushlight as torch
    >>> a = torch.tensor([[0.0, 2.0], [3.0, 4.0]]).to_sparse_csr()
    >>> torch.sparse.mm(a, torch.eye(2))
    tensor([[0., 2.],
            [3., 4.]])
    >>> torch.sparse.mm(a, torch.ones(2, 1), "mean")
    tensor([[2.0000],
            [3.5000]])
    """
    if reduce is not None:
        return _products.reduced(mat1, mat2, reduce)
    if not _is_sparse(mat1) and not _is_sparse(mat2):
        return _C._namespaces[""]["mm"](mat1, mat2)
    return _products.mm(mat1, mat2)


def addmm(mat: Any, mat1: Any, mat2: Any, *, beta: float = 1.0, alpha: float = 1.0) -> Any:
    """``beta * mat + alpha * (mat1 @ mat2)`` of a sparse mat1.

    >>> import rushlight as torch
    >>> torch.sparse.addmm(torch.ones(2, 2), torch.eye(2).to_sparse(), torch.ones(2, 2), alpha=3)
    tensor([[4., 4.],
            [4., 4.]])
    """
    return _products.addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def sampled_addmm(
    input: Any, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0, out: Any = None
) -> Any:
    """``alpha * (mat1 @ mat2)`` at the places of `input`, in CSR, plus ``beta * input``.

    >>> import rushlight as torch
    >>> places = torch.eye(2).to_sparse_csr()
    >>> torch.sparse.sampled_addmm(places, torch.ones(2, 3), torch.ones(3, 2)).to_dense()
    tensor([[4., 0.],
            [0., 4.]])
    """
    found = _products.sampled_addmm(input, mat1, mat2, beta=beta, alpha=alpha)
    if out is None:
        return found
    out._take(found)
    return out


def sum(input: Any, dim: Any = None, dtype: Any = None) -> Any:
    """The sum over dimensions; a sparse tensor where sparse dimensions remain.

    >>> import rushlight as torch
    >>> s = torch.tensor([[0.0, 2.0], [3.0, 4.0]]).to_sparse()
    >>> torch.sparse.sum(s), torch.sparse.sum(s, 0).to_dense()
    (tensor(9.), tensor([3., 6.]))
    """
    return _reductions.plain_sum(input, dim, dtype)


def softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Softmax of the stored elements; those that are not stored count as minus infinity.

    >>> import rushlight as torch
    >>> s = torch.tensor([[0.0, 2.0], [3.0, 3.0]]).to_sparse()
    >>> torch.sparse.softmax(s, 1).to_dense()
    tensor([[0.0000, 1.0000],
            [0.5000, 0.5000]])
    """
    return _reductions.softmax(input, dim, dtype)


def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """The logarithm of ``softmax``, of the stored elements.

    >>> import rushlight as torch
    >>> torch.sparse.log_softmax(torch.tensor([[0.0, 2.0], [3.0, 3.0]]).to_sparse(), 1).values()
    tensor([ 0.0000, -0.6931, -0.6931])
    """
    return _reductions.softmax(input, dim, dtype, log=True)


def spsolve(input: Any, other: Tensor, *, left: bool = True) -> Tensor:
    """The x of ``input @ x = other`` for a sparse matrix.

    >>> import rushlight as torch
    >>> torch.sparse.spsolve(torch.tensor([[2.0, 0.0], [1.0, 1.0]]).to_sparse_csr(),
    ...                      torch.tensor([4.0, 5.0]))
    tensor([2., 3.])
    """
    return _products.spsolve(input, other, left=left)


class check_sparse_tensor_invariants:
    """Whether constructors check all that indices must be: a switch, a context and a decorator.

    >>> import rushlight as torch
    >>> with torch.sparse.check_sparse_tensor_invariants():
    ...     torch.sparse_csr_tensor([0, 2], [1, 0], [1.0, 2.0], (1, 2))
    Traceback (most recent call last):
        ...
    RuntimeError: `col_indices[..., crow_indices[..., i - 1]:crow_indices[..., i]] for all ...
    """

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self._saved: list[Any] = []

    @staticmethod
    def is_enabled() -> bool:
        """Whether they do."""
        return bool(_construct.enabled[0])

    @staticmethod
    def enable() -> None:
        """Checks from now on."""
        _construct.enabled[0] = True

    @staticmethod
    def disable() -> None:
        """Checks the ranges of indices alone from now on."""
        _construct.enabled[0] = None

    def __enter__(self) -> None:
        self._saved.append(_construct.enabled[0])
        _construct.enabled[0] = True if self.state else None

    def __exit__(self, *error: object) -> None:
        _construct.enabled[0] = self._saved.pop()

    def __call__(self, mth: Callable[..., Any]) -> Callable[..., Any]:
        from functools import wraps

        @wraps(mth)
        def checked(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return mth(*args, **kwargs)

        return checked


def as_sparse_gradcheck(gradcheck: Callable[..., Any]) -> Callable[..., Any]:
    """A gradcheck for functions of sparse tensors: their stored values are what varies.

    >>> import rushlight as torch
    >>> check = torch.sparse.as_sparse_gradcheck(torch.autograd.gradcheck)
    >>> s = torch.eye(2, dtype=torch.float64).to_sparse_csr().requires_grad_()
    >>> check(lambda s: torch.sparse.mm(s, s.to_dense()), s, masked=True)
    True
    """
    from functools import wraps

    from rushlight._sparse.checking import on_values

    @wraps(gradcheck)
    def with_sparse(func: Any, inputs: Any, **kwargs: Any) -> Any:
        masked = kwargs.pop("masked", False)
        return gradcheck(*on_values(func, inputs, bool(masked)), **kwargs)

    return with_sparse


class _LegacyType(type):
    """The types of old: ``torch.sparse.FloatTensor(indices, values, size)``."""

    dtype: Any

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 or all(isinstance(a, int) for a in args):
            size = args[0] if args and not isinstance(args[0], int) else args
            return _construct.sparse_coo_tensor(tuple(size), dtype=cls.dtype)
        return _construct.sparse_coo_tensor(*args, dtype=cls.dtype, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        return _is_sparse(instance) and instance.dtype is cls.dtype  # type: ignore[attr-defined]


def __getattr__(name: str) -> Any:
    from rushlight._tensor import _LEGACY

    dtype = _LEGACY.get(name.removesuffix("Tensor")) if name.endswith("Tensor") else None
    if dtype is None:
        from rushlight._missing import MissingAttribute

        raise MissingAttribute("rushlight.sparse", name)
    doc = f"Deprecated: sparse_coo_tensor with dtype={dtype}."
    made = _LegacyType(name, (), {"dtype": dtype, "__doc__": doc, "__module__": __name__})
    globals()[name] = made
    return made
