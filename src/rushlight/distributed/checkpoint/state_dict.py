"""States of models and optimizers by the names of parameters, whatever wraps them.

Entries are named as in the plain model, so that what DDP or FSDP saved loads into any of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import rushlight
from rushlight._C import Tensor
from rushlight.distributed.tensor._dtensor import DTensor, distribute_tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

    from rushlight.nn.modules.module import Module

__all__ = [
    "StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict",
    "set_model_state_dict", "set_optimizer_state_dict", "set_state_dict",
]  # fmt: skip


@dataclass
class StateDictOptions:
    """Whether tensors are given whole (``full_state_dict``), and on the CPU.

    >>> from rushlight.distributed.checkpoint.state_dict import StateDictOptions
    >>> StateDictOptions(full_state_dict=True).strict
    True
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def _plain(name: str) -> str:
    """The name without those of wrappers."""
    parts = name.split(".")
    return ".".join(p for p in parts if p not in ("module", "_fsdp_wrapped_module"))


def _unwrapped(model: Module) -> Module:
    from rushlight.distributed.fsdp import FullyShardedDataParallel
    from rushlight.nn.parallel import DataParallel, DistributedDataParallel

    while isinstance(model, (FullyShardedDataParallel, DistributedDataParallel, DataParallel)):
        model = model.module
    return model


def _given(value: Any, options: StateDictOptions) -> Any:
    if not isinstance(value, Tensor):
        return value
    if options.full_state_dict and isinstance(value, DTensor):
        value = value.full_tensor().detach()
    return value.cpu() if options.cpu_offload and not isinstance(value, DTensor) else value


