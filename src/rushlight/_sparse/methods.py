"""Methods and functions of tensors that concern sparse ones, for ordinary tensors too."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor
from rushlight._layout import sparse_bsc, sparse_bsr, sparse_csc, sparse_csr
from rushlight._sparse import products
from rushlight._sparse.convert import to_sparse as to_sparse
from rushlight._sparse.table import is_sparse
from rushlight._sparse.tensor import sparse_mask as sparse_mask

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

_ops = _C._namespaces[""]

to_sparse_coo = _to_sparse = to_sparse


def to_sparse_csr(self: Any, dense_dim: int | None = None) -> Any:
    return to_sparse(self, layout=sparse_csr, dense_dim=dense_dim)


def to_sparse_csc(self: Any, dense_dim: int | None = None) -> Any:
    return to_sparse(self, layout=sparse_csc, dense_dim=dense_dim)


def to_sparse_bsr(self: Any, blocksize: Any, dense_dim: int | None = None) -> Any:
    return to_sparse(self, layout=sparse_bsr, blocksize=blocksize, dense_dim=dense_dim)


def to_sparse_bsc(self: Any, blocksize: Any, dense_dim: int | None = None) -> Any:
    return to_sparse(self, layout=sparse_bsc, blocksize=blocksize, dense_dim=dense_dim)


def to_dense(self: Any, dtype: Any = None, *, masked_grad: Any = None) -> Tensor:
    return self if dtype is None else self.to(dtype)


def sparse_dim(self: Any) -> int:
    return 0


def dense_dim(self: Any) -> int:
    return int(self.dim())


def _expects(name: str, what: str) -> Any:
    def method(self: Any, *args: Any) -> Any:
        raise RuntimeError(f"{name} expected {what} tensor layout but got Strided")

    return method


coalesce = _expects("coalesce", "sparse coordinate")
is_coalesced = _expects("is_coalesced", "sparse coordinate")
indices = _expects("indices", "sparse coordinate")
values = _expects("values", "sparse")
crow_indices = _expects("crow_indices", "sparse row compressed")
col_indices = _expects("col_indices", "sparse row compressed")
ccol_indices = _expects("ccol_indices", "sparse column compressed")
row_indices = _expects("row_indices", "sparse column compressed")
sparse_resize_ = _expects("sparse_resize_", "sparse coordinate")
sparse_resize_and_clear_ = _expects("sparse_resize_and_clear_", "sparse coordinate")


def _absent(name: str) -> Any:
    def method(self: Any, *args: Any) -> Any:
        raise NotImplementedError(
            f"Could not run 'aten::{name}' with arguments from the 'CPU' backend: it is for "
            "sparse tensors. Fix: x.to_sparse()"
        )

    return method


_nnz, _indices, _values = _absent("_nnz"), _absent("_indices"), _absent("_values")
_dimI, _dimV = sparse_dim, dense_dim
_coalesced_ = _absent("_coalesced_")


def smm(input: Any, mat: Any) -> Any:
    """The product of a sparse and an ordinary matrix, as a sparse tensor.

    >>> import rushlight as torch
    >>> torch.smm(torch.eye(2).to_sparse(), torch.ones(2, 1))
    tensor(indices=tensor([[0, 1],
                           [0, 0]]),
           values=tensor([1., 1.]),
           size=(2, 1), nnz=2, layout=torch.sparse_coo)
    """
    return products.smm(input, mat)


def sspaddmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """``beta * input + alpha * (mat1 @ mat2)`` of sparse input and mat1, as a sparse tensor.

    >>> import rushlight as torch
    >>> eye = torch.eye(2).to_sparse()
    >>> torch.sspaddmm(eye, eye, torch.ones(2, 2)).to_dense()
    tensor([[2., 1.],
            [1., 2.]])
    """
    return products.sspaddmm(input, mat1, mat2, beta=beta, alpha=alpha)


def hspmm(mat1: Any, mat2: Any, *, out: Any = None) -> Any:
    """The product of a sparse and an ordinary matrix, as a hybrid tensor of rows.

    >>> import rushlight as torch
    >>> torch.hspmm(torch.tensor([[0.0, 0.0], [2.0, 0.0]]).to_sparse(), torch.ones(2, 3))
    tensor(indices=tensor([[1]]),
           values=tensor([[2., 2., 2.]]),
           size=(2, 3), nnz=1, layout=torch.sparse_coo)
    """
    return products.hspmm(mat1, mat2)


def saddmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """``beta * input + alpha * (mat1 @ mat2)`` of a sparse mat1.

    >>> import rushlight as torch
    >>> torch.saddmm(torch.ones(1, 1), torch.ones(1, 1).to_sparse(), torch.ones(1, 1))
    tensor([[2.]])
    """
    return products.addmm(input, mat1, mat2, beta=beta, alpha=alpha)


def spmm(mat1: Any, mat2: Any) -> Any:
    """The product of a sparse and an ordinary matrix.

    >>> import rushlight as torch
    >>> torch.spmm(torch.eye(2).to_sparse(), torch.ones(2, 1))
    tensor([[1.],
            [1.]])
    """
    return products.mm(mat1, mat2) if is_sparse(mat1) or is_sparse(mat2) else mat1.mm(mat2)


dsmm = spmm


def hsmm(mat1: Any, mat2: Any) -> Any:
    """The product of a sparse and an ordinary matrix, as a hybrid tensor of rows.

    >>> import rushlight as torch
    >>> torch.hsmm(torch.eye(2).to_sparse(), torch.ones(2, 1)).to_dense()
    tensor([[1.],
            [1.]])
    """
    return products.hspmm(mat1, mat2)


def resize_as_sparse_(input: Any, the_template: Any, *, memory_format: Any = None) -> Any:
    """Gives a sparse tensor the size and dimensions of another.

    >>> import rushlight as torch
    >>> torch.resize_as_sparse_(torch.eye(2).to_sparse(), torch.eye(3).to_sparse()).shape
    torch.Size([3, 3])
    """
    if not is_sparse(input) or not is_sparse(the_template):
        raise RuntimeError("resize_as_sparse_: self and src must be sparse tensors")
    return input.resize_as_sparse_(the_template)


def _copier(name: str) -> Any:
    def copy(input: Any) -> Tensor:
        return getattr(input, name)().clone()

    layout = "csc" if name in ("ccol_indices", "row_indices") else "csr"
    layout = "" if name in ("indices", "values") else "_" + layout
    shown = {
        "indices": "tensor([[0, 1],\n            [0, 1]])",
        "values": "tensor([1., 1.])",
    }.get(name, "tensor([0, 1])" if name in ("row_indices", "col_indices") else "tensor([0, 1, 2])")
    copy.__name__ = copy.__qualname__ = f"{name}_copy"
    copy.__module__ = "rushlight"
    copy.__doc__ = f"""A copy of ``input.{name}()``.

    >>> import rushlight as torch
    >>> torch.{name}_copy(torch.eye(2).to_sparse{layout}())
    {shown}
    """
    return copy


indices_copy, values_copy = _copier("indices"), _copier("values")
crow_indices_copy, col_indices_copy = _copier("crow_indices"), _copier("col_indices")
ccol_indices_copy, row_indices_copy = _copier("ccol_indices"), _copier("row_indices")
