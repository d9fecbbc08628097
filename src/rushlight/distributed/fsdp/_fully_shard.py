"""``fully_shard``: a module whose parameters, gradients and optimizer states are divided."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight import _C
from rushlight import distributed as dist
from rushlight._C import Tensor
from rushlight.autograd import Function
from rushlight.distributed.fsdp._group import ParameterGroup, ShardedParameter
from rushlight.distributed.tensor._dtensor import DTensor
from rushlight.nn import ModuleDict, ModuleList
from rushlight.nn.modules.module import Module
from rushlight.utils import _pytree

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """The dtypes of whole parameters, of sums of gradients and of results; None: the parameters'.

    >>> import rushlight as torch
    >>> from rushlight.distributed.fsdp import MixedPrecisionPolicy
    >>> MixedPrecisionPolicy(param_dtype=torch.bfloat16).param_dtype
    torch.bfloat16
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Where parts are kept between uses: where they are.

    >>> from rushlight.distributed.fsdp import OffloadPolicy
    >>> OffloadPolicy()
    OffloadPolicy()
    """


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parts are kept in the memory of the CPU.

    >>> from rushlight.distributed.fsdp import CPUOffloadPolicy
    >>> CPUOffloadPolicy().pin_memory
    True
    """

    pin_memory: bool = True


class Context:
    """What the groups of one model share: their order, and the backward pass that runs."""

    def __init__(self) -> None:
        self.order: list[State] = []  # of the last forward pass
        self.seen: list[State] = []  # of this one
        self.running = False

    def begin_forward(self) -> None:
        if self.running:  # the last backward pass ended in an error
            self.running = False
            for state in self.seen:
                state.give_up()
        self.order, self.seen = self.seen or self.order, []

    def begin_backward(self) -> None:
        if not self.running:
            self.running = True
            _C._queue_callback(self.end_backward)

    def end_backward(self) -> None:
        if _C._current_graph_task_id() >= 0:  # a pass within a pass
            _C._queue_callback(self.end_backward)
            return
        self.running = False
        # In the order of the collectives, which is the same in every process.
        for state in reversed(self.seen):
            if state.group.whole or state.awaits_reduction:
                state.finish_backward()
        for state in self.seen:
            state.group.finish()
        self.seen = list(dict.fromkeys(self.seen))

    def after(self, state: State, step: int) -> State | None:
        """The group that is used next, as the last pass went."""
        order = self.order if step > 0 else self.seen
        if state not in order:
            return None
        at = order.index(state) + step
        return order[at] if 0 <= at < len(order) else None


class State:
    """The hooks of one sharded module."""

    def __init__(self, modules: list[Module], group: ParameterGroup) -> None:
        self.modules, self.group = modules, group
        self.context: Context | None = None
        self.is_root = False
        self.auto_reshard = False  # fully_shard was not told: all but the root are freed
        self.awaits_reduction = False
        self.depth = 0
        self.next_forward: list[State] | None = None  # which groups to gather ahead, if told
        self.next_backward: list[State] | None = None
        for p in group.parameters:
            self._watch(p)
        group.on_whole = self._watch
        first, last = modules[0], modules[-1]
        first.register_forward_pre_hook(self.before_forward, prepend=True, with_kwargs=True)
        last.register_forward_hook(self.after_forward, prepend=False)

    def _watch(self, p: ShardedParameter) -> None:
        # A parameter that is frozen and trained again has one hook.
        if p.whole.requires_grad and not p.whole._post_accumulate_grad_hooks:
            p.whole.register_post_accumulate_grad_hook(self._note(id(p)))

    def _shared(self) -> Context:
        if self.context is None:
            self.context = context = Context()
            self.is_root = True
            if self.auto_reshard:
                self.group.reshard_after_forward = False
            for root in self.modules:
                for module in root.modules():
                    state = getattr(module, "_fsdp_state", None)
                    if state is not None and state.context is None:
                        state.context = context
        return self.context

    def _ahead(self, step: int, told: list[State] | None) -> list[State]:
        """The groups to gather while this one computes."""
        if told is not None:
            return told
        following = self._shared().after(self, step)
        return [] if following is None else [following]

    # -- forward -----------------------------------------------------------------------------------

    def before_forward(self, module: Module, args: Any, kwargs: Any) -> Any:
        context = self._shared()
        recomputes = _C._current_graph_task_id() >= 0
        if self.is_root and not recomputes:
            context.begin_forward()
        self.group.unshard()
        if not recomputes:
            if self not in context.seen:
                context.seen.append(self)
            for following in self._ahead(+1, self.next_forward):
                following.group.gather()
        args, kwargs = self._cast((args, kwargs), self.group.policy)
        if _C.is_grad_enabled() and not recomputes:
            args, kwargs = self._watch_inputs((args, kwargs))
        return args, kwargs

    def _cast(self, tree: Any, policy: Any) -> Any:
        if policy.param_dtype is None or not policy.cast_forward_inputs:
            return tree
        return _pytree.tree_map(
            lambda t: (
                t.to(policy.param_dtype) if isinstance(t, Tensor) and t.is_floating_point() else t
            ),
            tree,
        )

    def _watch_inputs(self, tree: Any) -> Any:
        """Lets the inputs' gradients tell that this module's backward pass is over."""
        leaves, spec = _pytree.tree_flatten(tree)
        which = [i for i, t in enumerate(leaves) if isinstance(t, Tensor) and t.requires_grad]
        if not which:
            self.group.entered += 1  # only the end of the whole pass tells
            return tree
        self.group.entered += 1
        passed = _Passage.apply(self, *[leaves[i] for i in which])
        for i, t in zip(which, passed, strict=True):
            leaves[i] = t
        return spec.unflatten(leaves)

    def after_forward(self, module: Module, args: Any, output: Any) -> Any:
        policy = self.group.policy
        recomputes = _C._current_graph_task_id() >= 0
        recorded = _C.is_grad_enabled()
        if not recomputes and (self.group.reshard_after_forward or not recorded):
            self.group.reshard()
        if policy.output_dtype is not None:
            output = _pytree.tree_map(
                lambda t: (
                    t.to(policy.output_dtype)
                    if isinstance(t, Tensor) and t.is_floating_point()
                    else t
                ),
                output,
            )
        if recorded and not recomputes:
            for t in _pytree.tree_leaves(output):
                if isinstance(t, Tensor) and t.requires_grad:
                    t.register_hook(self.before_backward)
        return output

    # -- backward ----------------------------------------------------------------------------------

    def before_backward(self, grad: Tensor) -> None:
        context = self._shared()
        context.begin_backward()
        self.awaits_reduction = True
        self.group.unshard()
        for following in self._ahead(-1, self.next_backward):
            following.group.gather()

    def _note(self, number: int) -> Callable[[Tensor], None]:
        def arrived(parameter: Tensor) -> None:
            self._shared().begin_backward()
            self.awaits_reduction = True
            self.group.arrived.add(number)
            self._perhaps_reduce()

        return arrived

    def inputs_done(self) -> None:
        self.group.entered -= 1
        self._perhaps_reduce()

    def _perhaps_reduce(self) -> None:
        if self.awaits_reduction and self.group.is_done():
            self.finish_backward()

    def finish_backward(self) -> None:
        self.awaits_reduction = False
        self.group.reduce()

    def give_up(self) -> None:
        self.awaits_reduction = False
        self.group.give_up()


