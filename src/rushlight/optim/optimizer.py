"""The base of all optimizers: parameter groups, state, hooks, state dicts."""

from __future__ import annotations

import functools
import sys
import warnings
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable
from copy import deepcopy
from itertools import chain

import rushlight as torch
from rushlight import _C
from rushlight._C import Tensor
from rushlight.utils.hooks import RemovableHandle

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias, TypeVar

    StateDict: TypeAlias = dict[str, Any]
    Hook: TypeAlias = Callable[..., Any]
    Step = TypeVar("Step", bound=Callable[..., Any])

ParamsT = Iterable[Tensor] | Iterable[dict[str, "Any"]] | Iterable[tuple[str, Tensor]]

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]

_global_optimizer_pre_hooks: OrderedDict[int, Hook] = OrderedDict()
_global_optimizer_post_hooks: OrderedDict[int, Hook] = OrderedDict()


class _RequiredParameter:
    """Stands in `defaults` for an option that every group must give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()


def register_optimizer_step_pre_hook(hook: Hook) -> RemovableHandle:
    """Calls `hook(optimizer, args, kwargs)` before a step of any optimizer.

    >>> import rushlight as torch
    >>> p = torch.nn.Parameter(torch.zeros(1))
    >>> handle = torch.optim.optimizer.register_optimizer_step_pre_hook(
    ...     lambda optimizer, args, kwargs: print("about to step")
    ... )
    >>> torch.optim.SGD([p]).step()
    about to step
    >>> handle.remove()
    """
    return _add(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Hook) -> RemovableHandle:
    """Calls `hook(optimizer, args, kwargs)` after a step of any optimizer.

    >>> import rushlight as torch
    >>> p = torch.nn.Parameter(torch.zeros(1))
    >>> handle = torch.optim.optimizer.register_optimizer_step_post_hook(
    ...     lambda optimizer, args, kwargs: print("stepped")
    ... )
    >>> torch.optim.SGD([p]).step()
    stepped
    >>> handle.remove()
    """
    return _add(_global_optimizer_post_hooks, hook)


def _add(hooks: OrderedDict[int, Hook], hook: Hook, first: bool = False) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if first:
        hooks.move_to_end(handle.id, last=False)
    return handle


def _has_step_hooks(optimizer: Optimizer) -> bool:
    return bool(
        optimizer._optimizer_step_pre_hooks
        or optimizer._optimizer_step_post_hooks
        or _global_optimizer_pre_hooks
        or _global_optimizer_post_hooks
    )


def _step_with_hooks(step: Hook, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Runs step(*args, **kwargs) between the hooks; args[0] is the optimizer. Where a class's
    step calls its parent's, the outer one has the hooks."""
    self = args[0]
    if self._stepping:
        return step(*args, **kwargs)
    self._stepping = True
    try:
        before = (_global_optimizer_pre_hooks, self._optimizer_step_pre_hooks)
        for hook in chain.from_iterable(list(hooks.values()) for hooks in before):
            result = hook(self, args, kwargs)
            if result is None:
                continue
            if not (isinstance(result, tuple) and len(result) == 2):
                raise RuntimeError(
                    f"{step} must return None or a tuple of (new_args, new_kwargs), "
                    f"but got {result}."
                )
            args, kwargs = result
        out = step(*args, **kwargs)
        after = (self._optimizer_step_post_hooks, _global_optimizer_post_hooks)
        for hook in chain.from_iterable(list(hooks.values()) for hooks in after):
            hook(self, args, kwargs)
        return out
    finally:
        self._stepping = False


