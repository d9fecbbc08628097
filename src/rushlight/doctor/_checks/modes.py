"""Modules in train mode while they are evaluated, and the reverse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.doctor._check import Check
from rushlight.doctor._trackers import Optimizers

if TYPE_CHECKING:
    from rushlight.doctor._events import Backward, Call, Step
    from rushlight.doctor._finding import Place


def _moody(module: Any, training: bool) -> list[str]:
    """The submodules that behave differently in the two modes and are in this one."""
    from rushlight.nn.modules.batchnorm import _BatchNorm
    from rushlight.nn.modules.dropout import _DropoutNd

    found = []
    for name, each in module.named_modules():
        dropout = isinstance(each, _DropoutNd) and each.p > 0
        if (dropout or isinstance(each, _BatchNorm)) and each.training == training:
            found.append(f"{name or 'itself'} ({type(each).__name__})")
    return found


class TrainModeInEvaluation(Check):
    """A model with dropout or batch norm is evaluated in train mode."""

    name = "train-mode-in-evaluation"
    severity = "serious"
    example = "with torch.no_grad(): model(test_x)"
    fix = "call model.eval() before evaluating, and model.train() before training goes on"

    def start(self) -> None:
        self.optimizers = self.uses(Optimizers)
        self.runs: dict[int, _Runs] = {}  # by module
        self.passes = 0  # after a step
        self.dropped: dict[Any, int] = {}

    def on_call(self, call: Call) -> None:
        if not call.top or call.by_library or call.recording or not call.module.training:
            return
        if not self.optimizers.steps:
            return
        moody = _moody(call.module, True)
        if moody:
            run = self.runs.setdefault(id(call.module), _Runs(call.module, call.place, moody))
            run.now += 1

    def _end(self) -> None:
        for run in self.runs.values():
            run.longest = max(run.longest, run.now)
            run.times += run.now > 0
            run.now = 0

    def on_backward(self, event: Backward) -> None:
        self._end()
        self.passes += bool(self.optimizers.steps)

    def on_step(self, step: Step) -> None:
        self._end()

    def on_gap(self) -> None:
        self._end()

    def on_finish(self) -> None:
        for run in self.runs.values():
            last = run.now > 0
            self._end()
            trained = any(self.optimizers.holds(p) for p in run.module.parameters())
            # What runs before every pass makes something for it: a teacher, or samples.
            seldom = 2 * run.times <= self.passes
            several = run.longest >= 2 and (trained or seldom)
            # A call alone may be for samples to look at, of a generator that a critic judges.
            single = trained and seldom and run.times >= 2 and len(self.optimizers.steps) == 1
            if several or single or (last and len(self.optimizers.steps) == 1):
                self._tell(run, "" if several else "warning")

    def on_dropout(self, module: Any, place: Place | None) -> None:
        calls = self.dropped[place] = self.dropped.get(place, 0) + 1
        self.report(
            f"dropout() drops although {type(module).__name__} is in eval mode: as a function it "
            "does not know the module's mode",
            place,
            fix="write F.dropout(x, p, training=self.training), or use nn.Dropout",
            calls=calls,
        )

    def _tell(self, run: _Runs, severity: str) -> None:
        self.report(
            f"{type(run.module).__name__} is called without recording, as for an evaluation, in "
            "train mode: dropout drops and batch norm uses and changes the batch's statistics",
            run.place,
            severity=severity,
            calls=run.longest,
            evaluations=run.times,
            layers=len(run.moody),
            names=", ".join(run.moody[:4]),
        )


class _Runs:
    """Calls of a module in train mode without recording; those in a row are one evaluation."""

    def __init__(self, module: Any, place: Place | None, moody: list[str]) -> None:
        self.module, self.place, self.moody = module, place, moody
        self.now = self.longest = self.times = 0


class EvalModeInTraining(Check):
    """A model with dropout or batch norm is trained in eval mode."""

    name = "eval-mode-in-training"
    severity = "serious"
    example = "model.eval(); evaluate(); train_next_epoch()"
    fix = "call model.train() before training, also after each evaluation"

    def start(self) -> None:
        self.calls: dict[int, tuple[Any, Place | None, list[str]]] = {}
        self.in_train: set[int] = set()
        self.steps: dict[int, int] = {}
        self.passed = False

    def on_call(self, call: Call) -> None:
        if not call.top or not call.recording:
            return
        if call.module.training:
            self.in_train.add(id(call.module))
            return
        moody = _moody(call.module, False)
        if moody:
            self.calls[id(call.module)] = call.module, call.place, moody

    def on_backward(self, event: Backward) -> None:
        self.passed = self.passed or event.accumulates

    def on_gap(self) -> None:
        self.calls.clear()
        self.in_train.clear()
        self.passed = False

    def on_step(self, step: Step) -> None:
        stepped = {id(p) for p in step.parameters}
        for key, (module, place, moody) in self.calls.items():
            if key in self.in_train or not self.passed:
                continue
            if not any(id(p) in stepped and p.grad is not None for p in module.parameters()):
                continue
            times = self.steps[key] = self.steps.get(key, 0) + 1
            if times >= 2:
                self.report(
                    f"{type(module).__name__} is in eval mode while it is trained: dropout does "
                    "nothing and batch norm's statistics stay as they are",
                    place,
                    steps=times,
                    layers=len(moody),
                    names=", ".join(moody[:4]),
                )
        self.on_gap()
