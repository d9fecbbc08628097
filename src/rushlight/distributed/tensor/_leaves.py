"""Gradients of tensors spread over processes: what reaches a part becomes the DTensor's."""

from __future__ import annotations

import weakref

import rushlight

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def is_tracked(owner: Any) -> bool:
    """Whether gradients of the part become the DTensor's."""
    return owner._collects is not None and owner._collects is owner._local_tensor


def track(owner: Any) -> Any:
    """Lets a DTensor whose part is a leaf of its own have the gradients; returns it."""
    local = owner._local_tensor
    if not (local.requires_grad and local.is_leaf) or is_tracked(owner):
        return owner
    owner._collects = local
    known = weakref.ref(owner)

    def collect(part: Any) -> None:
        owner = known()
        if owner is None or owner._local_tensor is not part:
            return
        add_grad(owner, part.grad)
        part.grad = None
        for hook in list(owner.__dict__.get("_after_gradient", {}).values()):
            hook(owner)

    local.register_post_accumulate_grad_hook(collect)
    return owner


def add_grad(owner: Any, part: Any) -> None:
    """Adds the part of a gradient to a DTensor's, with its history if it has one."""
    known = owner.grad
    if part.requires_grad:
        owner.grad = owner._like(part if known is None else known._local_tensor + part)
        return
    with rushlight.no_grad():
        if known is None:
            owner.grad = owner._like(part.detach())
        else:
            known._local_tensor.add_(part)


def retain(owner: Any) -> None:
    """Keeps the gradient of a DTensor that is no leaf."""
    known = weakref.ref(owner)

    def collect(part: Any) -> None:
        owner = known()
        if owner is not None:
            add_grad(owner, part)

    if not owner._local_tensor.is_leaf and not owner.__dict__.get("_retains"):
        owner._retains = True
        owner._local_tensor.register_hook(collect)


def on_gradient(owner: Any, hook: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A hook of the part that calls one of the DTensor."""
    known = weakref.ref(owner)

    def called(part: Any) -> Any:
        owner = known()
        result = None if owner is None else hook(owner._like(part))
        return getattr(result, "_local_tensor", result)

    return called


def after_gradient(owner: Any, hook: Callable[[Any], None]) -> Any:
    """Calls a hook when the gradient of a leaf has come."""
    from rushlight.utils.hooks import RemovableHandle

    if not is_tracked(owner):
        raise RuntimeError(
            "register_post_accumulate_grad_hook: post accumulate grad hooks cannot be registered "
            "on non-leaf tensors: this DTensor is no leaf that requires grad"
        )
    hooks = owner.__dict__.setdefault("_after_gradient", {})
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle
