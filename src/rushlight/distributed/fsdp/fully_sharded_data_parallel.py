"""``FullyShardedDataParallel``: the module that wraps what ``fully_shard`` divides."""

from __future__ import annotations

import contextlib

import rushlight
from rushlight import distributed as dist
from rushlight._C import Tensor
from rushlight.distributed.device_mesh import DeviceMesh
from rushlight.distributed.fsdp import wrap as _wrap
from rushlight.distributed.fsdp._fully_shard import FSDPModule, MixedPrecisionPolicy, fully_shard
from rushlight.distributed.fsdp.api import BackwardPrefetch as BackwardPrefetch
from rushlight.distributed.fsdp.api import CPUOffload as CPUOffload
from rushlight.distributed.fsdp.api import FullOptimStateDictConfig as FullOptimStateDictConfig
from rushlight.distributed.fsdp.api import FullStateDictConfig as FullStateDictConfig
from rushlight.distributed.fsdp.api import LocalStateDictConfig as LocalStateDictConfig
from rushlight.distributed.fsdp.api import MixedPrecision as MixedPrecision
from rushlight.distributed.fsdp.api import OptimStateKeyType as OptimStateKeyType
from rushlight.distributed.fsdp.api import (
    ShardedOptimStateDictConfig as ShardedOptimStateDictConfig,
)
from rushlight.distributed.fsdp.api import ShardedStateDictConfig as ShardedStateDictConfig
from rushlight.distributed.fsdp.api import ShardingStrategy as ShardingStrategy
from rushlight.distributed.fsdp.api import StateDictSettings, StateDictType
from rushlight.distributed.tensor._dtensor import DTensor
from rushlight.nn.modules.module import Module

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

__all__ = ["FullyShardedDataParallel"]

_INNER = "_fsdp_wrapped_module"


