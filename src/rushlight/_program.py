"""Programs of kernel calls: a region recorded as it runs, and run again without Python.

Private. ``record(function, *inputs)`` runs the function once and keeps what it asked of the
kernels, backward passes, optimizer steps and random numbers included. A call of the program copies
new inputs into the recorded ones and does it all again; printed, it is a call in each line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight import _C
from rushlight.autograd import no_grad

if TYPE_CHECKING:
    from collections.abc import Callable


class Program:
    """What a region did.

    >>> import rushlight as torch
    >>> from rushlight._program import record
    >>> program = record(lambda x: x * 2 + 1, torch.ones(3))
    >>> program(torch.tensor([1.0, 2.0, 3.0]))
    tensor([3., 5., 7.])
    >>> print(program)
    mul(%1, $0, [3])
    add(%3, %1, [3])
    """

    def __init__(self, actions: Any, inputs: tuple[Any, ...], result: Any) -> None:
        self._actions = actions
        self.inputs = inputs
        self.result = result

    def __call__(self, *inputs: Any) -> Any:
        """The result for these inputs, in the memory of the first one."""
        if len(inputs) != len(self.inputs):
            raise TypeError(f"the program takes {len(self.inputs)} inputs, got {len(inputs)}")
        with no_grad():
            for own, given in zip(self.inputs, inputs, strict=True):
                if own is not given:
                    if own.shape != given.shape or own.dtype != given.dtype:
                        raise ValueError(
                            f"the program was recorded for {own.dtype} of shape "
                            f"{tuple(own.shape)}, got {given.dtype} of shape {tuple(given.shape)}"
                        )
                    own.detach().copy_(given)
        _C._replay(self._actions)
        return self.result

    def __str__(self) -> str:
        return _C._program_text(self._actions).rstrip("\n")


def record(function: Callable[..., Any], *inputs: Any) -> Program:
    """Runs ``function(*inputs)``, all tensors, and gives the program of what it did.

    >>> import rushlight as torch
    >>> from rushlight._program import record
    >>> record(torch.sin, torch.zeros(2)).result
    tensor([0., 0.])
    """
    with _C._Scope(("recording", None)):
        for tensor in inputs:
            _C._hold(tensor)
        result = function(*inputs)
        actions = _C._finish_recording()
    return Program(actions, inputs, result)
