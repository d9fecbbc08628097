"""Making sparse tensors of their parts, and what parts must be like.

The ranges of indices are checked, since an index out of range would silently name another element;
``check_invariants=True`` checks the order of compressed indices as well, ``False`` nothing.
"""

from __future__ import annotations

from math import prod

from rushlight import _C
from rushlight._C import Tensor
from rushlight._layout import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from rushlight._sparse.convert import empty
from rushlight._sparse.pattern import BLOCKED, BY_ROW, Pattern, ascending, keys
from rushlight._structured.base import wrap

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

_ops = _C._namespaces[""]

enabled: list[bool | None] = [None]  # what check_sparse_tensor_invariants says


def _checks(given: bool | None) -> bool | None:
    return enabled[0] if given is None else given


def _as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    if isinstance(data, Tensor):
        return data.to(device=device, dtype=dtype)
    return _C._tensor(data, dtype, device, False)


def _finish(values: Tensor, pattern: Pattern, requires_grad: bool) -> Any:
    if requires_grad:
        if not (values.is_floating_point() or values.is_complex()):
            raise RuntimeError(
                "Only Tensors of floating point and complex dtype can require gradients"
            )
        return pattern.make(values.detach()).requires_grad_()
    return wrap(values, pattern)


def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Any:
    """A sparse tensor of coordinates (COO): `values[k]` at the place ``indices[:, k]``.

    Values of one place are added up. Values may have dimensions of their own, which then are the
    last, dense, dimensions of the tensor.

    >>> import rushlight as torch
    >>> s = torch.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
    >>> s
    tensor(indices=tensor([[0, 1],
                           [2, 0]]),
           values=tensor([3., 4.]),
           size=(2, 3), nnz=2, layout=torch.sparse_coo)
    >>> s.to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 0.]])
    """
    if values is None and size is None and indices is not None:
        indices, size = None, indices  # sparse_coo_tensor(size)
    if indices is None:
        made = empty(tuple(size), dtype or _C.get_default_dtype(), sparse_coo, device=device)
        return made.requires_grad_() if requires_grad else made
    data = _as_tensor(values, dtype, device)
    where = _as_tensor(indices, None, data.device)
    if not isinstance(indices, Tensor) and where.numel() == 0:
        where = where.long()
    where = where.detach().to(_C.int64)
    if where.dim() != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(where.shape)}")
    if data.dim() == 0:
        data = data.unsqueeze(0)
    sparse, nnz = where.shape
    if data.shape[0] != nnz:
        raise RuntimeError(
            "indices and values must have same nnz, but got nnz from indices: "
            f"{nnz}, nnz from values: {data.shape[0]}"
        )
    dense = tuple(data.shape[1:])
    size = _inferred(where, dense) if size is None else tuple(int(n) for n in size)
    if len(size) != sparse + len(dense):
        raise RuntimeError(
            "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = "
            f"{len(size)}, sparse_dim = {sparse}, dense_dim = {len(dense)}"
        )
    if size[sparse:] != dense:
        raise RuntimeError(
            f"values has incorrect size, expected {[nnz, *size[sparse:]]}, got {list(data.shape)}"
        )
    if _checks(check_invariants) is not False and not where.is_meta:
        _check_range(where, size)
    pattern = Pattern.coo(where, size, len(dense))
    if is_coalesced:
        checked = _checks(check_invariants) and not where.is_meta
        if checked and not ascending(keys(where, size[:sparse])):
            raise RuntimeError(
                "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor"
            )
        pattern.coalesced = True
    return _finish(data, pattern, requires_grad)


def _inferred(indices: Tensor, dense: tuple[int, ...]) -> tuple[int, ...]:
    if indices.shape[1] == 0:
        return (*(0,) * indices.shape[0], *dense)
    low = indices.min(1).values.tolist()
    for dim, value in enumerate(low):
        if value < 0:
            raise RuntimeError(f"found negative index {value} for dim {dim}")
    return (*(n + 1 for n in indices.max(1).values.tolist()), *dense)