class FullyShardedDataParallel(Module):
    """Wraps a module and divides its parameters, gradients and optimizer states by rows.

    ``auto_wrap_policy`` says which modules in it are gathered on their own. Parameters keep their
    names and shapes, as with ``use_orig_params=True``, which is the only way here: as DTensors.

    >>> import rushlight as torch
    >>> torch.distributed.init_process_group(rank=0, world_size=1)
    >>> from rushlight.distributed.fsdp import FullyShardedDataParallel
    >>> model = FullyShardedDataParallel(torch.nn.Linear(2, 1))
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> list(model.state_dict())
    ['weight', 'bias']
    >>> torch.distributed.destroy_process_group()
    """

    def __init__(
        self,
        module: Module,
        process_group: Any = None,
        sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: CPUOffload | None = None,
        auto_wrap_policy: Callable[..., Any] | None = None,
        backward_prefetch: BackwardPrefetch | None = BackwardPrefetch.BACKWARD_PRE,
        mixed_precision: MixedPrecision | None = None,
        ignored_modules: Iterable[Module] | None = None,
        param_init_fn: Callable[[Module], None] | None = None,
        device_id: Any = None,
        sync_module_states: bool = False,
        forward_prefetch: bool = False,
        limit_all_gathers: bool = True,
        use_orig_params: bool = False,
        ignored_states: Any = None,
        device_mesh: Any = None,
    ) -> None:
        super().__init__()
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        if strategy is ShardingStrategy.NO_SHARD:
            raise ValueError(
                "FullyShardedDataParallel: NO_SHARD is what DistributedDataParallel does: use it"
            )
        if param_init_fn is not None:
            for child in module.modules():
                param_init_fn(child)
        ignored = set(ignored_modules or ())
        states = list(ignored_states or ())
        ignored |= {m for m in states if isinstance(m, Module)}
        skipped = {p for p in states if isinstance(p, Tensor)}
        skipped |= {p for m in ignored for p in m.parameters()}
        if device_mesh is None:
            device_mesh = DeviceMesh.from_group(process_group or dist.group.WORLD, "cpu")
        self._mesh = device_mesh
        if sync_module_states:
            self._synchronise(module, device_mesh)
        precision = mixed_precision or MixedPrecision()
        options = {
            "mesh": device_mesh,
            "mp_policy": MixedPrecisionPolicy(precision.param_dtype, precision.reduce_dtype),
            "ignored_params": skipped,
        }
        kept = strategy in (ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy._HYBRID_SHARD_ZERO2)
        options["reshard_after_forward"] = False if kept else None
        if auto_wrap_policy is not None:
            for child in _wrap.chosen(module, auto_wrap_policy, ignored):
                if not isinstance(child, FSDPModule):
                    fully_shard(child, **options)
        self.sharding_strategy = strategy
        self._settings = StateDictSettings(StateDictType.FULL_STATE_DICT)
        self.add_module(_INNER, module)
        fully_shard(module, **options)
        self._register_load_state_dict_pre_hook(self._before_loading)

    @staticmethod
    def _synchronise(module: Module, mesh: Any) -> None:
        group = mesh.get_group(mesh.ndim - 1)
        for t in [*module.parameters(), *module.buffers()]:
            if not isinstance(t, DTensor):
                dist.broadcast(t.detach(), dist.get_global_rank(group, 0), group=group)

    @property
    def module(self) -> Module:
        """The module that is wrapped."""
        inner: Module = self._modules[_INNER]
        return inner

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if _INNER not in self._modules:
                raise
            return getattr(self.module, name)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """Names as in the module that is wrapped."""
        for name, p in super().named_parameters(*args, **kwargs):
            yield name.replace(f"{_INNER}.", ""), p

    def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """Names as in the module that is wrapped."""
        for name, b in super().named_buffers(*args, **kwargs):
            yield name.replace(f"{_INNER}.", ""), b

    # -- state dicts -------------------------------------------------------------------------------

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Whole tensors, or parts: see ``state_dict_type``."""
        for state in _states(self):
            state.group.reshard()
        found = super().state_dict(*args, **kwargs)
        settings, config = self._settings, self._settings.state_dict_config
        is_full = settings.state_dict_type is StateDictType.FULL_STATE_DICT
        drop = is_full and getattr(config, "rank0_only", False) and dist.get_rank() != 0
        for name in list(found):
            value = found.pop(name)
            if isinstance(value, DTensor) and settings.state_dict_type is not (
                StateDictType.SHARDED_STATE_DICT
            ):
                value = value.full_tensor().detach() if is_full else value.to_local().detach()
            if not drop:
                found[name.replace(f"{_INNER}.", "")] = value
        return found

    def _before_loading(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        """Renames entries, and takes the parts of whole tensors."""
        own = dict(Module.named_parameters(self.module, remove_duplicate=False))
        for name in [n for n in state_dict if n.startswith(prefix)]:
            inner = name.removeprefix(prefix)
            if inner.startswith(_INNER):
                continue
            value = state_dict.pop(name)
            target: Any = own.get(inner)
            if isinstance(target, DTensor) and not isinstance(value, DTensor):
                value = _part_for(target, value)
            state_dict[f"{prefix}{_INNER}.{inner}"] = value

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: Any = None,
        optim_state_dict_config: Any = None,
    ) -> Iterator[None]:
        """Within it, ``state_dict`` gives what is told."""
        before = [(m, m._settings) for m in FullyShardedDataParallel.fsdp_modules(module)]
        FullyShardedDataParallel.set_state_dict_type(
            module, state_dict_type, state_dict_config, optim_state_dict_config
        )
        try:
            yield
        finally:
            for each, settings in before:
                each._settings = settings

    @staticmethod
    def set_state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: Any = None,
        optim_state_dict_config: Any = None,
    ) -> StateDictSettings:
        """Sets what ``state_dict`` gives; returns what was set."""
        before = FullyShardedDataParallel.get_state_dict_type(module)
        settings = StateDictSettings(state_dict_type)
        if state_dict_config is not None:
            settings.state_dict_config = state_dict_config
        if optim_state_dict_config is not None:
            settings.optim_state_dict_config = optim_state_dict_config
        for each in FullyShardedDataParallel.fsdp_modules(module):
            each._settings = settings
        return before

    @staticmethod
    def get_state_dict_type(module: Module) -> StateDictSettings:
        """What ``state_dict`` gives."""
        return FullyShardedDataParallel.fsdp_modules(module)[0]._settings

    @staticmethod
    def optim_state_dict(
        model: Module, optim: Any, optim_state_dict: Any = None, group: Any = None
    ) -> dict[str, Any]:
        """The state of an optimizer, by names of parameters, as whole tensors or parts."""
        state = optim_state_dict if optim_state_dict is not None else optim.state_dict()
        names = {p: n for n, p in model.named_parameters()}
        order = [names[p] for g in optim.param_groups for p in g["params"]]
        kind = FullyShardedDataParallel.get_state_dict_type(model).state_dict_type
        is_full = kind is StateDictType.FULL_STATE_DICT

        def given(value: Any) -> Any:
            return value.full_tensor() if is_full and isinstance(value, DTensor) else value

        return {
            "state": {
                order[i]: {k: given(v) for k, v in entry.items()}
                for i, entry in state["state"].items()
            },
            "param_groups": [
                {**g, "params": [order[i] for i in g["params"]]} for g in state["param_groups"]
            ],
        }

    @staticmethod
    def optim_state_dict_to_load(
        model: Module, optim: Any, optim_state_dict: dict[str, Any], **kwargs: Any
    ) -> dict[str, Any]:
        """A state by names as ``optim.load_state_dict`` takes it."""
        parameters = dict(model.named_parameters())
        names = {p: n for n, p in parameters.items()}
        order = [names[p] for g in optim.param_groups for p in g["params"]]
        numbers = {n: i for i, n in enumerate(order)}

        def part(name: str, value: Any) -> Any:
            target = parameters[name]
            whole = isinstance(value, Tensor) and not isinstance(value, DTensor)
            if whole and isinstance(target, DTensor) and value.shape == target.shape:
                return _part_for(target, value)
            return value

        return {
            "state": {
                numbers[n]: {k: part(n, v) for k, v in entry.items()}
                for n, entry in optim_state_dict["state"].items()
            },
            "param_groups": [
                {**g, "params": [numbers[n] for n in g["params"]]}
                for g in optim_state_dict["param_groups"]
            ],
        }

    # -- training ----------------------------------------------------------------------------------

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[Any]:
        """The wrappers in a module."""
        return [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]

    def check_is_root(self) -> bool:
        """Whether no other wraps it."""
        state = self.module._fsdp_state
        return bool(state.is_root or state.context is None)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within it, gradients add up whole in each process; the next pass sums them."""
        for state in _states(self):
            state.group.syncs = False
        try:
            yield
        finally:
            for state in _states(self):
                state.group.syncs = True

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Scales all gradients so that their norm, over all processes, is at most ``max_norm``."""
        norm = rushlight.nn.utils.clip_grad_norm_(self.parameters(), max_norm, norm_type)
        return norm.full_tensor() if isinstance(norm, DTensor) else norm

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(
        module: Module,
        recurse: bool = True,
        writeback: bool = True,
        rank0_only: bool = False,
        offload_to_cpu: bool = False,
        with_grads: bool = False,
    ) -> Iterator[None]:
        """Within it, parameters are whole; what is written to them is kept if ``writeback``."""
        states = _states(module)
        for state in states:
            state.group.unshard()
        try:
            yield
        finally:
            for state in states:
                if writeback:
                    _write_back(state.group)
                state.group.reshard()


def _states(module: Module) -> list[Any]:
    found = [m._fsdp_state for m in module.modules() if isinstance(m, FSDPModule)]
    return list(dict.fromkeys(found))


def _part_for(target: Any, whole: Tensor) -> DTensor:
    from rushlight.distributed.tensor._dtensor import distribute_tensor

    return distribute_tensor(whole, target.device_mesh, target.placements, src_data_rank=None)


def _write_back(group: Any) -> None:
    with rushlight.no_grad():
        for p in group.parameters:
            p.sharded._local_tensor.copy_(_part_for(p.sharded, p.whole)._local_tensor)
