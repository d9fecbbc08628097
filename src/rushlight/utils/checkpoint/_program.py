"""The ops of a region as a small program that computes some of its tensors from others.

Each op is a `Call`, each tensor that it returns a `Result`. What the graph saved is a place in the
program. A slot owns its place, a result its call, a call the results it reads: so a part of the
program lives as long as a slot that may need it, and backward frees it step by step. See
docs/design/checkpointing.md.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from weakref import ref

from rushlight import _C
from rushlight.autograd import enable_grad, no_grad
from rushlight.autograd.graph import saved_tensors_hooks
from rushlight.utils.checkpoint._precision import precision, under
from rushlight.utils.checkpoint._report import Overwritten, Unfollowable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rushlight.utils.checkpoint._region import Slot

_T = TypeVar("_T")


def bare(tensor: Any) -> Any:
    """The tensor without its history, but with the tangents of forward mode."""
    if not _C._is_dual(tensor):
        return tensor.detach()
    with no_grad():
        return tensor.view_as(tensor)


class Geometry(NamedTuple):
    """How a tensor lies in its storage."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    @classmethod
    def of(cls, tensor: Any) -> Geometry:
        return cls(tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset())


class Result:
    """A tensor that a call returned, or saved on the side: it is there, or can be computed."""

    __slots__ = (
        "__weakref__",
        "call",
        "geometry",
        "kept",
        "readers",
        "slots",
        "tensor",
        "version",
    )

    def __init__(self, call: Call, tensor: Any) -> None:
        self.call = call
        self.readers: list[ref[Call]] = []
        self.geometry = Geometry.of(tensor)
        self.tensor: Any = None
        self.version: int | None = None  # None: may be written to
        self.kept = False
        self.slots: list[ref[Slot]] = []

    def hold(self, alias: Any) -> None:
        """Has the tensor there, given itself or another view of its storage."""
        tensor = bare(alias)
        same = Geometry.of(tensor) == self.geometry
        self.tensor = tensor if same else tensor.as_strided(*self.geometry)
        self.version = tensor._version

    def keep(self, allow_mutation: bool) -> None:
        """Holds the tensor for good: nothing before it is needed for its sake."""
        self.kept = True
        self.version = None if allow_mutation else self.version
        self.call = NO_CALL

    def get(self) -> Any:
        if self.version is not None and self.tensor._version != self.version:
            raise Overwritten(self.tensor, self.version, kept=True)
        return self.tensor

    def is_awaited(self) -> bool:
        """Whether a slot waits for it."""
        return any(not slot.taken for slot in _living(self.slots))

    def drop_if_idle(self) -> None:
        """Lets go of a computed tensor unless a slot, or a call for one, will soon read it."""
        readers = _living(self.readers)
        if not (self.kept or self.is_awaited() or any(call.is_awaited() for call in readers)):
            self.tensor = None


class Place(NamedTuple):
    """A tensor in the program: a result, or a view of one when there is a geometry."""

    result: Result
    geometry: Geometry | None = None

    def get(self) -> Any:
        tensor = self.result.get()
        return tensor if self.geometry is None else tensor.as_strided(*self.geometry)


class Pinned(NamedTuple):
    """A tensor that the program can't compute: a parameter, or what an unseen op had made."""

    tensor: Any
    version: int

    def get(self) -> Any:
        if self.tensor._version != self.version:
            raise Overwritten(self.tensor, self.version, kept=False)
        return self.tensor


PLACES = (Place, Pinned)


