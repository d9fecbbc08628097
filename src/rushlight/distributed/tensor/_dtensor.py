"""A tensor of which each process of a mesh has a part.

A DTensor has the shape of the whole and holds this process's part, an ordinary tensor with an
ordinary history. Pointwise ops work on the parts; every other op gathers the whole first.
"""

from __future__ import annotations

from dataclasses import replace

import rushlight
from rushlight import _C, autograd
from rushlight import distributed as dist
from rushlight._C import Tensor
from rushlight.distributed.tensor import _leaves, _parts
from rushlight.distributed.tensor.placement_types import (
    Partial,
    Placement,
    Replicate,
    Shard,
    _StridedShard,
    rows_of,
)
from rushlight.nn.parameter import Parameter
from rushlight.utils import _pytree

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


class DTensor(Tensor):
    """A tensor spread over the processes of a mesh; ``distribute_tensor`` makes one.

    >>> import rushlight as torch
    >>> torch.distributed.init_process_group(rank=0, world_size=1)
    >>> mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
    >>> from rushlight.distributed.tensor import Shard, distribute_tensor
    >>> t = distribute_tensor(torch.arange(3.0), mesh, [Shard(0)])
    >>> (t + t).full_tensor()
    tensor([0., 2., 4.])
    >>> torch.distributed.destroy_process_group()
    """

    _local_tensor: Tensor
    _mesh: Any
    _placements: tuple[Placement, ...]
    _is_spread = True
    _collects: Tensor | None = None  # the part whose gradients become this tensor's

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "DTensor: make one by distribute_tensor(tensor, device_mesh, placements), or of parts "
            "by DTensor.from_local"
        )

    @staticmethod
    def _wrap(
        cls: type,
        local: Tensor,
        mesh: Any,
        placements: Sequence[Placement],
        shape: Any,
    ) -> Any:
        made = Tensor._make_wrapper_subclass(
            cls, shape, dtype=local.dtype, device=local.device, requires_grad=local.requires_grad
        )
        made.__dict__.update(_local_tensor=local, _mesh=mesh, _placements=tuple(placements))
        return made

    @property
    def device_mesh(self) -> Any:
        """The processes."""
        return self._mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        """How the tensor is spread over each dimension of the mesh."""
        return self._placements

    def _like(self, local: Tensor) -> DTensor:
        return DTensor._wrap(DTensor, local, self._mesh, self._placements, self.shape)

    @staticmethod
    def from_local(
        local_tensor: Tensor,
        device_mesh: Any = None,
        placements: Sequence[Placement] | None = None,
        *,
        run_check: bool = False,
        shape: Any = None,
        stride: Any = None,
        grad_placements: Any = None,
    ) -> DTensor:
        """The DTensor of which this is the part here; ``shape`` tells when parts differ in size.

        ``run_check`` compares the parts of all processes, and takes whole ones from the first.
        """
        placements = _normal(placements, device_mesh, local_tensor.dim())
        if run_check:
            local_tensor = _checked(local_tensor, device_mesh, placements, shape is None)
        if shape is None:
            shape = list(local_tensor.shape)
            for k, placement in enumerate(placements):
                if isinstance(placement, (Shard, _StridedShard)):
                    shape[placement.dim] *= device_mesh.size(k)
        return DTensor._wrap(DTensor, local_tensor, device_mesh, placements, shape)

    def to_local(self, *, grad_placements: Any = None) -> Tensor:
        """The part here; gradients of what is made of it reach this tensor."""
        return self._local_tensor

    def full_tensor(self, *, grad_placements: Any = None) -> Tensor:
        """The whole, in every process."""
        whole = self.redistribute(self._mesh, [Replicate()] * self._mesh.ndim)
        return whole._local_tensor

    def redistribute(
        self,
        device_mesh: Any = None,
        placements: Sequence[Placement] | None = None,
        *,
        async_op: bool = False,
        forward_dtype: Any = None,
        backward_dtype: Any = None,
    ) -> DTensor:
        """The same tensor, spread otherwise."""
        wanted = _normal(placements, self._mesh, self.dim())
        local, now = self._local_tensor, list(self._placements)
        # Cuts are made from the first dimension of the mesh to the last, and undone from the last.
        for k in reversed(range(self._mesh.ndim)):
            if now[k] != wanted[k] and not now[k].is_replicate():
                partial = now[k].is_partial()
                straight = partial and k == self._mesh.ndim - 1 and _is_sum(now[k])
                straight &= not isinstance(wanted[k], _StridedShard)
                target = wanted[k] if straight else Replicate()
                local = self._undone(local, k, now[k], target, now)
                now[k] = target
        for k in range(self._mesh.ndim):
            if now[k] != wanted[k]:
                target = wanted[k]
                if not isinstance(target, (Shard, _StridedShard)):
                    raise RuntimeError(
                        f"redistribute: cannot turn {now[k]} into {wanted[k]}: a whole tensor is "
                        "no sum of terms; ask for Shard or Replicate"
                    )
                local = _parts.cut(local, target, self._mesh.get_group(k))
        return DTensor._wrap(DTensor, local, self._mesh, wanted, self.shape)

    def _undone(
        self, local: Tensor, k: int, now: Placement, target: Placement, all_: list[Placement]
    ) -> Tensor:
        group = self._mesh.get_group(k)
        if isinstance(now, Partial):
            if not _is_sum(now):
                return _parts.reduced(local, now.reduce_op, group)
            if now.reduce_op == "avg":
                local = local / self._mesh.size(k)
            if isinstance(target, Shard):
                return _parts.ScatterSum.apply(local, target.dim, group)
            return _parts.Sum.apply(local, group)
        assert isinstance(now, (Shard, _StridedShard))
        size = self.shape[now.dim]  # of the whole, then of the part that earlier cuts leave
        for j, earlier in enumerate(all_[:k]):
            if isinstance(earlier, (Shard, _StridedShard)) and earlier.dim == now.dim:
                rank = self._mesh.get_local_rank(j)
                size = len(rows_of(earlier, size, self._mesh.size(j), rank))
        return _parts.joined(local, now, size, group)

    def __repr__(self) -> str:
        return (
            f"DTensor(local_tensor={self._local_tensor}, device_mesh={self._mesh}, "
            f"placements={self._placements})"
        )

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RuntimeError(
            "pickle: a DTensor is a part of a tensor: use torch.distributed.checkpoint.save, or "
            "full_tensor() first"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        with rushlight.no_grad():
            local = self._local_tensor.detach().clone()
        local.requires_grad_(self._local_tensor.requires_grad)
        made = DTensor._wrap(type(self), local, self._mesh, self._placements, self.shape)
        memo[id(self)] = _leaves.track(made)
        return made

    def requires_grad_(self, requires_grad: bool = True) -> DTensor:
        """Whether gradients are wanted, of the part here."""
        local = self._local_tensor
        if local.is_leaf and not _leaves.is_tracked(self) and local.requires_grad != requires_grad:
            # The tensor that the program gave keeps its own flag and gradient.
            local = self._local_tensor = local.detach()
        local.requires_grad_(requires_grad)
        _leaves.track(self)
        _C._disabled_torch_function_impl(
            Tensor.requires_grad_, (DTensor,), (self, requires_grad), {}
        )
        return self

    def _get_requires_grad(self) -> bool:
        return self._local_tensor.requires_grad

    def _set_requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    requires_grad = property(_get_requires_grad, _set_requires_grad)

    @property
    def is_leaf(self) -> bool:
        return self._local_tensor.is_leaf

    @property
    def grad_fn(self) -> Any:
        return self._local_tensor.grad_fn

    def retain_grad(self) -> None:
        """Keeps the gradient of a DTensor that is no leaf, too."""
        _leaves.retain(self)

    def register_hook(self, hook: Callable[[Any], Any]) -> Any:
        """Calls ``hook`` with the gradient, a DTensor; what it returns replaces it."""
        return self._local_tensor.register_hook(_leaves.on_gradient(self, hook))

    def register_post_accumulate_grad_hook(self, hook: Callable[[Any], None]) -> Any:
        """Calls ``hook`` with the DTensor, a leaf, when its gradient has come."""
        return _leaves.after_gradient(self, hook)

    def _as_parameter(self, requires_grad: bool) -> Any:
        made = DTensorParameter(self._local_tensor, self._mesh, self._placements, self.shape)
        return made.requires_grad_(requires_grad)

    def detach(self) -> DTensor:
        return self._like(self._local_tensor.detach())

    def _get_data(self) -> DTensor:
        return self._like(self._local_tensor.data)

    def _set_data(self, value: Any) -> None:
        self._local_tensor.data = value._local_tensor
        if value.dtype != self.dtype:
            _set_plain_data(self, value)

    data = property(_get_data, _set_data)

    @property
    def is_meta(self) -> bool:
        return self._local_tensor.is_meta

    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """From a whole tensor, which every process has; gradients reach the parts."""
        autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    def item(self) -> Any:
        return self.full_tensor().item()

    def __bool__(self) -> bool:
        return bool(self.full_tensor())

    def __int__(self) -> int:
        return int(self.full_tensor())

    def __float__(self) -> float:
        return float(self.full_tensor())

    def tolist(self) -> Any:
        return self.full_tensor().tolist()

    def is_contiguous(self, memory_format: Any = rushlight.contiguous_format) -> bool:
        return True

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return cls.__torch_function__(func, types, args, kwargs)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _OF_SHAPE:
            return _C._disabled_torch_function_impl(func, types, args, kwargs)
        leaves, spec = _pytree.tree_flatten((args, kwargs))
        spread = [t for t in leaves if isinstance(t, DTensor)]
        name = getattr(func, "__name__", "")
        layout = _layout(spread, leaves, name) if _is_pointwise(name) else None
        if layout is not None:
            return _on_parts(func, name, layout, leaves, spec)
        if name.endswith("norm") and len(spread) == 1 and args[0] is spread[0]:
            found = _norm(func, spread[0], args, kwargs)
            if found is not None:
                return found
        return _on_wholes(func, name, spread, leaves, spec)


class DTensorParameter(DTensor, Parameter):
    """A parameter of which each process has a part; its gradient is the part's gradient."""

    def __new__(cls, local: Tensor, mesh: Any, placements: Any, shape: Any) -> Any:
        local = local.detach()
        return cls._of(local.requires_grad_(local.is_floating_point()), mesh, placements, shape)

    @classmethod
    def _of(cls, local: Tensor, mesh: Any, placements: Any, shape: Any) -> Any:
        return _leaves.track(DTensor._wrap(cls, local, mesh, placements, shape))

    def __repr__(self) -> str:
        return "Parameter containing:\n" + DTensor.__repr__(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        with rushlight.no_grad():
            local = self._local_tensor.detach().clone()
        local.requires_grad_(self._local_tensor.requires_grad)
        memo[id(self)] = made = type(self)._of(local, self._mesh, self._placements, self.shape)
        return made


def _is_sum(placement: Placement) -> bool:
    return isinstance(placement, Partial) and placement.reduce_op in ("sum", "avg")


def _set_plain_data(t: DTensor, value: DTensor) -> None:
    """Gives the tensor that stands for the whole another dtype."""
    with _C.DisableTorchFunctionSubclass():
        vars(Tensor)["data"].__set__(t, value)


_OF_SHAPE = {
    Tensor.size, Tensor.dim, Tensor.numel, Tensor.stride, Tensor.element_size,
    Tensor.is_floating_point, Tensor.is_complex,
}  # fmt: skip

_pointwise: set[str] = set()


def _is_pointwise(name: str) -> bool:
    if not _pointwise:
        _pointwise.update(e["name"] for e in _C._registry() if e["family"] == "pointwise")
        # Ops that fill or copy elements are no formulas, but work element by element.
        _pointwise.update(("clone", "copy", "zero", "fill", "to", "zeros_like", "ones_like",
                           "empty_like", "full_like", "float", "double", "half", "bfloat16",
                           "contiguous", "_to_copy", "type", "cpu", "cuda"))  # fmt: skip
    return name.rstrip("_") in _pointwise


def _is_number(t: Any) -> bool:
    if isinstance(t, DTensor):
        return t.numel() == 1 and all(p.is_replicate() for p in t._placements)
    return bool(t.numel() == 1)


def _layout(spread: list[DTensor], leaves: list[Any], name: str) -> DTensor | None:
    """The one whose layout all share (numbers aside): then the op may work on the parts."""
    first = next((t for t in spread if not _is_number(t)), spread[0])
    if any(p.is_partial() for p in first._placements):
        return None
    for t in leaves:
        if not isinstance(t, Tensor) or _is_number(t):
            continue
        if not isinstance(t, DTensor):
            raise RuntimeError(
                f"{name}: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to "
                "DTensor before calling distributed operators! A plain tensor of shape "
                f"{list(t.shape)} does not say how it is spread: use distribute_tensor"
            )
        if t._placements != first._placements or t.shape != first.shape:
            return None
    return first


def _on_parts(func: Any, name: str, layout: DTensor, leaves: list[Any], spec: Any) -> Any:
    given = [t._local_tensor if isinstance(t, DTensor) else t for t in leaves]
    args, kwargs = spec.unflatten(given)
    if name.endswith("_") and not name.endswith("__"):
        func(*args, **kwargs)
        return leaves[0]
    results = func(*args, **kwargs)
    for t in leaves:
        if isinstance(t, DTensor) and results is t._local_tensor:
            return t
    return _pytree.tree_map(lambda t: layout._like(t) if isinstance(t, Tensor) else t, results)


def _on_wholes(func: Any, name: str, spread: list[DTensor], leaves: list[Any], spec: Any) -> Any:
    if name in _RANDOM and not (_C.is_grad_enabled() and leaves[0].requires_grad):
        return _fill_randomly(func, leaves, spec)
    if name.endswith("_") and not name.endswith("__"):
        raise RuntimeError(
            f"{name}: cannot write to a part of a tensor: work on to_local(), or on full_tensor() "
            "and distribute_tensor"
        )
    args, kwargs = spec.unflatten(
        [t.full_tensor() if isinstance(t, DTensor) else t for t in leaves]
    )
    mesh = spread[0]._mesh

    def whole(t: Any) -> Any:
        if not isinstance(t, Tensor):
            return t
        return DTensor._wrap(DTensor, t, mesh, [Replicate()] * mesh.ndim, t.shape)

    return _pytree.tree_map(whole, func(*args, **kwargs))


_RANDOM = {
    "normal_", "uniform_", "bernoulli_", "exponential_", "geometric_", "cauchy_", "log_normal_",
    "random_",
}  # fmt: skip


def _fill_randomly(func: Any, leaves: list[Any], spec: Any) -> DTensor:
    """The numbers that the first process's generator gives for the whole."""
    t = leaves[0]
    whole = rushlight.empty(t.shape, dtype=t.dtype, device=t._local_tensor.device)
    args, kwargs = spec.unflatten([whole, *leaves[1:]])
    func(*args, **kwargs)
    with rushlight.no_grad():
        spread = distribute_tensor(whole, t._mesh, t._placements)
        t._local_tensor.copy_(spread._local_tensor)
    return t


def _norm(func: Any, t: DTensor, args: Any, kwargs: Any) -> Any:
    """A norm of all elements without gathering them; None where it is another norm."""
    order = kwargs.get("ord", kwargs.get("p", args[1] if len(args) > 1 else 2.0))
    order = 2.0 if order == "fro" else order
    others = set(kwargs) - {"ord", "p"} or len(args) > 2
    recorded = _C.is_grad_enabled() and t._local_tensor.requires_grad
    if others or recorded or not isinstance(order, (int, float)) or order <= 0:
        return None
    if any(p.is_partial() for p in t._placements):
        return None
    local = t._local_tensor
    if order == float("inf"):
        value = local.abs().max() if local.numel() else local.new_zeros(()).abs()
        op = dist.ReduceOp.MAX
    else:
        value = local.abs().pow(order).sum()
        op = dist.ReduceOp.SUM
    for k, placement in enumerate(t._placements):
        if not placement.is_replicate():
            dist.all_reduce(value, op=op, group=t._mesh.get_group(k))
    if order != float("inf"):
        value = value.pow(1.0 / order)
    return DTensor._wrap(DTensor, value, t._mesh, [Replicate()] * t._mesh.ndim, value.shape)


def _checked(local: Tensor, mesh: Any, placements: list[Placement], shapes: bool) -> Tensor:
    """The part, compared with those of the others; whole tensors become the first process's."""
    mine = [str(local.dtype), local.requires_grad]
    mine += [list(local.shape), list(local.stride())] if shapes else []
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, mine)
    for rank, other in enumerate(everyone):
        if other != everyone[0]:
            raise ValueError(
                "DTensor.from_local: Inconsistent tensor metadata (including shape and stride) "
                f"across ranks. Rank 0 has {everyone[0]}, rank {rank} has {other}: give shape and "
                "stride if parts differ in size"
            )
    whole = [mesh.get_group(k) for k, p in enumerate(placements) if p.is_replicate()]
    local = local.contiguous() if whole else local
    for group in whole:
        dist.broadcast(local.detach(), group_src=0, group=group)
    return local


def _normal(placements: Any, mesh: Any, dims: int) -> list[Placement]:
    """One placement for each dimension of the mesh, dimensions counted from the front."""
    found = list(placements or [Replicate()] * mesh.ndim)
    if len(found) != mesh.ndim:
        raise ValueError(
            f"`placements` must have the same length as `device_mesh.ndim`! Found placements "
            f"length: {len(found)}, and device_mesh.ndim: {mesh.ndim}."
        )
    return [
        replace(p, dim=p.dim + dims) if isinstance(p, (Shard, _StridedShard)) and p.dim < 0 else p
        for p in found
    ]


def distribute_tensor(
    tensor: Tensor,
    device_mesh: Any = None,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> DTensor:
    """A DTensor of the numbers that rank ``src_data_rank`` has (None: each process its own).

    >>> import rushlight as torch
    >>> torch.distributed.init_process_group(rank=0, world_size=1)
    >>> mesh = torch.distributed.init_device_mesh("cpu", (1,))
    >>> from rushlight.distributed.tensor import Shard, distribute_tensor
    >>> distribute_tensor(torch.ones(2), mesh, [Shard(0)]).placements
    (Shard(dim=0),)
    >>> torch.distributed.destroy_process_group()
    """
    placements = _normal(placements, device_mesh, tensor.dim())
    local = tensor.detach().clone()
    with rushlight.no_grad():
        for k, placement in enumerate(placements):
            group = device_mesh.get_group(k)
            if src_data_rank is not None and local.numel() and not local.is_meta:
                local = local.contiguous()
                dist.broadcast(local, dist.get_global_rank(group, src_data_rank), group=group)
            if isinstance(placement, (Shard, _StridedShard)):
                local = _parts.cut(local, placement, group)
    if isinstance(tensor, Parameter):
        made = DTensorParameter(local, device_mesh, placements, tensor.shape)
        return made.requires_grad_(tensor.requires_grad)
    local.requires_grad_(tensor.requires_grad)
    return _leaves.track(DTensor._wrap(DTensor, local, device_mesh, placements, tensor.shape))


def distribute_module(
    module: Any,
    device_mesh: Any = None,
    partition_fn: Callable[[str, Any, Any], None] | None = None,
    input_fn: Callable[[Any, Any, Any], Any] | None = None,
    output_fn: Callable[[Any, Any, Any], Any] | None = None,
) -> Any:
    """Spreads a module's parameters: as ``partition_fn(name, module, mesh)`` does, else whole.

    >>> import rushlight as torch
    >>> torch.distributed.init_process_group(rank=0, world_size=1)
    >>> mesh = torch.distributed.init_device_mesh("cpu", (1,))
    >>> from rushlight.distributed.tensor import DTensor, distribute_module
    >>> layer = distribute_module(torch.nn.Linear(2, 2), mesh)
    >>> isinstance(layer.weight, DTensor)
    True
    >>> torch.distributed.destroy_process_group()
    """
    whole = [Replicate()] * device_mesh.ndim
    for name, child in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, child, device_mesh)
        for key, p in child._parameters.items():
            if p is not None and not isinstance(p, DTensor):
                child.register_parameter(key, distribute_tensor(p, device_mesh, whole))
        for key, buffer in child._buffers.items():
            if buffer is not None and not isinstance(buffer, DTensor):
                child._buffers[key] = distribute_tensor(buffer, device_mesh, whole)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda m, inputs: input_fn(m, inputs, device_mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda m, i, outputs: output_fn(m, outputs, device_mesh))
    return module


def _filled(make: Callable[..., Tensor]) -> Callable[..., DTensor]:
    def spread(
        *size: Any,
        device_mesh: Any,
        placements: Any = None,
        requires_grad: bool = False,
        **options: Any,
    ) -> DTensor:
        whole = make(*size, **options)
        made = distribute_tensor(whole, device_mesh, placements)
        return made.requires_grad_(requires_grad)

    spread.__name__ = spread.__qualname__ = make.__name__
    name, value = make.__name__, ", 1.0" if make is rushlight.full else ""
    spread.__doc__ = f"""``torch.{name}`` as a DTensor.

    >>> import rushlight as torch
    >>> torch.distributed.init_process_group(rank=0, world_size=1)
    >>> mesh = torch.distributed.init_device_mesh("cpu", (1,))
    >>> torch.distributed.tensor.{name}((2,){value}, device_mesh=mesh).shape
    torch.Size([2])
    >>> torch.distributed.destroy_process_group()
    """
    return spread


empty, full, ones, rand, randn, zeros = (
    _filled(getattr(rushlight, name))
    for name in ("empty", "full", "ones", "rand", "randn", "zeros")
)
autograd._spread = DTensor
