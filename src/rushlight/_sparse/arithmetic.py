"""Pointwise ops of sparse tensors."""

from __future__ import annotations

from math import prod

from rushlight import _C
from rushlight._C import Tensor
from rushlight._sparse.convert import empty, empty_like, in_layout_of, to_sparse
from rushlight._sparse.pattern import Pattern, coordinates_of, find, keys, no_grad
from rushlight._sparse.table import is_sparse, rule
from rushlight._structured.base import content, refusal, wrap

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

_ops = _C._namespaces[""]


def _is_number(x: object) -> bool:
    """A number, or a tensor that stands for one."""
    return not isinstance(x, Tensor) or (x.dim() == 0 and not is_sparse(x))


def _check_sizes(name: str, a: Any, b: Any) -> None:
    if tuple(a.shape) != tuple(b.shape):
        raise RuntimeError(
            f"{name}: expected sizes of 'self' and 'other' to match, but "
            f"{list(a.shape)} != {list(b.shape)}"
        )


def _on_values(func: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    """The op on the values as they are: right for what is linear."""
    return wrap(func(content(x), *args, **kwargs), x._pattern)


@rule("pointwise")
def pointwise(func: Any, *args: Any, **kwargs: Any) -> Any:
    """An op that keeps zero: it is applied to the values alone."""
    sparse = [a for a in args if is_sparse(a)]
    others = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor) and not _is_number(a)]
    if len(sparse) != 1 or len(others) != 1 or args[0] is not sparse[0]:
        raise refusal(type(sparse[0]) if sparse else type(others[0]), func.__name__)
    x = sparse[0]
    with no_grad():
        zero = func(_ops["zeros"]((1,), dtype=x.dtype), *args[1:], **kwargs)
        if bool((zero != 0).any()):
            raise NotImplementedError(
                f"Could not run 'aten::{func.__name__}' with arguments from the 'SparseCPU' "
                f"backend: it makes {zero.item()} of the zeros that a sparse tensor does not "
                "store. Fix: x.to_dense() first, or apply it to x.values()."
            )
    if x._pattern.is_coo:
        pattern, values = coordinates_of(x)
    else:
        pattern, values = x._pattern, content(x)
    return wrap(func(values, *args[1:], **kwargs), pattern)


@rule("square")
def square(input: Any) -> Any:
    return pointwise(_ops["pow"], input, 2)


@rule("neg", "negative")
def neg(input: Any) -> Any:
    return _on_values(_ops["neg"], input)


@rule("conj", "conj_physical", "resolve_conj")
def conj(input: Any) -> Any:
    return _on_values(_ops["conj"], input)


@rule("positive", "resolve_neg")
def positive(input: Any) -> Any:
    return input


@rule(".real")
def real(input: Any) -> Any:
    return _on_values(_ops["real"], input)


@rule(".imag")
def imag(input: Any) -> Any:
    return _on_values(_ops["imag"], input)


