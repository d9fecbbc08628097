"""Layouts and memory formats: names that programs pass around; tensors are dense and strided."""


class layout:
    """How a tensor's elements are stored. Only ``strided`` exists.

    >>> import rushlight as torch
    >>> torch.ones(2).layout
    torch.strided
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


class memory_format(layout):
    """The order in which a copy lays out its dimensions.

    >>> import rushlight as torch
    >>> torch.ones(2, 3).t().contiguous(memory_format=torch.contiguous_format).stride()
    (2, 1)
    """

    __slots__ = ()


strided = layout("strided")
contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
