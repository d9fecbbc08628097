"""Gradients side by side in flat buffers: what one collective of DDP carries."""

from __future__ import annotations

from rushlight import _C

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from rushlight._C import Tensor

_ops = _C._namespaces[""]

MIB = 1 << 20
ALONE = (
    MIB  # bytes of a gradient that is summed where it lies: copies would cost more than a message
)


def plan(
    parameters: Sequence[Tensor],
    order: Iterable[int],
    caps: Sequence[int],
    large: Container[int] = (),
) -> list[list[int]]:
    """The parameters of each bucket: at most a cap of bytes of one dtype on one device.

    ``order`` is the order in which gradients become ready. The first bucket has the first cap, the
    next the second, those that follow the last; those that are ``large`` stand alone.

    >>> import rushlight as torch
    >>> from rushlight.nn.parallel._buckets import plan
    >>> plan([torch.zeros(2), torch.zeros(2), torch.zeros(1)], [2, 1, 0], [4, 16])
    [[2], [1, 0]]
    """
    done: list[list[int]] = []
    open_: dict[object, tuple[list[int], int]] = {}
    for i in order:
        p = parameters[i]
        if i in large:
            done.append([i])
            continue
        key = (p.dtype, p.device)
        members, filled = open_.pop(key, ([], 0))
        members.append(i)
        filled += p.nbytes
        if filled >= caps[min(len(done), len(caps) - 1)]:
            done.append(members)
        else:
            open_[key] = (members, filled)
    return done + [members for members, _ in open_.values()]


def is_large(parameter: Tensor) -> bool:
    """Whether its gradient is worth a collective of its own."""
    return parameter.device.type == "cpu" and parameter.nbytes >= ALONE


class Bucket:
    """One buffer: the gradients of its parameters, then marks for those that had one.

    The marks travel with the gradients: their sum says whether any process used the parameter.
    ``marked`` are the parameters whose marks this bucket carries. One without marks is a large
    gradient alone: it has a buffer only if it is asked for.
    """

    def __init__(
        self,
        number: int,
        members: list[int],
        parameters: Sequence[Tensor],
        marked: Sequence[int] | None = None,
    ) -> None:
        self.number, self.members = number, members
        self.marked = members if marked is None else marked
        self.alone = not self.marked
        self.parameters = [parameters[i] for i in members]
        self.waits_for = len(members)
        self.start, self.lead = 0.0, 1.0  # when it went out, seconds until it was waited for
        self.in_place = False  # whether this pass sums the gradient where it lies
        if self.marked:
            self.allocate()

    def allocate(self) -> None:
        """Makes the buffer, once."""
        if hasattr(self, "whole"):
            return
        sizes = [p.numel() for p in self.parameters]
        self.whole = _ops["zeros"](
            sum(sizes) + len(self.marked),
            dtype=self.parameters[0].dtype,
            device=self.parameters[0].device,
        )
        self.buffer = self.whole[: sum(sizes)]
        self.marks = self.whole[sum(sizes) :]
        ends = [sum(sizes[: k + 1]) for k in range(len(sizes))]
        self.views = [
            self.buffer[end - size : end].view(p.shape)
            for p, size, end in zip(self.parameters, sizes, ends, strict=True)
        ]


class GradBucket:
    """The gradients that a communication hook is given: see ``register_comm_hook``.

    >>> import rushlight as torch
    >>> from rushlight.nn.parallel._buckets import Bucket, GradBucket
    >>> weight, bias = torch.zeros(2, 2), torch.zeros(2)
    >>> bucket = GradBucket(Bucket(0, [0, 1], [weight, bias]), last=True)
    >>> bucket.index(), bucket.is_last(), bucket.buffer().shape
    (0, True, torch.Size([6]))
    >>> [g.shape for g in bucket.gradients()]
    [torch.Size([2, 2]), torch.Size([2])]
    """

    def __init__(self, bucket: Bucket, last: bool) -> None:
        self._bucket, self._last = bucket, last

    def index(self) -> int:
        """The bucket's number, from 0 on in the order of the collectives."""
        return self._bucket.number

    def buffer(self) -> Tensor:
        """All gradients in one dimension, not divided by the number of processes."""
        return self._bucket.buffer

    def gradients(self) -> list[Tensor]:
        """Each gradient in its shape, as a view of the buffer."""
        return list(self._bucket.views)

    def parameters(self) -> list[Tensor]:
        """The parameters, in the same order."""
        return list(self._bucket.parameters)

    def is_last(self) -> bool:
        """Whether it is the last bucket of this backward pass."""
        return self._last

    def set_buffer(self, buffer: Tensor) -> None:
        """Puts other numbers into the buffer."""
        self._bucket.buffer.copy_(buffer)
