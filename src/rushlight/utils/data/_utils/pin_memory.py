"""Batches in pinned memory, which the device copies from while the program goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rushlight import _C


def pin_memory(data: Any, device: Any = None) -> Any:
    """``data`` with its tensors pinned: in mappings, sequences and what has a ``pin_memory()``.

    >>> import rushlight as torch
    >>> from rushlight.utils.data._utils.pin_memory import pin_memory
    >>> if torch.cuda.is_available():
    ...     batch = pin_memory({"x": torch.ones(2)})
    ...     assert batch["x"].is_pinned()
    """
    if isinstance(data, _C.Tensor):
        return data.pin_memory()
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, Mapping):
        pinned = {key: pin_memory(value, device) for key, value in data.items()}
        return _remade(data, pinned)
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(pin_memory(value, device) for value in data))
    if isinstance(data, Sequence):
        return _remade(data, [pin_memory(value, device) for value in data])
    return data


def _remade(data: Any, content: Any) -> Any:
    """The content in the batch's own type, or as it is where that takes no such argument."""
    try:
        return type(data)(content)
    except TypeError:
        return content
