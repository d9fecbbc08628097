"""Modules in train mode while they are evaluated, and the reverse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.doctor._check import Check

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
        self.calls: dict[int, list[Any]] = {}  # without recording, since the last pass: by module
        self.trained = False

    def on_call(self, call: Call) -> None:
        if not call.top or call.by_library or call.recording or not call.module.training:
            return
        moody = _moody(call.module, True)
        if not moody:
            return
        entry = self.calls.setdefault(id(call.module), [call.module, call.place, moody, 0])
        entry[3] += 1
        if entry[3] >= 2 and self.trained:
            self._tell(entry)

    def _tell(self, entry: list[Any]) -> None:
        module, place, moody, calls = entry
        self.report(
            f"{type(module).__name__} is called without recording, as for an evaluation, in train "
            "mode: dropout drops and batch norm uses and changes the batch's statistics",
            place,
            calls=calls,
            layers=len(moody),
            names=", ".join(moody[:4]),
        )

    def on_backward(self, event: Backward) -> None:
        self.calls.clear()

    def on_step(self, step: Step) -> None:
        self.calls.clear()
        self.trained = True

    def on_gap(self) -> None:
        self.calls.clear()

    def on_finish(self) -> None:
        if self.trained:
            for entry in self.calls.values():
                self._tell(entry)


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