def _check_range(indices: Tensor, size: tuple[int, ...]) -> None:
    if indices.shape[1] == 0:
        return
    low, high = indices.min(1).values.tolist(), indices.max(1).values.tolist()
    for dim, (least, most) in enumerate(zip(low, high, strict=True)):
        if least < 0:
            raise RuntimeError(f"found negative index {least} for dim {dim}")
        if most >= size[dim]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {dim}, size is {size[dim]} but found "
                f"index {most}"
            )


_LAYOUTS = {
    sparse_csr: ("crow_indices", "col_indices", "nrows", "ncols", "row"),
    sparse_csc: ("ccol_indices", "row_indices", "ncols", "nrows", "column"),
    sparse_bsr: ("crow_indices", "col_indices", "nrowblocks", "ncolblocks", "row block"),
    sparse_bsc: ("ccol_indices", "row_indices", "ncolblocks", "nrowblocks", "column block"),
}


def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Any:
    """A sparse tensor in a compressed layout: CSR, CSC, BSR or BSC.

    >>> import rushlight as torch
    >>> parts = ([0, 1, 2], [1, 0], [5.0, 6.0])
    >>> torch.sparse_compressed_tensor(*parts, layout=torch.sparse_csc).to_dense()
    tensor([[0., 6.],
            [5., 0.]])
    """
    if layout not in _LAYOUTS:
        shown = "none" if layout is None else {"sparse_coo": "Sparse"}.get(layout._name, "Strided")
        raise RuntimeError(
            f"sparse_compressed_tensor expected sparse compressed tensor layout but got {shown}"
        )
    names = _LAYOUTS[layout]
    data = _as_tensor(values, dtype, device)
    given = [_as_tensor(p, None, data.device) for p in (compressed_indices, plain_indices)]
    compressed, plain = (
        p.long() if not isinstance(a, Tensor) and p.numel() == 0 else p
        for a, p in zip((compressed_indices, plain_indices), given, strict=True)
    )
    _check_dtypes(compressed, plain, names)
    inner = 2 if layout in BLOCKED else 0
    batch = compressed.dim() - 1
    if batch < 0 or plain.dim() != compressed.dim():
        raise RuntimeError(
            f"{names[0]} and {names[1]} dimensionalities must be equal but got "
            f"{compressed.dim()} and {plain.dim()}, respectively"
        )
    if data.dim() < batch + inner + 1:
        raise RuntimeError(
            "values must have dimensionality > sum of batch and block dimensionalities (="
            f"{batch} + {inner}) but got {data.dim()}"
        )
    dense = data.dim() - batch - inner - 1
    blocks = tuple(data.shape[batch + 1 : batch + 3]) if inner else None
    if size is None:
        size = _compressed_size(compressed, plain, data, layout, batch, blocks, dense)
    size = tuple(int(n) for n in size)
    if len(size) != batch + 2 + dense:
        raise RuntimeError(
            "tensor dimensionality must be sum of batch, base, and dense dimensionalities (="
            f"{batch} + 2 + {dense}) but got {len(size)}"
        )
    pattern = Pattern(
        layout,
        size,
        (compressed.detach(), plain.detach()),
        dense,
        blocks=blocks,  # type: ignore[arg-type]
    )
    if _checks(check_invariants) is not False:
        _check_compressed(pattern, data, names, bool(_checks(check_invariants)))
    return _finish(data, pattern, requires_grad)


def _check_dtypes(compressed: Tensor, plain: Tensor, names: tuple[str, ...]) -> None:
    known = {_C.int32: "Int", _C.int64: "Long"}
    shown = [known.get(p.dtype) or _dtype_word(p.dtype) for p in (compressed, plain)]
    if compressed.dtype is not plain.dtype:
        raise RuntimeError(
            f"{names[0]} and {names[1]} must have the same dtype, bot got {shown[0]} and "
            f"{shown[1]}, respectively"
        )
    if compressed.dtype not in known:
        raise RuntimeError(
            f"{names[0]} and {names[1]} dtype must be Int or Long, but got {shown[0]}"
        )


def _dtype_word(dtype: Any) -> str:
    return str(_ops["empty"](0, dtype=dtype).type()).removeprefix("torch.").removesuffix("Tensor")