class _Passage(Function):
    """Inputs as they are; their gradients come when the module's backward pass is over."""

    @staticmethod
    def forward(ctx: Any, state: State, *inputs: Tensor) -> tuple[Tensor, ...]:
        ctx.state = state
        return tuple(t.view_as(t) for t in inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        ctx.state.inputs_done()
        return None, *grads


class UnshardHandle:
    """Parameters that are being gathered.

    >>> from rushlight.distributed.fsdp import UnshardHandle
    >>> UnshardHandle(None).wait() is None
    True
    """

    def __init__(self, group: ParameterGroup | None) -> None:
        self._group = group

    def wait(self) -> None:
        """Waits until they are whole."""
        if self._group is not None:
            self._group.unshard()


class FSDPModule:
    """What ``fully_shard`` adds to a module's class.

    >>> import rushlight as torch
    >>> torch.distributed.init_process_group(rank=0, world_size=1)
    >>> from rushlight.distributed.fsdp import FSDPModule, fully_shard
    >>> isinstance(fully_shard(torch.nn.Linear(2, 2)), FSDPModule)
    True
    >>> torch.distributed.destroy_process_group()
    """

    _fsdp_state: State

    def _states(self, recurse: bool) -> list[State]:
        modules: Iterable[Any] = self.modules() if recurse else [self]  # type: ignore[attr-defined]
        return [m._fsdp_state for m in modules if isinstance(m, FSDPModule)]

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Gathers the parameters of this module, not of sharded ones in it."""
        group = self._fsdp_state.group
        group.gather()
        if async_op:
            return UnshardHandle(group)
        group.unshard()
        return None

    def reshard(self) -> None:
        """Frees the whole parameters."""
        self._fsdp_state.group.reshard()

    def set_requires_gradient_sync(
        self, requires_gradient_sync: bool, *, recurse: bool = True
    ) -> None:
        """False: gradients add up whole in each process, until a pass with True sums them."""
        for state in self._states(recurse):
            state.group.syncs = requires_gradient_sync

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Accepted: gradients are ready whenever a pass has ended."""

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """For a mesh of two dimensions: whether sums go over the replicas, too."""
        self.set_requires_gradient_sync(requires_all_reduce, recurse=recurse)

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Whether whole parameters are freed between forward and backward."""
        for state in self._states(recurse):
            state.group.reshard_after_forward = reshard_after_forward
            state.auto_reshard = False

    def set_reshard_after_backward(
        self, reshard_after_backward: bool, *, recurse: bool = True
    ) -> None:
        """Whether whole parameters are freed after backward."""
        for state in self._states(recurse):
            state.group.reshard_after_backward = reshard_after_backward

    def set_gradient_divide_factor(self, factor: float) -> None:
        """What sums of gradients are divided by; the number of processes unless told."""
        for state in self._states(True):
            state.group.divisor = factor  # type: ignore[assignment]

    def set_modules_to_forward_prefetch(self, modules: list[FSDPModule]) -> None:
        """Which modules' parameters are gathered while this one runs; the next one if not told."""
        self._fsdp_state.next_forward = _states_of(modules)

    def set_modules_to_backward_prefetch(self, modules: list[FSDPModule]) -> None:
        """The same for the backward pass."""
        self._fsdp_state.next_backward = _states_of(modules)

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Accepted: parameters are gathered in a backward pass whether it reads them or not."""

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        self.reshard()  # what is converted is the part
        return super()._apply(*args, **kwargs)  # type: ignore[misc]

    set_reduce_scatter_divide_factor = set_gradient_divide_factor


def _states_of(modules: list[FSDPModule]) -> list[State]:
    wrong = [m for m in modules if not isinstance(m, FSDPModule)]
    if wrong:
        raise ValueError(
            f"fully_shard: can only prefetch modules that it was called on, got {wrong[0]}"
        )
    return [m._fsdp_state for m in modules]


def fully_shard(
    module: Any,
    *,
    mesh: Any = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Any = None,
    mp_policy: MixedPrecisionPolicy = MixedPrecisionPolicy(),  # noqa: B008 - it is frozen
    offload_policy: OffloadPolicy = OffloadPolicy(),  # noqa: B008 - it holds nothing
    ignored_params: set[Any] | None = None,
    dp_mesh_dims: Any = None,
) -> Any:
    """Divides the parameters of a module, or of a list of them, by rows among the processes.

    Call it for parts of a model first (each layer), then for the whole: what a call finds not yet
    divided is gathered and freed together. Parameters become DTensors; make the optimizer after.
    On a mesh of two dimensions, parts are replicated over the first. Returns the module, whose
    class is then an ``FSDPModule``.

    >>> import rushlight as torch
    >>> torch.distributed.init_process_group(rank=0, world_size=1)
    >>> from rushlight.distributed.fsdp import fully_shard
    >>> layer = fully_shard(torch.nn.Linear(2, 1, bias=False))
    >>> layer(torch.ones(1, 2)).sum().backward()
    >>> layer.weight.grad.full_tensor()
    tensor([[1., 1.]])
    >>> torch.distributed.destroy_process_group()
    """
    if shard_placement_fn is not None:
        raise ValueError(
            "fully_shard: shard_placement_fn is not supported: parameters are divided by rows"
        )
    if mesh is None:
        from rushlight.distributed.device_mesh import init_device_mesh

        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    modules = list(module) if isinstance(module, (list, tuple)) else [module]
    for each in modules:
        if isinstance(each, (ModuleList, ModuleDict)) and type(each).forward is Module.forward:
            raise ValueError(
                f"fully_shard does not support containers that do not implement forward: {each}"
            )
    if any(isinstance(m, FSDPModule) for m in modules):
        raise AssertionError("fully_shard has already been applied to this module")
    found = _parameters(modules, ignored_params or set())
    parameters = [
        ShardedParameter(owners, p, mesh, mp_policy.param_dtype or p.dtype)
        for p, owners in found.items()
    ]
    for p in parameters:
        p.place(p.sharded)
    group = ParameterGroup(parameters, mesh, mp_policy, reshard_after_forward is not False)
    state = State(modules, group)
    state.auto_reshard = reshard_after_forward is None
    for each in modules:
        each._fsdp_state = state
        kind = type(each)
        each.__class__ = type(f"FSDP{kind.__name__}", (FSDPModule, kind), {})
    return module


def _parameters(modules: list[Module], ignored: set[Any]) -> dict[Tensor, list[tuple[Module, str]]]:
    """The parameters that are not divided yet, and everyone who has each."""
    found: dict[Tensor, list[tuple[Module, str]]] = {}
    for root in modules:
        for child in root.modules():
            for name, p in child._parameters.items():
                if p is not None and not isinstance(p, DTensor) and p not in ignored:
                    owners = found.setdefault(p, [])
                    if (child, name) not in owners:
                        owners.append((child, name))
    return found


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Lets a method gather the parameters as ``forward`` does.

    >>> import rushlight as torch
    >>> torch.distributed.init_process_group(rank=0, world_size=1)
    >>> from rushlight.distributed.fsdp import fully_shard, register_fsdp_forward_method
    >>> layer = fully_shard(torch.nn.Linear(2, 2))
    >>> register_fsdp_forward_method(layer, "extra_repr")
    >>> layer.extra_repr()
    'in_features=2, out_features=2, bias=True'
    >>> torch.distributed.destroy_process_group()
    """
    if not isinstance(module, FSDPModule):
        return
    method = getattr(module, method_name)
    state = module._fsdp_state

    def called(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = state.before_forward(module, args, kwargs)
        return state.after_forward(module, args, method(*args, **kwargs))

    setattr(module, method_name, called)
