"""Chooses what a region keeps: the results that are dearest to compute again, within a budget."""

from __future__ import annotations

import heapq
import math
from functools import cache
from typing import TYPE_CHECKING, Any

from rushlight import _C
from rushlight.utils.checkpoint._program import leaves
from rushlight.utils.checkpoint._tape import Tape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rushlight.utils.checkpoint._program import Call, Result

_FLOPS_PER_BYTE = 20.0  # work in the time in which memory delivers a byte
_EXACT = 64  # candidates up to which the best choice is searched for


@cache
def _products() -> frozenset[str]:
    """Names of the ops whose work grows faster than their operands."""
    return frozenset(op["name"] for op in _C._registry() if op["family"] == "contraction")


def _work(name: str, tensors: Sequence[Any], out: Sequence[Any]) -> float:
    """An estimate of an op's time, in bytes moved."""
    moved = float(sum(t.nbytes for t in (*tensors, *out)))
    if name in _products() and len(tensors) > 1:
        # For (m, k) by (k, n) the root of the three sizes' product is the m k n of the work.
        sizes = sorted(t.numel() for t in tensors)[-2:]
        moved += 2 * math.sqrt(math.prod(sizes) * out[0].numel()) / _FLOPS_PER_BYTE
    return moved


def choose(items: Sequence[tuple[int, float]], capacity: float) -> set[int]:
    """Which of (bytes, value) to take for the most value within the capacity.

    The best choice when there are few; otherwise by value per byte.
    """
    if len(items) > _EXACT:
        taken, room = set(), capacity
        worth = [value / max(size, 1) for size, value in items]
        for i in sorted(range(len(items)), key=lambda i: -worth[i]):
            if items[i][0] <= room:
                taken.add(i)
                room -= items[i][0]
        return taken
    # Choices that no other beats in both bytes and value, by bytes.
    front: list[tuple[int, float, tuple[int, ...]]] = [(0, 0.0, ())]
    for i, (size, value) in enumerate(items):
        with_it = [(b + size, v + value, (*c, i)) for b, v, c in front if b + size <= capacity]
        best = -1.0
        choices, front = sorted(front + with_it, key=lambda choice: (choice[0], -choice[1])), []
        for choice in choices:
            if choice[1] > best:
                best = choice[1]
                front.append(choice)
    return set(front[-1][2])


class Budget(Tape):
    """Keeps at most a share of the bytes that the graph saves of a region's own tensors.

    While the region runs, what is held stays within the share of the bytes so far and one tensor
    more, so that a long region needs no more memory in its forward pass than afterwards. Among
    equals the earlier one stays: as the budget grows, that spaces what is kept evenly, and
    backward recomputes one short stretch after the other.
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share
        self.total = self.held = self.largest = 0
        self.work: dict[Call, float] = {}
        self.groups: dict[Call, list[Result]] = {}  # held: all that the graph saved of a call
        self.heap: list[tuple[float, int, int, Call]] = []  # by value per byte; may be outdated
        self.dropped: set[Call] = set()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        calls = list(self.groups)
        if self.held > self.share * self.total:
            items = [(self.size(c), self.value(c)) for c in calls]
            chosen = choose(items, self.share * self.total)
            for i in set(range(len(calls))) - chosen:
                self.drop(calls[i])
        for group in self.groups.values():
            for result in group:
                result.keep(allow_mutation=False)
        for store in (self.work, self.groups, self.heap, self.dropped):
            store.clear()

    def keeps(self, call: Call, args: Any, kwargs: dict[str, Any], out: Any) -> bool:
        tensors = leaves((args, kwargs), _C.Tensor)
        self.work[call] = _work(call.func.__name__, tensors, leaves(out, _C.Tensor))
        return False

    def wanted(self, result: Result, tensor: Any) -> None:
        call = result.call
        if call not in self.work:  # an input of the region
            return
        result.hold(tensor)
        result.kept = True
        self.total += result.tensor.nbytes
        self.held += result.tensor.nbytes
        self.groups.setdefault(call, []).append(result)
        if call in self.dropped:
            self.drop(call)
            return
        size, group = self.size(call), len(self.groups[call])
        self.largest = max(self.largest, size)
        heapq.heappush(self.heap, (self.value(call) / max(size, 1), -call.number, group, call))
        while self.held > self.share * self.total + self.largest:
            self.drop(heapq.heappop(self.heap)[3])

    def drop(self, call: Call) -> None:
        self.dropped.add(call)
        for result in self.groups.pop(call, ()):
            self.held -= result.tensor.nbytes
            result.kept, result.tensor = False, None

    def size(self, call: Call) -> int:
        return sum(result.tensor.nbytes for result in self.groups[call])

    def value(self, call: Call) -> float:
        """The work to run a call again, and those before it whose results nothing saves."""
        calls, found = [call], {call}
        for each in calls:
            before = [r.call for r in each.inputs if not r.slots and r.call not in found]
            calls += dict.fromkeys(before)
            found.update(before)
        return sum(self.work.get(each, 0.0) for each in calls)
