"""Steps of optimizers for parameters of which each process has a part: on the parts."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor
from rushlight.distributed.tensor._dtensor import DTensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any


def step_on_parts(optimizer: Any) -> bool:
    """One step of the optimizer, whose rules are pointwise; False where no parameter is a DTensor.

    States are DTensors like their parameters, so that checkpoints know their place.
    """
    groups, states, spread = [], {}, {}
    for group in optimizer.param_groups:
        parts = []
        for p in group["params"]:
            part = p
            if isinstance(p, DTensor):
                part = p._local_tensor
                part.grad = None if p.grad is None else _part(p.grad)
                spread[part] = p
            parts.append(part)
            if p in optimizer.state:
                states[part] = {k: _part(v) for k, v in optimizer.state[p].items()}
        groups.append({**group, "params": parts})
    if not spread:
        return False
    try:
        if not _C._optimizer_step(optimizer._rule, groups, states):
            _by_formula(optimizer, groups, states)
    finally:
        for part in spread:
            part.grad = None
    for part, state in states.items():
        p = spread.get(part)
        if p is None:
            optimizer.state[part] = state
            continue
        known = optimizer.state[p]
        for name, value in state.items():
            if isinstance(known.get(name), DTensor):
                continue  # its part was written in place
            is_spread = isinstance(value, Tensor) and value.shape == part.shape and value.dim() > 0
            known[name] = p._like(value) if is_spread else value
    return True


def initial_state(optimizer: Any, group: dict[str, Any], p: Any) -> None:
    """What an optimizer's state holds from the start, spread like the parameter."""
    state = optimizer.state[p]
    made: dict[str, Any] = {}
    part = p._local_tensor
    _C._optimizer_init(optimizer._rule, group, part, made)
    for name, value in made.items():
        is_spread = value.shape == part.shape and value.dim() > 0
        state[name] = p._like(value) if is_spread else value


def _part(value: Any) -> Any:
    return value._local_tensor if isinstance(value, DTensor) else value


def _by_formula(optimizer: Any, groups: list[dict[str, Any]], states: dict[Any, Any]) -> None:
    for group in groups:
        for part in group["params"]:
            if part.grad is None:
                continue
            state = states.setdefault(part, {})
            if not state:
                _C._optimizer_init(optimizer._rule, group, part, state)
            optimizer._apply(part, part.grad, state, group)
