"""Tensors as engines see them: addresses, without a copy where the memory is in one piece."""

from __future__ import annotations

from rushlight.distributed import _reductions
from rushlight.distributed._errors import DistBackendError
from rushlight.distributed._groups import GroupMember, ProcessGroup, the_group
from rushlight.distributed._work import Work, progress, user_site

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta
    from typing import Any


class Call:
    """One collective: its tensors, what follows the communication, and the start of it."""

    def __init__(self, name: str, group: ProcessGroup) -> None:
        self.name = name
        self.site = user_site()
        self.number = 0  # in the group, if others of this machine can be compared with
        self.group = group
        self.engine: Any = None  # that of the first tensor's device
        self._keep: list[Any] = []
        self._after: list[Callable[[], None]] = []
        self._written: list[Any] = []

    @property
    def comm(self) -> Any:
        """The engine's nonblocking collectives."""
        return self.engine.comm

    @property
    def in_place(self) -> Any:
        """What a collective is given in place of an input that is its output."""
        return self.engine.in_place

    def use(self, device: str) -> None:
        """The engine that moves tensors of a device."""
        engine = self.group._engine(device, self.name)
        if self.engine is not None and engine is not self.engine:
            raise ValueError(
                f"{self.name}: the tensors are on different devices: {self.engine.device} and "
                f"{device}"
            )
        self.engine = engine

    def agree(self, tensor: Any = None, op: Any = None, *more: Any, pairs: Any = None) -> None:
        """Compares with what the others call: the name, and the size, dtype, operation, root.

        ``pairs`` are a text, and the numbers of values for, and of, each process.
        """
        lines = self.group._lines
        if lines is None:
            return
        shape = None
        what: tuple[Any, ...] = (self.name, op, *more)
        if tensor is not None:
            shape = tensor.shape
            what = (self.name, op, tensor.dtype, tensor.numel(), *more)
        try:
            self.number = lines.enter(what, shape, self.site, pairs)
        except DistBackendError:
            self.group._mark_failed()
            raise

    def line(self) -> str:
        """The line of the program that called."""
        return f"{self.site[0]}:{self.site[1]}"

    def tensor(self, value: Any, what: str = "tensor") -> Any:
        """Checks that a value is a dense tensor."""
        from rushlight import Tensor

        if not isinstance(value, Tensor):
            raise TypeError(
                f"{self.name}: Invalid function argument. Expected parameter `{what}` of type "
                f"torch.Tensor, got {type(value).__name__}"
            )
        self.use(value.device.type)
        return value

    def tensors(self, values: Any, what: str) -> list[Any]:
        """Checks that a value is a list of tensors."""
        from rushlight import Tensor

        if not isinstance(values, (list, tuple)) or not all(isinstance(t, Tensor) for t in values):
            raise TypeError(
                f"{self.name}: Invalid function argument. Expected parameter `{what}` of type "
                "List[torch.Tensor]"
            )
        for value in values:
            self.use(value.device.type)
        return list(values)

    def place(self, tensor: Any) -> Any:
        """Where the engine takes a tensor: on its own device, or in main memory."""
        return tensor.device if tensor.device.type == self.engine.device else self.engine.device

    def source(self, tensor: Any) -> Any:
        """A tensor whose memory can be sent."""
        tensor = tensor.detach()
        if tensor.device.type != self.engine.device:
            tensor = tensor.to(self.engine.device)
        if tensor.is_conj() or tensor.is_neg():
            tensor = tensor.resolve_conj().resolve_neg()
        if not tensor.is_contiguous():
            tensor = tensor.contiguous()
        self._keep.append(tensor)
        return tensor

    def apart(self, source: Any, target: Any) -> Any:
        """What is sent, in memory of its own: MPI does not read what it writes."""
        if source.untyped_storage().data_ptr() != target.untyped_storage().data_ptr():
            return source
        return self.source(source.clone())

    def target(self, tensor: Any) -> Any:
        """A tensor whose memory can be written, and that ends up in the given one."""
        plain = self.source(tensor)
        self._written.append(tensor)
        if plain.data_ptr() != tensor.data_ptr() or plain.device != tensor.device:
            given = tensor.detach()
            self._after.append(lambda: given.copy_(plain))
        return plain

    def flat(self, count: int, like: Any) -> Any:
        """Fresh memory for ``count`` values, in one piece."""
        import rushlight as torch

        made = torch.empty(count, dtype=like.dtype, device=self.place(like))
        self._keep.append(made)
        return made

    def joined_source(self, tensors: Sequence[Any]) -> Any:
        """The values of tensors one after the other; their own memory if it already is so."""
        import rushlight as torch

        if _adjacent(tensors, self.engine.device):
            self._keep.append(tensors)
            return _span(tensors)
        place = self.place(tensors[0])
        made = torch.cat([t.detach().to(place).reshape(-1) for t in tensors])
        self._keep.append(made)
        return made

    def joined_target(self, tensors: Sequence[Any]) -> Any:
        """Memory for the values of tensors one after the other, which ends up in them."""
        self._written.extend(tensors)
        if _adjacent(tensors, self.engine.device):
            self._keep.append(tensors)
            return _span(tensors)
        made = self.flat(sum(t.numel() for t in tensors), tensors[0])

        def spread() -> None:
            at = 0
            for t in tensors:
                given = t.detach()
                given.copy_(made[at : at + t.numel()].view(t.shape))
                at += t.numel()

        self._after.append(spread)
        return made

    def memory(self, tensor: Any, counts: Sequence[int] | None = None) -> Any:
        """What the engine is given of a tensor; with the number of values per rank."""
        return self.engine.memory(tensor, counts)

    def op(self, op: Any, dtype: Any) -> Any:
        """The operation that combines values, in the engine's terms."""
        kind = _reductions.kind(op, self.name)
        _reductions.check_op(kind, dtype, self.name)
        return self.engine.op(kind, dtype, self.name)

    def prepare(self, tensor: Any, op: Any) -> None:
        """Multiplies by the factor of a PREMUL_SUM."""
        if getattr(op, "factor", None) is not None:
            tensor.mul_(op.factor)

    def average(self, tensor: Any, op: Any) -> None:
        """Divides the sum by the number of processes, when it has come, if the op is AVG."""
        if _reductions.kind(op, self.name) is _reductions.RedOpType.AVG:
            count = self.group.size()
            if tensor.is_floating_point() or tensor.is_complex():
                self.first(lambda: tensor.div_(count))
            else:
                self.first(lambda: tensor.div_(count, rounding_mode="trunc"))

    def first(self, function: Callable[[], None]) -> None:
        """Something to do as soon as the communication has ended."""
        self._after.insert(0, function)

    def wait(self, request: Any) -> None:
        """Waits for a part of the communication."""
        Work(self, [request], keep=self._keep)._run()

    def run(
        self,
        requests: list[Any],
        async_op: bool,
        result: Any = None,
        status: Any = None,
        timeout: timedelta | None = None,
        watched: bool = True,
    ) -> Any:
        """Waits for the communication, or hands out its Work, which a thread moves on."""
        self._mark_written()
        requests = [r for r in requests if r is not None]
        seconds = None if timeout is None else timeout.total_seconds()
        if self.engine.device == "cuda":
            return self.engine.run(self, requests, async_op, result, status, seconds)
        work = Work(self, requests, self._finish, result, self._keep, status)
        if not requests:
            work._complete()
        if async_op:
            if requests:
                progress.add(work, watched)
            return work
        work._run(seconds)
        return None

    def _mark_written(self) -> None:
        """Saved tensors notice a write by a collective as they do one by an op."""
        if self._written:
            from rushlight.autograd.graph import increment_version

            increment_version(self._written)

    def _finish(self) -> None:
        if self._after:
            import rushlight as torch

            with torch.inference_mode():  # tensors of that mode are changed in it alone
                for function in self._after:
                    function()