def _compressed_size(
    compressed: Tensor,
    plain: Tensor,
    data: Tensor,
    layout: Any,
    batch: int,
    blocks: Any,
    dense: int,
) -> tuple[int, ...]:
    lines = compressed.shape[-1] - 1
    others = int(plain.max()) + 1 if plain.numel() else 0
    rows, columns = (lines, others) if layout in BY_ROW else (others, lines)
    high, wide = blocks or (1, 1)
    rest = data.shape[data.dim() - dense :] if dense else ()
    return (*compressed.shape[:batch], rows * high, columns * wide, *rest)


def _check_compressed(
    pattern: Pattern, values: Tensor, names: tuple[str, ...], whole: bool
) -> None:
    begin, other, lines, others, word = names
    compressed, plain = pattern.parts
    batch = len(pattern.batch)
    rows, columns = pattern.size[batch : batch + 2]
    high, wide = pattern.blocks or (1, 1)
    for n, (size, block) in enumerate(((rows, high), (columns, wide))):
        if block == 0 or size % block:
            raise RuntimeError(
                f"tensor shape[{batch + n}] (={size}) must be divisible with blocksize[{n}] "
                f"(={block}) as defined by values shape"
            )
    across = (rows // high, columns // wide)
    count, width = across if pattern.by_row else across[::-1]
    nnz = values.shape[batch]
    if compressed.shape[-1] != count + 1:
        raise RuntimeError(
            f"{begin}.shape[-1] must be equal to the number of {word}s + 1 (={count + 1}), but got "
            f"{compressed.shape[-1]}"
        )
    if plain.shape[-1] != nnz:
        raise RuntimeError(
            f"{other}.shape[-1] must be equal to nnz (={nnz}) as defined by values.shape[{batch}], "
            f"but got {plain.shape[-1]}"
        )
    shape = tuple(pattern.size[:batch])
    if (
        not tuple(compressed.shape[:-1])
        == tuple(plain.shape[:-1])
        == tuple(values.shape[:batch])
        == shape
    ):
        raise RuntimeError(
            f"all batch dimensions of {begin} (={list(compressed.shape[:-1])}), {other} "
            f"(={list(plain.shape[:-1])}), values (={list(values.shape[:batch])}) and the size "
            f"(={list(shape)}) must be equal to one another"
        )
    if tuple(values.shape[values.dim() - pattern.dense :]) != pattern.dense_size and pattern.dense:
        raise RuntimeError(
            f"values shape {list(values.shape)} does not end in the dense dimensions "
            f"{list(pattern.dense_size)} of the tensor"
        )
    if not prod(shape) or plain.is_meta:
        return

    def need(truth: Any, text: str) -> None:
        if not bool(truth):
            raise RuntimeError(f"`{text}` is not satisfied.")

    need((compressed[..., 0] == 0).all(), f"{begin}[..., 0] == 0")
    need((compressed[..., -1] == nnz).all(), f"{begin}[..., -1] == nnz")
    steps = compressed.diff(dim=-1)
    need(
        ((steps >= 0) & (steps <= max(width, 0))).all() if whole else (steps >= 0).all(),
        f"0 <= {begin}[..., 1:] - {begin}[..., :-1] <= {others}",
    )
    if nnz:
        need((plain >= 0).all() and (plain < width).all(), f"0 <= {other} < {others}")
    if whole and nnz > 1:
        line = _ops["arange"](count).repeat(prod(shape)).repeat_interleave(steps.reshape(-1).long())
        key = (line * max(width, 1) + plain.reshape(-1)).reshape(-1, nnz)
        need(
            (key[:, 1:] > key[:, :-1]).all(),
            f"{other}[..., {begin}[..., i - 1]:{begin}[..., i]] for all i = 1, ..., {lines} are "
            "sorted and distinct along the last dimension values",
        )


def _maker(layout: Any, kind: str, doc: str) -> Any:
    begin, other = _LAYOUTS[layout][:2]

    def make(first: Any, second: Any, values: Any, size: Any = None, **options: Any) -> Any:
        return sparse_compressed_tensor(first, second, values, size, layout=layout, **options)

    code = (
        f"def {kind}({begin}, {other}, values, size=None, *, dtype=None, device=None, "
        "pin_memory=False, requires_grad=False, check_invariants=None):\n"
        f"    return make({begin}, {other}, values, size, dtype=dtype, device=device, "
        "pin_memory=pin_memory, requires_grad=requires_grad, check_invariants=check_invariants)\n"
    )
    space: dict[str, Any] = {"make": make}
    exec(code, space)  # the names of the arguments are part of the function
    made = space[kind]
    made.__module__, made.__doc__ = "rushlight", doc
    return made


_EXAMPLE = """

    >>> import rushlight as torch
    >>> torch.{0}([0, 1, 2], [1, 0], {1}).to_dense()
    tensor({2})
    """
sparse_csr_tensor = _maker(
    sparse_csr, "sparse_csr_tensor",
    "A sparse matrix by rows (CSR): where each row begins, and the columns." + _EXAMPLE.format(
        "sparse_csr_tensor", "[5.0, 6.0]", "[[0., 5.],\n            [6., 0.]]"),
)  # fmt: skip
sparse_csc_tensor = _maker(
    sparse_csc, "sparse_csc_tensor",
    "A sparse matrix by columns (CSC): where each column begins, and the rows." + _EXAMPLE.format(
        "sparse_csc_tensor", "[5.0, 6.0]", "[[0., 6.],\n            [5., 0.]]"),
)  # fmt: skip
sparse_bsr_tensor = _maker(
    sparse_bsr, "sparse_bsr_tensor",
    "A sparse matrix of blocks, by rows of blocks (BSR)." + _EXAMPLE.format(
        "sparse_bsr_tensor", "[[[5.0, 6.0]], [[7.0, 8.0]]]",
        "[[0., 0., 5., 6.],\n            [7., 8., 0., 0.]]"),
)  # fmt: skip
sparse_bsc_tensor = _maker(
    sparse_bsc, "sparse_bsc_tensor",
    "A sparse matrix of blocks, by columns of blocks (BSC)." + _EXAMPLE.format(
        "sparse_bsc_tensor", "[[[5.0], [6.0]], [[7.0], [8.0]]]",
        "[[0., 7.],\n            [0., 8.],\n            [5., 0.],\n            [6., 0.]]"),
)  # fmt: skip


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Any, layout: Any = None) -> Any:
    """A sparse matrix with these rows along its diagonals.

    Column j of a row of `diagonals` lies in column j of the result; offset 0 is the main diagonal,
    positive ones lie above it.

    >>> import rushlight as torch
    >>> torch.sparse.spdiags(torch.tensor([[1.0, 2.0], [8.0, 9.0]]), torch.tensor([0, 1]),
    ...                      (2, 2)).to_dense()
    tensor([[1., 9.],
            [0., 2.]])
    """
    shape = tuple(shape)
    if len(shape) != 2:
        raise RuntimeError(f"Output shape must be 2d, got {list(shape)}")
    if layout not in (None, sparse_coo, sparse_csr, sparse_csc):
        raise RuntimeError(
            f"Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got {layout}"
        )
    rows = diagonals if diagonals.dim() == 2 else diagonals.unsqueeze(0)
    places = offsets.reshape(-1)
    if diagonals.dim() > 2:
        raise RuntimeError(f"Diagonals must be vector or matrix, got {diagonals.dim()}-D")
    if places.dtype is not _C.int64:
        raise RuntimeError(f"Offset Tensor must have dtype Long but got {places.dtype}")
    if places.unique().numel() != places.numel():
        raise RuntimeError(f"Offset tensor contains duplicate values: {places.tolist()}")
    if rows.shape[0] != places.numel():
        raise RuntimeError(
            f"Number of diagonals ({rows.shape[0]}) does not match the number of offsets "
            f"({places.numel()})"
        )
    column = _ops["arange"](min(rows.shape[1], shape[1])).expand(places.numel(), -1)
    row = column - places.unsqueeze(1)
    inside = ((row >= 0) & (row < shape[0])).reshape(-1).nonzero().reshape(-1)
    values = rows[:, : column.shape[1]].reshape(-1).index_select(0, inside)
    indices = _ops["stack"]([row.reshape(-1)[inside], column.reshape(-1)[inside]])
    made = wrap(values, Pattern.coo(indices, shape))
    return made if layout in (None, sparse_coo) else made.to_sparse(layout=layout)
