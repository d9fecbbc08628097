"""Forward mode: tensors that carry a tangent, and functions that push it along.

>>> import rushlight as torch
>>> import rushlight.autograd.forward_ad as fwAD
>>> x, v = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0])
>>> with fwAD.dual_level():
...     y = fwAD.make_dual(x, v) ** 3
...     fwAD.unpack_dual(y).tangent
tensor([3., 0.])

Levels nest, to any order of derivative:

>>> def derivative(f):
...     def df(x):
...         with fwAD.dual_level():
...             return fwAD.unpack_dual(f(fwAD.make_dual(x, torch.ones_like(x)))).tangent
...     return df
>>> derivative(derivative(torch.sin))(torch.tensor(0.5)) == -torch.sin(torch.tensor(0.5))
tensor(True)
"""

from __future__ import annotations

from collections import namedtuple

from rushlight import _C
from rushlight.autograd.grad_mode import _Mode

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]


def _last_level() -> int:
    return _C._dual_level_count() - 1


def enter_dual_level() -> int:
    """Enters a new level inside those that are entered, and returns its number.

    Levels belong to the process, not to a thread. `dual_level` is the form that cannot be
    forgotten to be left.

    >>> import rushlight as torch
    >>> import rushlight.autograd.forward_ad as fwAD
    >>> level = fwAD.enter_dual_level()
    >>> dual = fwAD.make_dual(torch.tensor(3.0), torch.tensor(1.0))
    >>> fwAD.unpack_dual(2 * dual).tangent
    tensor(2.)
    >>> fwAD.exit_dual_level(level=level)
    """
    return _C._enter_dual_level()


def exit_dual_level(*, level: int | None = None) -> None:
    """Leaves the innermost level; tensors lose their tangents of it, and the memory is freed.

    >>> import rushlight as torch
    >>> import rushlight.autograd.forward_ad as fwAD
    >>> level = fwAD.enter_dual_level()
    >>> dual = fwAD.make_dual(torch.tensor(3.0), torch.tensor(1.0))
    >>> fwAD.exit_dual_level()
    >>> fwAD.unpack_dual(dual).tangent is None
    True
    """
    _C._exit_dual_level(_last_level() if level is None else level)


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """A view of `tensor` that carries `tangent`, at the innermost level unless told otherwise.

    >>> import rushlight as torch
    >>> with torch.autograd.forward_ad.dual_level():
    ...     torch.autograd.forward_ad.make_dual(torch.ones(2), torch.tensor([1.0, 5.0]))
    tensor([1., 1.], tangent=tensor([1., 5.]))
    """
    if level is None:
        level = _last_level()
    if level < 0:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first."
        )
    for name, given in (("primal", tensor), ("tangent", tangent)):
        if not isinstance(given, _C.Tensor):
            raise TypeError(f"make_dual(): {name} must be Tensor, not {type(given).__name__}")
        if not (given.is_floating_point() or given.is_complex()):
            raise ValueError(
                f"Expected {name} to be floating point or complex, but got: {given.dtype}"
            )
    return _C._make_dual(tensor, tangent, level)


class UnpackedDualTensor(namedtuple("UnpackedDualTensor", ["primal", "tangent"])):
    """What `unpack_dual` returns: the primal, and the tangent or None.

    >>> import rushlight as torch
    >>> import rushlight.autograd.forward_ad as fwAD
    >>> fwAD.unpack_dual(torch.tensor(3.0)).tangent is None
    True
    """

    __slots__ = ()


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """The primal of a dual tensor, a view without the tangent, and the tangent, or None.

    Outside of any level the tensor itself and None.

    >>> import rushlight as torch
    >>> import rushlight.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     dual = fwAD.make_dual(torch.tensor(3.0), torch.tensor(1.0))
    ...     print(fwAD.unpack_dual(dual * dual).tangent)
    tensor(6.)
    """
    if level is None:
        level = _last_level()
    if level < 0:
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(*_C._unpack_dual(tensor, level))


class dual_level(_Mode):
    """A level for the length of a ``with`` block, or of a function that it decorates.

    >>> import rushlight as torch
    >>> fwAD = torch.autograd.forward_ad
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(torch.tensor(2.0), torch.tensor(1.0))
    ...     fwAD.unpack_dual(x * x).tangent
    tensor(4.)
    """

    @staticmethod
    def _parts_of() -> Any:
        return (("dual_level", None),)


class _set_fwd_grad_enabled(_Mode):
    """Switches off, for this thread, that operations see tangents; or on again."""

    _at_once = True

    @staticmethod
    def _parts_of(mode: bool) -> Any:
        return (("visible_levels", mode),)

    @property
    def mode(self) -> bool:
        """Whether tangents are seen inside."""
        return self._value

    def clone(self) -> _set_fwd_grad_enabled:
        """Another of its kind, in the same mode."""
        return type(self)(self.mode)


def _is_fwd_grad_enabled() -> bool:
    return _C._visible_levels() != 0


def __getattr__(name: str) -> Any:
    if name == "_current_level":
        return _last_level()
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
