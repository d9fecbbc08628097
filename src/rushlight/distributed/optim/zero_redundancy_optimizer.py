"""An optimizer whose state is divided among processes (ZeRO, stage 1)."""

from __future__ import annotations

from itertools import chain

import rushlight
from rushlight import distributed as dist
from rushlight.distributed.algorithms.join import Join, Joinable, JoinHook
from rushlight.optim.optimizer import Optimizer

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight._C import Tensor

__all__ = ["ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """Steps a part of the parameters in each process, then sends everyone the results.

    Gradients must be the same in every process, as DistributedDataParallel makes them. Each process
    keeps the state of its own parameters; ``consolidate_state_dict`` collects it for a file.

    >>> import rushlight as torch
    >>> torch.distributed.init_process_group(rank=0, world_size=1)
    >>> from rushlight.distributed.optim import ZeroRedundancyOptimizer
    >>> p = torch.nn.Parameter(torch.ones(2))
    >>> optimizer = ZeroRedundancyOptimizer([p], torch.optim.SGD, lr=0.5)
    >>> p.sum().backward()
    >>> optimizer.step()
    >>> p.detach()
    tensor([0.5000, 0.5000])
    >>> torch.distributed.destroy_process_group()
    """

    def __init__(
        self,
        params: Any,
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise ValueError(
                "ZeroRedundancyOptimizer: overlap_with_ddp is not supported: leave it away; "
                "the step then follows backward"
            )
        self.process_group = process_group or dist.group.WORLD
        self.world_size = dist.get_world_size(self.process_group)
        self.rank = dist.get_rank(self.process_group)
        self._optimizer_class, self._optimizer_defaults = optimizer_class, defaults
        self._as_views = parameters_as_bucket_view
        self._whole: list[dict[str, Any]] = []
        self.optim: Any = None
        Joinable.__init__(self)
        Optimizer.__init__(self, params, defaults)
        self._divide()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters and divides all of them anew."""
        Optimizer.add_param_group(self, param_group)
        if self.optim is not None:
            self._divide()

    def _divide(self) -> None:
        """Gives each process about as many numbers: large parameters first, to the least loaded."""
        loads = [0] * self.world_size
        self._owner: dict[Tensor, int] = {}
        for p in sorted(self._parameters(), key=lambda p: -p.numel()):
            rank = min(range(self.world_size), key=loads.__getitem__)
            self._owner[p] = rank
            loads[rank] += p.numel()
        if self._as_views:
            self._flatten()
        state = {} if self.optim is None else dict(self.optim.state)
        mine = [
            {**group, "params": [p for p in group["params"] if self._owner[p] == self.rank]}
            for group in self.param_groups
        ]
        # A process may own nothing, and optimizers do not take empty lists.
        self._spare = [] if any(g["params"] for g in mine) else [rushlight.zeros(0)]
        mine[0]["params"] += self._spare
        self.optim = self._optimizer_class(mine, **self._optimizer_defaults)
        self.defaults = self.optim.defaults
        for group, own in zip(self.param_groups, self.optim.param_groups, strict=True):
            group.update({k: v for k, v in own.items() if k != "params"})
        self.optim.state.update({p: s for p, s in state.items() if self._owner[p] == self.rank})

    def _parameters(self) -> list[Tensor]:
        return list(chain.from_iterable(group["params"] for group in self.param_groups))

    def _kinds(self) -> list[list[Tensor]]:
        """The parameters of each process and dtype: what one broadcast carries."""
        kinds: dict[Any, list[Tensor]] = {}
        for p in self._parameters():
            kinds.setdefault((self._owner[p], p.dtype, p.device), []).append(p)
        return [kinds[key] for key in sorted(kinds, key=lambda k: (k[0], str(k[1])))]

    def _flatten(self) -> None:
        """Makes the parameters of a broadcast views of one buffer."""
        for group in self._kinds():
            flat = rushlight.cat([p.detach().reshape(-1) for p in group])
            parts = flat.split([p.numel() for p in group])
            for p, part in zip(group, parts, strict=True):
                p.data = part.view(p.shape)
            self._flat = {**getattr(self, "_flat", {}), id(group[0]): flat}

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """One step of all parameters."""
        Join.notify_join_context(self)
        return self._step(closure, kwargs)

    def _step(self, closure: Callable[[], Any] | None, kwargs: dict[str, Any]) -> Any:
        for group, own in zip(self.param_groups, self.optim.param_groups, strict=True):
            own.update({k: v for k, v in group.items() if k != "params"})
        if closure is None:
            loss = self.optim.step(**kwargs)
        else:
            loss = self.optim.step(closure=closure, **kwargs)
        self._send()
        for group, own in zip(self.param_groups, self.optim.param_groups, strict=True):
            group.update({k: v for k, v in own.items() if k != "params"})
        return loss

    def _send(self) -> None:
        """Gives everyone the parameters that each process has stepped."""
        works = []
        with rushlight.no_grad():
            for group in self._kinds():
                root = dist.get_global_rank(self.process_group, self._owner[group[0]])
                flat = self._flat[id(group[0])] if self._as_views else _joined(group)
                work = dist.broadcast(flat, root, group=self.process_group, async_op=True)
                works.append((work, group, flat))
            for work, group, flat in works:
                work.wait()
                if self._as_views or self._owner[group[0]] == self.rank:
                    continue
                parts = flat.split([p.numel() for p in group])
                for p, part in zip(group, parts, strict=True):
                    p.copy_(part.view(p.shape))

    # -- state -------------------------------------------------------------------------------------

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Collects everyone's state in process ``to``, whose ``state_dict`` is then whole."""
        numbers = {p: i for i, p in enumerate(self._parameters())}
        mine = {numbers[p]: s for p, s in self.optim.state.items() if p in numbers}
        everyone: list[Any] = [None] * self.world_size
        dist.all_gather_object(everyone, mine, group=self.process_group)
        self._whole = everyone if self.rank == to else []

    def state_dict(self) -> dict[str, Any]:
        """The whole state, in the process that collected it."""
        if not self._whole:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call "
                f"`consolidate_state_dict(to={self.rank})` on all ranks beforehand if you meant to "
                "save the global state."
            )
        state = {i: s for part in self._whole for i, s in part.items()}
        groups, at = [], 0
        for group in self.param_groups:
            count = len(group["params"])
            kept = {k: v for k, v in group.items() if k != "params"}
            groups.append({**kept, "params": list(range(at, at + count))})
            at += count
        return {"state": dict(sorted(state.items())), "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes a whole state, of any number of processes; each keeps its part."""
        parameters = self._parameters()
        numbers = {p: i for i, p in enumerate(parameters)}
        part: dict[str, Any] = {"state": {}, "param_groups": []}
        at = 0
        for group, own in zip(state_dict["param_groups"], self.optim.param_groups, strict=True):
            kept = {k: v for k, v in group.items() if k != "params"}
            part["param_groups"].append(
                {**kept, "params": list(range(at, at + len(own["params"])))}
            )
            for k, p in enumerate(own["params"]):
                if p in numbers and numbers[p] in state_dict["state"]:
                    part["state"][at + k] = state_dict["state"][numbers[p]]
            at += len(own["params"])
        self.optim.load_state_dict(part)
        for group, own in zip(self.param_groups, self.optim.param_groups, strict=True):
            group.update({k: v for k, v in own.items() if k != "params"})

    # -- uneven inputs -----------------------------------------------------------------------------

    def join_hook(self, **kwargs: Any) -> JoinHook:
        return _ZeroJoinHook(self)

    @property
    def join_device(self) -> Any:
        return self._parameters()[0].device

    @property
    def join_process_group(self) -> Any:
        return self.process_group


class _ZeroJoinHook(JoinHook):
    """A process without inputs still steps the parameters that it owns."""

    def __init__(self, zero: ZeroRedundancyOptimizer) -> None:
        self.zero = zero

    def main_hook(self) -> None:
        self.zero._step(None, {})


def _joined(group: list[Tensor]) -> Tensor:
    return rushlight.cat([p.detach().reshape(-1) for p in group])
