"""Feeds listeners with what a program does, without changing what it computes.

The first steps are watched, then some steps in a row now and then, as long as all of it takes a
small share of the run. In between nothing is told but that there was a gap.
"""

from __future__ import annotations

import threading
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from rushlight import _C
from rushlight.autograd.grad_mode import no_grad
from rushlight.doctor._check import Listener
from rushlight.doctor._events import Backward, Batch, Call, Cut, Read, Step
from rushlight.doctor._finding import is_ours, user_place
from rushlight.doctor._patches import Patches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rushlight.doctor._check import Check
    from rushlight.doctor._finding import Finding

    T = TypeVar("T", bound=Listener)

FIRST = 8  # steps that are always watched
IN_A_ROW = 3  # steps that are watched later on, at least
SHARE = 0.1  # of the run that watching later steps may take
SHARE_OUTSIDE = 0.15  # the same where a program stops training and evaluates
FIRST_OUTSIDE = 2  # such blocks that are always watched
UNSEEN = 1.6  # what watching costs by what listeners take: slower paths, caches, the collector


class Observer:
    """One run of a program: installs the hooks, passes events on, collects findings."""

    def __init__(self, checks: Iterable[type[Check]], every_step: bool = False) -> None:
        self.every_step = every_step
        self.steps = 0
        self.passes = 0
        self.watching = True
        self.findings: dict[tuple[str, Any], Finding] = {}
        self.failures: list[tuple[str, BaseException]] = []
        self._shared: dict[type[Listener], Listener] = {}
        self._listeners: dict[str, list[Callable[..., None]]] = {e: [] for e in Listener.EVENTS}
        self._busy = False
        self._inside = False  # a pass that is already reported runs
        self._left = FIRST  # steps to watch
        self._left_outside = FIRST_OUTSIDE
        self._spent = 0.0
        self._started = perf_counter()
        self._thread = threading.get_ident()
        self._modules: list[Any] = []  # those whose forward runs, outermost first
        self._patches = Patches()
        self._handles: list[Any] = []
        self.step_hooks: list[Any] = []  # of optimizers
        self._other_optimizers = False  # some have no step in the core, which would be counted
        for check in checks:
            self._listen(check(self))

    def shared(self, kind: type[T]) -> T:
        """The one listener of a kind; it hears events before those who ask for it."""
        if kind not in self._shared:
            self._shared[kind] = kind(self)
            self._listen(self._shared[kind])
        return self._shared[kind]  # type: ignore[return-value]

    def _listen(self, listener: Listener) -> None:
        for event in Listener.EVENTS:
            method = getattr(listener, event, None)
            if method is not None:
                self._listeners[event].append(method)

    def add(self, finding: Finding) -> None:
        """Keeps a finding: one per name and line."""
        key = finding.name, finding.place and finding.place[:2]
        self.findings[key] = finding

    def emit(self, event: str, *arguments: Any) -> None:
        """Tells the listeners. What they raise is theirs: the program goes on."""
        listeners = self._listeners[event]
        if not listeners or self._busy:
            return
        self._busy = True
        began = perf_counter()
        try:
            with no_grad():
                for listener in list(listeners):
                    try:
                        listener(*arguments)
                    except Exception as error:
                        listeners.remove(listener)
                        self.failures.append((type(listener.__self__).__name__, error))  # type: ignore[attr-defined]
        finally:
            self._busy = False
            self._spent += perf_counter() - began

    def absent(self) -> bool:
        """Whether what happens now is none of the program's training: our own, another thread."""
        return self._busy or threading.get_ident() != self._thread or _C._vmap_depth() > 0

    def sees(self) -> bool:
        """Whether what happens now is reported."""
        return self.watching and not self.absent()

    def charge(self, seconds: float) -> None:
        """Counts time that a listener's own hooks took."""
        self._spent += seconds

    # -- how closely to look --------------------------------------------------------------------

    def _affordable(self, share: float) -> bool:
        return UNSEEN * self._spent < share * (perf_counter() - self._started)

    def _go_on(self) -> None:
        """Decides after a step, or a pass where nothing steps, whether to go on watching."""
        self._left -= 1
        if self._left > 0 or self.every_step:
            return
        if self.watching:
            self._left = IN_A_ROW if self._affordable(SHARE) else 0
            self._watch(self._left > 0)
        elif self._left % 8 == 0 and self._affordable(SHARE):
            self._wake(IN_A_ROW)

    def look(self) -> None:
        """Something other than a training step begins: watch it, if there is time."""
        if self.watching or self.absent():
            return
        if self._left_outside > 0 or self._affordable(SHARE_OUTSIDE):
            self._left_outside -= 1
            self._wake(1)

    def _wake(self, steps: int) -> None:
        self._left = steps
        self._watch(True)
        self.emit("on_gap")

    def _watch(self, on: bool) -> None:
        if on == self.watching and bool(self._handles) == on:
            return
        self.watching = on
        self._modules.clear()
        if not on:
            _remove(self._handles)
            if not self._other_optimizers:
                _remove(self.step_hooks)
            return
        from rushlight.nn.modules import module
        from rushlight.optim import optimizer

        self._handles += [
            module.register_module_forward_pre_hook(self._before_call),
            module.register_module_forward_hook(self._after_call, always_call=True),
        ]
        if not self.step_hooks:
            self.step_hooks += [
                optimizer.register_optimizer_step_pre_hook(self._before_step),
                optimizer.register_optimizer_step_post_hook(self._after_step),
            ]

    # -- modules --------------------------------------------------------------------------------

    def _before_call(self, module: Any, args: Any) -> None:
        if not self.absent():
            if not self._modules and _inside_forward():
                self._modules.append(None)  # hooks were set in the middle of a model's call
            self._modules.append(module)

    def _after_call(self, module: Any, args: Any, output: Any) -> None:
        if self.absent() or not any(each is module for each in self._modules):
            return
        began = perf_counter()
        while self._modules.pop() is not module:
            pass
        top = not self._modules
        place = user_place(2) if top else None
        by_library = top and _called_by_library()
        recording = _C.is_grad_enabled()
        self._spent += perf_counter() - began + 3e-6  # the path with hooks costs that much more
        self.emit("on_call", Call(module, args, output, top, recording, place, by_library))

    # -- installing -----------------------------------------------------------------------------

    def start(self) -> None:
        from rushlight.doctor import _watch

        _watch.install(self, self._patches)
        self._watch(True)

    def stop(self) -> None:
        self._watch(False)
        _remove(self.step_hooks)
        self.emit("on_finish")
        self._patches.undo()

    # -- optimizers and passes ------------------------------------------------------------------

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self.sees():
            from rushlight.optim._stepped import SteppedOptimizer

            self._modules.clear()
            if not isinstance(optimizer, SteppedOptimizer):
                self._other_optimizers = True
            self.emit("on_step", Step(optimizer, user_place(2), self.steps))

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self.absent():
            return
        if self.watching:
            self.emit("on_stepped", Step(optimizer, None, self.steps))
        self.stepped()

    def stepped(self) -> None:
        """Counts a step, also one that is not watched."""
        self.steps += 1
        self._go_on()

    def backward(
        self,
        run: Callable[[], Any],
        roots: tuple[Any, ...],
        retain: bool,
        create: bool,
        inputs: Any,
        accumulates: bool,
    ) -> Any:
        """Runs a pass that is watched and reports it, before and after."""
        if self._inside or self.absent():
            return run()
        self._inside = True
        began = perf_counter()
        place = user_place(3)
        event = Backward(roots, retain, create, inputs, accumulates, place)
        self._spent += perf_counter() - began
        self.emit("on_backward", event)
        error: BaseException | None = None
        try:
            return run()
        except BaseException as raised:
            error = raised
            raise
        finally:
            self._inside = False
            vars(event).pop("graph", None)  # nothing of it is kept
            self.emit("on_backward_end", event, error)
            self.passed()

    def passed(self) -> None:
        """Counts a pass; programs that step by hand have nothing else to be counted."""
        self.passes += 1
        if self.steps == 0 and (self.passes > 4 * FIRST or not self.watching):
            self._go_on()

    # -- the rest -------------------------------------------------------------------------------

    def cut(self, kind: str, tensor: Any) -> None:
        """A tensor left the graph, by a line of the program."""
        if tensor.requires_grad and self.sees():
            self.emit("on_cut", Cut(kind, tensor, user_place(3)))

    def read(self, tensor: Any, seconds: float) -> None:
        if self.sees():
            self.emit("on_read", Read(tensor, user_place(3), seconds))

    def dropped(self) -> None:
        """A line of the program called dropout() without saying whether it trains."""
        module = self._modules[-1] if self._modules else None
        if module is not None and not module.training:
            self.emit("on_dropout", module, user_place(3))

    def batch(self, loader: Any, data: Any, seconds: float) -> None:
        if self.sees():
            self.emit("on_batch", Batch(loader, data, seconds, user_place(3)))


def _remove(handles: list[Any]) -> None:
    while handles:
        handles.pop().remove()


def _inside_forward() -> bool:
    """Whether a module's forward is among the callers."""
    import sys

    from rushlight.nn import Module

    frame: Any = sys._getframe(2)
    for _ in range(64):
        if frame is None:
            return False
        if frame.f_code.co_name == "forward" and isinstance(frame.f_locals.get("self"), Module):
            return True
        frame = frame.f_back
    return False


def _called_by_library() -> bool:
    """Whether the call of the module whose hook runs now stands in a file of the library."""
    import sys

    frame: Any = sys._getframe(2)
    inner = "_hooked_call.py", "_hooks.py", "module.py", "_observer.py"
    while frame is not None and frame.f_code.co_filename.endswith(inner) and is_ours(frame):
        frame = frame.f_back
    return frame is not None and is_ours(frame)
