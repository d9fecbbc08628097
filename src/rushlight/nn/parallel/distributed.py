"""A module trained by several processes, each on its own part of the data."""

from __future__ import annotations

import contextlib
import copy

import rushlight
from rushlight import _C
from rushlight import distributed as dist
from rushlight.distributed.algorithms.join import Join, Joinable, JoinHook
from rushlight.nn.modules.module import Module

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from rushlight._C import Tensor

__all__ = ["DistributedDataParallel"]

_FIRST_CAP, _CAP = 1, 25  # MiB: the first bucket is small, so that communication starts early


class DistributedDataParallel(Module, Joinable):
    """Wraps a module: gradients are averaged over the processes while backward runs.

    Each process gives its own batch; parameters and buffers start as those of rank 0, and each
    process then takes the same optimizer step. Parameters that a pass does not use count as zeros
    where others use them, and keep their gradient where nobody does: no flag is needed.

    >>> import rushlight as torch
    >>> torch.distributed.init_process_group(rank=0, world_size=1)
    >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    >>> model(torch.ones(4, 2)).sum().backward()
    >>> model.module.weight.grad
    tensor([[4., 4.]])
    >>> torch.distributed.destroy_process_group()
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: list[float] | None = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        Module.__init__(self)
        Joinable.__init__(self)
        for option, value in (
            ("delay_all_reduce_named_params", delay_all_reduce_named_params),
            ("param_to_hook_all_reduce", param_to_hook_all_reduce),
            ("mixed_precision", mixed_precision),
        ):
            if value is not None:
                raise ValueError(
                    f"DistributedDataParallel: {option} is not supported: use torch.autocast for "
                    "mixed precision, and register_comm_hook to change what is sent"
                )
        if device_mesh is not None:
            if process_group is not None:
                raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
            process_group = device_mesh.get_group()
        if not dist.is_initialized():
            raise ValueError(
                "Default process group has not been initialized, please make sure to call "
                "init_process_group: DistributedDataParallel averages gradients over processes"
            )
        self.module = module
        self.process_group = process_group or dist.group.WORLD
        self.parameters_to_ignore: set[str] = set(
            getattr(module, "_ddp_params_and_buffers_to_ignore", ())
        )
        self.dim = dim
        self.device_ids, self.output_device = device_ids, output_device
        if broadcast_buffers is not None and forward_sync_buffers is not None:
            raise ValueError(
                "DistributedDataParallel: got both broadcast_buffers and forward_sync_buffers: "
                "give one of them"
            )
        # broadcast_buffers=False leaves buffers alone at the start, too.
        self.broadcast_buffers = False not in (broadcast_buffers, forward_sync_buffers)
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        names, parameters = self._trained()
        self._children = [(f"{n}." if n else "", m) for n, m in module.named_modules()]
        self.device = parameters[0].device
        self.device_type = self.device.type
        self._check_devices(parameters)
        caps = bucket_cap_mb_list or [_FIRST_CAP, _CAP]
        if bucket_cap_mb is not None:
            caps = [min(_FIRST_CAP, bucket_cap_mb), bucket_cap_mb]
        self.bucket_bytes_cap = int(caps[-1] * 2**20)
        self._options = ([int(c * 2**20) for c in caps], gradient_as_bucket_view, static_graph)
        if init_sync:
            self._check_same_model(names, parameters)
            state = self._state() if broadcast_buffers is not False else parameters
            self._broadcast(state, self._root())
        self._start(names, parameters)

    def _trained(self) -> tuple[list[str], list[Tensor]]:
        """The parameters that take part, each once, and their names."""
        found = [
            (name, p)
            for name, p in self.module.named_parameters()
            if p.requires_grad and name not in self.parameters_to_ignore
        ]
        if not found:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameters "
                "that require a gradient."
            )
        return [n for n, _ in found], [p for _, p in found]

    def _check_devices(self, parameters: list[Tensor]) -> None:
        devices = {p.device for p in parameters}
        if self.device_ids and (len(self.device_ids) > 1 or self.device_type == "cpu"):
            raise ValueError(
                "DistributedDataParallel device_ids and output_device arguments only work with "
                "single-device GPU modules, but got device_ids "
                f"{self.device_ids}, output_device {self.output_device}, and module parameters "
                f"{devices}: leave device_ids away"
            )

    def _check_same_model(self, names: list[str], parameters: list[Tensor]) -> None:
        """Ranks whose models differ would add up unrelated numbers: says where they differ."""
        mine = [(n, tuple(p.shape), str(p.dtype)) for n, p in zip(names, parameters, strict=True)]
        world = dist.get_world_size(self.process_group)
        everyone: list[Any] = [None] * world
        dist.all_gather_object(everyone, mine, group=self.process_group)
        for rank, theirs in enumerate(everyone):
            if theirs == everyone[0]:
                continue
            pairs = zip([*everyone[0], *[None] * len(theirs)], theirs, strict=False)
            for first, other in [*pairs, (everyone[0][-1], theirs[-1])]:
                if first != other:
                    break
            raise RuntimeError(
                "DDP expects same model across all ranks, but "
                f"rank 0 has {len(everyone[0])} params, while rank {rank} has {len(theirs)}; the "
                f"first that differs: {_told(first)} on rank 0, {_told(other)} on rank {rank}"
            )

    def _root(self) -> int:
        return dist.get_global_rank(self.process_group, 0)

    def _state(self) -> list[Tensor]:
        """Parameters and buffers, without those that are ignored."""
        members = [*self.module.named_parameters(), *self.module.named_buffers()]
        return [t for name, t in members if name not in self.parameters_to_ignore]

    def _buffers_sent(self) -> list[Tensor]:
        """The buffers that the modules have now; which modules there are stays as it was."""
        found = {
            id(buffer): buffer
            for prefix, child in self._children
            if child._buffers
            for name, buffer in child._buffers.items()
            if buffer is not None and prefix + name not in self.parameters_to_ignore
        }
        return list(found.values())

    def _broadcast(self, tensors: list[Tensor], source: int) -> None:
        """Gives every process the numbers of one, all tensors of a kind at once."""
        kinds: dict[Any, list[Tensor]] = {}
        for t in tensors:
            if t.numel():
                kinds.setdefault((t.dtype, t.device), []).append(t.detach())
        with rushlight.no_grad():
            for group in kinds.values():
                if len(group) == 1 and group[0].is_contiguous():
                    dist.broadcast(group[0], source, group=self.process_group)
                    continue
                flat = rushlight.cat([t.reshape(-1) for t in group])
                dist.broadcast(flat, source, group=self.process_group)
                for t, part in zip(group, flat.split([t.numel() for t in group]), strict=True):
                    t.copy_(part.view(t.shape))

    def _start(self, names: list[str], parameters: list[Tensor]) -> None:
        from rushlight.nn.parallel._reducer import Reducer

        caps, as_views, static = self._options
        self.reducer = Reducer(
            names, parameters, self.process_group, caps, as_views, static, self._sparse(parameters)
        )
        self._calls: set[str] | None = None

    def _sparse(self, parameters: list[Tensor]) -> list[int]:
        """Which parameters belong to embeddings that give sparse gradients."""
        from rushlight.nn import Embedding, EmbeddingBag

        weights = {
            id(m.weight)
            for m in self.module.modules()
            if isinstance(m, (Embedding, EmbeddingBag)) and m.sparse
        }
        return [i for i, p in enumerate(parameters) if id(p) in weights]

    # -- a step ------------------------------------------------------------------------------------

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        sync = self._begin()
        if self.device_type != "cpu":
            inputs, kwargs = self._moved((inputs, kwargs))
        if not (sync and self.reducer.unused):
            return self.module(*inputs, **kwargs)
        with self._watching():
            return self.module(*inputs, **kwargs)

    def _begin(self) -> bool:
        """A forward pass begins; whether the backward pass after it averages."""
        sync = _C.is_grad_enabled() and self.require_backward_grad_sync
        if self._join_config.enable:
            self._notify(sync)
        self._send_buffers()
        if _C.is_grad_enabled():
            self.reducer.prepare(sync)
        self.require_forward_param_sync = sync
        return sync

    def _moved(self, tree: Any) -> Any:
        from rushlight.utils import _pytree

        return _pytree.tree_map(
            lambda t: t.to(self.device) if isinstance(t, _C.Tensor) else t, tree
        )

    def _will_send_buffers(self) -> bool:
        return self.broadcast_buffers and self.require_forward_param_sync

    def _send_buffers(self) -> None:
        if not self._will_send_buffers():
            return
        buffers = self._buffers_sent()
        if buffers:
            self._broadcast(buffers, self._common_rank(True))

    def _common_rank(self, present: bool) -> int:
        """Whose buffers count: rank 0's, or the last of the ranks that still have inputs."""
        if not self._join_config.enable:
            return self._root()
        rank = dist.get_rank(self.process_group)
        highest = rushlight.tensor([rank if present else -1], device=self.device)
        dist.all_reduce(highest, op=dist.ReduceOp.MAX, group=self.process_group)
        return dist.get_global_rank(self.process_group, int(highest.item()))

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within it, gradients add up in each process; the first pass after it averages the sum.

        The forward call counts: make it inside the block, too.
        """
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: object, hook: Callable[[Any, Any], Any]) -> None:
        """Replaces the averaging of a bucket: ``hook(state, bucket)`` gives a Future of the result.

        ``bucket`` is a ``dist.GradBucket``; hooks are in
        ``torch.distributed.algorithms.ddp_comm_hooks``.
        """
        if not callable(hook):
            raise TypeError(f"Communication hook must be callable, got {type(hook).__name__}")
        if self.reducer.hook is not None:
            raise RuntimeError(
                "register_comm_hook or register_builtin_comm_hook can only be called once."
            )
        self.reducer.hook = (state, hook)

    def _register_builtin_comm_hook(self, comm_hook_type: Any) -> None:
        """A hook by the name that PyTorch has for those in C++."""
        from rushlight.distributed.algorithms.ddp_comm_hooks import DDPCommHookType

        DDPCommHookType[comm_hook_type.name].value(model=self, state=self.process_group)

    def _set_static_graph(self) -> None:
        """What ``static_graph=True`` does, before the first pass."""
        self.static_graph = self.reducer.static = True
        caps, as_views, _ = self._options
        self._options = (caps, as_views, True)

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        """What is known of this model and its buckets."""
        buckets = self.reducer.buckets
        parameters = self.reducer.parameters
        return {
            "world_size": self.reducer.world,
            "rank": dist.get_rank(self.process_group),
            "module_name": type(self.module).__name__,
            "backend_name": dist.get_backend(self.process_group),
            "iteration": self.reducer.passes,
            "num_parameter_tensors": len(parameters),
            "total_parameter_size_bytes": sum(p.nbytes for p in parameters),
            "bucket_cap_bytes": self.bucket_bytes_cap,
            "bucket_sizes": ", ".join(
                str(sum(p.nbytes for p in bucket.parameters)) for bucket in buckets
            ),
            "broadcast_buffers": self.broadcast_buffers,
            "find_unused_parameters": self.find_unused_parameters,
            "gradient_as_bucket_view": self.gradient_as_bucket_view,
            "static_graph": self.static_graph,
        }

    def will_sync_module_buffers(self) -> bool:
        """Whether the next forward pass sends buffers."""
        return self._will_send_buffers() and bool(self._buffers_sent())

    def scatter(self, inputs: Any, kwargs: Any, device_ids: Any) -> Any:
        """``torch.nn.parallel.scatter_gather.scatter_kwargs``."""
        from rushlight.nn.parallel.scatter_gather import scatter_kwargs

        return scatter_kwargs(inputs, kwargs, device_ids, dim=self.dim)

    def to_kwargs(self, inputs: Any, kwargs: Any, device_id: Any) -> Any:
        """The inputs on a device, as they are given for each of several."""
        inputs, kwargs = self._moved((inputs, kwargs))
        return (inputs,), (kwargs,)

    def gather(self, outputs: Any, output_device: Any) -> Any:
        """``torch.nn.parallel.gather``."""
        from rushlight.nn.parallel.scatter_gather import gather

        return gather(outputs, output_device, dim=self.dim)

    # -- what was unused ---------------------------------------------------------------------------

    @contextlib.contextmanager
    def _watching(self) -> Iterator[None]:
        """Notes which modules are called, so that what was unused can be explained."""
        called: set[str] = set()
        self._calls = called
        handles = []
        for name, child in self.module.named_modules():
            if child._parameters:
                note = _Note(called, name)
                handles.append(child.register_forward_pre_hook(note))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def unused_parameters(self) -> dict[str, str]:
        """The parameters that the last backward pass did not use in every process, and why.

        Empty when all were used. The module that was not called is named from the second such
        pass on.
        """
        reducer = self.reducer
        partly = reducer.partly()
        told = {}
        for i in sorted([*reducer.unused, *partly]):
            name = reducer.names[i]
            if i in partly:
                told[name] = f"used by {partly[i]} of {reducer.world} ranks"
                continue
            owner = name.rpartition(".")[0]
            if self._calls is not None and owner not in self._calls:
                called = f"module {owner!r}" if owner else "the module"
                told[name] = f"used by no rank: {called} was not called"
            else:
                told[name] = "used by no rank: its result does not reach the loss"
        return told

    # -- uneven inputs -----------------------------------------------------------------------------

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Join:
        """A context in which processes may have different numbers of batches.

        One that has run out takes part in the collectives of the others with zeros, and gets
        their parameters in the end.
        """
        return Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def _notify(self, sync: bool) -> None:
        """Tells those that have run out what this forward pass is going to do."""
        work = Join.notify_join_context(self)
        if work is None:
            return
        work.wait()
        present = self.reducer.present = self._join_present
        self.reducer.divisor = self.reducer.world if self._divide_by_initial_world_size else present
        self._agree_to_sync(sync)

    def _agree_to_sync(self, sync: bool) -> bool:
        flag = rushlight.tensor([int(sync)], device=self.device)
        dist.all_reduce(flag, group=self.process_group)
        return bool(flag.item())

    def join_hook(self, **kwargs: Any) -> JoinHook:
        self._divide_by_initial_world_size = kwargs.get("divide_by_initial_world_size", True)
        return _DDPJoinHook(self)

    @property
    def join_device(self) -> Any:
        return self.device

    @property
    def join_process_group(self) -> Any:
        return self.process_group

    # -- copies and files --------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        for name in ("process_group", "reducer"):
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.process_group = dist.group.WORLD
        self._start(*self._trained())

    def __deepcopy__(self, memo: dict[int, Any]) -> DistributedDataParallel:
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        twin.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return twin

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: Module, names: list[str]) -> None:
        """Names of parameters and buffers that stay each process's own."""
        module.__dict__["_ddp_params_and_buffers_to_ignore"] = names


