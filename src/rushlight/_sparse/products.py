"""Products with sparse matrices.

A product with an ordinary matrix is the op ``_spmm`` on the places and values of the entries; a
product of two sparse matrices is written as a list of pairs of entries that meet.
"""

from __future__ import annotations

from math import prod

from rushlight import _C
from rushlight._C import Tensor
from rushlight._layout import sparse_coo, sparse_csc, sparse_csr
from rushlight._sparse.convert import in_layout_of, line_begins
from rushlight._sparse.pattern import Pattern, coordinates_of, no_grad, places, with_dense
from rushlight._sparse.table import is_sparse, rule
from rushlight._structured.base import content, wrap

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

_ops = _C._namespaces[""]


class Entries:
    """A sparse matrix as the ops of products want it."""

    __slots__ = ("columns", "compressed", "rows", "size", "transposed", "values")

    def __init__(self, x: Any) -> None:
        pattern: Pattern = x._pattern
        self.size = pattern.size
        self.transposed = self.compressed = False
        if pattern.layout is sparse_coo and not pattern.dense:
            self.rows, self.columns = pattern.lines()
            self.values = content(x)
            return
        self.compressed = pattern.layout in (sparse_csr, sparse_csc) and not pattern.batch
        if self.compressed and not pattern.dense:
            self.rows, self.columns = pattern.parts
            self.values = content(x)
            self.transposed = pattern.layout is sparse_csc
            return
        self.compressed = False
        pattern, forth, _ = pattern.coordinates()
        values = forth(content(x))
        if pattern.dense:
            pattern, values = with_dense(pattern, values, 0)
        self.rows, self.columns = pattern.lines()
        self.values = values

    def times(self, dense: Tensor, adjoint: bool = False) -> Tensor:
        """The matrix times an ordinary one; of the transposed matrix where `adjoint`."""
        size = self.size[1] if adjoint else self.size[0]
        flipped = self.transposed is not adjoint
        return _ops["_spmm"](
            self.rows, self.columns, self.values, dense, size, self.compressed, flipped
        )


def _check_matrix(name: str, x: Any, what: str) -> None:
    if x.dim() != 2:
        raise RuntimeError(f"{name}: {what} must be a matrix, got {x.dim()}-D tensor")


def _check_inner(a: Any, b: Any) -> None:
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            "mat1 and mat2 shapes cannot be multiplied "
            f"({a.shape[0]}x{a.shape[1]} and {b.shape[0]}x{b.shape[1]})"
        )


def _check_dtypes(a: Any, b: Any) -> None:
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {a.dtype} != {b.dtype}"
        )


@rule("mm", "_sparse_mm", "smm_dense", "dsmm", "spmm")
def mm(input: Any, mat2: Any) -> Any:
    a, b = input.shape, mat2.shape
    if len(a) != 2 or len(b) != 2 or a[1] != b[0] or input.dtype is not mat2.dtype:
        _check_matrix("mm", input, "mat1")
        _check_matrix("mm", mat2, "mat2")
        _check_inner(input, mat2)
        _check_dtypes(input, mat2)
    if is_sparse(input):
        return _of_two(input, mat2) if is_sparse(mat2) else Entries(input).times(mat2)
    return Entries(mat2).times(input.t(), adjoint=True).t()


def _of_two(a: Any, b: Any) -> Any:
    """The product of two sparse matrices, which is sparse."""
    (p, u), (q, v) = coordinates_of(a, 0), coordinates_of(b, 0)
    with no_grad():
        begins = line_begins(q.indices[0], b.shape[0])
        column = p.indices[1]
        first = begins[column]
        counts = begins[column + 1] - first
        left = _ops["arange"](p.nnz).repeat_interleave(counts)
        before = counts.cumsum(0) - counts
        right = _ops["arange"](left.numel()) - (before - first)[left]
        size = (a.shape[0], b.shape[1])
        key = p.indices[0][left] * size[1] + q.indices[1][right]
        unique, inverse = _ops["unique"](key, return_inverse=True)
        found = Pattern.coo(places(unique, size), size, 0, True)
    terms = u.index_select(0, left) * v.index_select(0, right)
    zeros = _ops["zeros"]((found.nnz,), dtype=terms.dtype)
    return in_layout_of(a, found, zeros.index_add(0, inverse, terms))


@rule("mv")
def mv(input: Any, vec: Any) -> Tensor:
    if is_sparse(vec):
        vec = vec.to_dense()
    _check_matrix("mv", input, "input")
    if vec.dim() != 1 or input.shape[1] != vec.shape[0]:
        raise RuntimeError(
            f"size mismatch, got input ({input.shape[0]}), mat "
            f"({input.shape[0]}x{input.shape[1]}), vec ({vec.numel()})"
        )
    _check_dtypes(input, vec)
    if not is_sparse(input):
        return input.mv(vec)
    return Entries(input).times(vec.unsqueeze(1)).squeeze(1)


