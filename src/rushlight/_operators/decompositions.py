"""Functions that PyTorch composes of other ops, taken apart as it does."""

from __future__ import annotations

import math

from rushlight._C import Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_BY_NAME: dict[tuple[str, str], Callable[..., Any]] = {}


def find(func: Any, name: str) -> Callable[..., Any] | None:
    """How a function is taken apart, or None."""
    if name.startswith("attribute "):
        return _BY_NAME.get(("", name))
    module = (getattr(func, "__module__", None) or "").partition(".")[2]
    return _BY_NAME.get((module, str(getattr(func, "__name__", name))))


def _of(module: str, *names: str) -> Callable[[Any], Any]:
    def add(function: Any) -> Any:
        for name in names:
            _BY_NAME[module, name] = function
        return function

    return add


def _rows(aten: Any, t: Tensor) -> Tensor:
    """The tensor as a matrix of its last dimension."""
    return aten.view(t, [t.numel() // max(t.shape[-1], 1), t.shape[-1]])


@_of("nn.functional", "linear")
def _linear(aten: Any, input: Any, weight: Any, bias: Any = None) -> Any:
    if weight.dim() != 2 or input.dim() < 2 or input.numel() == 0:
        return NotImplemented
    turned = aten.t(weight)
    if input.dim() == 2:
        return aten.mm(input, turned) if bias is None else aten.addmm(bias, input, turned)
    flat = (
        _rows(aten, input) if input.is_contiguous() else aten.reshape(input, [-1, input.shape[-1]])
    )
    found = aten.mm(flat, turned) if bias is None else aten.addmm(bias, flat, turned)
    return aten.view(found, [*input.shape[:-1], weight.shape[0]])


@_of("", "matmul", "__matmul__")
def _matmul(aten: Any, input: Any, other: Any) -> Any:
    if not isinstance(input, Tensor) or not isinstance(other, Tensor):
        return NotImplemented
    a, b = input.dim(), other.dim()
    if 0 in (a, b) or 0 in (input.numel(), other.numel()):
        return NotImplemented
    if a == b == 1:
        return aten.dot(input, other)
    if a == 2 and b == 1:
        return aten.mv(input, other)
    if a == 1 and b == 2:
        return aten.squeeze(aten.mm(aten.unsqueeze(input, 0), other), 0)
    if a == b == 2:
        return aten.mm(input, other)
    if a >= 3 and b == 2:
        flat = aten.view(input, [-1, input.shape[-1]]) if input.is_contiguous() else None
        flat = aten.reshape(input, [-1, input.shape[-1]]) if flat is None else flat
        return aten._unsafe_view(aten.mm(flat, other), [*input.shape[:-1], other.shape[1]])
    if a < 3 or b < 3:
        return NotImplemented
    shape = [
        max(m, n) for m, n in zip(*_same_rank(input.shape[:-2], other.shape[:-2]), strict=True)
    ]
    count = math.prod(shape)
    left = aten.expand(input, [*shape, *input.shape[-2:]])
    right = aten.expand(other, [*shape, *other.shape[-2:]])
    left = aten.reshape(left, [count, *input.shape[-2:]])
    right = aten.reshape(right, [count, *other.shape[-2:]])
    return aten._unsafe_view(aten.bmm(left, right), [*shape, input.shape[-2], other.shape[-1]])


def _same_rank(a: Any, b: Any) -> tuple[list[int], list[int]]:
    rank = max(len(a), len(b))
    return [1] * (rank - len(a)) + list(a), [1] * (rank - len(b)) + list(b)


def _each(value: Any, count: int) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value] * count


def _conv(rank: int) -> Any:
    def conv(
        aten: Any,
        input: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        if isinstance(padding, str) or input.dim() != rank + 2:
            return NotImplemented
        sizes = [_each(value, rank) for value in (stride, padding, dilation)]
        return aten.convolution(input, weight, bias, *sizes, False, [0] * rank, groups)

    return conv


def _conv_transpose(rank: int) -> Any:
    def conv_transpose(
        aten: Any,
        input: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Any:
        if input.dim() != rank + 2:
            return NotImplemented
        sizes = [_each(value, rank) for value in (stride, padding, dilation)]
        extra = _each(output_padding, rank)
        return aten.convolution(input, weight, bias, *sizes, True, extra, groups)

    return conv_transpose


for _rank in (1, 2, 3):
    for _module in ("", "nn.functional"):
        _of(_module, f"conv{_rank}d")(_conv(_rank))
        _of(_module, f"conv_transpose{_rank}d")(_conv_transpose(_rank))


@_of("nn.functional", "softmax")
@_of("", "softmax")
def _softmax(aten: Any, input: Any, dim: Any = None, *rest: Any, **options: Any) -> Any:
    if dim is None or options.get("dtype") is not None or rest or not _floats(input):
        return NotImplemented
    return aten._softmax(input, dim, False)


@_of("nn.functional", "log_softmax")
@_of("", "log_softmax")
def _log_softmax(aten: Any, input: Any, dim: Any = None, *rest: Any, **options: Any) -> Any:
    if dim is None or options.get("dtype") is not None or rest or not _floats(input):
        return NotImplemented
    return aten._log_softmax(input, dim, False)


def _floats(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


@_of("nn.functional", "embedding")
def _embedding(
    aten: Any,
    input: Any,
    weight: Any,
    padding_idx: Any = None,
    max_norm: Any = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    if max_norm is not None:
        return NotImplemented
    padding = -1 if padding_idx is None else padding_idx % weight.shape[0]
    return aten.embedding(weight, input, padding, scale_grad_by_freq, sparse)


@_of("nn.functional", "layer_norm")
def _layer_norm(
    aten: Any,
    input: Any,
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
) -> Any:
    return aten.native_layer_norm(input, list(normalized_shape), weight, bias, eps)[0]


@_of("nn.functional", "scaled_dot_product_attention")
def _attention(
    aten: Any,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Any = None,
    enable_gqa: bool = False,
) -> Any:
    same = query.dim() == 4 and query.shape[1] == key.shape[1] and query.shape[0] == key.shape[0]
    if dropout_p or enable_gqa or not same:
        return NotImplemented
    options = {} if attn_mask is None else {"attn_mask": attn_mask}
    if scale is not None:
        options["scale"] = scale
    return aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, dropout_p, is_causal, **options
    )[0]


@_of("nn.functional", "max_pool2d")
def _max_pool2d(
    aten: Any,
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    sizes = [_each(value, 2) for value in (kernel_size, stride or kernel_size, padding, dilation)]
    found = aten.max_pool2d_with_indices(input, *sizes, ceil_mode)
    return found if return_indices else found[0]


@_of("", "__getitem__")
def _getitem(aten: Any, self: Any, index: Any) -> Any:
    """Numbers select, slices slice, None adds a dimension, tensors index."""
    items = list(index) if isinstance(index, tuple) else [index]
    plain = (int, slice, type(None), type(Ellipsis), Tensor)
    if any(not isinstance(i, plain) or isinstance(i, bool) for i in items):
        return NotImplemented
    if any(isinstance(i, Tensor) and (i.dtype.is_floating_point or not i.dim()) for i in items):
        return NotImplemented
    taken = sum(
        i.dim() if isinstance(i, Tensor) and str(i.dtype) == "torch.bool" else 1
        for i in items
        if i is not None and i is not Ellipsis
    )
    if Ellipsis in [i for i in items if not isinstance(i, Tensor)]:
        at = next(k for k, i in enumerate(items) if i is Ellipsis)
        items[at : at + 1] = [slice(None)] * (self.dim() - taken)
    result, dim = self, 0
    indices: list[Any] = []
    for item in items:
        if item is None:
            result = aten.unsqueeze(result, dim)
            indices.append(None)
            dim += 1
        elif isinstance(item, int):
            result = aten.select(result, dim, item)
        elif isinstance(item, slice):
            start, stop, step = item.indices(result.shape[dim])
            if item != slice(None):
                result = aten.slice(result, dim, start, stop, step)
            indices.append(None)
            dim += 1
        else:
            indices.append(item)
            dim += item.dim() if str(item.dtype) == "torch.bool" else 1
    if any(i is not None for i in indices):
        return aten.index(result, indices)
    return aten.alias(result) if result is self else result


@_of("", "__setitem__")
def _setitem(aten: Any, self: Any, index: Any, value: Any) -> Any:
    """A write through a view, or ``index_put_``."""
    items = index if isinstance(index, tuple) else (index,)
    if any(isinstance(i, (Tensor, list)) for i in items):
        if all(isinstance(i, Tensor) for i in items):
            given = value if isinstance(value, Tensor) else self.new_full((), value)
            aten.index_put_(self, list(items), given)
            return None
        return NotImplemented
    view = _getitem(aten, self, index)
    if view is NotImplemented:
        return NotImplemented
    if isinstance(value, Tensor):
        aten.copy_(view, value)
    else:
        aten.fill_(view, value)
    return None


# --- shapes ----------------------------------------------------------------------------------


def _sizes(args: tuple[Any, ...]) -> list[int]:
    return list(args[0]) if len(args) == 1 and not isinstance(args[0], int) else list(args)


@_of("", "view")
def _view(aten: Any, input: Any, *shape: Any, **named: Any) -> Any:
    if shape and isinstance(shape[0], int):  # a number by itself would do for a dtype
        return aten.view(input, list(shape))
    return NotImplemented


@_of("", "reshape")
def _reshape(aten: Any, input: Any, *shape: Any, **named: Any) -> Any:
    """A view where strides allow one, else a copy."""
    sizes = list(named["shape"]) if "shape" in named else _sizes(shape)
    if not input.is_contiguous():
        return NotImplemented
    return aten.view(input, sizes)


@_of("", "attribute T")
def _turned(aten: Any, input: Any, *rest: Any) -> Any:
    return aten.permute(input, list(reversed(range(input.dim()))))


@_of("", "attribute mT")
def _matrices_turned(aten: Any, input: Any, *rest: Any) -> Any:
    return aten.transpose(input, -2, -1)


@_of("", "attribute H", "attribute mH")
def _adjoint(aten: Any, input: Any, *rest: Any) -> Any:
    turned = aten.transpose(input, -2, -1)
    return aten.conj(turned) if input.is_complex() else turned


@_of("", "flatten")
def _flatten(aten: Any, input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    if input.dim() == 0 or not input.is_contiguous():
        return NotImplemented
    first, last = start_dim % input.dim(), end_dim % input.dim()
    if first == last:
        return NotImplemented
    middle = math.prod(input.shape[first : last + 1])
    return aten.view(input, [*input.shape[:first], middle, *input.shape[last + 1 :]])


@_of("", "contiguous")
def _contiguous(aten: Any, input: Any, memory_format: Any = None) -> Any:
    if memory_format is not None:
        return NotImplemented
    if input.is_contiguous():
        return input
    import rushlight

    return aten.clone(input, memory_format=rushlight.contiguous_format)


@_of("", "chunk")
def _chunk(aten: Any, input: Any, chunks: int, dim: int = 0) -> Any:
    size = -(-input.shape[dim] // chunks)
    return NotImplemented if size == 0 else aten.split(input, size, dim)


@_of("nn.functional", "pad")
def _pad(aten: Any, input: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    if mode != "constant":
        return NotImplemented
    return aten.constant_pad_nd(input, list(pad), 0.0 if value is None else value)


# --- arithmetic ------------------------------------------------------------------------------


@_of("", "__rsub__")
def _rsub(aten: Any, self: Any, other: Any) -> Any:
    return NotImplemented if isinstance(other, Tensor) else aten.rsub(self, other)


@_of("", "square")
def _square(aten: Any, input: Any) -> Any:
    return aten.pow(input, 2)


def _spread_of(name: str) -> Any:
    def spread(aten: Any, input: Any, *args: Any, **named: Any) -> Any:
        """``std(x)`` and ``std(x, 1)``; older forms say unbiased in place of a correction."""
        if len(args) > 1 or not named.keys() <= {"dim", "correction", "keepdim", "unbiased"}:
            return NotImplemented
        if args and isinstance(args[0], bool):
            return NotImplemented
        dim = args[0] if args else named.pop("dim", None)
        if "unbiased" in named:
            named["correction"] = int(named.pop("unbiased"))
        dims = [dim] if isinstance(dim, int) else dim
        if dims is None:
            return getattr(aten, name)(input, None, correction=named.pop("correction", 1), **named)
        return getattr(aten, name)(input, dims, correction=named.pop("correction", 1), **named)

    return spread


_of("", "std")(_spread_of("std"))
_of("", "var")(_spread_of("var"))


# --- layers and losses -----------------------------------------------------------------------


@_of("nn.functional", "dropout")
def _dropout(
    aten: Any, input: Any, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Any:
    return input if not training or p == 0 else NotImplemented


@_of("nn.functional", "batch_norm")
def _batch_norm(
    aten: Any,
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    return aten.native_batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps
    )[0]


@_of("nn.functional", "group_norm")
def _group_norm(
    aten: Any, input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    n, c = input.shape[:2]
    rest = math.prod(input.shape[2:])
    return aten.native_group_norm(input, weight, bias, n, c, rest, num_groups, eps)[0]


_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


@_of("nn.functional", "nll_loss")
def _nll_loss(
    aten: Any,
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    if input.dim() not in (1, 2) or size_average is not None or reduce is not None:
        return NotImplemented
    return aten.nll_loss_forward(input, target, weight, _REDUCTIONS[reduction], ignore_index)[0]


@_of("nn.functional", "cross_entropy")
def _cross_entropy(
    aten: Any,
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    indices = not target.is_floating_point() and input.dim() in (1, 2)
    if not indices or label_smoothing or size_average is not None or reduce is not None:
        return NotImplemented
    scores = aten._log_softmax(input, input.dim() - 1, False)
    return aten.nll_loss_forward(scores, target, weight, _REDUCTIONS[reduction], ignore_index)[0]


@_of("nn.functional", "mse_loss")
def _mse_loss(
    aten: Any,
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Any:
    if weight is not None or size_average is not None or reduce is not None:
        return NotImplemented
    return aten.mse_loss(input, target, _REDUCTIONS[reduction])
