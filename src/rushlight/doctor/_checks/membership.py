"""What an optimizer holds, and what it should."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight import _C
from rushlight.doctor._check import Check
from rushlight.doctor._finding import Place, of_node
from rushlight.doctor._trackers import Optimizers, Reached, name_of, names_of

if TYPE_CHECKING:
    from rushlight.doctor._events import Backward


class FrozenInOptimizer(Check):
    """The optimizer holds parameters that do not require gradients: it never changes them."""

    name = "frozen-in-optimizer"
    severity = "warning"
    example = "backbone.requires_grad_(False); SGD(model.parameters())"
    fix = (
        "give the optimizer [p for p in model.parameters() if p.requires_grad], or call "
        "requires_grad_() on what should learn"
    )

    def start(self) -> None:
        self.optimizers = self.uses(Optimizers)

    def on_finish(self) -> None:
        frozen = [
            known.parameter
            for known in self.optimizers.known.values()
            if known.steps >= 2 and known.frozen == known.steps and not known.with_grad
        ]
        if frozen:
            self.report(
                "the optimizer was given parameters with requires_grad=False; no step changes them",
                self.optimizers.step_place,
                parameters=len(frozen),
                of=len(self.optimizers.known),
                elements=sum(p.numel() for p in frozen),
                names=names_of(frozen),
            )


class UnknownToOptimizer(Check):
    """Parameters get gradients, but no optimizer holds them: they stay as they were made."""

    name = "unknown-to-optimizer"
    severity = "serious"
    example = "self.layers = [nn.Linear(8, 8), nn.Linear(8, 8)]"
    fix = (
        "make all layers before the optimizer; keep lists of layers in nn.ModuleList and lists of "
        "parameters in nn.ParameterList, so that model.parameters() has them"
    )

    def start(self) -> None:
        self.optimizers = self.uses(Optimizers)
        self.reached = self.uses(Reached)

    def on_backward(self, event: Backward) -> None:
        if self.reached.fresh_passes < 3:
            return
        fresh = self.reached.fresh
        made = {id(n.variable): n for n, name in event.graph.nodes if name == "AccumulateGrad"}
        users = event.graph.consumers.get(id(made[id(fresh[0])]), [])
        self.report(
            "backward() gives these parameters gradients, but they are made anew for every pass "
            "and forgotten after it",
            of_node(users[0]) if users else event.place,
            fix="make the layer once, in __init__(), and call it in forward()",
            parameters=len(fresh),
            shapes=", ".join(str(list(p.shape)) for p in fresh[:4]),
            passes=self.reached.fresh_passes,
        )

    def on_finish(self) -> None:
        from rushlight.nn import Parameter

        late, hidden, plain = [], [], []
        for leaf in self.reached.others():
            if not isinstance(leaf, Parameter):
                if _holder(leaf):
                    plain.append(leaf)
            elif not self._registered(leaf):
                hidden.append(leaf)
            elif not self.optimizers.existed(leaf):
                late.append(leaf)
        place = self._made() or self.optimizers.step_place
        if late:
            self._tell(late, "they were made after the optimizer", place)
        if hidden:
            holders = {id(p): _holder(p) for p in hidden}
            first = holders[id(hidden[0])]
            where = f"{first.partition('[')[0]} is a plain container, in which parameters() does "
            why = where + "not look" if first else "the optimizer was not given their module"
            self._tell(hidden, why, place, holders)
        if plain:
            why = "parameters() has no plain tensors, only those made by nn.Parameter(...)"
            fix = "make it a parameter: self.scale = nn.Parameter(torch.ones(1))"
            self._tell(plain, why, place, {id(p): _holder(p) for p in plain}, fix)

    def _tell(
        self,
        parameters: list[Any],
        why: str,
        place: Place | None,
        names: dict[int, str] | None = None,
        fix: str = "",
    ) -> None:
        names = names or {}
        named = [names.get(id(p)) or name_of(p) for p in parameters[:6]]
        self.report(
            f"backward() gives these parameters gradients, but no optimizer steps them: {why}",
            place,
            fix=fix,
            parameters=len(parameters),
            elements=sum(p.numel() for p in parameters),
            names=", ".join(named) + (", ..." if len(parameters) > 6 else ""),
        )

    def _made(self) -> Place | None:
        return next((p for p in self.optimizers.places.values() if p is not None), None)

    def _registered(self, leaf: Any) -> bool:
        """Whether a module that the optimizer knows something of has the parameter."""
        from rushlight.nn._names import _owner, path_of

        owner = _owner(leaf)
        if owner is None:
            return False
        _, root = path_of(owner[0])
        return any(self.optimizers.holds(p) for p in root.parameters())


def _holder(leaf: Any) -> str:
    """``Model.layers[0].weight`` for a leaf that a plain attribute, list or dict hides."""
    from rushlight.nn._names import _owner

    owner = _owner(leaf)
    wanted = {id(leaf): ""}
    if owner is not None:
        wanted[id(owner[0])] = f".{owner[1]}"
    for module in _C._live_modules():
        for name, value in module.__dict__.items():
            if value is leaf:
                return f"{type(module).__name__}.{name}"
            if name.startswith("_") or not isinstance(value, (list, tuple, dict)):
                continue
            for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                if id(item) in wanted:
                    return f"{type(module).__name__}.{name}[{key!r}]{wanted[id(item)]}"
    return ""


class SchedulerBeforeOptimizer(Check):
    """The learning rate scheduler steps before the optimizer: the first rate is never used."""

    name = "scheduler-before-optimizer"
    severity = "warning"
    example = "scheduler.step(); optimizer.step()"
    fix = "call optimizer.step() first, then scheduler.step()"

    def on_scheduler(self, optimizer: Any, place: Place | None) -> None:
        if not optimizer._opt_called:
            rates = [float(group["lr"]) for group in optimizer.param_groups]
            first = [
                float(group.get("initial_lr", group["lr"])) for group in optimizer.param_groups
            ]
            self.report(
                "scheduler.step() was called before the first optimizer.step()",
                place,
                optimizer_steps_before=0,
                first_rate_skipped=first[0],
                rate_now=rates[0],
            )
