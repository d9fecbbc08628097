"""Stepping other parameters with an optimizer for a while."""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from itertools import chain

from rushlight import _C
from rushlight._C import Tensor
from rushlight.optim.optimizer import Optimizer

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

_NAME = "swap_in_optimizer_params_and_state"


def _check(ok: bool, text: str) -> None:
    if not ok:
        raise RuntimeError(f"{_NAME} requires {text}")


def _checked_group(number: int, group: dict[str, Any], new: Any) -> list[int]:
    """The parameters' numbers in a group that has what the optimizer's has."""
    _check(isinstance(new, dict), "each optimizer param group to be a dictionary.")
    numbers: Any = new.get("params")
    _check(
        isinstance(numbers, list) and all(isinstance(i, int) for i in numbers),
        "optimizer.state_dict()-style param_groups[*]['params'] entries keyed by packed "
        "parameter ids.",
    )
    _check(
        len(numbers) == len(group["params"]),
        f"as many params in group {number} as the optimizer has there, "
        f"{len(group['params'])}: got {len(numbers)}",
    )
    _check(
        new.keys() == group.keys(),
        "optimizer.state_dict()-style param group keys to exactly match the live optimizer group "
        f"keys for group {number}. Keys only in swap-in: {sorted(new.keys() - group.keys())}. "
        f"Keys only in live: {sorted(group.keys() - new.keys())}.",
    )
    return list(numbers)


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, Tensor], swapin_optim_state: dict[str, Any]
) -> Generator[None, None, None]:
    """Within it the optimizer has these parameters, and the state and options of a state dict.

    >>> import rushlight as torch
    >>> p, q = (torch.nn.Parameter(torch.ones(1)) for _ in range(2))
    >>> optimizer = torch.optim.SGD([p], lr=0.5, momentum=0.9)
    >>> p.grad = q.grad = torch.ones(1)
    >>> optimizer.step()
    >>> saved = optimizer.state_dict()
    >>> with torch.optim.swap_in_optimizer_params_and_state(optimizer, {"q": q}, saved):
    ...     optimizer.step()
    >>> p.item(), round(q.item(), 4)
    (0.5, 0.05)
    """
    _check(bool(optimizer.state), "initialized optimizer state.")
    _check(isinstance(swapin_optim_state, dict), "a DCP-style optimizer state_dict.")
    state, groups = swapin_optim_state.get("state"), swapin_optim_state.get("param_groups")
    if not isinstance(state, dict):
        kind = type(state).__name__
        raise RuntimeError(f"{_NAME} requires swapin_optim_state['state'] to be a dict, got {kind}")
    _check(
        all(not isinstance(k, Tensor) for k in state),
        "optimizer.state_dict()-style state keyed by packed parameter ids.",
    )
    _check(
        all(isinstance(v, dict) for k, v in state.items() if isinstance(k, int)),
        "per-parameter optimizer state entries to be dictionaries.",
    )
    if not isinstance(groups, list) or len(groups) != len(optimizer.param_groups):
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['param_groups'] to be a list of "
            f"{len(optimizer.param_groups)} param-group dicts: it has a different number of "
            "parameter groups than the live optimizer."
        )
    live = optimizer.param_groups
    numbers = [_checked_group(i, g, n) for i, (g, n) in enumerate(zip(live, groups, strict=True))]
    flat = list(chain.from_iterable(numbers))
    _check(
        len(flat) <= len(swapin_parameters),
        "the explicit parameter state to match optimizer.param_groups ordering.",
    )
    extra = [k for k in state if k not in flat]
    _check(not extra, f"state only of the parameters in the groups; got extra keys {extra!r}.")

    params = list(swapin_parameters.values())
    swapped: defaultdict[Any, Any] = defaultdict(dict)
    for p, number in zip(params, flat, strict=False):
        swapped[p] = dict(state.get(number, {}))
    changed: list[tuple[dict[str, Any], str, Any]] = [(vars(optimizer), "state", swapped)]
    at = 0
    for group, new in zip(live, groups, strict=True):
        count = len(new["params"])
        options = {**new, "params": params[at : at + count]}
        changed += [(group, name, value) for name, value in options.items()]
        at += count
    with _C._Scope(("items", tuple(changed))):
        yield
