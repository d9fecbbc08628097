"""Gradients averaged over processes while the backward pass still runs.

A hook on each parameter puts its gradient into a bucket; a full bucket is all-reduced at once, in
the order of the buckets, which is the same in every process. When the pass ends, what is missing
goes out as zeros, and the averages go back into ``.grad``. See docs/guide/parallel-training.md.
"""

from __future__ import annotations

import time

import rushlight
from rushlight import _C
from rushlight import distributed as dist
from rushlight.distributed._collectives import mean_later
from rushlight.nn.parallel._buckets import Bucket, GradBucket, is_large, plan

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from rushlight._C import Tensor

SOON = 0.0003  # seconds


class Reducer:
    """Averages the gradients of ``parameters`` over the processes of ``group``."""

    def __init__(
        self,
        names: Sequence[str],
        parameters: Sequence[Tensor],
        group: Any,
        caps: Sequence[int],
        as_views: bool = False,
        static: bool = False,
        sparse: Iterable[int] = (),
    ) -> None:
        self.sparse = list(sparse)  # the parameters whose gradients are sparse: in no bucket
        self.names, self.parameters, self.group = list(names), list(parameters), group
        self.caps, self.as_views, self.static = list(caps), as_views, static
        self.world = dist.get_world_size(group)
        self.divisor = self.world  # fewer where processes that ran out of inputs do not count
        self.present = self.world  # how many have inputs
        self.absent = False  # whether this one has none
        self.hook: tuple[Any, Callable[[Any, GradBucket], Any]] | None = None
        self.active = False  # whether the next backward pass averages
        self.passes = 0  # backward passes that did
        self.broken = 0  # passes that ended in an error when some buckets were sent and some not
        count = len(self.parameters)
        self.used = [False] * count  # since gradients were last averaged
        self.expected = [1] * count  # how often a gradient arrives in a pass
        self.unused: list[int] = []  # by no process, in the last pass
        self._sums: list[tuple[Sequence[int], Tensor]] = []  # parameters and how many used them
        self._place(reversed(range(count)))
        self._reset()
        self.handles = [
            p.register_post_accumulate_grad_hook(self._hook_of(i))
            for i, p in enumerate(self.parameters)
        ]

    def _place(self, order: Iterable[int]) -> None:
        """Makes buckets for gradients that come in this order."""
        large = [] if self.as_views else [i for i, p in enumerate(self.parameters) if is_large(p)]
        order = [i for i in order if i not in self.sparse]
        if not order:
            self.buckets: list[Bucket] = []
            self.bucket_of: dict[int, Bucket] = {}
            return
        *earlier, last = plan(self.parameters, order, self.caps, large)
        lone = [m[0] for m in earlier if m[0] in large]
        marked = [[] if m[0] in lone else m for m in earlier]
        self.buckets = [
            Bucket(number, members, self.parameters, marks)
            for number, (members, marks) in enumerate(
                zip([*earlier, last], [*marked, [*last, *lone]], strict=True)
            )
        ]
        self.bucket_of = {i: b for b in self.buckets for i in b.members}

    def _reset(self) -> None:
        """Forgets a pass that has ended."""
        self.running = False
        self.arrivals = [0] * len(self.parameters)
        self.order: list[int] = []
        self.launched = 0
        self.works: list[Any] = []
        for bucket in self.buckets:
            bucket.waits_for = sum(self.expected[i] for i in bucket.members)

    def prepare(self, active: bool) -> None:
        """A forward pass begins; ``active``: the backward pass after it averages."""
        self.active = active
        if self.running:  # the last one ended in an error
            self._give_up()

    def _give_up(self) -> None:
        """What was sent arrives before the buckets are filled again; what was not is left out.

        Where others sent more, it would be added to buckets of the next pass: the number of such
        passes is compared with every bucket.
        """
        works = self.works
        self.broken += 0 < self.launched < len(self.buckets)
        self._reset()
        for work in works:
            work.wait()

    # -- in the backward pass ----------------------------------------------------------------------

    def _hook_of(self, i: int) -> Callable[[Tensor], None]:
        def arrived(parameter: Tensor) -> None:
            self.used[i] = True
            if not self.active:
                return
            if not self.running:
                self.running = True
                _C._queue_callback(self._end)
            self.arrivals[i] += 1
            bucket = self.bucket_of.get(i)
            if bucket is None:
                return
            if self.passes == 0:
                # How often and in which order gradients come is seen once before it is relied on.
                if self.arrivals[i] == 1:
                    self.order.append(i)
                return
            if bucket.number < self.launched:
                raise RuntimeError(self._twice(i))
            bucket.waits_for -= 1
            if bucket.waits_for == 0:
                self._launch_full()

        return arrived

    def _twice(self, i: int) -> str:
        if self.expected[i] == 0:
            return (
                f"DistributedDataParallel: static_graph=True, but parameter {self.names[i]!r} took "
                "part in this backward pass and not in the first one: leave static_graph away"
            )
        return (
            "DistributedDataParallel: Expected to mark a variable ready only once: parameter "
            f"{self.names[i]!r} got a gradient {self.arrivals[i]} times in one backward pass, "
            f"and {self.expected[i]} times in the first one, so it had been averaged already. "
            "A nested backward pass (a backward that calls backward) must run in every iteration "
            "or in none; use torch.utils.checkpoint.checkpoint(..., use_reentrant=False), or "
            "accumulate under no_sync()"
        )

    def _launch_full(self) -> None:
        """Sends the full buckets that are next; the order is that of every process."""
        buckets = self.buckets
        while self.launched < len(buckets) and buckets[self.launched].waits_for <= 0:
            self._launch(buckets[self.launched])

    def _launch(self, bucket: Bucket) -> None:
        self.launched += 1
        with rushlight.no_grad():
            bucket.in_place = self._stays(bucket)
            if not bucket.in_place:
                self._fill(bucket)
            if self.hook is not None:
                state, hook = self.hook
                last = self.launched == len(self.buckets)
                self.works.append(hook(state, GradBucket(bucket, last)))
                return
            grad: Any = bucket.parameters[0].grad
            whole = grad.view(-1) if bucket.in_place else bucket.whole
            divisor = self.divisor if bucket.alone else 1
            # For what is waited for before it would look at it, the thread need not be woken.
            watched = bucket.lead > SOON
            self.works.append(mean_later(whole, divisor, self.group, self.broken, watched))
            bucket.start = time.monotonic()

    def _stays(self, bucket: Bucket) -> bool:
        """Whether the gradient is summed where it lies.

        Not one that nobody may have used and which then stays what it was, nor one that hooks of
        the program still read as this process's own.
        """
        if not bucket.alone or self.absent or self.hook is not None:
            return False
        (i,), (parameter,) = bucket.members, bucket.parameters
        grad, hooks = parameter.grad, parameter._post_accumulate_grad_hooks
        return (
            self.used[i]
            and grad is not None
            and not grad.is_sparse
            and grad.is_contiguous()
            and not grad.requires_grad
            and hooks is not None
            and len(hooks) == 1
        )

    def _fill(self, bucket: Bucket) -> None:
        bucket.allocate()
        if self.absent:
            bucket.whole.zero_()
            return
        scale = 1.0 if self.hook is not None or bucket.alone else 1.0 / self.divisor
        for p, view in zip(bucket.parameters, bucket.views, strict=True):
            grad = p.grad
            if grad is None:
                view.zero_()
            elif grad.is_sparse:  # what makes it so is no module, which would have been asked
                view.copy_(grad.to_dense()).mul_(1.0 if self.as_views else scale)
            elif self.as_views:
                if grad is not view:
                    view.copy_(grad)
                    if not grad.requires_grad:
                        p.grad = view
            elif scale == 1.0:
                view.copy_(grad)
            else:
                rushlight.mul(grad.detach(), scale, out=view)
        if self.as_views and scale != 1.0:
            bucket.buffer.mul_(scale)
        marks = [self.used[i] for i in bucket.marked]
        if all(marks):
            bucket.marks.fill_(1.0)
        else:
            bucket.marks.copy_(rushlight.tensor(marks))

    # -- when it has ended -------------------------------------------------------------------------

    def _end(self) -> None:
        if _C._current_graph_task_id() >= 0:  # a pass within a pass
            _C._queue_callback(self._end)
            return
        self.finish()

    def finish(self) -> None:
        """Sends what was not sent, waits for everything, and hands out the averages.

        A process that has no inputs left calls it in place of a backward pass.
        """
        while self.launched < len(self.buckets):
            self._launch(self.buckets[self.launched])
        now = time.monotonic()
        for bucket in self.buckets:
            bucket.lead = now - bucket.start
        marks = self._marks_of_hooked() if self.hook is not None else None
        with rushlight.no_grad():
            for bucket, work in zip(self.buckets, self.works, strict=True):
                self._receive(bucket, work)
            if marks is not None:
                marks.wait()
            self._give()
            self._sum_sparse()
        self.passes += 1
        self.used = [False] * len(self.parameters)
        if self.passes == 1:
            self._settle()
        self._reset()

    def _marks_of_hooked(self) -> Any:
        """A hook changes the numbers of its buckets: the marks go on their own."""
        marks = [float(u and not self.absent) for u in self.used]
        self.all_marks = rushlight.tensor(marks, device=self.parameters[0].device)
        return dist.all_reduce(self.all_marks, group=self.group, async_op=True)

    def _receive(self, bucket: Bucket, work: Any) -> None:
        if self.hook is None:
            work.wait()
            return
        result = work.wait()
        result = result[0] if isinstance(result, (list, tuple)) else result
        if result is not bucket.buffer:
            bucket.buffer.copy_(result.reshape(-1))

    def _give(self) -> None:
        if self.hook is None:
            self._sums = [(b.marked, b.marks.clone()) for b in self.buckets if b.marked]
        else:
            dense = [i for i in range(len(self.parameters)) if i not in self.sparse]
            self._sums = [(dense, self.all_marks[dense] if self.sparse else self.all_marks)]
        # What this process used somebody used: then the marks, on a device perhaps, can wait.
        complete = all(self.used) and not self.absent
        self.unused = [] if complete else sorted(i for i, n in self._marks() if n == 0)
        skipped = set(self.unused)  # nobody used it: its gradient stays what it was
        for bucket in self.buckets:
            if bucket.in_place:
                continue
            for i, p, view in zip(bucket.members, bucket.parameters, bucket.views, strict=True):
                if i in skipped:
                    continue
                grad = p.grad
                if grad is None:
                    p.grad = view if self.as_views else view.clone()
                elif grad.is_sparse:
                    p.grad = view.clone()
                elif grad is not view:
                    grad.copy_(view)

    def _sum_sparse(self) -> None:
        """Averages sparse gradients: each process sends the rows that it has."""
        if not self.sparse:
            return
        from rushlight.distributed._sparse import summed

        users = []
        for i in self.sparse:
            p = self.parameters[i]
            grad = None if self.absent else p.grad
            if grad is not None and not grad.is_sparse:  # of a weight that is used elsewhere, too
                grad = grad.to_sparse(1)
            used = self.used[i] and not self.absent
            total, count = summed(grad, p, self.group, mark=used)
            users.append(count)
            if count:
                p.grad = total / self.divisor
        self.unused += [i for i, n in zip(self.sparse, users, strict=True) if n == 0]
        self.unused.sort()
        self._sums.append((self.sparse, rushlight.tensor(users)))

    def _marks(self) -> list[tuple[int, int]]:
        """The parameters, and how many processes used each in the last pass."""
        pairs = [zip(members, sums.tolist(), strict=True) for members, sums in self._sums]
        return [(i, round(abs(mark))) for pair in pairs for i, mark in pair]

    def partly(self) -> dict[int, int]:
        """The parameters that some processes used in the last pass, and by how many."""
        return {i: n for i, n in self._marks() if 0 < n != self.present}

    def _settle(self) -> None:
        """After the first pass: buckets in the order in which rank 0 saw gradients come.

        Their order must be the same everywhere; how often a gradient comes is a process's own.
        """
        order: list[Any] = [self.order]
        root = 0 if self.group is None else dist.get_global_rank(self.group, 0)
        dist.broadcast_object_list(order, src=root, group=self.group)
        seen = set(order[0])
        rest = [i for i in reversed(range(len(self.parameters))) if i not in seen]
        least = 0 if self.static else 1  # in a static graph, what never came is not waited for
        self.expected = [max(least, n) for n in self.arrivals]
        self._place([*order[0], *rest])

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()