@rule("bmm")
def bmm(input: Any, mat2: Any) -> Any:
    if input.dim() != 3 or mat2.dim() != 3:
        raise RuntimeError("batch1 must be a 3D tensor" if input.dim() != 3 else
                           "batch2 must be a 3D tensor")  # fmt: skip
    batch, rows, inner = input.shape
    if mat2.shape[0] != batch or mat2.shape[1] != inner:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{batch}, {inner}] "
            f"but got: [{mat2.shape[0]}, {mat2.shape[1]}]."
        )
    _check_dtypes(input, mat2)
    if is_sparse(input) and is_sparse(mat2):
        from rushlight._sparse.shapes import stack

        return stack([mm(a, b) for a, b in zip(input, mat2, strict=True)])
    if not is_sparse(input):
        return bmm(mat2.transpose(1, 2), input.transpose(1, 2)).transpose(1, 2)
    pattern, values = coordinates_of(input, 0)
    which, row, column = pattern.indices
    wide = mat2.reshape(batch * inner, mat2.shape[2])
    out = _ops["_spmm"](
        which * rows + row, which * inner + column, values, wide, batch * rows, False, False
    )
    return out.reshape(batch, rows, mat2.shape[2])


@rule("matmul", "__matmul__")
def matmul(input: Any, other: Any) -> Any:
    dims = input.dim(), other.dim()
    if dims == (2, 2):
        return mm(input, other)
    if dims == (2, 1):
        return mv(input, other)
    if dims == (1, 2):
        return mv(other.t(), input)
    if dims == (1, 1):
        return (input * other).sum()
    if dims == (3, 3):
        return bmm(input, other)
    if is_sparse(other) and not is_sparse(input) and dims[1] == 2:
        flat = mm(input.reshape(-1, input.shape[-1]), other)
        return flat.reshape(*input.shape[:-1], other.shape[1])
    if is_sparse(input) and dims[0] == 2 and not is_sparse(other):
        batch, inner, width = other.shape[:-2], other.shape[-2], other.shape[-1]
        many = prod(batch)
        flat = other.reshape(many, inner, width).permute(1, 0, 2).reshape(inner, many * width)
        out = mm(input, flat).reshape(input.shape[0], many, width).permute(1, 0, 2)
        return out.reshape(*batch, input.shape[0], width)
    raise RuntimeError(
        f"matmul: a sparse product is not defined for tensors of {dims[0]} and {dims[1]} dimensions"
    )


@rule("__rmatmul__")
def rmatmul(input: Any, other: Any) -> Any:
    return matmul(other, input)


@rule("addmm", "_sparse_addmm", "saddmm")
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    _check_matrix("addmm", mat1, "mat1")
    _check_matrix("addmm", mat2, "mat2")
    _check_inner(mat1, mat2)
    if is_sparse(input) and not (is_sparse(mat1) and is_sparse(mat2)):
        if is_sparse(mat1) or is_sparse(mat2) or input._pattern.is_coo:
            raise RuntimeError(
                "addmm_sparse_dense: expected strided result tensor, got tensor with layout "
                f"{input.layout}"
            )
        return (input.to_dense() * beta + mat1.mm(mat2) * alpha).to_sparse(layout=input.layout)
    product = mm(mat1, mat2) if is_sparse(mat1) or is_sparse(mat2) else mat1.mm(mat2)
    if alpha != 1:
        product = product * alpha
    if is_sparse(product) and not is_sparse(input):
        product = product.to_dense()
    if not is_sparse(input):
        if beta == 0:
            return product
        shape = (mat1.shape[0], mat2.shape[1])
        input = input.expand(shape)
    return (input * beta if beta != 1 else input) + product


