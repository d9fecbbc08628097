"""Constraints side by side: of the parts of a value along a dimension."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.distributions._constraint import Constraint


class _Joined(Constraint):
    """Constraints side by side along a dimension."""

    def __init__(self, cseq: Any, dim: int) -> None:
        self.cseq = list(cseq)
        for c in self.cseq:
            if not isinstance(c, Constraint):
                raise AssertionError(f"All elements of cseq must be Constraint instances: {c!r}")
        self.dim = dim
        super().__init__()

    @property
    def is_discrete(self) -> bool:
        return any(c.is_discrete for c in self.cseq)

    def _require(self, value: Any) -> None:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(
                f"dim {self.dim} is out of range for a value with {value.dim()} dimensions"
            )


class _Cat(_Joined):
    """``lengths[i]`` elements along the dimension satisfy ``cseq[i]``.

    >>> import rushlight as torch
    >>> from rushlight.distributions import constraints
    >>> both = constraints.cat([constraints.real, constraints.positive], lengths=[1, 2])
    >>> both.check(torch.tensor([-1.0, 1.0, -1.0]))
    tensor([ True,  True, False])
    """

    def __init__(self, cseq: Any, dim: int = 0, lengths: Any = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(
                f"lengths must have length {len(self.cseq)}, got {len(self.lengths)}"
            )

    @property
    def event_dim(self) -> int:
        return max(c.event_dim for c in self.cseq)

    def check(self, value: Any) -> Any:
        self._require(value)
        parts = value.narrow(self.dim, 0, sum(self.lengths)).split(self.lengths, self.dim)
        return torch.cat([c.check(v) for c, v in zip(self.cseq, parts, strict=True)], self.dim)


class _Stack(_Joined):
    """The i-th slice along the dimension satisfies ``cseq[i]``.

    >>> import rushlight as torch
    >>> from rushlight.distributions import constraints
    >>> both = constraints.stack([constraints.real, constraints.positive])
    >>> both.check(torch.tensor([-1.0, -1.0]))
    tensor([ True, False])
    """

    def __init__(self, cseq: Any, dim: int = 0) -> None:
        super().__init__(cseq, dim)

    @property
    def event_dim(self) -> int:
        events = max(c.event_dim for c in self.cseq)
        return events + 1 if self.dim + events < 0 else events

    def check(self, value: Any) -> Any:
        self._require(value)
        slices = [value.select(self.dim, i) for i in range(value.size(self.dim))]
        return torch.stack([c.check(v) for c, v in zip(self.cseq, slices, strict=True)], self.dim)
