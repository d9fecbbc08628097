"""Communication hooks by name."""

from __future__ import annotations

import enum
from functools import partial

from rushlight.distributed.algorithms.ddp_comm_hooks import (
    debugging_hooks,
    default_hooks,
    powerSGD_hook,
    quantization_hooks,
)

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any


def _plain(hook: Any, model: Any, state: Any) -> None:
    model.register_comm_hook(state, hook)


def _power(hook: Any, rank: int, model: Any, state: Any) -> None:
    made = powerSGD_hook.PowerSGDState(
        process_group=state, matrix_approximation_rank=rank, start_powerSGD_iter=1000
    )
    model.register_comm_hook(made, hook)


class _Way:
    """Registers one hook. An enum takes it for a value, not for a method."""

    def __init__(self, register: Any) -> None:
        self._register = register

    def __call__(self, model: Any, state: Any = None) -> None:
        self._register(model=model, state=state)


class DDPCommHookType(enum.Enum):
    """The hooks of this package: ``value(model=model, state=group)`` registers one."""

    ALLREDUCE = _Way(partial(_plain, default_hooks.allreduce_hook))
    FP16_COMPRESS = _Way(partial(_plain, default_hooks.fp16_compress_hook))
    BF16_COMPRESS = _Way(partial(_plain, default_hooks.bf16_compress_hook))
    QUANTIZE_PER_TENSOR = _Way(
        partial(_plain, vars(quantization_hooks)["quantization_pertensor_hook"])
    )
    QUANTIZE_PER_CHANNEL = _Way(
        partial(_plain, vars(quantization_hooks)["quantization_perchannel_hook"])
    )
    POWER_SGD = _Way(partial(_power, powerSGD_hook.powerSGD_hook, 1))
    POWER_SGD_RANK2 = _Way(partial(_power, powerSGD_hook.powerSGD_hook, 2))
    BATCHED_POWER_SGD = _Way(partial(_power, powerSGD_hook.batched_powerSGD_hook, 1))
    BATCHED_POWER_SGD_RANK2 = _Way(partial(_power, powerSGD_hook.batched_powerSGD_hook, 2))
    NOOP = _Way(partial(_plain, debugging_hooks.noop_hook))


class BuiltinCommHookType(enum.Enum):
    """The hooks that PyTorch has in C++."""

    ALLREDUCE = 0
    FP16_COMPRESS = 1


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """Registers a hook by its name.

    >>> import rushlight as torch
    >>> torch.distributed.init_process_group(rank=0, world_size=1)
    >>> from rushlight.distributed.algorithms.ddp_comm_hooks import (
    ...     DDPCommHookType, register_ddp_comm_hook,
    ... )
    >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    >>> register_ddp_comm_hook(DDPCommHookType.FP16_COMPRESS, model)
    >>> torch.distributed.destroy_process_group()
    """
    comm_hook_type.value(model=model, state=state)
