"""Names that programs import from torch's module and that need little here."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, ClassVar

from rushlight import _C
from rushlight.utils.checkpoint._checkpoint import checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


class CheckpointFunction:
    """The reentrant Function of old programs: ``apply`` is ``checkpoint``.

    >>> import rushlight as torch
    >>> from rushlight.utils.checkpoint import CheckpointFunction
    >>> x = torch.zeros(2, requires_grad=True)
    >>> CheckpointFunction.apply(torch.exp, True, x).sum().backward()
    >>> x.grad
    tensor([1., 1.])
    """

    @staticmethod
    def apply(run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        """What ``checkpoint`` returns."""
        return checkpoint(run_function, *args, preserve_rng_state=preserve_rng_state)


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs with each tensor replaced by a leaf that shares its memory.

    >>> import rushlight as torch
    >>> from rushlight.utils.checkpoint import detach_variable
    >>> x = torch.ones(2, requires_grad=True)
    >>> (leaf,) = detach_variable((x.exp(),))
    >>> leaf.is_leaf, leaf.requires_grad
    (True, True)
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            "Only tuple of tensors is supported. Got Unsupported input type: "
            + type(inputs).__name__
        )
    return tuple(
        v.detach().requires_grad_(v.requires_grad) if isinstance(v, _C.Tensor) else v
        for v in inputs
    )


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warns when no tensor among the inputs requires grad.

    >>> import rushlight as torch
    >>> from rushlight.utils.checkpoint import check_backward_validity
    >>> check_backward_validity([torch.ones(1, requires_grad=True)])
    """
    if not any(v.requires_grad for v in inputs if isinstance(v, _C.Tensor)):
        warnings.warn(
            "None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2
        )


def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """The accelerators among the arguments' devices, and their generators' states: none here.

    >>> import rushlight as torch
    >>> from rushlight.utils.checkpoint import get_device_states
    >>> get_device_states(torch.ones(1))
    ([], [])
    """
    return [], []


def set_device_states(
    devices: Sequence[int], states: Sequence[Any], *, device_type: str | None = None
) -> None:
    """Sets the states that ``get_device_states`` gave.

    >>> from rushlight.utils.checkpoint import get_device_states, set_device_states
    >>> set_device_states(*get_device_states())
    """
    if devices or states:
        raise RuntimeError("set_device_states: there is no accelerator in this build")


class DefaultDeviceType:
    """The kind of device whose generators a checkpoint restores when no argument tells it.

    >>> from rushlight.utils.checkpoint import DefaultDeviceType
    >>> DefaultDeviceType.get_device_type()
    'cpu'
    """

    _kind: ClassVar[str] = "cpu"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Remembers a kind of device."""
        DefaultDeviceType._kind = device

    @staticmethod
    def get_device_type() -> str:
        """The kind of device that was set."""
        return DefaultDeviceType._kind


class GraphExecGroup:
    """Backward passes inside share recomputations, when each uses other parts of a region.

    They do so outside too: what a recomputation made stays until a backward pass takes it or its
    part of the graph is freed. Kept for programs that say it.

    >>> import rushlight as torch
    >>> from rushlight.utils.checkpoint import GraphExecGroup, checkpoint
    >>> x = torch.zeros(2, requires_grad=True)
    >>> with GraphExecGroup():
    ...     checkpoint(torch.exp, x).sum().backward()
    """

    _current: ClassVar[GraphExecGroup | None] = None

    def __enter__(self) -> GraphExecGroup:
        if GraphExecGroup._current is not None:
            raise RuntimeError(
                "GraphExecGroup contexts cannot be nested. Already inside group "
                f"{GraphExecGroup._current}"
            )
        GraphExecGroup._current = self
        return self

    def __exit__(self, *error: object) -> None:
        GraphExecGroup._current = None