class Call:
    """An op with its arguments, in which places stand for tensors."""

    __slots__ = (
        "__weakref__",
        "arguments",
        "func",
        "hidden",
        "inputs",
        "need_grad",
        "number",
        "precision",
        "results",
        "saves",
        "states",
        "writes",
    )

    def __init__(self, number: int, func: Callable[..., Any], arguments: Any = ((), {})) -> None:
        self.number = number
        self.func = func
        self.arguments = arguments
        self.precision = precision()
        self.inputs: list[Result] = []  # among the arguments
        self.need_grad: list[bool] = []  # which tensors among the arguments require grad
        self.writes: list[bool] = []  # which of them the op changes
        self.states: list[tuple[Any, Any]] = []  # of the generators that the op draws from
        self.results: list[ref[Result] | None] = []  # None where it returned a view
        self.saves = 0  # how many tensors it saves
        self.hidden: dict[int, ref[Result]] = {}  # those that are not visible otherwise, by number

    def is_awaited(self) -> bool:
        """Whether a slot waits for a result that has still to be computed."""
        references = [*filter(None, self.results), *self.hidden.values()]
        return any(r.tensor is None and r.is_awaited() for r in _living(references))

    def run(self) -> None:
        """Computes the results."""
        flags = zip(self.need_grad, self.writes, strict=True)

        def tensor(place: Any) -> Any:
            need_grad, write = next(flags)
            value = place.tensor if write and isinstance(place, Pinned) else place.get()
            if self.hidden:
                value = bare(value).requires_grad_(need_grad)
            return value.clone() if write else value  # what it writes to changed in forward

        saved: list[Any] = []

        def catch(value: Any) -> None:
            saved.append(bare(value))

        states = tuple((g._raw_state, g._set_raw_state, state) for g, state in self.states)
        # Only what an op saves on the side needs a graph around it.
        with enable_grad() if self.hidden else no_grad():
            args, kwargs = transform(self.arguments, PLACES, tensor)
            with (
                under(self.precision),
                saved_tensors_hooks(catch, catch) if self.hidden else nullcontext(),
                _C._Scope(("states", states)),
            ):
                out = self.func(*args, **kwargs)
        if self.hidden and len(saved) != self.saves:
            raise Unfollowable(f"torch.utils.checkpoint: {self.func.__name__} saves other tensors")
        made = list(zip(self.results, leaves(out, _C.Tensor), strict=True))
        made += [(reference, saved[i]) for i, reference in self.hidden.items()]
        for reference, value in made:
            result = reference() if reference is not None else None
            if result is not None and result.tensor is None:
                result.hold(value)
                for slot in _living(result.slots):
                    slot.taken = False


NO_CALL = Call(-1, tuple)


def compute(wanted: Result) -> None:
    """Runs the calls that a result needs, and leaves what other slots wait for as well."""
    calls: set[Call] = set()
    open_ends = [wanted]
    uses: dict[Result, int] = {wanted: 1}
    while open_ends:
        result = open_ends.pop()
        if result.tensor is None and result.call not in calls:
            calls.add(result.call)
            open_ends += result.call.inputs
            for used in result.call.inputs:
                uses[used] = uses.get(used, 0) + 1
    for call in sorted(calls, key=lambda c: c.number):
        call.run()
        for used in call.inputs:
            uses[used] -= 1
            if not uses[used]:
                used.drop_if_idle()


def _living(references: Iterable[ref[_T]]) -> Iterator[_T]:
    return (found for found in (reference() for reference in references) if found is not None)


def leaves(tree: Any, kind: type | tuple[type, ...]) -> list[Any]:
    """The objects of that kind in nested tuples, lists, dicts and slices."""
    found: list[Any] = []
    _collect(tree, kind, found)
    return found


def _collect(tree: Any, kind: type | tuple[type, ...], found: list[Any]) -> None:
    if isinstance(tree, kind):
        found.append(tree)
    elif isinstance(tree, (tuple, list)):
        for item in tree:
            _collect(item, kind, found)
    elif isinstance(tree, dict):
        for item in tree.values():
            _collect(item, kind, found)
    elif isinstance(tree, slice):
        _collect((tree.start, tree.stop, tree.step), kind, found)


def transform(tree: Any, kind: type | tuple[type, ...], f: Callable[[Any], Any]) -> Any:
    """A copy of the tree with f applied to the objects of that kind, in the order of `leaves`."""
    if isinstance(tree, kind):
        return f(tree)
    if isinstance(tree, (tuple, list)):
        items = [transform(item, kind, f) for item in tree]
        return items if isinstance(tree, list) else tuple(items)
    if isinstance(tree, dict):
        return {key: transform(item, kind, f) for key, item in tree.items()}
    if isinstance(tree, slice):
        return slice(*transform((tree.start, tree.stop, tree.step), kind, f))
    return tree
