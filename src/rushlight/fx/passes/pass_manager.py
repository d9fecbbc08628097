"""Passes of any kind run in order: each gets what the one before returns."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from inspect import unwrap
from typing import Any

from rushlight.fx.passes.infra.pass_manager import (
    _validate_pass_schedule_constraint,
    this_before_that_pass_constraint,
)

__all__ = [
    "PassManager",
    "inplace_wrapper",
    "log_hook",
    "loop_pass",
    "these_before_those_pass_constraint",
    "this_before_that_pass_constraint",
]

logger = logging.getLogger(__name__)
Pass = Callable[..., Any]
Constraint = Callable[[Pass, Pass], bool]


def inplace_wrapper(fn: Pass) -> Pass:
    """A pass that changes its argument, as one that returns it.

    >>> from rushlight.fx.passes.pass_manager import inplace_wrapper
    >>> inplace_wrapper(list.sort)([2, 1])
    [1, 2]
    """

    @wraps(fn)
    def wrapped_fn(gm: Any, *args: Any, **kwargs: Any) -> Any:
        fn(gm, *args, **kwargs)
        return gm

    return wrapped_fn


def log_hook(fn: Pass, level: int = logging.INFO) -> Pass:
    """A pass whose results are logged.

    >>> from rushlight.fx.passes.pass_manager import log_hook
    >>> log_hook(sorted)([2, 1])
    [1, 2]
    """

    @wraps(fn)
    def wrapped_fn(*args: Any, **kwargs: Any) -> Any:
        result = fn(*args, **kwargs)
        logger.log(level, "Ran pass %s\t Return value: %s", fn, result)
        return result

    return wrapped_fn


def loop_pass(
    base_pass: Pass, n_iter: int | None = None, predicate: Callable[[Any], bool] | None = None
) -> Pass:
    """A pass run a number of times, or while something holds.

    >>> from rushlight.fx.passes.pass_manager import loop_pass
    >>> loop_pass(lambda x: 2 * x, n_iter=3)(1)
    8
    >>> loop_pass(lambda x: 2 * x, predicate=lambda x: x < 9)(1)
    16
    """
    if (n_iter is None) is (predicate is None):
        raise AssertionError("Exactly one of `n_iter`or `predicate` must be specified.")
    if n_iter is not None and n_iter <= 0:
        raise RuntimeError(f"loop_pass: n_iter must be positive: {n_iter}")

    @wraps(base_pass)
    def new_pass(source: Any) -> Any:
        done = 0
        while done < n_iter if n_iter is not None else predicate(source):  # type: ignore[misc]
            source = base_pass(source)
            done += 1
        return source

    return new_pass


def these_before_those_pass_constraint(these: Pass, those: Pass) -> Constraint:
    """The constraint that one pass runs before another, however they are wrapped.

    >>> from rushlight.fx.passes.pass_manager import these_before_those_pass_constraint
    >>> these_before_those_pass_constraint(min, max)(max, min)
    False
    """

    def depends_on(a: Pass, b: Pass) -> bool:
        return unwrap(a) != those or unwrap(b) != these

    return depends_on


class PassManager:
    """Runs passes in order.

    >>> from rushlight.fx.passes.pass_manager import PassManager
    >>> PassManager([sorted, tuple])([2, 1])
    (1, 2)
    """

    _validated: bool = False

    def __init__(
        self, passes: list[Pass] | None = None, constraints: list[Constraint] | None = None
    ) -> None:
        self.passes: list[Pass] = passes or []
        self.constraints: list[Constraint] = constraints or []

    @classmethod
    def build_from_passlist(cls, passes: list[Pass]) -> PassManager:
        """A manager of passes."""
        return PassManager(passes)

    def add_pass(self, _pass: Pass) -> None:
        """Adds a pass."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Constraint) -> None:
        """Adds a constraint on the order."""
        self.constraints.append(constraint)
        self._validated = False

    def remove_pass(self, _passes: list[str]) -> None:
        """Removes passes by their names."""
        self.passes = [p for p in self.passes if p.__name__ not in (_passes or ())]
        self._validated = False

    def replace_pass(self, _target: Pass, _replacement: Pass) -> None:
        """Puts a pass in the place of one."""
        name = _target.__name__
        self.passes = [_replacement if p.__name__ == name else p for p in self.passes]
        self._validated = False

    def validate(self) -> None:
        """Raises if the order of the passes violates a constraint."""
        if not self._validated:
            for constraint in self.constraints:
                _validate_pass_schedule_constraint(constraint, self.passes)
        self._validated = True

    def __call__(self, source: Any) -> Any:
        self.validate()
        for _pass in self.passes:
            source = _pass(source)
        return source
