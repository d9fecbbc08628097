"""Layouts and memory formats: names that programs pass around."""

from __future__ import annotations

from rushlight import _C

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any


class layout:
    """How a tensor's elements are stored.

    >>> import rushlight as torch
    >>> torch.ones(2).layout, torch.eye(2).to_sparse().layout
    (torch.strided, torch.sparse_coo)
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


class memory_format(layout):
    """The order in which the dimensions of a tensor lie in memory.

    >>> import rushlight as torch
    >>> torch.ones(2, 3).t().contiguous(memory_format=torch.contiguous_format).stride()
    (2, 1)
    >>> images = torch.ones(8, 3, 4, 5).to(memory_format=torch.channels_last)
    >>> images.shape, images.stride()
    (torch.Size([8, 3, 4, 5]), (60, 1, 15, 3))
    >>> images.clone().stride(), images.clone(memory_format=torch.contiguous_format).stride()
    ((60, 1, 15, 3), (60, 20, 5, 1))
    """

    __slots__ = ()


strided = layout("strided")
sparse_coo = layout("sparse_coo")
sparse_csr, sparse_csc = layout("sparse_csr"), layout("sparse_csc")
sparse_bsr, sparse_bsc = layout("sparse_bsr"), layout("sparse_bsc")
jagged = layout("jagged")
contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")
_C._set_memory_formats(contiguous_format, preserve_format, channels_last, channels_last_3d)


_SPARSE = ("empty", "zeros", "zeros_like", "new_empty", "new_zeros")


def _check(op: str, wanted: object) -> Any:
    """What makes a factory's result one of this layout, or None where it is one already."""
    if not isinstance(wanted, layout) or isinstance(wanted, memory_format):
        kind = type(wanted).__name__
        raise TypeError(f"{op}(): argument 'layout' must be torch.layout, not {kind}")
    if wanted is strided:
        return None
    if op in ("full", "ones"):
        raise RuntimeError(
            f"{op}(...) is not implemented for sparse layout: make it strided and call "
            f".to_sparse(layout={wanted!r})"
        )
    if op not in _SPARSE or wanted is jagged:
        raise NotImplementedError(
            f"{op}: layout={wanted!r}: it makes strided tensors alone; a sparse one of their "
            "elements comes from .to_sparse(layout=...), a jagged one from torch.nested"
        )

    def made(dense: Any) -> Any:
        wants_grad = dense.requires_grad
        sparse = dense.detach().zero_().to_sparse(layout=wanted)
        return sparse.requires_grad_() if wants_grad else sparse

    return made
