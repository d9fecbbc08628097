"""Nested tensors: batches whose parts have different sizes.

>>> import rushlight as torch
>>> words = [torch.ones(2, 3), torch.ones(4, 3)]
>>> batch = torch.nested.nested_tensor(words, layout=torch.jagged)
>>> batch.offsets()
tensor([0, 2, 6])
>>> torch.nn.functional.linear(batch, torch.ones(1, 3)).sum(1)
tensor([[ 6.],
        [12.]])

With ``layout=torch.jagged`` the parts differ in one dimension and lie joined in memory; ops then
run over all of them at once. In the strided layout they may differ in all dimensions.
"""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor
from rushlight._layout import jagged, strided
from rushlight._nested.structure import Jagged, join
from rushlight._nested.tensor import NestedTensor as _NestedTensor
from rushlight._structured.base import wrap

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = [
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]

_ops = _C._namespaces[""]


def nested_tensor(
    tensor_list: Sequence[Any],
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A nested tensor with a copy of these parts, outside any graph.

    >>> import rushlight as torch
    >>> torch.nested.nested_tensor([torch.arange(2), torch.arange(3)])
    nested_tensor([
      tensor([0, 1]),
      tensor([0, 1, 2])
    ])
    """
    if not isinstance(tensor_list, (list, tuple)):
        raise TypeError(
            "Only lists (List[Tensor] and List[List...[Scalar]]) are accepted in nested_tensor, "
            f"got {type(tensor_list).__name__}"
        )
    parts = [
        (p.detach() if isinstance(p, Tensor) else _C._tensor(p, dtype, device, False))
        for p in tensor_list
    ]
    made = _joined(parts, dtype, layout)
    made = made.detach()
    made._raw = made._raw.clone()
    return made.requires_grad_() if requires_grad else made


def as_nested_tensor(ts: Any, dtype: Any = None, device: Any = None, layout: Any = None) -> Tensor:
    """A nested tensor of these parts, which stay in their graph.

    >>> import rushlight as torch
    >>> a, b = torch.ones(2, requires_grad=True), torch.ones(1, requires_grad=True)
    >>> joined = torch.nested.as_nested_tensor([a, b], layout=torch.jagged)
    >>> (joined * 3).values().sum().backward()
    >>> a.grad, b.grad
    (tensor([3., 3.]), tensor([3.]))
    """
    if isinstance(ts, _NestedTensor):
        return ts if dtype is None else ts.to(dtype)
    if not isinstance(ts, (list, tuple, Tensor)):
        raise TypeError(
            "as_nested_tensor(): Expected first argument to be a tensor or a list / tuple of "
            f"tensors, got {type(ts).__name__}"
        )
    parts = list(ts.unbind()) if isinstance(ts, Tensor) else list(ts)
    if not all(isinstance(p, Tensor) for p in parts):
        raise TypeError("as_nested_tensor(): Expected a list / tuple of tensors")
    return _joined(parts, dtype, layout)


def _joined(parts: list[Tensor], dtype: Any, layout: Any) -> Any:
    if layout not in (None, strided, jagged):
        raise RuntimeError(f"Specified layout is unsupported for nested tensors: {layout}")
    for i, p in enumerate(parts):
        if p.dim() != parts[0].dim():
            raise RuntimeError(
                "All Tensors given to nested_tensor must have the same dimension. Found dimension "
                f"{p.dim()} for Tensor at index {i} and dimension {parts[0].dim()} for Tensor at "
                "index 0."
            )
    if dtype is not None:
        parts = [p.to(dtype) for p in parts]
    if layout is not jagged:
        values, structure = join(parts)
        return wrap(values, structure)
    if not parts:
        raise RuntimeError("Cannot construct a nested tensor from an empty tensor list")
    if any(p.dtype is not parts[0].dtype for p in parts):
        raise RuntimeError(
            "When constructing a nested tensor, all tensors in list must have the same dtype: got "
            f"{sorted({str(p.dtype) for p in parts})}"
        )
    if parts[0].dim() == 0:
        raise RuntimeError("Cannot construct a nested tensor from 0-d tensors")
    differing = [d for d in range(parts[0].dim()) if len({p.shape[d] for p in parts}) > 1] or [0]
    if len(differing) > 1:
        shapes = [tuple(p.shape) for p in parts]
        raise RuntimeError(
            "Cannot represent given tensor list as a nested tensor with the jagged layout. Note "
            f"that the jagged layout only allows for a single ragged dimension, got {shapes}"
        )
    at = differing[0]
    sizes = _C._tensor([0, *(p.shape[at] for p in parts)], _C.int64, None, False)
    return wrap(_ops["cat"](parts, at), Jagged(sizes.cumsum(0), None, at + 1))


def nested_tensor_from_jagged(
    values: Tensor,
    offsets: Tensor | None = None,
    lengths: Tensor | None = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> Tensor:
    """A jagged tensor on joined values: part i is ``values[offsets[i] : offsets[i + 1]]``.

    >>> import rushlight as torch
    >>> t = torch.nested.nested_tensor_from_jagged(torch.arange(5), torch.tensor([0, 2, 5]))
    >>> [part.tolist() for part in t.unbind()]
    [[0, 1], [2, 3, 4]]
    """
    if offsets is None:
        if lengths is None:
            raise RuntimeError(
                "nested_tensor_from_jagged(): At least one of offsets or lengths is required."
            )
        zero = _ops["zeros"](1, dtype=_C.int64)
        offsets, lengths = _ops["cat"]([zero, lengths.long().cumsum(0)]), None
    at = 1 if jagged_dim is None else jagged_dim
    if offsets.dim() != 1 or not 1 <= at <= values.dim():
        raise RuntimeError(
            f"nested_tensor_from_jagged(): offsets of shape {tuple(offsets.shape)} and jagged_dim "
            f"{at} for values of shape {tuple(values.shape)}"
        )
    structure = Jagged(offsets.detach(), lengths, at)
    size = values.shape[at - 1]
    for start, length in structure.spans():
        if start < 0 or length < 0 or start + length > size:
            raise RuntimeError(
                f"nested_tensor_from_jagged(): a part from {start} of length {length} lies outside "
                f"the {size} values"
            )
    return wrap(values, structure)


def narrow(
    tensor: Tensor, dim: int, start: int | Tensor, length: int | Tensor, layout: Any = strided
) -> Tensor:
    """Of each row of an ordinary tensor a part: from its `start`, so many as its `length` says.

    >>> import rushlight as torch
    >>> x = torch.arange(6).reshape(2, 3)
    >>> found = torch.nested.narrow(x, 1, torch.tensor([0, 1]), torch.tensor([3, 1]), torch.jagged)
    >>> [part.tolist() for part in found.unbind()]
    [[0, 1, 2], [4]]
    """
    if layout is strided:
        raise RuntimeError("nested.narrow: only the jagged layout holds such parts, got strided")
    if layout is not jagged:
        raise RuntimeError(f"Specified layout is unsupported for nested narrow: {layout}")
    if dim != 1 or tensor.dim() < 2:
        raise RuntimeError(f"nested.narrow: the parts lie along dim 1, got dim {dim}")
    batch, size = tensor.shape[:2]

    def each(value: int | Tensor) -> Tensor:
        if isinstance(value, Tensor):
            return value.long().reshape(-1).expand(batch)
        return _ops["full"]((batch,), value, dtype=_C.int64)

    starts, lengths = each(start), each(length)
    if bool(((starts < 0) | (lengths < 0) | (starts + lengths > size)).any()):
        raise RuntimeError(
            f"nested.narrow: parts from {starts.tolist()} of lengths {lengths.tolist()} do not lie "
            f"within {size}"
        )
    first = _ops["arange"](batch) * size + starts
    offsets = _ops["cat"]([first, (first[-1:] + lengths[-1:])])
    values = tensor.reshape(batch * size, *tensor.shape[2:])
    return wrap(values, Jagged(offsets, lengths.contiguous()))


def masked_select(tensor: Tensor, mask: Tensor) -> Tensor:
    """The elements of each row where the mask holds, as a jagged tensor.

    >>> import rushlight as torch
    >>> x = torch.arange(6).reshape(2, 3)
    >>> torch.nested.masked_select(x, x % 2 == 0).values()
    tensor([0, 2, 4])
    """
    if tensor.layout is not strided or mask.layout is not strided:
        raise RuntimeError("torch.nested.masked_select requires strided tensors")
    mask = mask.expand(tensor.shape)
    counts = mask.reshape(mask.shape[0], -1).sum(1)
    zero = _ops["zeros"](1, dtype=_C.int64)
    offsets = _ops["cat"]([zero, counts.cumsum(0)])
    return wrap(tensor.masked_select(mask), Jagged(offsets))


def to_padded_tensor(
    input: Any, padding: float, output_size: Any = None, out: Any = None
) -> Tensor:
    """An ordinary tensor in which shorter parts are filled up with `padding`.

    >>> import rushlight as torch
    >>> torch.nested.to_padded_tensor(torch.nested.nested_tensor([[1, 2], [3]]), 0)
    tensor([[1, 2],
            [3, 0]])
    """
    if not isinstance(input, _NestedTensor):
        raise NotImplementedError(
            "Could not run 'aten::to_padded_tensor' with arguments from the 'CPU' backend: "
            "expected a nested tensor, got an ordinary one"
        )
    return input.to_padded_tensor(padding, output_size)