def get_model_state_dict(
    model: Module, *, submodules: Any = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The state of a model, parts of tensors as DTensors.

    >>> import rushlight as torch
    >>> from rushlight.distributed.checkpoint.state_dict import get_model_state_dict
    >>> list(get_model_state_dict(torch.nn.Linear(1, 1)))
    ['weight', 'bias']
    """
    options = options or StateDictOptions()
    model = _unwrapped(model)
    _reshard(model)
    frozen = {n for n, p in model.named_parameters() if not p.requires_grad}
    return {
        name: _given(value, options)
        for name, value in model.state_dict().items()
        if not (options.ignore_frozen_params and name in frozen)
    }


def _reshard(model: Module) -> None:
    for module in model.modules():
        state = getattr(module, "_fsdp_state", None)
        if state is not None:
            state.group.reshard()


def _like(value: Any, target: Any) -> Any:
    """A whole tensor as the part that a DTensor has."""
    whole = isinstance(value, Tensor) and not isinstance(value, DTensor)
    if not isinstance(target, DTensor) or not whole or value.shape != target.shape:
        return value
    return distribute_tensor(value, target.device_mesh, target.placements, src_data_rank=None)


def set_model_state_dict(
    model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> Any:
    """Loads a state that ``get_model_state_dict`` gave, whole tensors included.

    >>> import rushlight as torch
    >>> from rushlight.distributed.checkpoint import state_dict as states
    >>> a, b = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
    >>> states.set_model_state_dict(a, states.get_model_state_dict(b))
    <All keys matched successfully>
    """
    options = options or StateDictOptions()
    model = _unwrapped(model)
    _reshard(model)
    own = dict(model.named_parameters(remove_duplicate=False))
    state = {name: _like(value, own.get(name)) for name, value in model_state_dict.items()}
    return model.load_state_dict(state, strict=options.strict)


def _begin(optimizer: Any) -> None:
    """Gives an optimizer that has not stepped yet the states of one that has."""
    if optimizer.state:
        return
    kept, rates = [], []
    for group in optimizer.param_groups:
        rates.append(group["lr"])
        group["lr"] = group["lr"] * 0.0
        for p in group["params"]:
            if p.requires_grad:
                kept.append((p, p.grad))
                p.grad = rushlight.zeros_like(p.detach())
    before = [p.detach().clone() for p, _ in kept]
    optimizer.step()
    with rushlight.no_grad():
        for (p, grad), value in zip(kept, before, strict=True):
            p.copy_(value)  # decay acts whatever the rate is
            p.grad = grad
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate


def _numbered(model: Module, optimizer: Any) -> list[str]:
    """The names of the optimizer's parameters, in its order."""
    names = {p: _plain(n) for n, p in _unwrapped(model).named_parameters()}
    return [names[p] for group in optimizer.param_groups for p in group["params"]]


def get_optimizer_state_dict(
    model: Module,
    optimizers: Any,
    *,
    submodules: Any = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """The state of an optimizer, by names of parameters; one that has not stepped yet gets one.

    >>> import rushlight as torch
    >>> from rushlight.distributed.checkpoint.state_dict import get_optimizer_state_dict
    >>> model = torch.nn.Linear(1, 1)
    >>> optimizer = torch.optim.Adam(model.parameters())
    >>> list(get_optimizer_state_dict(model, optimizer)["state"])
    ['weight', 'bias']
    """
    options = options or StateDictOptions()
    found: dict[str, Any] = {"state": {}, "param_groups": []}
    for optimizer in optimizers if isinstance(optimizers, (list, tuple)) else [optimizers]:
        _reshard(_unwrapped(model))
        _begin(optimizer)
        names, state = _numbered(model, optimizer), optimizer.state_dict()
        for number, entry in state["state"].items():
            found["state"][names[number]] = {k: _given(v, options) for k, v in entry.items()}
        found["param_groups"] += [
            {**group, "params": [names[i] for i in group["params"]]}
            for group in state["param_groups"]
        ]
    return found


def set_optimizer_state_dict(
    model: Module,
    optimizers: Any,
    optim_state_dict: dict[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Loads a state that ``get_optimizer_state_dict`` gave, whole tensors included.

    >>> import rushlight as torch
    >>> from rushlight.distributed.checkpoint import state_dict as states
    >>> model = torch.nn.Linear(1, 1)
    >>> optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
    >>> state = states.get_optimizer_state_dict(model, optimizer)
    >>> other = torch.optim.Adam(model.parameters())
    >>> states.set_optimizer_state_dict(model, other, state)
    >>> other.param_groups[0]["lr"]
    0.5
    """
    own = dict(_unwrapped(model).named_parameters())
    for optimizer in optimizers if isinstance(optimizers, (list, tuple)) else [optimizers]:
        names = _numbered(model, optimizer)
        numbers = {name: i for i, name in enumerate(names)}
        by_first = {group["params"][0]: group for group in optim_state_dict["param_groups"]}
        at, groups = 0, []
        for group in optimizer.param_groups:
            mine = names[at : at + len(group["params"])]
            at += len(mine)
            groups.append({**by_first[mine[0]], "params": [numbers[n] for n in mine]})
        state = {
            numbers[name]: {k: _like(v, own[name]) for k, v in entry.items()}
            for name, entry in optim_state_dict["state"].items()
            if name in numbers
        }
        optimizer.load_state_dict({"state": state, "param_groups": groups})


def get_state_dict(
    model: Module,
    optimizers: Any,
    *,
    submodules: Any = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The states of a model and its optimizers.

    >>> import rushlight as torch
    >>> from rushlight.distributed.checkpoint.state_dict import get_state_dict
    >>> model = torch.nn.Linear(1, 1)
    >>> states = get_state_dict(model, torch.optim.Adam(model.parameters()))
    >>> [sorted(state) for state in states]
    [['bias', 'weight'], ['param_groups', 'state']]
    """
    return (
        get_model_state_dict(model, options=options),
        get_optimizer_state_dict(model, optimizers, options=options),
    )


def set_state_dict(
    model: Module,
    optimizers: Any,
    *,
    model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> Any:
    """Loads what ``get_state_dict`` gave.

    >>> import rushlight as torch
    >>> from rushlight.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    >>> model = torch.nn.Linear(1, 1)
    >>> optimizer = torch.optim.Adam(model.parameters())
    >>> first, second = get_state_dict(model, optimizer)
    >>> set_state_dict(model, optimizer, model_state_dict=first, optim_state_dict=second)
    <All keys matched successfully>
    """
    result = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return result
