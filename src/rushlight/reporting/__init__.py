"""A report of a training run: losses, gradients, updates, activations, memory, time; one page."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any, Self

from rushlight.reporting._gradflow import plot_grad_flow as plot_grad_flow
from rushlight.reporting._series import Series

if TYPE_CHECKING:
    from rushlight.reporting._measure import Measurer
    from rushlight.reporting._serve import Server

__all__ = ["Report", "plot_grad_flow", "report"]


def report(
    path: str | os.PathLike[str] | None = None,
    model: Any = None,
    optimizer: Any = None,
    *,
    title: str | None = None,
    budget: float = 0.02,
    serve: int | bool | None = None,
) -> Report:
    """Collects what happens in training, and writes a page of it.

    As a context it needs nothing else: every ``backward()`` tells a loss, and every step of an
    optimizer ends a step. With ``step(loss, accuracy=...)`` in the loop, that call ends a step and
    its numbers are plotted. The page is written at the end of the block, or by ``save()``.

    What costs time (norms of gradients and updates, histograms, activations, slowest lines) is
    measured in some of the steps, so that all of it takes at most ``budget`` of the time.
    ``serve`` shows the page while the program runs, on this machine alone: True, or a port.

    >>> import os, tempfile
    >>> import rushlight as torch
    >>> model = torch.nn.Linear(4, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with torch.report(os.path.join(folder, "report.html")) as r:
    ...         for _ in range(5):
    ...             optimizer.zero_grad()
    ...             model(torch.randn(8, 4)).square().mean().backward()
    ...             optimizer.step()
    ...     os.path.getsize(r.path) > 0, r.steps
    (True, 5)
    """
    return Report(path, model, optimizer, title=title, budget=budget, serve=serve)


class Report:
    """What :func:`report` gives.

    >>> import rushlight as torch
    >>> r = torch.report()
    >>> for loss in (3.0, 2.0, 1.5):
    ...     r.step(loss, accuracy=0.5)
    >>> r.steps, r.data()["scalars"]["loss"]["mean"]
    (3, [3.0, 2.0, 1.5])
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        model: Any = None,
        optimizer: Any = None,
        *,
        title: str | None = None,
        budget: float = 0.02,
        serve: int | bool | None = None,
    ) -> None:
        if not 0 < budget <= 1:
            raise ValueError(f"report(): budget is a share of the time in (0, 1], got {budget}")
        self.path = None if path is None else os.path.abspath(os.fspath(path))
        self.title = title or f"Training report: {_program()}"
        self.model = model
        self.optimizer = optimizer
        self.budget = budget
        self.steps = 0
        self.error: str | None = None
        self.scalars: dict[str, Series] = {}
        self.started = time.time()
        self._begun = self._last = time.perf_counter()
        self._watched = 0.0  # seconds in earlier blocks
        self._running = True
        self._spent = 0.0  # in measuring
        self._losses: dict[str, list[float]] = {}  # of this step, by the line that made them
        self._clock: Any = None  # the optimizer whose steps are counted
        self._stepped_by_hand = False
        self._hooks: list[Any] = []
        self._backward: Any = None
        self._measurer: Measurer | None = None
        self._server: Server | None = None
        if serve:
            from rushlight.reporting._serve import Server

            self._server = Server(self, 0 if serve is True else int(serve))
            print(f"the report is at {self._server.address}", file=sys.stderr)

    # ---- what is told

    def step(self, loss: Any = None, **values: Any) -> None:
        """Ends a step. Further numbers are plotted under their names."""
        self._stepped_by_hand = True
        started = time.perf_counter()
        if loss is not None:
            self._losses = {"loss": [_number(loss)]}
        for name, value in values.items():
            self.log(name, value)
        self._end_step(started)

    def log(self, name: str, value: Any) -> None:
        """Notes a number of the step that runs.

        >>> import rushlight as torch
        >>> r = torch.report()
        >>> r.log("temperature", 1.0)
        >>> r.data()["scalars"]["temperature"]["mean"]
        [1.0]
        """
        self._series(name).add(self.steps + 1, _number(value))

    def _series(self, name: str) -> Series:
        found = self.scalars.get(name)
        if found is None:
            found = self.scalars[name] = Series()
        return found

    def _end_step(self, started: float) -> None:
        """``started``: when the program's own work of the step ended."""
        self.steps += 1
        step = self.steps
        elapsed, self._last = started - self._last, started
        self._series("step time").add(step, elapsed)
        losses = self._losses
        for name, values in losses.items():
            shown = name if name == "loss" or len(losses) > 1 else "loss"
            self._series(shown).add(step, sum(values) / len(values))
        self._losses = {}
        optimizer = self.optimizer or self._clock
        if optimizer is not None:
            groups = optimizer.param_groups
            for i, group in enumerate(groups):
                name = "learning rate" if len(groups) == 1 else f"learning rate, group {i}"
                self._series(name).add(step, _number(group.get("lr", 0.0)))
        from rushlight import memory_stats

        stats = memory_stats()
        self._series("memory in use").add(step, stats["allocated_bytes"])
        self._series("memory peak").add(step, stats["peak_allocated_bytes"])
        if self._measurer is not None:
            self._measurer.next_step(step)
        now = time.perf_counter()
        self._spent += now - started
        self._last = now

    # ---- what is watched

    def start(self) -> Self:
        """Begins to watch backward passes and optimizers, as ``with`` does."""
        from rushlight.optim import optimizer as optimizers
        from rushlight.reporting._measure import Measurer

        if self._hooks:
            raise RuntimeError("report: it is watching already")
        if self._measurer is None:
            self._measurer = Measurer(self)
        if self.optimizer is None:
            before = optimizers.register_optimizer_step_pre_hook
            after = optimizers.register_optimizer_step_post_hook
        else:
            before = self.optimizer.register_step_pre_hook
            after = self.optimizer.register_step_post_hook
        self._hooks = [before(self._before_update), after(self._after_update)]
        self._watch_backward()
        self._begun = self._last = time.perf_counter()
        self._running = True
        self._measurer.next_step(self.steps)
        return self

    def _watch_backward(self) -> None:
        from rushlight import _C, autograd

        method, function, report = _C.Tensor.backward, autograd.backward, self

        def backward(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            result = method(tensor, *args, **kwargs)
            report._passed([tensor])
            return result

        def of_several(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            result = function(tensors, *args, **kwargs)
            report._passed(tensors if isinstance(tensors, (list, tuple)) else [tensors])
            return result

        self._backward = method, function
        _C.Tensor.backward = backward  # type: ignore[method-assign,assignment]
        autograd.backward = of_several

    def _passed(self, outputs: Any) -> None:
        """A backward pass from these has run."""
        started = time.perf_counter()
        for output in outputs:
            if not self._stepped_by_hand and hasattr(output, "numel") and output.numel() == 1:
                self._note_loss(output)
        self._spent += time.perf_counter() - started

    def _note_loss(self, loss: Any) -> None:
        place = loss.grad_fn._where if loss.grad_fn is not None else None
        name = f"loss at {os.path.basename(place[0])}:{place[1]}" if place else "loss"
        self._losses.setdefault(name, []).append(float(loss.detach()))

    def _before_update(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._measurer is not None and self._measurer.wants_layers:
            started = time.perf_counter()
            self._measurer.before_update(optimizer)
            self._spent += time.perf_counter() - started

    def _after_update(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        started = time.perf_counter()
        if self._measurer is not None and self._measurer.wants_layers:
            self._measurer.after_update(optimizer, self.steps + 1)
            self._spent += time.perf_counter() - started
        if self._clock is None:
            self._clock = optimizer
        if optimizer is self._clock and not self._stepped_by_hand:
            self._end_step(started)

    def stop(self) -> None:
        """Ends watching."""
        from rushlight import _C, autograd

        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        if self._backward is not None:
            _C.Tensor.backward, autograd.backward = self._backward  # type: ignore[method-assign]
            self._backward = None
        if self._measurer is not None:
            self._measurer.disarm()
        self._watched = self.seconds
        self._running = False

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self.stop()
        if error is not None and not isinstance(error, SystemExit):
            self.error = f"{type(error).__name__}: {error}".splitlines()[0]
        if self.path is not None:
            self.save()
        if self._server is not None:
            self._server.close()

    # ---- what is shown

    @property
    def overhead(self) -> float:
        """The share of the time so far that measuring took."""
        return self._spent / max(self.seconds, 1e-9)

    @property
    def seconds(self) -> float:
        """How long it has been watching."""
        return self._watched + (time.perf_counter() - self._begun if self._running else 0.0)

    def data(self) -> dict[str, Any]:
        """All that was collected, as numbers and texts.

        >>> import rushlight as torch
        >>> torch.report().data()["steps"]
        0
        """
        from rushlight.reporting._page import data_of

        return data_of(self)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """The page: returned, and written when a path is given.

        >>> import rushlight as torch
        >>> torch.report().to_html().startswith("<!doctype html>")
        True
        """
        from rushlight import _pages
        from rushlight.reporting._page import page_of

        text = page_of(self)
        if path is not None:
            _pages.save(path, text)
        return text

    def save(self, path: str | os.PathLike[str] | None = None) -> str:
        """Writes the page; gives its path."""
        target = path if path is not None else self.path
        if target is None:
            raise ValueError('report: save() needs a path: report("out.html"), or save("out.html")')
        self.to_html(target)
        return os.path.abspath(os.fspath(target))

    def show(self) -> str:
        """Opens the page in a browser; gives the path of the file."""
        from rushlight import _pages

        return _pages.show(self.to_html(), "report")


def _number(value: Any) -> float:
    return float(value.detach()) if hasattr(value, "detach") else float(value)


def _program() -> str:
    name = os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else ""
    return name if name not in ("", "-c", "-m") else "a program"
