"""Parameters that are gathered, used, freed and reduced together.

Between uses, each process keeps its rows of every parameter. ``unshard`` gathers the whole into
tensors whose memory is freed again by ``reshard``: the graph keeps the tensors, and their memory
is there again when a backward pass needs it.
"""

from __future__ import annotations

import rushlight
from rushlight import distributed as dist
from rushlight.distributed.tensor._dtensor import DTensorParameter
from rushlight.distributed.tensor._leaves import add_grad
from rushlight.distributed.tensor._parts import own_part
from rushlight.distributed.tensor.placement_types import Replicate, Shard, bounds
from rushlight.nn.parameter import Parameter

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight._C import Tensor
    from rushlight.nn.modules.module import Module


class ShardedParameter:
    """One parameter: its rows here, and the whole while it is in use."""

    def __init__(
        self, owners: list[tuple[Module, str]], parameter: Tensor, mesh: Any, dtype: Any
    ) -> None:
        if parameter.dim() == 0:
            raise ValueError(
                "fully_shard doesn't support scalar parameters. Change "
                f"{owners[0][1]} to a 1D tensor with numel equal to 1."
            )
        self.owners, self.name = owners, owners[0][1]
        group = mesh.get_group(mesh.ndim - 1)
        world, rank = dist.get_world_size(group), dist.get_rank(group)
        rows = parameter.shape[0]
        start, end = bounds(rows, world, rank)
        placements = [*[Replicate()] * (mesh.ndim - 1), Shard(0)]
        with rushlight.no_grad():
            local = own_part(parameter.detach(), 0, group).clone()
        self.sharded = DTensorParameter(local, mesh, placements, parameter.shape)
        self.sharded.requires_grad_(parameter.requires_grad)
        self.rows = end - start
        self.width = -(-rows // world) * parameter[0:1].numel()  # numbers of a full part
        self.world = world
        self.make_whole(dtype)

    def make_whole(self, dtype: Any) -> None:
        """Makes the tensor that ``fill`` fills."""
        local, shape = self.sharded._local_tensor, self.sharded.shape
        # The last parts may be short: the memory holds full ones.
        self.padded = rushlight.empty(self.world, self.width, dtype=dtype, device=local.device)
        whole = self.padded.view(-1)[: shape.numel()].view(shape)
        self.whole = Parameter(whole, requires_grad=local.requires_grad)
        self.bytes = self.padded.untyped_storage().nbytes()

    def adopt(self, param_dtype: Any) -> bool:
        """Takes what conversions and loading have put into the module; whether it was new."""
        module, name = self.owners[0]
        found: Any = module._parameters[name]
        if not isinstance(found, DTensorParameter):
            raise RuntimeError(
                f"fully_shard: parameter {name!r} was replaced by a {type(found).__name__}: put "
                "DTensors in its place, as distribute_tensor makes them"
            )
        local = found._local_tensor
        dtype = param_dtype or local.dtype
        if found is not self.sharded:
            self.sharded = found
            self.place(found)
        elif (self.padded.dtype, self.padded.device) == (dtype, local.device):
            if self.whole.requires_grad != local.requires_grad:
                self.whole.requires_grad_(local.requires_grad)
                return True
            return False
        self.make_whole(dtype)
        self.free()
        return True

    def place(self, tensor: Tensor) -> None:
        for module, name in self.owners:
            module._parameters[name] = tensor

    # Tensors saved for backward are to find the numbers they were saved with, back in their place:
    # neither step counts as a change.
    def free(self) -> None:
        if self.padded.is_meta:
            return
        version = self.padded._version
        self.padded.untyped_storage().resize_(0)
        self.padded._version = version

    def fill(self, parts: Tensor) -> None:
        """Takes everyone's parts."""
        version = self.padded._version
        storage = self.padded.untyped_storage()
        if storage.nbytes() == 0:
            storage.resize_(self.bytes)
        self.padded.copy_(parts)
        self.padded._version = version


class ParameterGroup:
    """The parameters of one ``fully_shard`` call."""

    def __init__(
        self, parameters: list[ShardedParameter], mesh: Any, policy: Any, reshard: bool
    ) -> None:
        self.parameters, self.mesh, self.policy = parameters, mesh, policy
        self.group = mesh.get_group(mesh.ndim - 1)
        self.replicas = mesh.get_group(0) if mesh.ndim == 2 else None
        self.world = dist.get_world_size(self.group)
        self.divisor = self.world * (dist.get_world_size(self.replicas) if self.replicas else 1)
        self.reshard_after_forward = reshard
        self.reshard_after_backward = True
        self.syncs = True
        self.whole = False
        self.gathering: list[tuple[Any, Tensor, list[ShardedParameter]]] | None = None
        self.reducing: list[tuple[Any, ...]] = []
        self.entered = 0  # calls whose inputs' gradients are still to come
        self.arrived: set[int] = set()
        self.on_whole: Callable[[ShardedParameter], None] | None = None  # a new one was made
        for p in parameters:
            p.free()
        self._sort()

    def _sort(self) -> None:
        """One collective carries one dtype."""
        kinds: dict[Any, list[ShardedParameter]] = {}
        for p in self.parameters:
            kinds.setdefault((p.whole.dtype, p.sharded.dtype), []).append(p)
        self.kinds = list(kinds.values())

    def _adopt(self) -> None:
        changed = [p for p in self.parameters if p.adopt(self.policy.param_dtype)]
        for p in changed:
            if p.padded.is_meta:
                continue
            if self.on_whole is not None:
                self.on_whole(p)
        if changed:
            self._sort()
        if any(p.padded.is_meta for p in self.parameters):
            raise RuntimeError(
                "fully_shard: parameters are on the meta device, so there is nothing to gather: "
                "call module.to_empty(device=...) and initialise them, or load a checkpoint"
            )

    # -- gathering ---------------------------------------------------------------------------------

    def gather(self) -> None:
        """Begins to gather; ``unshard`` waits for it."""
        if self.whole or self.gathering is not None:
            return
        self._adopt()
        self.gathering = []
        with rushlight.no_grad():
            for kind in self.kinds:
                first = kind[0].padded
                total = sum(p.width for p in kind)
                mine = rushlight.zeros(total, dtype=first.dtype, device=first.device)
                at = 0
                for p in kind:
                    local = p.sharded._local_tensor
                    mine[at : at + local.numel()].copy_(local.view(-1))
                    at += p.width
                everyone = rushlight.empty(
                    self.world * total, dtype=first.dtype, device=first.device
                )
                work = dist.all_gather_into_tensor(everyone, mine, group=self.group, async_op=True)
                self.gathering.append((work, everyone, kind))

    def unshard(self) -> None:
        """Puts whole parameters into the modules."""
        if self.whole:
            return
        self.gather()
        with rushlight.no_grad():
            for work, everyone, kind in self.gathering or ():
                work.wait()
                parts, at = everyone.view(self.world, -1), 0
                for p in kind:
                    p.fill(parts[:, at : at + p.width])
                    p.place(p.whole)
                    at += p.width
        self.gathering, self.whole = None, True

    def reshard(self) -> None:
        """Puts the parts back and frees the whole."""
        if self.gathering is not None:
            for work, _, _ in self.gathering:
                work.wait()
            self.gathering = None
        if not self.whole:
            return
        for p in self.parameters:
            p.place(p.sharded)
            p.free()
        self.whole = False

    # -- reducing ----------------------------------------------------------------------------------

    def is_done(self) -> bool:
        """Whether nothing of this backward pass needs the whole any more."""
        wanted = sum(p.whole.requires_grad for p in self.parameters)
        return self.entered <= 0 and len(self.arrived) == wanted

    def reduce(self) -> None:
        """Begins to sum the gradients, of which each process gets its rows; frees the whole."""
        self.arrived, self.entered = set(), 0
        if self.syncs:
            with rushlight.no_grad():
                for kind in self.kinds:
                    wanted = [p for p in kind if p.whole.requires_grad]
                    if wanted:
                        self.reducing.append(self._reduced(wanted))
        if self.reshard_after_backward:
            self.reshard()

    def _reduced(self, kind: list[ShardedParameter]) -> tuple[Any, ...]:
        dtype = self.policy.reduce_dtype or kind[0].whole.dtype
        total = sum(p.width for p in kind)
        device = kind[0].padded.device
        # Behind the gradients, a mark for each that there was: a sum of 0 is no gradient at all.
        terms = rushlight.zeros(self.world, total + len(kind), dtype=dtype, device=device)
        at = 0
        for k, p in enumerate(kind):
            grad, p.whole.grad = p.whole.grad, None
            if grad is not None:
                terms[:, total + k].fill_(1)
                numbers = grad.reshape(-1)
                rest = self.world * p.width - numbers.numel()
                if rest:
                    numbers = rushlight.cat([numbers, numbers.new_zeros(rest)])
                terms[:, at : at + p.width].copy_(numbers.view(self.world, p.width))
            at += p.width
        terms[:, :total].div_(self.divisor)
        mine = rushlight.empty(total + len(kind), dtype=dtype, device=device)
        work = dist.reduce_scatter_tensor(mine, terms.view(-1), group=self.group, async_op=True)
        return work, mine, kind, terms

    def give_up(self) -> None:
        """Clears up after a pass that ended in an error: its sums arrive, and nobody gets them."""
        for work, *_ in self.reducing:
            work.wait()
        self.reducing, self.arrived, self.entered = [], set(), 0
        if self.syncs:
            for p in self.parameters:
                p.whole.grad = None
        self.reshard()

    def finish(self) -> None:
        """Waits for the sums and gives each parameter its part of the gradient."""
        for work, mine, kind, _ in self.reducing:
            work.wait()
            if self.replicas is not None:
                dist.all_reduce(mine, group=self.replicas)
            marks = mine[-len(kind) :].tolist()
            at = 0
            for p, mark in zip(kind, marks, strict=True):
                local = p.sharded._local_tensor
                if mark:
                    part = mine[at : at + local.numel()].view(local.shape).to(local.dtype)
                    add_grad(p.sharded, part.clone())
                at += p.width
        self.reducing = []
