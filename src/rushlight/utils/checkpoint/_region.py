"""A checkpointed call: it keeps its inputs, and computes what it saved again when asked for it."""

from __future__ import annotations

import _thread
from contextlib import nullcontext, suppress
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import ref

import rushlight
from rushlight import _C
from rushlight.autograd import Function, enable_grad
from rushlight.autograd.graph import saved_tensors_hooks
from rushlight.overrides import TorchFunctionMode
from rushlight.utils.checkpoint import _report
from rushlight.utils.checkpoint._precision import precision, under
from rushlight.utils.checkpoint._program import bare
from rushlight.utils.checkpoint._rng import States

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from rushlight.autograd.graph import SavedTensorInfo
    from rushlight.utils.checkpoint._report import Mark
    from rushlight.utils.checkpoint._tape import Tape


class _Entering(_thread._local):
    """Tells a forward context the region that it is entered for, and the tensors it is given."""

    call: tuple[Region, list[Any]] | None = None


entering = _Entering()


class Slot:
    """Stands in the graph for a tensor that the region did not keep."""

    __slots__ = ("__weakref__", "index", "place", "region", "taken", "value", "version")

    def __init__(self, region: Region, index: int) -> None:
        self.region = region
        self.index = index
        self.value: Any = None  # there between a recomputation and its use
        self.version = 0
        self.place: Any = None  # in the region's program, when it has a tape
        self.taken = False


class CheckpointInputs(Function):
    """Saves the inputs of a region like an op would: version-checked, and through outer hooks.

    So the region inside another one keeps nothing alive that the outer one gives up.
    """

    @staticmethod
    def forward(ctx: Any, anchor: Any, *tensors: Any) -> Any:
        ctx.save_for_backward(*tensors)
        return anchor.detach()

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> None:
        """The result is empty, and so is its tangent."""