@rule("addmv")
def addmv(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    product = mv(mat, vec)
    product = product * alpha if alpha != 1 else product
    return product if beta == 0 else (input * beta if beta != 1 else input) + product


@rule("linear")
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    out = matmul(input, weight.t())
    return out if bias is None else out + bias


@rule("smm")
def smm(input: Any, mat: Any) -> Any:
    """A sparse matrix times an ordinary one, as a sparse tensor."""
    if not is_sparse(input):
        raise RuntimeError("smm: expected a sparse first matrix, got an ordinary tensor; use mm")
    return mm(input, mat).to_sparse()


@rule("sspaddmm")
def sspaddmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return (input * beta if beta != 1 else input) + (mm(mat1, mat2) * alpha).to_sparse()


@rule("hspmm")
def hspmm(mat1: Any, mat2: Any) -> Any:
    """The product as a hybrid tensor: the rows of the result in which something can lie."""
    _check_inner(mat1, mat2)
    pattern, values = coordinates_of(mat1, 0)
    with no_grad():
        rows, inverse = _ops["unique"](pattern.indices[0], return_inverse=True)
    out = _ops["_spmm"](inverse, pattern.indices[1], values, mat2, rows.numel(), False, False)
    size = (mat1.shape[0], mat2.shape[1])
    return wrap(out, Pattern.coo(rows.unsqueeze(0), size, 1, True))


def reduced(a: Any, b: Tensor, reduce: str) -> Tensor:
    """``sparse.mm(a, b, reduce)``: for each element the mean, least or greatest of the terms."""
    if not is_sparse(a) or a.layout not in (sparse_csr, sparse_coo):
        raise RuntimeError(
            f"sparse.mm: reduce={reduce!r} expects a first matrix in CSR, got {a.layout}"
        )
    if reduce == "sum":
        return mm(a, b)
    kinds = {"mean": "mean", "amax": "amax", "amin": "amin"}
    if reduce not in kinds:
        raise RuntimeError(f"reduce argument must be either sum, mean, amax or amin, got {reduce}")
    _check_inner(a, b)
    pattern, values = coordinates_of(a, 0)
    terms = values.unsqueeze(1) * b.index_select(0, pattern.indices[1])
    index = pattern.indices[0].unsqueeze(1).expand(terms.shape)
    out = _ops["zeros"]((a.shape[0], b.shape[1]), dtype=terms.dtype)
    return out.scatter_reduce(0, index, terms, kinds[reduce], include_self=False)


def sampled_addmm(input: Any, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """``alpha * (mat1 @ mat2)`` at the places of `input`, plus ``beta * input``."""
    if not is_sparse(input) or input.layout not in (sparse_csr,):
        layout = getattr(input, "layout", None)
        raise RuntimeError(f"Expected self to have sparse csr layout, but got {layout}")
    if is_sparse(mat1) or is_sparse(mat2):
        raise RuntimeError("sampled_addmm: Expected mat1 and mat2 to have strided layout")
    if mat1.shape[-1] != mat2.shape[-2]:
        raise RuntimeError(
            "mat1 and mat2 shapes cannot be multiplied "
            f"({mat1.shape[-2]}x{mat1.shape[-1]} and {mat2.shape[-2]}x{mat2.shape[-1]})"
        )
    if mat1.shape[-2] != input.shape[-2] or mat2.shape[-1] != input.shape[-1]:
        raise RuntimeError(
            f"self.shape[-2] and self.shape[-1] {list(input.shape[-2:])} must match the product of "
            f"shape {[mat1.shape[-2], mat2.shape[-1]]}"
        )
    if mat1.dtype is not mat2.dtype or mat1.dtype is not input.dtype:
        raise RuntimeError(
            f"Expected mat1 and mat2 to have the same dtype as self, got {input.dtype}, "
            f"{mat1.dtype} and {mat2.dtype}"
        )
    pattern: Pattern = input._pattern
    if pattern.batch:
        coo, _, back = pattern.coordinates()
        batch, (rows, columns) = pattern.batch, input.shape[-2:]
        from rushlight._sparse.pattern import keys

        which = keys(coo.indices[:-2], batch)
        left = mat1.expand(*batch, *mat1.shape[-2:]).reshape(-1, mat1.shape[-1])
        right = mat2.mT.expand(*batch, *mat2.mT.shape[-2:]).reshape(-1, mat2.shape[-2])
        found = back(
            _ops["_sddmm"](
                which * rows + coo.indices[-2], which * columns + coo.indices[-1],
                left, right, False,
            )
        )  # fmt: skip
    else:
        found = _ops["_sddmm"](*pattern.parts, mat1, mat2.t(), True)
    if alpha != 1:
        found = found * alpha
    if beta != 0:
        found = found + (content(input) * beta if beta != 1 else content(input))
    return wrap(found, pattern)


def spsolve(input: Any, other: Tensor, *, left: bool = True) -> Tensor:
    """The x of ``input @ x = other``. Written out, it is solved as an ordinary matrix."""
    if not is_sparse(input):
        raise RuntimeError("spsolve: expected a sparse matrix on the left")
    _check_matrix("spsolve", input, "the first argument")
    dense = input.to_dense()
    return _C._namespaces["linalg"]["solve"](dense, other, left=left)
