"""Questions about sizes. Sizes are plain numbers here, so each has its plain answer."""

from __future__ import annotations

from typing import Any

__all__ = [
    "GuardOnDataDependentSymNode",
    "canonicalize_bool_expr",
    "definitely_false",
    "definitely_true",
    "expect_true",
    "free_symbols",
    "free_unbacked_symbols",
    "guard_bool",
    "guard_float",
    "guard_int",
    "guard_or_false",
    "guard_or_true",
    "guard_scalar",
    "guard_size_oblivious",
    "has_free_symbols",
    "has_free_unbacked_symbols",
    "has_hint",
    "has_static_value",
    "hint_int",
    "is_concrete_bool",
    "is_concrete_float",
    "is_concrete_int",
    "is_nested_int",
    "is_symbolic",
    "statically_known_false",
    "statically_known_true",
    "sym_and",
    "sym_eq",
    "sym_or",
]


class GuardOnDataDependentSymNode(RuntimeError):
    """A size that is not known was needed; raised nowhere, since all are.

    >>> from rushlight.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
    >>> issubclass(GuardOnDataDependentSymNode, RuntimeError)
    True
    """


def guard_bool(a: Any) -> bool:
    """The truth of a condition.

    >>> from rushlight.fx.experimental.symbolic_shapes import guard_bool
    >>> guard_bool(1 > 2)
    False
    """
    return bool(a)


guard_or_true = guard_or_false = guard_size_oblivious = guard_bool
definitely_true = statically_known_true = expect_true = canonicalize_bool_expr = guard_bool


def statically_known_false(a: Any) -> bool:
    """Whether a condition does not hold.

    >>> from rushlight.fx.experimental.symbolic_shapes import statically_known_false
    >>> statically_known_false(1 > 2)
    True
    """
    return not a


definitely_false = statically_known_false


def guard_int(a: Any) -> int:
    """A size as an int.

    >>> from rushlight.fx.experimental.symbolic_shapes import guard_int
    >>> guard_int(3)
    3
    """
    return int(a)


def guard_float(a: Any) -> float:
    """A number as a float.

    >>> from rushlight.fx.experimental.symbolic_shapes import guard_float
    >>> guard_float(3)
    3.0
    """
    return float(a)


def guard_scalar(a: Any) -> Any:
    """A number as it is.

    >>> from rushlight.fx.experimental.symbolic_shapes import guard_scalar
    >>> guard_scalar(2.5)
    2.5
    """
    if not isinstance(a, (bool, int, float)):
        raise AssertionError(f"unrecognized scalar {a}")
    return a


def hint_int(a: Any, fallback: int | None = None) -> int:
    """A size as an int.

    >>> from rushlight.fx.experimental.symbolic_shapes import hint_int
    >>> hint_int(3)
    3
    """
    return int(a)


def is_concrete_int(a: Any) -> bool:
    """Whether it is a plain int.

    >>> from rushlight.fx.experimental.symbolic_shapes import is_concrete_int
    >>> is_concrete_int(3)
    True
    """
    return isinstance(a, int)


def is_concrete_float(a: Any) -> bool:
    """Whether it is a plain float.

    >>> from rushlight.fx.experimental.symbolic_shapes import is_concrete_float
    >>> is_concrete_float(3.0)
    True
    """
    return isinstance(a, float)


def is_concrete_bool(a: Any) -> bool:
    """Whether it is a plain bool.

    >>> from rushlight.fx.experimental.symbolic_shapes import is_concrete_bool
    >>> is_concrete_bool(True)
    True
    """
    return isinstance(a, bool)


def is_symbolic(val: Any) -> bool:
    """Whether a number is not known: never.

    >>> from rushlight.fx.experimental.symbolic_shapes import is_symbolic
    >>> is_symbolic(3)
    False
    """
    return False


is_nested_int = has_free_symbols = has_free_unbacked_symbols = is_symbolic


def has_hint(a: Any) -> bool:
    """Whether a number is known: always.

    >>> from rushlight.fx.experimental.symbolic_shapes import has_hint
    >>> has_hint(3)
    True
    """
    return True


has_static_value = has_hint


def free_symbols(val: Any) -> set[Any]:
    """The unknowns of a value: there are none.

    >>> from rushlight.fx.experimental.symbolic_shapes import free_symbols
    >>> free_symbols(3)
    set()
    """
    return set()


free_unbacked_symbols = free_symbols


def sym_eq(x: Any, y: Any) -> bool:
    """Whether sizes, or lists of them, are equal.

    >>> from rushlight.fx.experimental.symbolic_shapes import sym_eq
    >>> sym_eq((2, 3), (2, 3))
    True
    """
    if isinstance(x, (tuple, list)) and isinstance(y, (tuple, list)):
        return len(x) == len(y) and all(map(sym_eq, x, y))
    return bool(x == y)


def sym_or(x: Any, *others: Any) -> bool:
    """Whether one of the conditions holds.

    >>> from rushlight.fx.experimental.symbolic_shapes import sym_or
    >>> sym_or(False, True)
    True
    """
    return any((x, *others))


def sym_and(x: Any, *others: Any) -> bool:
    """Whether all conditions hold.

    >>> from rushlight.fx.experimental.symbolic_shapes import sym_and
    >>> sym_and(False, True)
    False
    """
    return all((x, *others))
