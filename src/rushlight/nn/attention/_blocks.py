"""Which blocks of a matrix of scores hold something that a mask leaves."""

from __future__ import annotations

import rushlight as torch

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight._C import Tensor


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """Every pair counts.

    >>> from rushlight.nn.attention.flex_attention import create_mask, noop_mask
    >>> create_mask(noop_mask, None, None, 1, 2)
    tensor([[[[True, True]]]])
    """
    return batch.new_ones((), dtype=torch.bool)


def _sliced_mask_mod_error(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    raise RuntimeError(
        "Cannot use mask_mod from a sliced BlockMask: its places are those of the whole. Set "
        "mask_mod to a function of the places within the slice."
    )


def _ordered(dense: Tensor) -> tuple[Tensor, Tensor]:
    """How many of each row of 0 and 1 are 1, and their columns, followed by the others'."""
    counts = dense.sum(-1)
    order = torch.argsort(dense.to(torch.int32), dim=-1, descending=True, stable=True)
    return counts.to(torch.int32), order.to(torch.int32)


def _dense(counts: Tensor, order: Tensor, columns: int) -> Tensor:
    """The rows of 0 and 1 that ``_ordered`` was given."""
    live = torch.arange(order.shape[-1], device=order.device) < counts[..., None]
    empty = torch.zeros(*order.shape[:-1], columns + 1, dtype=torch.int32, device=order.device)
    # What does not count goes to a column of its own, which is cut off.
    places = torch.where(live, order.to(torch.int64), columns)
    return empty.scatter(-1, places, 1)[..., :columns]


def _transposed(counts: Tensor | None, order: Tensor | None, rows: int) -> Any:
    if counts is None or order is None:
        return None, None
    return _ordered(_dense(counts, order, rows).transpose(-2, -1))


def _convert_mask_to_block_mask(
    mask: Tensor,
    Q_BLOCK_SIZE: int = 128,
    KV_BLOCK_SIZE: int = 128,
    separate_full_blocks: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Blocks of which something, and blocks of which all counts; cut ones are never full."""
    if mask.dtype is not torch.bool:
        raise AssertionError(f"expected a mask of bool, got {mask.dtype}")
    while mask.dim() < 4:
        mask = mask[None]
    b, h, q, k = mask.shape
    rows, columns = -(-q // Q_BLOCK_SIZE), -(-k // KV_BLOCK_SIZE)
    mask = torch.nn.functional.pad(
        mask, (0, columns * KV_BLOCK_SIZE - k, 0, rows * Q_BLOCK_SIZE - q)
    )
    blocks = mask.reshape(b, h, rows, Q_BLOCK_SIZE, columns, KV_BLOCK_SIZE)
    counts = blocks.sum((3, 5))
    if not separate_full_blocks:
        return (counts > 0).to(torch.int8), None
    full = counts == Q_BLOCK_SIZE * KV_BLOCK_SIZE
    return ((counts > 0) & ~full).to(torch.int8), full.to(torch.int8)


def _create_sparse_block_from_block_mask(
    block_mask: tuple[Tensor, Tensor | None],
    mask_mod: Callable[..., Any] | None,
    seq_lengths: tuple[int, int],
    Q_BLOCK_SIZE: int = 128,
    KV_BLOCK_SIZE: int = 128,
) -> BlockMask:
    partial, full = block_mask
    whole: Any = (None, None) if full is None else _ordered(full)
    return BlockMask.from_kv_blocks(
        *_ordered(partial),
        whole[0],
        whole[1],
        BLOCK_SIZE=(Q_BLOCK_SIZE, KV_BLOCK_SIZE),
        mask_mod=mask_mod,
        seq_lengths=seq_lengths,
    )


class BlockMask:
    """A mask by blocks: for each row of blocks, how many columns count, and which.

    ``kv_*`` lists blocks of which some pairs count (``mask_mod`` says which), ``full_kv_*`` those
    of which all do; ``q_*`` is the same by columns.

    >>> from rushlight.nn.attention.flex_attention import create_block_mask
    >>> create_block_mask(lambda b, h, i, j: i >= j, None, None, 256, 256).to_dense()
    tensor([[[[1, 0],
              [1, 1]]]], dtype=torch.int32)
    """

    _TENSORS = (
        "kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_num_blocks",
        "q_indices", "full_q_num_blocks", "full_q_indices",
    )  # fmt: skip

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None,
        full_kv_indices: Tensor | None,
        q_num_blocks: Tensor | None,
        q_indices: Tensor | None,
        full_q_num_blocks: Tensor | None,
        full_q_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int] = (128, 128),
        mask_mod: Callable[..., Any] = noop_mask,
        *,
        dq_write_order: Tensor | None = None,
        dq_write_order_full: Tensor | None = None,
        dq_kv_order: Tensor | None = None,
        dq_kv_order_spt: bool | None = None,
    ) -> None:
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError(
                "full_kv_num_blocks and full_kv_indices must be both provided or omitted"
            )
        if (q_num_blocks is None) != (q_indices is None):
            raise AssertionError("q_num_blocks and q_indices must be both provided or omitted")
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self.BLOCK_SIZE = BLOCK_SIZE
        self.mask_mod = mask_mod

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = 128,
        mask_mod: Callable[..., Any] | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
    ) -> BlockMask:
        """The mask of these blocks by rows; the lists by columns are computed."""
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError(
                "full_kv_num_blocks and full_kv_indices must be both provided or omitted"
            )
        block = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        columns = kv_indices.shape[-1]
        if seq_lengths is None:
            seq_lengths = (kv_indices.shape[-2] * block[0], columns * block[1])
        by_columns: tuple[Any, ...] = (None,) * 4
        if compute_q_blocks:
            by_columns = (
                *_transposed(kv_num_blocks, kv_indices, columns),
                *_transposed(full_kv_num_blocks, full_kv_indices, columns),
            )
        return cls(
            seq_lengths,
            kv_num_blocks,
            kv_indices,
            full_kv_num_blocks,
            full_kv_indices,
            by_columns[0],
            by_columns[1],
            by_columns[2],
            by_columns[3],
            BLOCK_SIZE=block,
            mask_mod=mask_mod or noop_mask,
        )

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """The arguments that make it again."""
        block = self.BLOCK_SIZE if flatten else (self.BLOCK_SIZE,)
        lengths = self.seq_lengths if flatten else (self.seq_lengths,)
        tensors = tuple(getattr(self, name) for name in self._TENSORS)
        return (*lengths, *tensors, *block, self.mask_mod)

    @property
    def shape(self) -> tuple[int, ...]:
        """Batches, heads, queries, keys."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """The number of scores that it covers."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    def sparsity(self) -> float:
        """The percentage of scores that need not be computed."""
        blocks = int(self.kv_num_blocks.sum())
        if self.full_kv_num_blocks is not None:
            blocks += int(self.full_kv_num_blocks.sum())
        return 100 * (1 - blocks * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel())

    def _blocks(self) -> Tensor:
        """For each block: 2 where all of it counts, 1 where some may, else 0."""
        columns = self.kv_indices.shape[-1]
        kinds = _dense(self.kv_num_blocks, self.kv_indices, columns)
        if self.full_kv_num_blocks is not None and self.full_kv_indices is not None:
            full = _dense(self.full_kv_num_blocks, self.full_kv_indices, columns)
            kinds = torch.where(full > 0, 2, kinds)
        return kinds

    def to_dense(self) -> Tensor:
        """For each block 1 where something of it counts, else 0."""
        return (self._blocks() > 0).to(torch.int32)

    def __getitem__(self, index: Any) -> BlockMask:
        """Some batches, heads or rows of blocks; what is left out of the index stays whole."""
        index = (index,) if not isinstance(index, tuple) else index
        whole = (slice(i, i + 1) if isinstance(i, int) and i >= 0 else i for i in index)
        index = tuple(slice(i, i + 1 or None) if isinstance(i, int) else i for i in whole)
        parts: Any = [
            None if tensor is None else tensor[index]
            for tensor in (getattr(self, name) for name in self._TENSORS[:4])
        ]
        rows = parts[1].shape[-2] * self.BLOCK_SIZE[0]
        lengths = (min(rows, self.seq_lengths[0]), self.seq_lengths[1])
        found = BlockMask.from_kv_blocks(
            parts[0],
            parts[1],
            parts[2],
            parts[3],
            BLOCK_SIZE=self.BLOCK_SIZE,
            mask_mod=_sliced_mask_mod_error,
            seq_lengths=lengths,
            compute_q_blocks=self.q_indices is not None,
        )
        return found

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """The mask of the first queries and keys."""
        rows = -(-new_q_len // self.BLOCK_SIZE[0])
        columns = -(-new_kv_len // self.BLOCK_SIZE[1])
        kinds = self._blocks()[..., :rows, :columns]
        full: Any = (None, None)
        if self.full_kv_indices is not None:
            full = _ordered((kinds == 2).to(torch.int8))
        return BlockMask.from_kv_blocks(
            *_ordered((kinds == 1).to(torch.int8)),
            full[0],
            full[1],
            BLOCK_SIZE=self.BLOCK_SIZE,
            mask_mod=self.mask_mod,
            seq_lengths=(new_q_len, new_kv_len),
            compute_q_blocks=self.q_indices is not None,
        )

    def to(self, device: Any) -> BlockMask:
        """The mask with its tensors on a device."""
        import copy

        moved = copy.copy(self)
        for name in self._TENSORS:
            tensor = getattr(self, name)
            setattr(moved, name, None if tensor is None else tensor.to(device))
        return moved

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """The blocks as a picture; where it shows several as one, the shade is their part."""
        dense = self.to_dense()
        heads = dense.reshape(-1, *dense.shape[-2:])
        size = (grid_size, grid_size) if isinstance(grid_size, int) else grid_size
        text = ""
        for number, blocks in enumerate(heads[:limit]):
            place = []
            for length in reversed(dense.shape[:-2]):
                number, at = divmod(number, length)
                place.append(at)
            text += f"({', '.join(map(str, reversed(place)))})\n{_picture(blocks, size)}\n"
        return text + ("...\n" if len(heads) > limit else "")

    def __str__(self) -> str:
        return (
            f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n{self.to_string()})"
        )

    def __repr__(self) -> str:
        lines = []
        for name in self._TENSORS:
            tensor = getattr(self, name)
            lines.append(f"    {name}={None if tensor is None else tensor.shape}")
        lines.append(f"    BLOCK_SIZE={self.BLOCK_SIZE}")
        lines.append(f"    shape={self.shape}")
        lines.append(f"    sparsity={self.sparsity():.2f}%")
        name = getattr(self.mask_mod, "__name__", repr(self.mask_mod))
        return "BlockMask(\n" + ",\n".join([*lines, f"    mask_mod={name}"]) + "\n)"


def _picture(blocks: Tensor, size: tuple[int, int]) -> str:
    steps = [max(1, -(-n // most)) for n, most in zip(blocks.shape, size, strict=True)]
    lines = []
    for top in range(0, blocks.shape[0], steps[0]):
        line = ""
        for left in range(0, blocks.shape[1], steps[1]):
            part = blocks[top : top + steps[0], left : left + steps[1]].float().mean().item()
            line += "██" if part == 1 else "  " if part == 0 else "░░"
        lines.append(line)
    return "\n".join(lines)
