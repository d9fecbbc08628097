"""Losses that get something else than they expect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight import _C
from rushlight.doctor._check import Check
from rushlight.doctor._finding import of_node
from rushlight.doctor._graph import children, saved, shape_of, source_of

if TYPE_CHECKING:
    from rushlight.doctor._events import Backward


def _kind(node: Any) -> str:
    """The operation of a node; a layer over several dimensions is a view that has weights."""
    kind = node.name().partition("Backward")[0] if node is not None else ""
    return "Addmm" if kind.endswith("View") and len(node.next_functions) > 1 else kind


def _made_by(loss: Any) -> Any:
    """What computed the input of a loss, limits that were set on it aside."""
    source = source_of(loss)
    return source_of(source) if _kind(source) == "Clamp" else source


def _is_cross_entropy(node: Any) -> bool:
    """Of the two losses that share a name in the graph, the one that keeps its input."""
    return isinstance(saved(node, "self"), _C.Tensor)


class _LossInput(Check):
    """Looks at what a loss got, once per line."""

    def start(self) -> None:
        self.times: dict[Any, int] = {}

    def on_backward(self, event: Backward) -> None:
        for loss in self.losses(event):
            what = self.wrong(loss, event)
            if what:
                place = of_node(loss)
                self.times[place] = self.times.get(place, 0) + 1
                self.tell(loss, what, self.times[place])

    def losses(self, event: Backward) -> list[Any]:
        raise NotImplementedError

    def wrong(self, loss: Any, event: Backward) -> str:
        raise NotImplementedError

    def tell(self, loss: Any, what: str, times: int) -> None:
        raise NotImplementedError


class SoftmaxBeforeCrossEntropy(_LossInput):
    """cross_entropy gets probabilities; it applies log_softmax itself and wants raw scores."""

    name = "softmax-before-cross-entropy"
    severity = "serious"
    example = "F.cross_entropy(output.softmax(1), y)"
    fix = "give cross_entropy the raw scores; use softmax only to read probabilities"

    def losses(self, event: Backward) -> list[Any]:
        nll = [n for n in event.graph.named("NllLoss", "NllLoss2D") if _is_cross_entropy(n)]
        return nll + event.graph.named("LogSoftmax")

    def wrong(self, loss: Any, event: Backward) -> str:
        kind = _kind(_made_by(loss))
        return kind.lower() if kind in ("Softmax", "Sigmoid") else ""

    def tell(self, loss: Any, what: str, times: int) -> None:
        given = saved(loss, "self")
        low, high = (given.min().item(), given.max().item()) if given is not None else (0.0, 1.0)
        made = of_node(_made_by(loss))
        self.report(
            f"the input of the loss is a {what}: the loss is nearly flat and learns slowly",
            of_node(loss),
            **{f"{what}_at": str(made)},
            smallest_input=low,
            largest_input=high,
            passes_seen=times,
        )


class SigmoidBeforeLogits(_LossInput):
    """binary_cross_entropy_with_logits gets probabilities; it applies the sigmoid itself."""

    name = "sigmoid-before-bce-with-logits"
    severity = "serious"
    example = "F.binary_cross_entropy_with_logits(output.sigmoid(), y)"
    fix = "give binary_cross_entropy_with_logits the raw scores, without sigmoid"

    def losses(self, event: Backward) -> list[Any]:
        return event.graph.named("BinaryCrossEntropyWithLogits")

    def wrong(self, loss: Any, event: Backward) -> str:
        kind = _kind(_made_by(loss))
        return kind.lower() if kind in ("Sigmoid", "Softmax") else ""

    def tell(self, loss: Any, what: str, times: int) -> None:
        given = saved(loss, "self")
        self.report(
            f"the input of the loss is a {what}, and the loss applies another sigmoid to it",
            of_node(loss),
            **{f"{what}_at": str(of_node(_made_by(loss)))},
            smallest_input=given.min().item(),
            largest_input=given.max().item(),
            passes_seen=times,
        )


class NllWithoutLogSoftmax(_LossInput):
    """nll_loss gets raw scores or probabilities instead of log-probabilities."""

    name = "nll-without-log-softmax"
    severity = "serious"
    example = "F.nll_loss(model(x), y)"
    fix = "use cross_entropy, or give nll_loss the result of log_softmax"

    # What makes scores; log-probabilities come from other operations.
    SCORES = ("Addmm", "Mm", "Bmm", "Convolution", "Softmax", "Sigmoid", "Relu", "Tanh", "Gelu")

    def losses(self, event: Backward) -> list[Any]:
        found = event.graph.named("NllLoss", "NllLoss2D")
        self.value = event.roots[0].item() if event.roots[0].numel() == 1 else 0.0
        return [node for node in found if not _is_cross_entropy(node)]

    def wrong(self, loss: Any, event: Backward) -> str:
        kind = _kind(_made_by(loss))
        return kind if kind in self.SCORES else ""

    def tell(self, loss: Any, what: str, times: int) -> None:
        self.report(
            f"the input of nll_loss comes from {what.lower()}, not from log_softmax",
            of_node(loss),
            input_made_at=str(of_node(_made_by(loss))),
            loss=self.value,
            passes_seen=times,
        )


def _crossed(node: Any) -> str:
    """The shapes, where a column meets a row and one of them has no gradient."""
    below = children(node)
    result = shape_of(node)
    if len(below) != 1 or len(result) != 2 or result[0] != result[1] or result[0] < 2:
        return ""
    given = shape_of(below[0])
    if given not in ((result[0], 1), (result[0],)):
        return ""
    other = [result[0]] if len(given) == 2 else [result[0], 1]
    return f"{list(given)} with {other}"


class TargetBroadcast(_LossInput):
    """Predictions and targets of different shapes broadcast: every pair is compared."""

    name = "target-broadcast"
    severity = "serious"
    example = "((model(x) - y) ** 2).mean()  # [n, 1] and [n]"
    fix = "give both the same shape: prediction.squeeze(1) or target.unsqueeze(1)"

    SHAPED = ("MseLoss", "SmoothL1Loss", "HuberLoss", "BinaryCrossEntropyWithLogits")
    LOGARITHMS = ("Log", "Log1P", "LogSigmoid")

    def losses(self, event: Backward) -> list[Any]:
        return event.graph.named(*self.SHAPED, "Sub", "Mul")

    def wrong(self, loss: Any, event: Backward) -> str:
        if _kind(loss) == "Sub":
            users = {_kind(user) for user in event.graph.consumers.get(id(loss), ())}
            return _crossed(loss) if users & {"Pow", "Abs", "Mul", "Square"} else ""
        if _kind(loss) == "Mul":  # of a likelihood written out: target * log(prediction)
            return _crossed(loss) if _kind(_made_by(loss)) in self.LOGARITHMS else ""
        given, target = saved(loss, "self"), saved(loss, "target")
        if not isinstance(given, _C.Tensor) or not isinstance(target, _C.Tensor):
            return ""
        if given.shape == target.shape:
            return ""
        return f"{list(given.shape)} with {list(target.shape)}"

    def tell(self, loss: Any, what: str, times: int) -> None:
        prediction = what.partition(" with ")[0]
        self.report(
            f"shapes {what} broadcast: every prediction is compared with every target, and the "
            "best the model can do is their mean",
            of_node(loss),
            prediction=prediction,
            target=what.partition(" with ")[2],
            passes_seen=times,
        )