class Inputs:
    """The arguments of a call, to make it again."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.values = [*args, *kwargs.values()]
        self.names = tuple(kwargs)
        self.places = [i for i, v in enumerate(self.values) if isinstance(v, _C.Tensor)]
        tensors = [self.values[i] for i in self.places]
        self.need_grad = [t.requires_grad for t in tensors]
        anchor = rushlight.empty(0, requires_grad=True)
        self.node: Any = CheckpointInputs.apply(anchor, *tensors).grad_fn
        for i in self.places:
            self.values[i] = None

    def tensors(self) -> Any:
        return self.node.saved_tensors

    def get(self) -> tuple[list[Any], dict[str, Any]]:
        values = list(self.values)
        for i, tensor, need_grad in zip(self.places, self.tensors(), self.need_grad, strict=True):
            # An outer region gives a bare value, but this one must record what it recorded.
            lost = need_grad and not tensor.requires_grad
            values[i] = bare(tensor).requires_grad_() if lost else tensor
        count = len(values) - len(self.names)
        return values[:count], dict(zip(self.names, values[count:], strict=True))


class Ops(TorchFunctionMode):
    """Counts the ops of a region since one saved something, and knows the one that is running."""

    def __init__(self) -> None:
        self.count = 0
        self.running: tuple[int, str, int] | None = None  # the count, its name and arguments'
        self.args: Any = ()

    def argument(self, tensor: Any) -> int:
        """Which argument of the running op the tensor is; -1 when it is none."""
        return next((i for i, value in enumerate(self.args) if value is tensor), -1)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func.__name__ in ("detach", "view_as"):  # save nothing, and hooks call them
            return func(*args)
        self.count += 1
        self.running, self.args = (self.count, func.__name__, len(args)), args
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.running, self.args = None, ()


class Region:
    """One call of ``checkpoint``, alive as long as the graph holds one of its slots."""

    def __init__(
        self,
        function: Callable[..., Any],
        inputs: Inputs,
        recompute_context: AbstractContextManager[Any],
        states: States | None,
        check: str,
        early_stop: bool,
        debug: bool,
    ) -> None:
        self.function = function
        self.inputs = inputs
        self.recompute_context = recompute_context
        self.states = states
        self.precision = precision()
        self.check = check
        self.early_stop = early_stop
        self.debug = debug
        self.slots: list[ref[Slot]] = []
        self.marks: list[Mark] = []
        self.savers: list[tuple[Any, int]] = []  # by slot: which op, and which argument of it
        self.ops = Ops()
        self.complete = False
        self.writes = False  # the function writes to tensors that it has saved
        self.tape: Tape | None = None
        self.lock = _thread.RLock()

    def mark(self, tensor: Any, info: SavedTensorInfo | Mark) -> Mark:
        return _report.describe_saved(tensor, info, self.check == "values")

    def pack(self, tensor: Any, info: SavedTensorInfo) -> Slot:
        slot = Slot(self, len(self.slots))
        self.slots.append(ref(slot))
        self.marks.append(self.mark(tensor, info))
        self.savers.append((self.ops.running, self.ops.argument(tensor)))
        self.ops.count = 0
        if self.tape is not None:
            self.tape.note(slot, tensor)
        return slot

    def forward(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], context: AbstractContextManager[Any]
    ) -> Any:
        tensors = [v for v in (*args, *kwargs.values()) if isinstance(v, _C.Tensor)]
        call = ((vars(entering), "call", (self, tensors)),)
        result = self  # in place of a result: the function has not returned
        with (
            _C._Scope(("region", None), ("items", call)),
            saved_tensors_hooks(self.pack, unpack, with_info=True),
            context,
        ):
            entering.call = None
            with self.ops if self.early_stop and self.tape is None else nullcontext():
                result = self.function(*args, **kwargs)
        if result is self:
            raise RuntimeError(
                "torch.utils.checkpoint: the forward context provided by context_fn suppressed an "
                "exception raised during the checkpointed forward. This is not supported because "
                "checkpoint cannot return a value for a failed forward."
            )
        self.complete = True
        if self.states is not None:
            self.states.forget_unused()
        return result

    def last_needed(self) -> int:
        """The index of the last slot that the graph still holds."""
        return next(i for i in reversed(range(len(self.slots))) if self.slots[i]() is not None)

    def recompute(self) -> None:
        """Fills the slots that are alive."""
        replay = Replay(self)
        args, kwargs = self.inputs.get()
        count = self.ops.count  # the function may differentiate, and ask before it has ended
        try:
            with (
                suppress(Stop),
                _C._Scope(("region", None)),
                self.states.replayed() if self.states else nullcontext(),
                under(self.precision),
                enable_grad(),
                saved_tensors_hooks(replay.pack, itemgetter(0), with_info=True),
                self.recompute_context,
                replay if self.early_stop else nullcontext(),
            ):
                self.function(*args, **kwargs)
            replay.finish()
        except BaseException:
            for slot in filter(None, (s() for s in self.slots)):
                slot.value = None
            raise
        finally:
            self.ops.count = count


class Stop(BaseException):
    """Ends a recomputation: all that is needed is there. Not for `except Exception`."""


class Replay(Ops):
    """One run of a region's function that fills its slots."""

    def __init__(self, region: Region) -> None:
        super().__init__()
        self.region = region
        self.marks: list[Mark] = []
        self.last = region.last_needed()
        self.error: Exception | None = None
        self.last_op = op = region.savers[self.last][0]
        self.last_saved = [(i, s[1]) for i, s in enumerate(region.savers) if s[0] is op]

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """The last op need not run when all that it saved were its arguments."""
        if (self.count + 1, func.__name__, len(args)) == self.last_op:
            first, places = len(self.marks), [argument for _, argument in self.last_saved]
            if first == self.last_saved[0][0] and -1 not in places:
                for index, place in self.last_saved:
                    self.pack(args[place], self.region.marks[index])
        return super().__torch_function__(func, types, args, kwargs)

    def pack(self, tensor: Any, info: SavedTensorInfo | Mark) -> Any:
        region, index = self.region, len(self.marks)
        self.count = 0
        self.marks.append(region.mark(tensor, info))
        value = tensor.clone() if region.writes else bare(tensor)
        if index < len(region.slots):
            if region.check != "none" and not _report.agree(region.marks[index], self.marks[index]):
                self.fail(_report.different_tensor)
            slot = region.slots[index]()
            if slot is not None:
                slot.value, slot.version = value, value._version
        elif region.complete and not region.early_stop:
            self.fail(_report.too_many)
        if region.early_stop and index >= self.last:
            raise Stop
        return (value,)  # not a tensor: hooks further out are not to see it

    def fail(self, error: Callable[[list[Mark], list[Mark], bool], Exception]) -> NoReturn:
        self.error = error(self.region.marks, self.marks, self.region.debug)
        raise self.error

    def finish(self) -> None:
        """Raises what the function may have caught, and when it saved too little."""
        if self.error is not None:
            raise self.error
        needed = self.last + 1 if self.region.early_stop else len(self.region.slots)
        if len(self.marks) < needed:
            self.fail(_report.different_count)


def unpack(slot: Slot) -> Any:
    """The tensor for a slot: recomputed unless an earlier recomputation left it there."""
    region = slot.region
    with _C._Scope(("lock", region.lock)):
        if region.tape is not None:
            try:
                return _replayed(region.tape, slot)
            except _report.Unfollowable as error:
                if error.kept and not region.tape.may_run_again:
                    raise
                region.tape = None
        while slot.value is None or slot.value._version != slot.version:
            region.writes |= slot.value is not None
            region.recompute()
        value, slot.value = slot.value, None
    return value


def _replayed(tape: Tape, slot: Slot) -> Any:
    value, region = tape.fetch(slot), slot.region
    if region.check == "values":
        error = _report.different_value(region.marks, slot.index, value, region.debug)
        if error is not None:
            raise error
    return value
