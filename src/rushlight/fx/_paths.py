"""Attributes of modules by their paths."""

from __future__ import annotations

from typing import Any

from rushlight import nn
from rushlight._C import Tensor


def _copy_attr(from_module: nn.Module, to_module: nn.Module, target: str) -> None:
    """Hands an attribute of one module, by its path, to another, with empty modules on the way."""
    *path, field = target.split(".")
    for part in path:
        source, made = getattr(from_module, part), getattr(to_module, part, None)
        if source is made:  # a parent is there already, with all that it has
            return
        if made is None:
            made = nn.Module()
            setattr(to_module, part, made)
        from_module, to_module = source, made
    _set_member(to_module, field, getattr(from_module, field))


def _assign_attr(from_obj: Any, to_module: nn.Module, target: str) -> None:
    """Sets an attribute by its path, with empty modules on the way."""
    *path, field = target.split(".")
    for part in path:
        made = getattr(to_module, part, None)
        if made is None:
            made = nn.Module()
            setattr(to_module, part, made)
        to_module = made
    _set_member(to_module, field, from_obj)


def _set_member(module: nn.Module, name: str, value: Any) -> None:
    if isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
        module.register_buffer(name, value)
    else:
        setattr(module, name, value)


def _get_attr(model: nn.Module, attr_name: str) -> Any:
    return _get_attr_via_attr_list(model, attr_name.split("."))


def _get_attr_via_attr_list(model: nn.Module, attr_list: list[str]) -> Any:
    found: Any = model
    for name in attr_list:
        found = getattr(found, name)
    return found


def _del_attr(model: nn.Module, attr_name: str) -> None:
    *path, name = attr_name.split(".")
    delattr(_get_attr_via_attr_list(model, path), name)


def _has_attr(model: nn.Module, attr_name: str) -> bool:
    found: Any = model
    for name in attr_name.split("."):
        if not hasattr(found, name):
            return False
        found = getattr(found, name)
    return True
