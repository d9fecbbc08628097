"""Watches a region's forward pass and writes it down as a program (`_program.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ref

from rushlight import _C
from rushlight.overrides import TorchFunctionMode
from rushlight.utils.checkpoint._program import (
    Call,
    Geometry,
    Pinned,
    Place,
    Result,
    compute,
    leaves,
    transform,
)
from rushlight.utils.checkpoint._region import entering

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rushlight.utils.checkpoint._region import Slot


class Tape(TorchFunctionMode):
    """A mode for a region's forward pass. Subclasses say which results are kept."""

    allow_mutation = False  # of kept results
    may_run_again = True  # the function, when a kept result was written to

    def __init__(self) -> None:
        self.known: dict[int, tuple[ref[Any], int, Place]] = {}
        self.saved: list[tuple[Slot, Any, int]] | None = None  # by the op that is running
        self.count = 0

    def keeps(self, call: Call, args: Any, kwargs: dict[str, Any], out: Any) -> bool:
        """Whether the results of a call that has just run are kept from now on."""
        return False

    def wanted(self, result: Result, tensor: Any) -> None:
        """The graph has saved a result, or a view of it, for the first time."""

    def __enter__(self) -> Tape:
        self.recording = entering.call is not None
        if entering.call is not None:
            region, tensors = entering.call
            region.tape = self
            self.depth = _C._saved_hooks_depth()
            call = self.new_call(region.inputs.tensors)
            for tensor in tensors:
                self.add_result(call, tensor)
            super().__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self.recording:
            super().__exit__(*error)
            self.known.clear()

    def new_call(self, func: Callable[..., Any], arguments: Any = ((), {})) -> Call:
        self.count += 1
        return Call(self.count, func, arguments)

    def add_result(self, call: Call, tensor: Any) -> Result:
        result = Result(call, tensor)
        call.results.append(ref(result))
        self.known[id(tensor)] = (ref(tensor), tensor._version, Place(result))
        return result

    def place(self, tensor: Any) -> Place | Pinned:
        """Where a tensor stands in the program, if it does and was not written to since."""
        place = self.known_place(tensor)
        if place is not None:
            return place
        base: Any = tensor._base
        place = self.known_place(base)
        if place is not None and _same_kind(base, tensor):
            return Place(place.result, Geometry.of(tensor))
        return Pinned(tensor, tensor._version)

    def known_place(self, tensor: Any) -> Place | None:
        if tensor is None or id(tensor) not in self.known:
            return None
        reference, version, place = self.known[id(tensor)]
        return place if tensor._version == version and reference() is tensor else None

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        tensors = leaves((args, kwargs), _C.Tensor)
        versions = [t._version for t in tensors]
        places = [self.place(t) for t in tensors]
        following = iter(places)
        arguments = transform((tuple(args), kwargs), _C.Tensor, lambda _: next(following))
        call = self.new_call(func, arguments)
        call.inputs = [p.result for p in places if isinstance(p, Place)]
        for result in call.inputs:
            result.readers.append(ref(call))
        call.need_grad = [t.requires_grad for t in tensors]
        generators = [_C.default_generator, *leaves((args, kwargs), _C.Generator)]
        states = [(g, g._raw_state()) for g in generators]
        self.saved = []
        try:
            out = func(*args, **kwargs)
            saved = self.saved
        finally:
            self.saved = None
        call.saves = len(saved)
        call.states = [(g, state) for g, state in states if g._raw_state() != state]
        call.writes = [t._version != v for t, v in zip(tensors, versions, strict=True)]
        keep = self.keeps(call, args, kwargs, out)
        results = self.add_results(call, tensors, places, out)
        before = {id(t): (v, p) for t, v, p in zip(tensors, versions, places, strict=True)}
        for number, (slot, tensor, version) in enumerate(saved):
            if before.get(id(tensor), (None,))[0] == version:
                self.give(slot, before[id(tensor)][1], tensor, version)
                continue
            place = self.place_of_saved(tensor, tensors, call.writes, out)
            if place is None:
                result = Result(call, tensor)
                call.hidden[number] = ref(result)
                results.append((result, tensor))
                place = Place(result)
            self.give(slot, place, tensor, version)
        for result, tensor in results if keep else ():
            result.hold(tensor)
            result.keep(self.allow_mutation)
        return out

    def add_results(
        self, call: Call, tensors: list[Any], places: list[Any], out: Any
    ) -> list[tuple[Result, Any]]:
        """Gives the tensors that an op returned their places. Returns the new results."""
        new = []
        for tensor in leaves(out, _C.Tensor):
            at = next((i for i, t in enumerate(tensors) if t._is_same_storage(tensor)), None)
            if at is None or (call.writes[at] and isinstance(places[at], Place)):
                new.append((self.add_result(call, tensor), tensor))
            elif isinstance(places[at], Place) and not _same_kind(tensors[at], tensor):
                self.add_result(call, tensor)
            else:
                call.results.append(None)
                if isinstance(places[at], Place) and tensor is not tensors[at]:
                    view = Place(places[at].result, Geometry.of(tensor))
                    self.known[id(tensor)] = (ref(tensor), tensor._version, view)
        return new

    def place_of_saved(self, tensor: Any, tensors: list[Any], writes: list[bool], out: Any) -> Any:
        """The place of what an op saved beside its arguments; None if the op has made it."""
        place = self.place(tensor)
        if isinstance(place, Place):
            return place
        given = [t for t, write in zip(tensors, writes, strict=True) if not write]
        for visible in (*given, *leaves(out, _C.Tensor)):
            if visible._is_same_storage(tensor):
                whole = self.known_place(visible)
                if whole is None or not _same_kind(visible, tensor):
                    return place
                return Place(whole.result, Geometry.of(tensor))
        return None

    def note(self, slot: Slot, tensor: Any) -> None:
        """A tensor is being saved, by the op that is running or by something else."""
        if _C._saved_hooks_depth() > self.depth:  # other hooks have made it of what was saved
            slot.place = Pinned(tensor, tensor._version)
        elif self.saved is not None:
            self.saved.append((slot, tensor, tensor._version))
        else:
            self.give(slot, self.place(tensor), tensor, tensor._version)

    def give(self, slot: Slot, place: Place | Pinned, tensor: Any, version: int) -> None:
        slot.place = place
        if isinstance(place, Place):
            place.result.slots.append(ref(slot))
            if len(place.result.slots) == 1 and tensor._version == version:
                self.wanted(place.result, tensor)

    @staticmethod
    def fetch(slot: Slot) -> Any:
        """The tensor for a slot."""
        place = slot.place
        if isinstance(place, Pinned):
            return place.get()
        if place.result.tensor is None:
            compute(place.result)
        value = place.get()
        slot.taken = True
        place.result.drop_if_idle()
        return value


def _same_kind(a: Any, b: Any) -> bool:
    """Whether one can be a view of the other by strides alone."""
    return a.dtype == b.dtype and not a.is_complex()
