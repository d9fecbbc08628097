"""Parameters that gradients do not reach, and why."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from rushlight import _C
from rushlight.doctor._check import Check
from rushlight.doctor._finding import Place
from rushlight.doctor._trackers import Calls, Cuts, Optimizers, Reached, names_of

if TYPE_CHECKING:
    from rushlight.doctor._events import Backward

_NO_HISTORY = "does not require grad and does not have a grad_fn"
_LINE = re.compile(r"(?:: |at )([^\s:][^:\n]*):(\d+)")


def cut_place(text: str, last: bool = True) -> Place | None:
    """The line that an explanation of a cut names."""
    found = _LINE.findall(text)
    if not found:
        return None
    file, line = found[-1 if last else 0]
    return Place(file, int(line), "")


class _Unreached(Check):
    """What checks of parameters without gradients share."""

    STEPS = 2

    def start(self) -> None:
        self.optimizers = self.uses(Optimizers)
        self.cuts = self.uses(Cuts)
        self.calls = self.uses(Calls)
        self.reached = self.uses(Reached)

    def unreached(self) -> list[Any]:
        """The parameters that never had a gradient while their optimizer stepped."""
        return [
            known.parameter
            for known in self.optimizers.known.values()
            if known.steps >= self.STEPS
            and not (known.with_grad or known.frozen or id(known.parameter) in self.reached.known)
        ]

    def without_recording(self) -> list[Any]:
        """Those of them whose module was called, but never while operations were recorded."""
        found = []
        for p in self.unreached():
            recorded, unrecorded = self.calls.of(p)
            if unrecorded and not recorded:
                found.append(p)
        return found


class TrainingWithoutGrad(_Unreached):
    """The model runs under no_grad or inference_mode while it should learn."""

    name = "training-without-grad"
    severity = "serious"
    example = "with torch.no_grad(): output = model(x)"
    fix = "take the forward pass of training out of no_grad() and inference_mode()"

    def on_backward_end(self, event: Backward, error: BaseException | None) -> None:
        if error is None or _NO_HISTORY not in str(error):
            return
        cut = _C._cut(event.roots[0]) if isinstance(event.roots[0], _C.Tensor) else None
        if cut is not None and cut[0] in ("no_grad", "inference_mode", "inference"):
            place = cut_place(cut[2], last=False) or event.place
            self.report(
                f"backward() has nothing to follow: {cut[1]} ran while recording was off",
                place,
                cut=cut[2],
                backward=str(event.place),
            )

    def on_finish(self) -> None:
        unreached = self.without_recording()
        if not unreached:
            return
        place = next(
            (at for _, at in self.calls.unrecorded.values() if at is not None),
            self.optimizers.step_place,
        )
        self.report(
            "the optimizer steps, but the model was only called while recording was off: none of "
            "these parameters ever had a gradient",
            place,
            parameters=len(unreached),
            names=names_of(unreached),
            steps=max(self.optimizers.steps.values()),
        )


class GradientCut(_Unreached):
    """Parameters never get a gradient because a value left the graph on its way to the loss."""

    name = "gradient-cut"
    severity = "serious"
    example = "self.head(self.encoder(x).detach())"
    fix = (
        "keep the value a tensor of the graph: leave out detach(), .data, .item(), .numpy(), "
        "tensor(...), integer casts, argmax() and comparisons between the parameters and the loss"
    )

    def on_backward_end(self, event: Backward, error: BaseException | None) -> None:
        if error is None or _NO_HISTORY not in str(error):
            return
        root = event.roots[0]
        cut = _C._cut(root) if isinstance(root, _C.Tensor) else None
        if cut is not None and cut[0] in ("no_grad", "inference_mode", "inference"):
            return
        if cut is not None:
            self.report(
                f"backward() has nothing to follow: {cut[2].partition(': ')[0]}",
                cut_place(cut[2], last=False) or event.place,
                backward=str(event.place),
            )
            return
        for (kind, place), leaves in self.cuts.found.items():
            if leaves and kind not in ("bool()", "int()"):
                self.report(
                    f"backward() has nothing to follow: {kind} made a plain value, and the loss "
                    "was made from it",
                    place,
                    leaves_behind_it=len(leaves),
                    backward=str(event.place),
                )
                return

    def on_finish(self) -> None:
        unrecorded = {id(p) for p in self.without_recording()}
        by_cut: dict[tuple[str, Place], list[Any]] = {}
        for p in self.unreached():
            cut = self.cuts.of(p)
            if cut is not None and id(p) not in unrecorded:
                by_cut.setdefault(cut, []).append(p)
        for (kind, place), parameters in by_cut.items():
            self.report(
                f"{kind} takes the values out of the graph: the parameters before it never get a "
                "gradient",
                place,
                parameters=len(parameters),
                names=names_of(parameters),
                steps_without_gradient=max(self.optimizers.steps.values()),
            )


class UnusedParameters(_Unreached):
    """Parameters are given to the optimizer, but the loss does not depend on them."""

    name = "unused-parameters"
    severity = "warning"
    example = "self.second(x); return self.first(x)"
    fix = "use them in forward(), or remove them from the model and the optimizer"

    def on_finish(self) -> None:
        unrecorded = {id(p) for p in self.without_recording()}
        called: list[Any] = []
        idle: list[Any] = []
        for p in self.unreached():
            if id(p) in unrecorded or self.cuts.of(p) is not None:
                continue
            (called if self.calls.of(p)[0] else idle).append(p)
        for parameters, why in (
            (idle, "the module that holds them was never called"),
            (called, "their module was called, but the loss does not use what it gave"),
        ):
            if parameters:
                self.report(
                    f"no backward pass ever reached these parameters: {why}",
                    self.optimizers.step_place,
                    parameters=len(parameters),
                    names=names_of(parameters),
                    steps=max(self.optimizers.steps.values()),
                )
