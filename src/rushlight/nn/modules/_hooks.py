"""Hooks of modules: registration, and the call of a module that has some."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor
from rushlight.utils.hooks import RemovableHandle

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight.nn.modules.module import Module

    Hooks = dict[int, Callable[..., Any]]

# Hooks that belong to all modules.
_global_buffer_registration_hooks: Hooks = {}
_global_module_registration_hooks: Hooks = {}
_global_parameter_registration_hooks: Hooks = {}
_global_forward_hooks: Hooks = {}
_global_forward_hooks_always_called: dict[int, bool] = {}
_global_forward_hooks_with_kwargs: dict[int, bool] = {}
_global_forward_pre_hooks: Hooks = {}
_global_backward_hooks: Hooks = {}
_global_backward_pre_hooks: Hooks = {}
_global_backward_is_full: list[bool] = []  # one entry once a kind was chosen

_C._set_global_module_hooks(
    (
        _global_forward_hooks,
        _global_forward_pre_hooks,
        _global_backward_hooks,
        _global_backward_pre_hooks,
    )
)

_MIXED = (
    "Cannot use both regular backward hooks and full backward hooks on a single Module. "
    "Please use only one of them."
)


class _Handle(RemovableHandle):
    """Also takes the hook out of the dicts that say how to call it."""

    def __init__(self, hooks: Hooks, *extra: dict[int, bool]) -> None:
        super().__init__(hooks)
        self.extra = extra

    def remove(self) -> None:
        super().remove()
        for options in self.extra:
            options.pop(self.id, None)


def add(
    hooks: Hooks,
    hook: Callable[..., Any],
    prepend: bool = False,
    options: tuple[tuple[bool, dict[int, bool]], ...] = (),
) -> RemovableHandle:
    """Puts a hook into a dict, first or last, and into the option dicts that are asked for."""
    handle = _Handle(hooks, *(into for _, into in options))
    if prepend:
        others = list(hooks.items())
        hooks.clear()
        hooks[handle.id] = hook
        hooks.update(others)
    else:
        hooks[handle.id] = hook
    for wanted, into in options:
        if wanted:
            into[handle.id] = True
    return handle


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls ``hook(module, name, buffer)`` when any module registers a buffer.

    >>> import rushlight as torch
    >>> import rushlight.nn.modules.module as modules
    >>> with modules.register_module_buffer_registration_hook(lambda m, name, b: print(name)):
    ...     layer = torch.nn.BatchNorm1d(2)
    running_mean
    running_var
    num_batches_tracked
    """
    return add(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls ``hook(module, name, submodule)`` when any module registers a submodule.

    >>> import rushlight as torch
    >>> import rushlight.nn.modules.module as modules
    >>> with modules.register_module_module_registration_hook(lambda m, name, sub: print(sub)):
    ...     model = torch.nn.Sequential(torch.nn.ReLU())
    ReLU()
    """
    return add(_global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls ``hook(module, name, parameter)`` when any module registers a parameter.

    >>> import rushlight as torch
    >>> import rushlight.nn.modules.module as modules
    >>> with modules.register_module_parameter_registration_hook(lambda m, name, p: print(name)):
    ...     layer = torch.nn.Linear(2, 2)
    weight
    bias
    """
    return add(_global_parameter_registration_hooks, hook)


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls ``hook(module, args)`` before the forward of every module.

    >>> import rushlight as torch
    >>> import rushlight.nn.modules.module as modules
    >>> with modules.register_module_forward_pre_hook(lambda m, args: print(args)):
    ...     y = torch.nn.ReLU()(torch.ones(1))
    (tensor([1.]),)
    """
    return add(_global_forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Calls ``hook(module, args, output)`` after the forward of every module.

    >>> import rushlight as torch
    >>> import rushlight.nn.modules.module as modules
    >>> with modules.register_module_forward_hook(lambda m, args, output: print(m, output)):
    ...     y = torch.nn.ReLU()(torch.ones(1))
    ReLU() tensor([1.])
    """
    return add(
        _global_forward_hooks,
        hook,
        options=(
            (with_kwargs, _global_forward_hooks_with_kwargs),
            (always_call, _global_forward_hooks_always_called),
        ),
    )


def _has_unusual_global_hooks() -> bool:
    return bool(
        _global_backward_hooks
        or _global_backward_pre_hooks
        or _global_forward_hooks_always_called
        or _global_forward_hooks_with_kwargs
    )


def _choose_global(full: bool) -> None:
    if _global_backward_is_full and _global_backward_is_full[0] is not full:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module "
            "hook. Please use only one of them."
        )
    _global_backward_is_full[:] = [full]


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Deprecated: use :func:`register_module_full_backward_hook`."""
    _choose_global(False)
    return add(_global_backward_hooks, hook)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls ``hook(module, grad_output)`` before the backward of every module.

    >>> import rushlight as torch
    >>> import rushlight.nn.modules.module as modules
    >>> x = torch.ones(1, requires_grad=True)
    >>> with modules.register_module_full_backward_pre_hook(lambda m, grads: print(grads)):
    ...     torch.nn.ReLU()(x).backward()
    (tensor([1.]),)
    """
    return add(_global_backward_pre_hooks, hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Calls ``hook(module, grad_input, grad_output)`` after the backward of every module.

    >>> import rushlight as torch
    >>> import rushlight.nn.modules.module as modules
    >>> x = torch.ones(1, requires_grad=True)
    >>> with modules.register_module_full_backward_hook(lambda m, grads, _: print(grads)):
    ...     torch.nn.ReLU()(x).backward()
    (tensor([1.]),)
    """
    _choose_global(True)
    return add(_global_backward_hooks, hook)


class WrappedHook:
    """A hook that gets its module, held weakly, as first argument."""

    def __init__(self, hook: Callable[..., Any], module: Module | None = None) -> None:
        import weakref

        self.hook = hook
        self.with_module = module is not None
        self.module = weakref.ref(module) if module is not None else None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.module is None:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        module = None if self.module is None else self.module()
        return {"hook": self.hook, "with_module": self.with_module, "module": module}

    def __setstate__(self, state: dict[str, Any]) -> None:
        module = state.get("module")
        if state["with_module"] and module is None:
            raise RuntimeError("You are trying to revive the hook of a dead Module!")
        self.__init__(state["hook"], module)  # type: ignore[misc]


# The dicts that concern a call appear together in a module's __dict__.
_CALL_HOOKS = (
    "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called",
    "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_backward_hooks",
    "_backward_pre_hooks",
)  # fmt: skip
_STATE_HOOKS = (
    "_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)  # fmt: skip
HOOKS = _CALL_HOOKS + _STATE_HOOKS


class HookMethods(_C.ModuleBase):
    """The part of Module that deals with hooks."""

    _is_full_backward_hook: bool | None = None
    if TYPE_CHECKING:
        _forward_hooks: Hooks
        _forward_hooks_with_kwargs: dict[int, bool]
        _forward_hooks_always_called: dict[int, bool]
        _forward_pre_hooks: Hooks
        _forward_pre_hooks_with_kwargs: dict[int, bool]
        _backward_hooks: Hooks
        _backward_pre_hooks: Hooks

    def _drop_empty_hooks(self) -> None:
        """Leaves the dicts that would appear when asked for; files of torch's form have all."""
        called = any(self.__dict__.get(name) for name in _CALL_HOOKS)
        for name in HOOKS:
            if not self.__dict__.get(name) and not (called and name in _CALL_HOOKS):
                self.__dict__.pop(name, None)
        if called:
            self._make_hooks(_CALL_HOOKS[0])

    def _make_hooks(self, name: str) -> dict[int, Any] | None:
        """The dict of hooks that is asked for and not there yet."""
        if name in _CALL_HOOKS:
            for each in _CALL_HOOKS:
                self.__dict__.setdefault(each, {})
        elif name in _STATE_HOOKS:
            self.__dict__[name] = {}
        return self.__dict__.get(name)

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Calls ``hook(module, args)`` before ``forward``; it may return other arguments."""
        options = ((with_kwargs, self._forward_pre_hooks_with_kwargs),)
        return add(self._forward_pre_hooks, hook, prepend, options)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Calls ``hook(module, args, output)`` after ``forward``; it may return another output."""
        options = (
            (with_kwargs, self._forward_hooks_with_kwargs),
            (always_call, self._forward_hooks_always_called),
        )
        return add(self._forward_hooks, hook, prepend, options)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls ``hook(module, grad_output)`` when the gradient of the output is ready."""
        return add(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls ``hook(module, grad_input, grad_output)`` when the module's backward is done.

        Operations in place before, inside or after the module are allowed.
        """
        if self._is_full_backward_hook is False:
            raise RuntimeError(_MIXED)
        self._is_full_backward_hook = True
        return add(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Deprecated: use :meth:`register_full_backward_hook`."""
        if self._is_full_backward_hook is True:
            raise RuntimeError(_MIXED)
        self._is_full_backward_hook = False
        return add(self._backward_hooks, hook)

    def _get_backward_hooks(self) -> tuple[list[Any], list[Any]]:
        """The full backward hooks, and those of the old kind."""
        full: list[Any] = []
        other: list[Any] = []
        if _global_backward_is_full:
            (full if _global_backward_is_full[0] else other).extend(_global_backward_hooks.values())
        if self._is_full_backward_hook is not None:
            (full if self._is_full_backward_hook else other).extend(self._backward_hooks.values())
        return full, other

    def _get_backward_pre_hooks(self) -> list[Any]:
        return [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        """``forward`` with the hooks around it."""
        if (
            self._backward_hooks
            or self._backward_pre_hooks
            or self._forward_hooks_always_called
            or self._forward_pre_hooks_with_kwargs
            or _has_unusual_global_hooks()
        ):
            from rushlight.nn.modules._hooked_call import HookedCall

            return HookedCall(self, args, kwargs).run()  # type: ignore[arg-type]
        for hook in (*_global_forward_pre_hooks.values(), *self._forward_pre_hooks.values()):
            changed = hook(self, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        result = self.forward(*args, **kwargs)  # type: ignore[attr-defined]
        for key, hook in (*_global_forward_hooks.items(), *self._forward_hooks.items()):
            if key in self._forward_hooks_with_kwargs:
                changed = hook(self, args, kwargs, result)
            else:
                changed = hook(self, args, result)
            if changed is not None:
                result = changed
        return result


def is_tensor_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(v, Tensor) for v in value)