def _use_grad_for_differentiable(step: Step) -> Step:
    """Runs a step with gradients recorded only when the optimizer is differentiable."""

    @functools.wraps(step)
    def run(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        with torch.set_grad_enabled(self.defaults["differentiable"]):
            return step(self, *args, **kwargs)

    return run  # type: ignore[return-value]


def _get_value(x: Any) -> Any:
    return x.item() if isinstance(x, Tensor) else x


def _to_scalar(x: Any) -> Any:
    """A tensor of one element as a 0-d one; anything else as it is."""
    return x.squeeze() if isinstance(x, Tensor) and x.dim() != 0 else x


def _get_scalar_dtype(is_fused: bool | None = None) -> torch.dtype:
    if not is_fused and torch.get_default_dtype() == torch.float64:
        return torch.float64
    return torch.float32


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """The kinds of devices whose steps a graph of kernels can hold."""
    return ["cuda"]


def _users_level() -> int:
    """The stacklevel with which the caller's warning shows the user's line."""
    level, frame = 1, sys._getframe(1)
    package = str(torch.__file__).removesuffix("__init__.py")
    while frame.f_code.co_filename.startswith(package) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    return level


def _view_as_real(params: list[Tensor], *others: list[Tensor]) -> None:
    """Replaces complex parameters in a list, and what belongs to them, by views of their parts."""
    for i, p in enumerate(params):
        if p.is_complex():
            for tensors in (params, *others):
                tensors[i] = torch.view_as_real(tensors[i])


def _default_to_fused_or_foreach(
    params: list[Tensor], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """Which of torch's loops an optimizer written for them should take: the plain one."""
    return False, False


def _typename(value: Any) -> str:
    if isinstance(value, Tensor):
        return value.type()
    kind = type(value)
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


class Optimizer:
    """Holds parameters in groups with their options, and the state a rule keeps for each.

    A subclass calls `super().__init__(params, defaults)` and gives a `step(closure=None)`.

    >>> import rushlight as torch
    >>> class Descent(torch.optim.Optimizer):
    ...     def __init__(self, params, lr):
    ...         super().__init__(params, {"lr": lr})
    ...
    ...     @torch.no_grad()
    ...     def step(self, closure=None):
    ...         for group in self.param_groups:
    ...             for p in group["params"]:
    ...                 p -= group["lr"] * p.grad
    >>> p = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    >>> optimizer = Descent([p], lr=0.5)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> p.tolist()
    [0.0, 0.0]
    """

    defaults: dict[str, Any]
    state: defaultdict[Any, Any]
    param_groups: list[dict[str, Any]]
    _opt_called = False  # whether step() ran since a scheduler was attached
    _stepping = False  # whether hooks of the present step were run

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._make_hooks()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or "
                f"dicts, but got {_typename(params)}"
            )
        self.state = defaultdict(dict)
        self.param_groups = []
        groups: list[Any] = list(params)
        if len(groups) == 0:
            raise ValueError(
                "optimizer got an empty parameter list: has the model parameters, and was the "
                "iterator not used up before?"
            )
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _make_hooks(self) -> None:
        for name in (
            "_optimizer_step_pre_hooks",
            "_optimizer_step_post_hooks",
            "_optimizer_state_dict_pre_hooks",
            "_optimizer_state_dict_post_hooks",
            "_optimizer_load_state_dict_pre_hooks",
            "_optimizer_load_state_dict_post_hooks",
        ):
            self.__dict__.setdefault(name, OrderedDict())
        self._patch_step_function()

    def _patch_step_function(self) -> None:
        """Lets the step of this class run hooks."""
        kind = type(self)
        if not getattr(kind.step, "hooked", False):
            kind.step = self.profile_hook_step(kind.step)  # type: ignore[method-assign]

    @staticmethod
    def profile_hook_step(func: Step) -> Step:
        """Makes of a step one that runs the hooks around it."""

        @functools.wraps(func)
        def step(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
            self._opt_called = True
            event = None
            if _C._profile_running():
                event = _C._profile_begin(f"Optimizer.step#{type(self).__name__}.step")
            try:
                if _has_step_hooks(self):
                    return _step_with_hooks(func, (self, *args), kwargs)
                return func(self, *args, **kwargs)
            finally:
                if event is not None:
                    _C._profile_end(event)

        step.hooked = True  # type: ignore[attr-defined]
        return step  # type: ignore[return-value]

    def _accelerator_graph_capture_health_check(self) -> None:
        """Optimizers written for torch call it before a step; there is nothing to check."""

    _cuda_graph_capture_health_check = _accelerator_graph_capture_health_check

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_hooks()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        text = type(self).__name__ + " ("
        for i, group in enumerate(self.param_groups):
            options = (f"    {k}: {group[k]}\n" for k in sorted(group) if k != "params")
            text += f"\nParameter Group {i}\n" + "".join(options)
        return text + ")"

    # -- hooks ----------------------------------------------------------------------------------

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Calls `hook(optimizer, args, kwargs)` before each step; it may return new ones."""
        return _add(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Calls `hook(optimizer, args, kwargs)` after each step."""
        return _add(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer)` before `state_dict()`."""
        return _add(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Calls `hook(optimizer, state_dict)` after `state_dict()`; it may return another dict."""
        return _add(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Calls `hook(optimizer, state_dict)` before loading; it may return another dict."""
        return _add(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Calls `hook(optimizer)` after `load_state_dict()`."""
        return _add(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    _optimizer_step_pre_hooks: OrderedDict[int, Hook]
    _optimizer_step_post_hooks: OrderedDict[int, Hook]
    _optimizer_state_dict_pre_hooks: OrderedDict[int, Hook]
    _optimizer_state_dict_post_hooks: OrderedDict[int, Hook]
    _optimizer_load_state_dict_pre_hooks: OrderedDict[int, Hook]
    _optimizer_load_state_dict_post_hooks: OrderedDict[int, Hook]

    # -- state dicts ----------------------------------------------------------------------------

    def state_dict(self) -> StateDict:
        """The state and the groups, with parameters as numbers in the order of the groups.

        >>> import rushlight as torch
        >>> p = torch.nn.Parameter(torch.zeros(1))
        >>> torch.optim.SGD([p], lr=0.5).state_dict()["param_groups"][0]["params"]
        [0]
        """
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        start = 0
        for group in self.param_groups:
            for i, p in enumerate(group["params"], start):
                numbers.setdefault(id(p), i)
            start += len(group["params"])
            packed = {k: v for k, v in group.items() if k != "params"}
            packed["params"] = [numbers[id(p)] for p in group["params"]]
            groups.append(packed)
        state = {(numbers[id(k)] if isinstance(k, Tensor) else k): v for k, v in self.state.items()}
        result: StateDict = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, result)
            if changed is not None:
                result = changed
        return result

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Takes over the state and the options of a dict that `state_dict()` gave."""
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            if changed is not None:
                state_dict = changed
        for key in ("param_groups", "state"):
            if key not in state_dict:
                raise KeyError(
                    f"load_state_dict: {key!r} is missing; an optimizer's state dict has "
                    f"'param_groups' and 'state', this one has {list(state_dict)[:8]}"
                )
        saved = deepcopy(state_dict["param_groups"])
        self._check_groups(saved)
        params = chain.from_iterable(g["params"] for g in self.param_groups)
        numbers = chain.from_iterable(g["params"] for g in saved)
        by_number = dict(zip(numbers, params, strict=True))
        state: defaultdict[Any, Any] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in by_number:
                param = by_number[key]
                state[param] = _cast(param, value, key, state_dict["param_groups"])
            else:
                state[key] = value
        for group, new in zip(self.param_groups, saved, strict=True):
            new["params"] = group["params"]
            if "param_names" in group and "param_names" not in new:
                new["param_names"] = group["param_names"]
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def _check_groups(self, saved: list[dict[str, Any]]) -> None:
        if len(saved) != len(self.param_groups):
            raise ValueError(
                "loaded state dict has a different number of parameter groups: "
                f"{len(saved)}, the optimizer has {len(self.param_groups)}"
            )
        for i, (group, new) in enumerate(zip(self.param_groups, saved, strict=True)):
            if len(group["params"]) != len(new["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of "
                    f"optimizer's group: group {i} has {len(new['params'])} parameters, "
                    f"the optimizer's {len(group['params'])}"
                )

    @staticmethod
    def _process_value_according_to_param_policy(
        param: Tensor,
        value: Tensor,
        param_id: int,
        param_groups: list[dict[Any, Any]],
        key: Any = None,
    ) -> Tensor:
        """State is brought to the parameter's dtype; the count of steps keeps its own."""
        if key == "step":
            group = next((g for g in param_groups if param_id in g["params"]), {})
            exact = group.get("fused") or group.get("capturable")
            return value.to(dtype=torch.float32) if exact else value
        if param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device)
        return value.to(device=param.device)

    # -- training -------------------------------------------------------------------------------

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops the gradients of all parameters, or fills them with zeros.

        >>> import rushlight as torch
        >>> p = torch.nn.Parameter(torch.ones(1))
        >>> p.sum().backward()
        >>> torch.optim.SGD([p]).zero_grad()
        >>> p.grad is None
        True
        """
        for group in self.param_groups:
            _C._zero_grads(group["params"], set_to_none)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the parameters once. A closure computes the loss anew and returns it."""
        raise NotImplementedError(
            f"{type(self).__name__}.step: a subclass of Optimizer must define step()"
        )

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group: its "params" and the options in which it differs from the defaults."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        _take_params(param_group)
        for param in param_group["params"]:
            if not isinstance(param, Tensor):
                raise TypeError(
                    "optimizer can only optimize Tensors, but one of the params is "
                    + _typename(param)
                )
            if not self.defaults.get("differentiable") and not (
                param.is_leaf or param.retains_grad
            ):
                raise ValueError(
                    "can't optimize a non-leaf Tensor: it was computed by "
                    f"{type(param.grad_fn).__name__}; optimize what it was computed from, or a "
                    "detached copy"
                )
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization parameter "
                    + name
                )
            param_group.setdefault(name, default)
        self._check_new(param_group)
        self.param_groups.append(param_group)

    def _check_new(self, new: dict[str, Any]) -> None:
        members = set(new["params"])
        if len(members) != len(new["params"]):
            twice = [p for p, times in Counter(new["params"]).items() if times > 1]
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this "
                "will cause an error; see github.com/pytorch/pytorch/issues/40967 for more "
                f"information{_names(twice)}",
                stacklevel=_users_level(),
            )
        for group in self.param_groups:
            if ("param_names" in new) != ("param_names" in group):
                how = "with names" if "param_names" in new else "without names"
                raise ValueError(
                    "all optimizer param groups should be with/without names. "
                    f"cannot add param group {how} to the optimizer"
                )
        shared = [p for group in self.param_groups for p in group["params"] if p in members]
        if shared:
            raise ValueError(
                f"some parameters appear in more than one parameter group{_names(shared)}"
            )


def _names(params: list[Tensor]) -> str:
    """``: encoder.weight, encoder.bias``; shapes for those that no module holds."""
    from rushlight.nn._names import qualified_name

    names = [qualified_name(p) or f"a tensor of shape {list(p.shape)}" for p in params[:8]]
    return f": {', '.join(names)}{', ...' if len(params) > 8 else ''}"


def _take_params(group: dict[str, Any]) -> None:
    """Makes group["params"] a list of tensors; names that came with them go to "param_names"."""
    params = group["params"]
    if isinstance(params, Tensor):
        params = [params]
    elif isinstance(params, set):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering "
            "of tensors in sets will change between runs. Please use a list instead."
        )
    params = list(params)
    names = [p[0] for p in params if isinstance(p, tuple)]
    group["params"] = [p[1] if isinstance(p, tuple) else p for p in params]
    if names and len(names) != len(params):
        raise ValueError(
            "all optimizer params should be with/without names. Some param names are missing"
        )
    if names:
        group["param_names"] = names


def _cast(
    param: Tensor, value: Any, number: Any, groups: list[dict[str, Any]], key: Any = None
) -> Any:
    """Loaded state as the parameter wants it: tensors inside containers included."""
    if isinstance(value, Tensor):
        return Optimizer._process_value_according_to_param_policy(param, value, number, groups, key)
    if isinstance(value, dict):
        return {k: _cast(param, v, number, groups, k) for k, v in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return type(value)(_cast(param, v, number, groups) for v in value)  # type: ignore[call-arg]
    return value
