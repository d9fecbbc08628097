"""Passes run in order, until nothing changes."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable
from functools import wraps
from typing import Any

from rushlight import nn
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.passes.infra.pass_base import PassResult

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]

Pass = Callable[..., Any]
Constraint = Callable[[Pass, Pass], bool]


def pass_result_wrapper(fn: Pass | None) -> Any:
    """A pass that returns a module, or nothing, as one that returns a :class:`PassResult`.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.infra.pass_manager import pass_result_wrapper
    >>> pass_result_wrapper(lambda gm: None)(torch.nn.ReLU()).modified
    True
    """
    if fn is None:
        return None

    @wraps(fn)
    def wrapped_fn(gm: nn.Module) -> PassResult | None:
        result = fn(gm)
        if isinstance(result, PassResult):
            return result
        if result is None or isinstance(result, nn.Module):
            return PassResult(gm if result is None else result, True)
        return None

    if not inspect.isfunction(fn):
        wrapped_fn.__name__ = type(fn).__name__
    return wrapped_fn


def _validate_pass_schedule_constraint(constraint: Constraint, passes: list[Pass]) -> None:
    for i, a in enumerate(passes):
        for j, b in enumerate(passes[i + 1 :]):
            if not constraint(a, b):
                raise RuntimeError(
                    f"pass schedule constraint violated. Expected {a} before {b} but found {a} at "
                    f"index {i} and {b} at index {j} in pass list."
                )


def _topological_sort_passes(passes: list[Pass], constraints: list[Constraint]) -> list[Pass]:
    """The passes in an order that all constraints allow."""
    if not constraints:
        return passes
    later: dict[Pass, list[Pass]] = {
        a: [b for b in passes if a != b and not all(c(b, a) for c in constraints)] for a in passes
    }
    waiting = dict.fromkeys(passes, 0)
    for followers in later.values():
        for b in followers:
            waiting[b] += 1
    queue = deque(p for p in passes if not waiting[p])
    done: list[Pass] = []
    while queue:
        first = queue.popleft()
        done.append(first)
        for b in later[first]:
            waiting[b] -= 1
            if not waiting[b]:
                queue.append(b)
    stuck = [p for p in passes if waiting[p]]
    if stuck:
        raise RuntimeError(f"Circular dependency detected within the following passes: {stuck}")
    return done


def this_before_that_pass_constraint(this: Pass, that: Pass) -> Constraint:
    """The constraint that one pass runs before another.

    >>> from rushlight.fx.passes.infra.pass_manager import this_before_that_pass_constraint
    >>> this_before_that_pass_constraint(min, max)(max, min)
    False
    """

    def depends_on(a: Pass, b: Pass) -> bool:
        return a != that or b != this

    return depends_on


class PassManager:
    """Runs passes on a module in an order that constraints allow, at most `steps` times.

    A pass returns a :class:`PassResult`. The order is run through again while something changes.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.infra.pass_manager import PassManager, pass_result_wrapper
    >>> manager = PassManager([pass_result_wrapper(lambda gm: gm)])
    >>> manager(torch.fx.symbolic_trace(lambda x: x + 1)).modified
    True
    """

    steps: int = 1
    _validated: bool = False

    def __init__(
        self,
        passes: list[Pass] | None = None,
        constraints: list[Constraint] | None = None,
        steps: int | None = None,
        run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
    ) -> None:
        self.passes: list[Pass] = passes or []
        self.constraints: list[Constraint] = constraints or []
        if steps:
            self.steps = steps
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures
        self._check: Callable[[nn.Module], None] | None = None

    def add_pass(self, _pass: Pass) -> None:
        """Adds a pass."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Constraint) -> None:
        """Adds a constraint."""
        self.constraints.append(constraint)
        self._validated = False

    def validate_constraints(self) -> None:
        """Raises if the order of the passes violates a constraint."""
        if not self._validated:
            for constraint in self.constraints:
                _validate_pass_schedule_constraint(constraint, self.passes)
        self._validated = True

    def solve_constraints(self) -> None:
        """Puts the passes in an order that the constraints allow."""
        self.passes = _topological_sort_passes(self.passes, self.constraints)
        self._validated = True

    def add_checks(self, check: Callable[[nn.Module], None]) -> None:
        """Sets what is called with the module before, and between passes if so asked."""
        if len(inspect.signature(check).parameters) != 1:
            raise TypeError("PassManager check function should only take in one variable, a module")
        self._check = check

    def check(self, module: nn.Module) -> None:
        """Calls what ``add_checks`` set."""
        if self._check is not None:
            self._check(module)

    def __call__(self, module: nn.Module) -> PassResult:
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        changed = False
        for _ in range(self.steps):
            modified = False
            for i, fn in enumerate(self.passes):
                try:
                    module, now = self._run(fn, module)
                except Exception as error:
                    before = [_name(p) for p in self.passes[:i]]
                    raise Exception(
                        f"An error occurred when running the '{_name(fn)}' pass after the "
                        f"following passes: {before}"
                    ) from error
                modified = modified or now
            changed = changed or modified
            if not modified:
                break
        return PassResult(module, changed)

    def _run(self, fn: Pass, module: nn.Module) -> tuple[nn.Module, bool]:
        result = fn(module)
        if not hasattr(result, "graph_module"):
            raise TypeError(
                f"The result of the pass {_name(fn)} should be type PassResult."
                "Please wrap it with pass_result_wrapper()"
            )
        if isinstance(result.graph_module, GraphModule):
            result.graph_module.recompile()
        if self.run_checks_after_each_pass:
            self.check(result.graph_module)
        return result.graph_module, result.modified


def _name(fn: Pass) -> str:
    return fn.__name__ if inspect.isfunction(fn) else type(fn).__name__
