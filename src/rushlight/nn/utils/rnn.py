"""Batches of sequences of different lengths: padded, packed, and back.

>>> import rushlight as torch
>>> from rushlight.nn.utils.rnn import pack_sequence, pad_packed_sequence
>>> packed = pack_sequence([torch.tensor([1, 2, 3]), torch.tensor([4, 5])])
>>> packed.data, packed.batch_sizes
(tensor([1, 4, 2, 5, 3]), tensor([2, 2, 1]))
>>> pad_packed_sequence(packed, batch_first=True)
(tensor([[1, 2, 3],
        [4, 5, 0]]), tensor([3, 2]))
"""

from __future__ import annotations

from collections import namedtuple

import rushlight as _root
from rushlight import _C
from rushlight._C import Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]

_ops = _C._namespaces[""]
PackedSequence_ = namedtuple(
    "PackedSequence_", ("data", "batch_sizes", "sorted_indices", "unsorted_indices")
)


class PackedSequence(PackedSequence_):
    """Sequences step by step: `data` holds the first element of each, then the second of those
    that have one, and so on; `batch_sizes` counts them. The sequences are sorted by falling
    length: `sorted_indices` says how, `unsorted_indices` is the way back.

    >>> import rushlight as torch
    >>> from rushlight.nn.utils.rnn import PackedSequence
    >>> PackedSequence(torch.arange(3.0), torch.tensor([2, 1])).double().data.dtype
    torch.float64
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if batch_sizes is None:  # one tuple of two
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise ValueError("PackedSequence takes data and batch_sizes, or a pair of them")
            data, batch_sizes = data
        if batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be "
                f"created manually. Got batch_sizes on {batch_sizes.device}"
            )
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same sequences with data of another dtype or device."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        places = (None if t is None else t.to(data.device) for t in self[2:])
        return type(self)(data, self.batch_sizes, *places)

    def cpu(self) -> PackedSequence:
        """The sequence on the CPU."""
        return self.to("cpu")

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The sequence on a GPU."""
        places = (None if t is None else t.cuda(*args, **kwargs) for t in self[2:])
        return type(self)(self.data.cuda(*args, **kwargs), self.batch_sizes, *places)

    def double(self) -> PackedSequence:
        """The values as float64."""
        return self.to(dtype=_root.float64)

    def float(self) -> PackedSequence:
        """The values as float32."""
        return self.to(dtype=_root.float32)

    def half(self) -> PackedSequence:
        """The values as float16."""
        return self.to(dtype=_root.float16)

    def long(self) -> PackedSequence:
        """The values as int64."""
        return self.to(dtype=_root.int64)

    def int(self) -> PackedSequence:
        """The values as int32."""
        return self.to(dtype=_root.int32)

    def short(self) -> PackedSequence:
        """The values as int16."""
        return self.to(dtype=_root.int16)

    def char(self) -> PackedSequence:
        """The values as int8."""
        return self.to(dtype=_root.int8)

    def byte(self) -> PackedSequence:
        """The values as uint8."""
        return self.to(dtype=_root.uint8)

    @property
    def is_cuda(self) -> bool:
        """Whether the values are on a GPU."""
        return bool(self.data.is_cuda)

    def is_pinned(self) -> bool:
        """Whether the values are in pinned memory."""
        return bool(self.data.is_pinned())

    def pin_memory(self) -> PackedSequence:
        """A copy in pinned memory."""
        places = (None if t is None else t.pin_memory() for t in self[2:])
        return type(self)(self.data.pin_memory(), self.batch_sizes, *places)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes another one.

    >>> import rushlight as torch
    >>> from rushlight.nn.utils.rnn import invert_permutation
    >>> invert_permutation(torch.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    if permutation is None:
        return None
    order = _ops["arange"](permutation.numel(), device=permutation.device)
    return _ops["empty_like"](permutation).scatter_(0, permutation, order)


def pack_padded_sequence(
    input: Tensor,
    lengths: Tensor | Sequence[int],
    batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:
    """Packs a padded batch [steps, batch, ...] of sequences with these lengths, which must not
    grow along the batch unless `enforce_sorted` is false.

    >>> import rushlight as torch
    >>> from rushlight.nn.utils.rnn import pack_padded_sequence
    >>> pack_padded_sequence(torch.tensor([[1, 2], [3, 0]]), [2, 1]).data
    tensor([1, 2, 3])
    """
    if not isinstance(lengths, Tensor):
        lengths = _root.tensor(list(lengths), dtype=_root.int64)
    order = None
    if not enforce_sorted:
        lengths, order = _ops["sort"](lengths, descending=True)
        input = input.index_select(0 if batch_first else 1, order)
    data, sizes = _ops["_pack_padded_sequence"](input, lengths, batch_first)
    return PackedSequence(data, sizes, order)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The padded batch of a PackedSequence in its original order, and the lengths.

    >>> import rushlight as torch
    >>> from rushlight.nn.utils.rnn import pack_sequence, pad_packed_sequence
    >>> packed = pack_sequence([torch.tensor([1.0]), torch.tensor([2.0, 3.0])], False)
    >>> pad_packed_sequence(packed, batch_first=True, padding_value=-1.0)
    (tensor([[ 1., -1.],
            [ 2.,  3.]]), tensor([1, 2]))
    """
    longest = sequence.batch_sizes.numel()
    if total_length is not None and total_length < longest:
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but "
            f"got total_length={total_length} and max sequence length being {longest}"
        )
    padded, lengths = _ops["_pad_packed_sequence"](
        sequence.data, sequence.batch_sizes, batch_first, padding_value, total_length or longest
    )
    order = sequence.unsorted_indices
    if order is None:
        return padded, lengths
    return padded.index_select(0 if batch_first else 1, order), lengths[order.cpu()]


def pad_sequence(
    sequences: Tensor | Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences [length, ...] side by side in one tensor, the shorter ones padded.

    >>> import rushlight as torch
    >>> from rushlight.nn.utils.rnn import pad_sequence
    >>> pad_sequence([torch.tensor([1, 2]), torch.tensor([3])], batch_first=True)
    tensor([[1, 2],
            [3, 0]])
    """
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"padding_side should be one of 'right' or 'left', got {padding_side}")
    try:
        parts = list(sequences.unbind(0) if isinstance(sequences, Tensor) else sequences)
    except TypeError:
        kind = type(sequences).__name__
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {kind}"
        ) from None
    if not parts:
        raise RuntimeError("received an empty list of sequences")
    longest, rest = max(p.size(0) for p in parts), parts[0].shape[1:]
    for p in parts:
        if p.shape[1:] != rest:
            raise RuntimeError(
                "The size of tensors must match beyond the first dimension: pad_sequence got "
                f"sequences of shape {tuple(parts[0].shape)} and {tuple(p.shape)}"
            )
    first = parts[0]
    whole = []
    for p in parts:
        missing = longest - p.size(0)
        if missing:
            fill = _ops["full"](
                (missing, *rest), padding_value, dtype=first.dtype, device=first.device
            )
            p = _ops["cat"]([p, fill] if padding_side == "right" else [fill, p])
        whole.append(p)
    return _ops["stack"](whole, 0 if batch_first else 1)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """The sequences of a padded batch, each with its own length.

    >>> import rushlight as torch
    >>> from rushlight.nn.utils.rnn import unpad_sequence
    >>> unpad_sequence(torch.tensor([[1, 3], [2, 0]]), torch.tensor([2, 1]))
    [tensor([1, 2]), tensor([3])]
    """
    batch = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[: int(n)] for row, n in zip(batch.unbind(0), lengths, strict=False)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Packs sequences [length, ...], of falling length unless `enforce_sorted` is false.

    >>> import rushlight as torch
    >>> from rushlight.nn.utils.rnn import pack_sequence
    >>> pack_sequence([torch.tensor([1, 2]), torch.tensor([3])]).data
    tensor([1, 3, 2])
    """
    lengths = _root.tensor([s.size(0) for s in sequences], dtype=_root.int64)
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences of a PackedSequence in their original order.

    >>> import rushlight as torch
    >>> from rushlight.nn.utils.rnn import pack_sequence, unpack_sequence
    >>> unpack_sequence(pack_sequence([torch.tensor([1, 2]), torch.tensor([3])]))
    [tensor([1, 2]), tensor([3])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