@rule("add", "__radd__")
def add(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    if not is_sparse(other):
        if _is_number(other):
            raise RuntimeError(
                "add(sparse, dense) is not supported. Use add(dense, sparse) instead: a number "
                "added to every element leaves none that is zero"
            )
        return add(other if alpha == 1 else other * alpha, input)
    if alpha != 1:
        other = mul(other, alpha)
    if not is_sparse(input):
        if _is_number(input):
            input = _ops["full"](other.shape, input)
        return _dense_plus(input, other)
    _check_sizes("add", input, other)
    p, q = input._pattern, other._pattern
    if p is q:
        return wrap(content(input) + content(other), p)
    if p.is_coo and q.is_coo and not (p.coalesced and q.coalesced) and p.dense == q.dense:
        a, b = _promoted(content(input), content(other))
        indices = _ops["cat"]([p.indices, q.indices], 1)
        return wrap(_ops["cat"]([a, b]), Pattern.coo(indices, p.size, p.dense))
    dense = min(p.dense, q.dense)
    (p, a), (q, b) = coordinates_of(input, dense), coordinates_of(other, dense)
    a, b = _promoted(a, b)
    joined = Pattern.coo(_ops["cat"]([p.indices, q.indices], 1), p.size, dense)
    merged, inverse = joined.merged()
    values = _ops["cat"]([a, b])
    if inverse is not None:
        zeros = _ops["zeros"]((merged.nnz, *values.shape[1:]), dtype=values.dtype)
        values = zeros.index_add(0, inverse, values)
    return in_layout_of(input, merged, values)


def _promoted(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    dtype = _C.promote_types(a.dtype, b.dtype)
    return a.to(dtype), b.to(dtype)


def _dense_plus(dense: Tensor, other: Any) -> Tensor:
    """An ordinary tensor with the elements of a sparse one added."""
    shape = _shape_of_both(dense.shape, other.shape)
    if shape != tuple(other.shape):
        return dense + other.to_dense()
    dense = dense.expand(shape)
    pattern, forth, _ = other._pattern.coordinates()
    values = forth(content(other))
    dtype = _C.promote_types(dense.dtype, values.dtype)
    sizes = pattern.sparse_size
    flat = dense.to(dtype).reshape(prod(sizes), *pattern.dense_size)
    return flat.index_add(0, keys(pattern.indices, sizes), values.to(dtype)).reshape(dense.shape)


@rule("sub", "subtract")
def sub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    if is_sparse(other):
        return add(input, neg(other), alpha=alpha)
    if _is_number(other):
        return add(input, other)  # raises
    return add(-other if alpha == 1 else other * -alpha, input)


@rule("rsub", "__rsub__")
def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    return sub(other, input, alpha=alpha)


@rule("mul", "multiply", "__rmul__")
def mul(input: Any, other: Any) -> Any:
    if not is_sparse(input):
        input, other = other, input
    if _is_number(other):
        return _on_values(_ops["mul"], input, other)
    if not is_sparse(other):
        return _times_dense(input, other)
    p, q = input._pattern, other._pattern
    if p is q and (p.coalesced or not p.is_coo):
        return wrap(content(input) * content(other), p)
    if tuple(input.shape) != tuple(other.shape):
        return _broadcast_product(input, other)
    dense = min(p.dense, q.dense)
    (p, a), (q, b) = coordinates_of(input, dense), coordinates_of(other, dense)
    with no_grad():
        sizes = p.sparse_size
        at, known = find(keys(q.indices, sizes), keys(p.indices, sizes))
        mine = known.nonzero().reshape(-1)
        theirs = at[mine]
        found = Pattern.coo(p.indices[:, mine], p.size, dense, True)
    values = a.index_select(0, mine) * b.index_select(0, theirs)
    return in_layout_of(input, found, values)


def _broadcast_product(a: Any, b: Any) -> Any:
    """Of sparse tensors of different sizes: the smaller one is written out."""
    if a.numel() < b.numel() or a.dim() < b.dim():
        a, b = b, a
    return _times_dense(a, b.to_dense())


def _times_dense(x: Any, other: Tensor) -> Any:
    pattern, forth, back = x._pattern.coordinates()
    try:
        other = other.expand(x.shape)
    except RuntimeError:
        if other.numel() >= x.numel():
            return _expanded(x, other)
        raise
    flat = other.reshape(prod(pattern.sparse_size), *pattern.dense_size)
    picked = flat.index_select(0, keys(pattern.indices, pattern.sparse_size))
    return wrap(back(forth(content(x)) * picked), x._pattern)


def _expanded(x: Any, other: Tensor) -> Any:
    """The ordinary factor is larger: a sparse result of its size."""
    shape = _shape_of_both(x.shape, other.shape)
    return to_sparse(x.to_dense().expand(shape)) * other


def _shape_of_both(a: Any, b: Any) -> tuple[int, ...]:
    one = _ops["empty"](tuple(a), device="meta")
    return tuple((one + _ops["empty"](tuple(b), device="meta")).shape)


@rule("div", "divide", "true_divide")
def div(input: Any, other: Any, *, rounding_mode: Any = None) -> Any:
    return _divided(_ops["div"], input, other, rounding_mode=rounding_mode)


def _divided(func: Any, input: Any, other: Any, **kwargs: Any) -> Any:
    if not is_sparse(input) or not _is_number(other):
        if is_sparse(input) and is_sparse(other) and other.dim() == 0:
            other = other.to_dense()
        else:
            shape = list(getattr(other, "shape", ()))
            raise RuntimeError(
                "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
                f"{shape} for divisor)"
            )
    if kwargs.get("rounding_mode") is not None:
        input = input.coalesce() if input._pattern.is_coo else input
    return _on_values(func, input, other, **kwargs)


@rule("floor_divide")
def floor_divide(input: Any, other: Any) -> Any:
    return _divided(_ops["div"], input, other, rounding_mode="floor")


@rule("__rtruediv__", "reciprocal")
def reciprocal(*args: Any) -> Any:
    raise RuntimeError(
        "Sparse division requires a scalar or zero-dim dense tensor divisor (got a sparse divisor, "
        "whose zeros nothing can be divided by)"
    )


@rule("zeros_like", "empty_like")
def zeros_like(input: Any, *, dtype: Any = None, layout: Any = None, **options: Any) -> Any:
    if layout is not None and layout is not input.layout:
        return _ops["zeros"](tuple(input.shape), dtype=dtype or input.dtype)
    made = empty_like(input, dtype=dtype)
    return made.requires_grad_() if options.get("requires_grad") else made


@rule("new_zeros", "new_empty")
def new_zeros(input: Any, *size: Any, dtype: Any = None, **options: Any) -> Any:
    shape = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    return empty(shape, dtype or input.dtype, input.layout)


@rule("to_dense")
def to_dense(input: Any, dtype: Any = None, **options: Any) -> Any:
    return input.to_dense(dtype)


@rule("is_same_size")
def is_same_size(input: Any, other: Any) -> bool:
    return tuple(input.shape) == tuple(other.shape)


@rule("is_nonzero")
def is_nonzero(input: Any) -> bool:
    return bool(input)


@rule("equal")
def equal(input: Any, other: Any) -> bool:
    if not is_sparse(input) or not is_sparse(other) or input.layout is not other.layout:
        raise RuntimeError("equal: a sparse tensor is compared with one of the same layout alone")
    if tuple(input.shape) != tuple(other.shape):
        return False
    dense = min(input._pattern.dense, other._pattern.dense)
    (p, a), (q, b) = coordinates_of(input, dense), coordinates_of(other, dense)
    return p.indices.equal(q.indices) and a.equal(b)
