"""Layouts and memory formats: names that programs pass around."""

from rushlight import _C


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