def _told(entry: Any) -> str:
    return "nothing" if entry is None else f"{entry[0]!r} of shape {entry[1]} and {entry[2]}"


class _Note:
    """Writes down a module's name when it is called."""

    def __init__(self, called: set[str], name: str) -> None:
        self.called, self.name = called, name

    def __call__(self, module: Module, inputs: Any) -> None:
        self.called.add(self.name)


class _DDPJoinHook(JoinHook):
    """What a process without inputs does in place of a step."""

    def __init__(self, ddp: DistributedDataParallel) -> None:
        self.ddp = ddp

    def main_hook(self) -> None:
        ddp, reducer = self.ddp, self.ddp.reducer
        sync = ddp._agree_to_sync(False)
        if ddp._will_send_buffers():
            buffers = ddp._buffers_sent()
            if buffers:
                ddp._broadcast(buffers, ddp._common_rank(False))
        ddp.require_forward_param_sync = sync
        if not sync:
            return
        reducer.absent = True
        reducer.present = ddp._join_present
        reducer.divisor = reducer.world if ddp._divide_by_initial_world_size else ddp._join_present
        reducer.prepare(True)
        reducer.finish()

    def post_hook(self, is_last_joiner: bool) -> None:
        ddp, reducer = self.ddp, self.ddp.reducer
        reducer.absent = False
        reducer.present = reducer.divisor = reducer.world
        source = ddp._common_rank(is_last_joiner)
        ddp._broadcast(ddp._state() if ddp.broadcast_buffers else reducer.parameters, source)


def _find_tensors(obj: Any) -> list[Any]:
    """The tensors within lists, tuples, dicts and data classes, which libraries look for."""
    from rushlight.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(obj) if isinstance(leaf, _C.Tensor)]
