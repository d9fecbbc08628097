"""The class of sparse tensors, of every layout."""

from __future__ import annotations

from math import prod

from rushlight import _C
from rushlight._C import Tensor
from rushlight._layout import sparse_csr
from rushlight._sparse import convert
from rushlight._sparse.pattern import Pattern, keys, merge
from rushlight._structured.base import Structured, content, overwrite, stand_in, wrap

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

_ops = _C._namespaces[""]

_LAYOUTS = {
    "sparse_coo": "Sparse", "sparse_csr": "SparseCsr", "sparse_csc": "SparseCsc",
    "sparse_bsr": "SparseBsr", "sparse_bsc": "SparseBsc",
}  # fmt: skip


def layout_name(x: Any) -> str:
    """What errors call the layout of a tensor."""
    return _LAYOUTS.get(x.layout._name, "Strided")


class SparseTensor(Structured):
    """A tensor of which only some elements are stored; see ``torch.sparse_coo_tensor``."""

    _pattern: Pattern
    _kind = "Sparse"
    _words = "sparse tensors"
    _plain = "to_dense"

    def _recipe(self) -> Pattern:
        return self._pattern

    def _take(self, other: Any) -> None:
        if other.layout is not self.layout:
            raise RuntimeError(
                f"a tensor of layout {self.layout} cannot take the elements of one of layout "
                f"{other.layout}"
            )
        self._pattern, self._raw = other._pattern, other._raw

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        from rushlight._sparse.printing import sparse_repr

        return sparse_repr(self)

    def __format__(self, spec: str) -> str:
        return object.__format__(self, spec)

    def __hash__(self) -> int:
        return id(self)

    def __len__(self) -> int:
        if self.dim() == 0:
            raise TypeError("len() of a 0-d tensor")
        return int(self.shape[0])

    def __iter__(self) -> Any:
        return iter(self.unbind())

    @property
    def layout(self) -> Any:
        return self._pattern.layout

    @property
    def is_sparse(self) -> bool:
        return self._pattern.is_coo

    @property
    def is_sparse_csr(self) -> bool:
        return self._pattern.layout is sparse_csr

    # -- parts -------------------------------------------------------------------------------------

    def _nnz(self) -> int:
        return self._pattern.nnz

    def _indices(self) -> Tensor:
        return self._of_coo("_indices")._pattern.indices

    def _values(self) -> Tensor:
        return self._of_coo("_values")._raw

    def indices(self) -> Tensor:
        return self._of_coalesced("indices")._pattern.indices

    def values(self) -> Tensor:
        if self._pattern.is_coo:
            self._of_coalesced("values")
        return content(self)

    def crow_indices(self) -> Tensor:
        return self._compressed("crow_indices", "row", True)[0]

    def col_indices(self) -> Tensor:
        return self._compressed("col_indices", "row", True)[1]

    def ccol_indices(self) -> Tensor:
        return self._compressed("ccol_indices", "column", False)[0]

    def row_indices(self) -> Tensor:
        return self._compressed("row_indices", "column", False)[1]

    def sparse_dim(self) -> int:
        return self._pattern.sparse

    def dense_dim(self) -> int:
        return self._pattern.dense

    _dimI, _dimV = sparse_dim, dense_dim

    def is_coalesced(self) -> bool:
        if not self._pattern.is_coo:
            raise RuntimeError(
                f"is_coalesced expected sparse coordinate tensor layout but got {layout_name(self)}"
            )
        return self._pattern.coalesced

    def _coalesced_(self, coalesced: bool) -> Any:
        old = self._pattern
        self._pattern = Pattern(old.layout, old.size, old.parts, old.dense, coalesced)
        return self

    def coalesce(self) -> Any:
        pattern = self._pattern
        if not pattern.is_coo:
            raise RuntimeError(
                f"coalesce expected sparse coordinate tensor layout but got {layout_name(self)}"
            )
        if pattern.coalesced:
            return self
        merged, values = merge(pattern, content(self))
        return wrap(values, merged)

    def _of_coo(self, name: str) -> Any:
        if not self._pattern.is_coo:
            raise RuntimeError(
                f"{name} expected sparse coordinate tensor layout but got {layout_name(self)}"
            )
        return self

    def _of_coalesced(self, name: str) -> Any:
        self._of_coo(name)
        if not self._pattern.coalesced:
            raise RuntimeError(
                f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first"
            )
        return self

    def _compressed(self, name: str, what: str, by_row: bool) -> tuple[Tensor, ...]:
        if self._pattern.is_coo or self._pattern.by_row is not by_row:
            raise RuntimeError(
                f"{name} expected sparse {what} compressed tensor layout but got "
                f"{layout_name(self)}"
            )
        return self._pattern.parts

    # -- conversions -------------------------------------------------------------------------------

    def to_dense(self, dtype: Any = None, *, masked_grad: Any = None) -> Tensor:
        x = self if dtype is None else self.to(dtype)
        pattern, forth, _ = x._pattern.coordinates()
        values = forth(content(x))
        flat = _ops["zeros"]((prod(pattern.sparse_size), *pattern.dense_size), dtype=values.dtype)
        flat = flat.index_add(0, keys(pattern.indices, pattern.sparse_size), values)
        return flat.reshape(pattern.size)

    def _to_dense(self) -> Tensor:
        return self.to_dense()

    def to_sparse(
        self, sparse_dim: Any = None, *, layout: Any = None, blocksize: Any = None,
        dense_dim: Any = None,
    ) -> Any:  # fmt: skip
        return convert.to_sparse(
            self, sparse_dim, layout=layout, blocksize=blocksize, dense_dim=dense_dim
        )

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        if dtype is not None:
            return self.to(dtype)
        name = Tensor.type(self._raw).removeprefix("torch.")
        return f"torch.sparse.{name}" if self._pattern.is_coo else f"torch.sparse_csr.{name}"

    # -- in place ----------------------------------------------------------------------------------

    def zero_(self) -> Any:
        return overwrite(self, convert.empty_like(self))

    def copy_(self, src: Any, non_blocking: bool = False) -> Any:
        if tuple(src.shape) != tuple(self.shape):
            raise RuntimeError(
                f"copy_: expected a tensor of size {list(self.shape)}, got {list(src.shape)}"
            )
        if not isinstance(src, SparseTensor):
            raise RuntimeError(
                "copy_() between dense and sparse Tensors is not implemented! Found self type = "
                f"{self.type()} and src type = {src.type()}"
            )
        return overwrite(self, src.to(self.dtype).to_sparse(layout=self.layout).clone())

    def sparse_resize_(self, size: Any, sparse_dim: int, dense_dim: int) -> Any:
        return self._resized(size, sparse_dim, dense_dim, clear=False)

    def sparse_resize_and_clear_(self, size: Any, sparse_dim: int, dense_dim: int) -> Any:
        return self._resized(size, sparse_dim, dense_dim, clear=True)

    def _resized(self, size: Any, sparse_dim: int, dense_dim: int, clear: bool) -> Any:
        size = tuple(size)
        old, values = self._of_coo("sparse_resize_")._pattern, self._raw
        if sparse_dim + dense_dim != len(size):
            raise RuntimeError(
                "number of dimensions must be sparse_dim "
                f"({sparse_dim}) + dense_dim ({dense_dim}), but got {len(size)}"
            )
        if clear:
            indices = _ops["zeros"]((sparse_dim, 0), dtype=_C.int64)
            values = values.new_zeros((0, *size[sparse_dim:]))
        else:
            if old.nnz and (sparse_dim, dense_dim) != (old.sparse, old.dense):
                raise RuntimeError(
                    f"changing the number of sparse dimensions (from {old.sparse} to {sparse_dim}) "
                    "on a non-empty sparse tensor is not supported. If you need to do this, "
                    "construct a new sparse tensor"
                )
            if old.nnz and any(n < o for n, o in zip(size, old.size, strict=True)):
                raise RuntimeError(
                    "shrinking the size of sparse dimensions "
                    f"(from {list(old.size)} to {list(size)}) on a non-empty sparse tensor is not "
                    "supported. If you need to do this, construct a new sparse tensor"
                )
            indices = old.indices if old.nnz else _ops["zeros"]((sparse_dim, 0), dtype=_C.int64)
            grown = values.new_zeros((old.nnz if old.nnz else 0, *size[sparse_dim:]))
            if old.nnz:
                grown[tuple(slice(0, n) for n in values.shape)] = values
            values = grown
        pattern = Pattern.coo(indices, size, dense_dim, old.coalesced and not clear)
        self.swap_size(pattern.make(values))
        return self

    def swap_size(self, other: Any) -> None:
        """Becomes `other`, of another shape."""
        Tensor.set_(self, stand_in(SparseTensor, other.size(), other.dtype, device=other.device))
        self._pattern, self._raw = other._pattern, other._raw

    def _turned(self, name: str, result: Any) -> Any:
        """Becomes `result`, which has other sizes."""
        if not self._pattern.is_coo:
            raise RuntimeError(
                f"torch.{name}: in-place transposition is not supported for {layout_name(self)} "
                f"layout: use {name.removesuffix('_')}(), which makes another tensor"
            )
        if self.requires_grad and _C.is_grad_enabled():
            raise RuntimeError(
                f"{name}: a sparse tensor that requires grad can not be turned in place: use "
                f"{name.removesuffix('_')}(), which has a gradient"
            )
        self.swap_size(result)
        return self

    def t_(self) -> Any:
        return self._turned("t_", self.detach().t())

    def transpose_(self, dim0: int, dim1: int) -> Any:
        return self._turned("transpose_", self.detach().transpose(dim0, dim1))

    swapaxes_ = swapdims_ = transpose_  # type: ignore[assignment]

    def resize_as_sparse_(self, the_template: Any) -> Any:
        template = the_template._pattern
        return self.sparse_resize_(template.size, template.sparse, template.dense)

    # -- what the rules do as methods --------------------------------------------------------------

    def unbind(self, dim: int = 0) -> tuple[Any, ...]:
        return tuple(self.select(dim, i) for i in range(self.shape[dim]))

    def sparse_mask(self, mask: Any) -> Any:
        return sparse_mask(self, mask)

    def smm(self, mat: Any) -> Any:
        return self._rules["smm"](self, mat)

    def sspaddmm(self, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        return self._rules["sspaddmm"](self, mat1, mat2, beta=beta, alpha=alpha)

    def __matmul__(self, other: Any) -> Any:
        if not isinstance(other, Tensor):
            return NotImplemented
        return self._rules["matmul"](self, other)

    def __getitem__(self, index: Any) -> Any:
        return self._rules["__getitem__"](self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise NotImplementedError(
            "Could not run 'aten::index_put_' with arguments from the 'SparseCPU' backend: "
            "elements of a sparse tensor cannot be set. Fix: change values() or make a new tensor."
        )


def sparse_mask(x: Any, mask: Any) -> Any:
    """The elements of `x` at the places of `mask`."""
    if not isinstance(mask, SparseTensor):
        raise NotImplementedError(
            "Could not run 'aten::sparse_mask': expected a sparse mask, got an ordinary tensor"
        )
    if tuple(x.shape) != tuple(mask.shape):
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(x.shape)} but "
            f"mask has size {list(mask.shape)}"
        )
    pattern = mask._pattern
    if pattern.is_coo:
        pattern = pattern.merged()[0]
    if isinstance(x, SparseTensor):
        return wrap(pattern.pick_sparse(x), pattern)
    return wrap(pattern.pick(x), pattern)


from rushlight._sparse import rules, table  # noqa: E402  the rules name the class

SparseTensor._rules = rules.RULES
table.kind = SparseTensor
