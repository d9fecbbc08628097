"""Sizes that are symbols while a program is traced: here every size is a number.

The classes exist so that ``isinstance(size, torch.SymInt)`` can be asked; nothing is one. The
functions take numbers.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

__all__ = [
    "SymBool", "SymFloat", "SymInt", "cond", "sym_float", "sym_fresh_size", "sym_int", "sym_ite",
    "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum", "while_loop",
]  # fmt: skip


def _refuse(name: str) -> NoReturn:
    raise RuntimeError(f"torch.{name}: sizes are plain numbers here, nothing makes symbols of them")


class SymInt:
    """A whole number that is not known yet: nothing is one.

    >>> import rushlight as torch
    >>> isinstance(torch.ones(3).shape[0], torch.SymInt)
    False
    """

    def __init__(self, node: Any) -> None:
        _refuse("SymInt")


class SymFloat:
    """A number that is not known yet: nothing is one.

    >>> import rushlight as torch
    >>> isinstance(1.0, torch.SymFloat)
    False
    """

    def __init__(self, node: Any) -> None:
        _refuse("SymFloat")


class SymBool:
    """A truth that is not known yet: nothing is one.

    >>> import rushlight as torch
    >>> isinstance(True, torch.SymBool)
    False
    """

    def __init__(self, node: Any) -> None:
        _refuse("SymBool")


def sym_int(a: Any) -> int:
    """The whole number, cut towards 0.

    >>> import rushlight as torch
    >>> torch.sym_int(2.7), torch.sym_int(-2.7)
    (2, -2)
    """
    return int(a)


def sym_float(a: Any) -> float:
    """The number as a float.

    >>> import rushlight as torch
    >>> torch.sym_float(2)
    2.0
    """
    return float(a)


def sym_max(a: Any, b: Any) -> Any:
    """The larger of two numbers; a float where one is.

    >>> import rushlight as torch
    >>> torch.sym_max(3, 2.5)
    3.0
    """
    largest = max(a, b)
    return float(largest) if isinstance(a, float) or isinstance(b, float) else largest


def sym_min(a: Any, b: Any) -> Any:
    """The smaller of two numbers; a float where one is.

    >>> import rushlight as torch
    >>> torch.sym_min(3, 2)
    2
    """
    smallest = min(a, b)
    return float(smallest) if isinstance(a, float) or isinstance(b, float) else smallest


def sym_not(a: bool) -> bool:
    """The opposite.

    >>> import rushlight as torch
    >>> torch.sym_not(True)
    False
    """
    return not a


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """``t`` where ``b`` holds, else ``f``.

    >>> import rushlight as torch
    >>> torch.sym_ite(True, 1, 2)
    1
    """
    if type(t) is not type(f):
        raise AssertionError(f"sym_ite: both must be of one type, got {type(t)} and {type(f)}")
    return t if b else f


def sym_sum(args: Sequence[Any]) -> Any:
    """The sum of numbers.

    >>> import rushlight as torch
    >>> torch.sym_sum([1, 2, 3])
    6
    """
    return sum(args)


def sym_sqrt(a: Any) -> float:
    """The root of a number.

    >>> import rushlight as torch
    >>> torch.sym_sqrt(9)
    3.0
    """
    import math

    return math.sqrt(a)


def sym_fresh_size(expr: Any) -> Any:
    """The size itself.

    >>> import rushlight as torch
    >>> torch.sym_fresh_size(3)
    3
    """
    return expr


def cond(
    pred: Any,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: tuple[Any, ...] | list[Any] = (),
) -> Any:
    """``true_fn(*operands)`` where ``pred`` holds, else ``false_fn(*operands)``.

    >>> import rushlight as torch
    >>> x = torch.tensor([1.0, 2.0])
    >>> torch.cond(x.sum() > 2, torch.sin, torch.cos, (x,))
    tensor([0.8415, 0.9093])
    """
    from rushlight._C import Tensor

    if not isinstance(pred, (bool, Tensor)):
        raise RuntimeError(f"cond: expected pred to be bool or tensor, but got {pred}.")
    if isinstance(pred, Tensor) and pred.numel() != 1:
        raise RuntimeError(
            f"cond: expected pred to be bool or single-element tensor, but got {tuple(pred.shape)}"
        )
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("cond: expect both branches to be callable.")
    return (true_fn if pred else false_fn)(*operands)


def while_loop(
    cond_fn: Callable[..., Any],
    body_fn: Callable[..., Any],
    carried_inputs: tuple[Any, ...] | list[Any],
) -> Any:
    """``body_fn`` of what it gave last, as long as ``cond_fn`` of that holds.

    >>> import rushlight as torch
    >>> i, x = torch.tensor(0), torch.ones(2)
    >>> torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, 2 * x), (i, x))
    (tensor(3), tensor([8., 8.]))
    """
    from rushlight._C import Tensor

    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("while_loop: expect cond_fn and body_fn to be callable")
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(
            f"while_loop: expect carried_inputs to be a tuple or list, got {type(carried_inputs)}"
        )
    carried = tuple(carried_inputs)
    while True:
        holds = cond_fn(*carried)
        if not isinstance(holds, (bool, Tensor)) or (
            isinstance(holds, Tensor) and holds.numel() != 1
        ):
            raise RuntimeError(f"while_loop: cond_fn must give one bool, got {holds}")
        if not holds:
            return carried
        given = body_fn(*carried)
        carried = tuple(given) if isinstance(given, (tuple, list)) else (given,)
