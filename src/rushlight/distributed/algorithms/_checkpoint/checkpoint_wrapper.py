"""Modules whose activations are computed again in the backward pass, or wait in main memory.

The wrapper stands in the place of the module; state dicts read as if it was not there.
"""

from __future__ import annotations

from enum import Enum, auto

from rushlight.autograd.graph import save_on_cpu
from rushlight.nn.modules.module import Module
from rushlight.utils.checkpoint import checkpoint

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_CHECKPOINT_WRAPPED_MODULE = "_checkpoint_wrapped_module"
_CHECKPOINT_PREFIX = _CHECKPOINT_WRAPPED_MODULE + "."


class CheckpointImpl(Enum):
    """The two ways of PyTorch; here both are one."""

    REENTRANT = auto()
    NO_REENTRANT = auto()


class ActivationWrapper(Module):
    """A module in another one, of which names do not tell."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = module
        self._register_state_dict_hook(_without_prefix)
        self.register_load_state_dict_pre_hook(_with_prefix)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self._checkpoint_wrapped_module, name)

    def __getitem__(self, key: Any) -> Any:
        return self._checkpoint_wrapped_module[key]  # type: ignore[index]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(_CHECKPOINT_PREFIX, ""), parameter


def _renamed(state: Any, old: str, new: str) -> None:
    """Keys that begin with the old text begin with the new one; the order stays."""
    for key in [key for key in state if key.startswith(old)]:
        state[new + key[len(old) :]] = state.pop(key)


def _without_prefix(module: Module, state: Any, prefix: str, *rest: Any) -> Any:
    _renamed(state, prefix + _CHECKPOINT_PREFIX, prefix)
    return state


def _with_prefix(module: Module, state: Any, prefix: str, *rest: Any) -> None:
    _renamed(state, prefix, prefix + _CHECKPOINT_PREFIX)


class CheckpointWrapper(ActivationWrapper):
    """Keeps a module's inputs and computes the rest again in the backward pass."""

    def __init__(
        self,
        module: Module,
        checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None,
        **checkpoint_fn_kwargs: Any,
    ) -> None:
        super().__init__(module)
        self.checkpoint_impl = checkpoint_impl
        if checkpoint_fn is None:
            reentrant = checkpoint_impl is CheckpointImpl.REENTRANT
            checkpoint_fn_kwargs.setdefault("use_reentrant", reentrant)
            checkpoint_fn = checkpoint
        self._call, self._options = checkpoint_fn, checkpoint_fn_kwargs

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        module = self._checkpoint_wrapped_module
        if self.checkpoint_impl is CheckpointImpl.REENTRANT and kwargs:
            return self._call(lambda *given: module(*given, **kwargs), *args, **self._options)
        return self._call(module, *args, **kwargs, **self._options)


class OffloadWrapper(ActivationWrapper):
    """Keeps what a module saves for the backward pass in main memory."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        with save_on_cpu(pin_memory=True):
            return self._checkpoint_wrapped_module(*args, **kwargs)


def checkpoint_wrapper(
    module: Module,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None,
    **checkpoint_fn_kwargs: Any,
) -> Module:
    """The module, computed again in the backward pass."""
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def offload_wrapper(module: Module) -> Module:
    """The module, with its saved tensors in main memory."""
    return OffloadWrapper(module)


def apply_activation_checkpointing(
    model: Module,
    checkpoint_wrapper_fn: Callable[[Module], Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda module: True,
    auto_wrap_policy: Callable[..., bool] | None = None,
) -> None:
    """Wraps the modules below ``model`` that ``check_fn``, or the policy, chooses."""
    if auto_wrap_policy is not None:
        from rushlight.distributed.fsdp.wrap import chosen

        picked = set(chosen(model, auto_wrap_policy, set()))
    else:
        picked = {module for module in model.modules() if module is not model and check_fn(module)}
    _wrap_below(model, picked, checkpoint_wrapper_fn, {})


def _wrap_below(
    module: Module,
    picked: set[Module],
    wrapper: Callable[[Module], Module],
    done: dict[Module, Module],
) -> None:
    """A module that stands in several places is wrapped once."""
    for name, child in list(module._modules.items()):
        if child is None:
            continue
        if child not in done:
            _wrap_below(child, picked, wrapper, done)
            done[child] = wrapper(child) if child in picked else child
        if done[child] is not child:
            setattr(module, name, done[child])