def start(name: str, group: Any) -> Call | None:
    """The beginning of a collective; None in a process that is not part of the group."""
    if group == GroupMember.NON_GROUP_MEMBER:
        import warnings

        warnings.warn(
            f"Running {name} on global rank {the_group(None, name).rank()} which does not belong "
            "to the given group.",
            stacklevel=3,
        )
        return None
    return Call(name, the_group(group, name))


def root(
    call: Call, rank: int | None, group_rank: int | None, what: str, default: int | None = None
) -> int:
    """The rank in the group of the process that a program names by either rank."""
    members = call.group
    if group_rank is not None:
        if rank is not None:
            raise ValueError(f"{call.name}: Can't specify both {what} and group_{what}")
        if not 0 <= group_rank < members.size():
            raise ValueError(f"{call.name}: group_{what} {group_rank} is not in the group")
        return int(group_rank)
    rank = default if rank is None else rank
    if rank is None:
        raise ValueError(
            f"{call.name}: Must specify global_rank or group_rank: give {what} or group_{what}"
        )
    rank = int(rank)
    if rank not in members._ranks:
        raise ValueError(
            f"{call.name}: Global rank {rank} is not part of group {members!r}: {what} is a rank "
            f"of the whole world, group_{what} one of the group"
        )
    return members._ranks.index(rank)


def _adjacent(tensors: Sequence[Any], device: str) -> bool:
    """Whether tensors lie one behind the other in memory."""
    if not tensors:
        return False
    at = tensors[0].data_ptr()
    storage = tensors[0].untyped_storage().data_ptr()
    for tensor in tensors:
        if tensor.device.type != device or not tensor.is_contiguous() or tensor.data_ptr() != at:
            return False
        if tensor.untyped_storage().data_ptr() != storage or tensor.dtype != tensors[0].dtype:
            return False
        at += tensor.numel() * tensor.element_size()
    return True


def _span(tensors: Sequence[Any]) -> Any:
    """One flat tensor over adjacent ones."""
    count = sum(t.numel() for t in tensors)
    return tensors[0].detach().as_strided((count,), (1,))
