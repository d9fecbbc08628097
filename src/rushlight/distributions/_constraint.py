"""The base of constraints."""

from __future__ import annotations

from typing import Any


class Constraint:
    """A region over which a variable is valid, e.g. within which it can be optimised.

    >>> import rushlight as torch
    >>> from rushlight.distributions import constraints
    >>> class Even(constraints.Constraint):
    ...     def check(self, value):
    ...         return value % 2 == 0
    >>> Even().check(torch.tensor([1.0, 2.0]))
    tensor([False,  True])
    """

    is_discrete: Any = False
    event_dim: Any = 0  # dimensions of one event: check() reduces over them

    def check(self, value: Any) -> Any:
        """Whether each event of ``value`` satisfies the constraint: a tensor of bools."""
        raise NotImplementedError

    _checks_numbers = False  # whether check() is made of comparisons alone

    def _holds(self, value: Any) -> bool:
        """Whether all events do: ``check(value).all()``, quicker for a single number."""
        if self._checks_numbers and value.ndim == 0:
            found = self.check(value.item())
            if found.__class__ is bool:
                return found
        return bool(self.check(value).all())

    def __repr__(self) -> str:
        return self.__class__.__name__[1:] + "()"
