"""Jacobians as tables of plain numbers, by differences, by reverse mode and by forward mode.

A complex entry counts as two real coordinates, its real and its imaginary part, so one table serves
functions between real and complex numbers alike: `table[j][k]` is the derivative of the k-th output
coordinate by the j-th input coordinate.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import rushlight as torch

Table = list[list[float]]
Index = tuple[int, ...]


def is_tensor(x: Any) -> bool:
    return isinstance(x, torch.Tensor)


def is_differentiable(x: Any) -> bool:
    return is_tensor(x) and (x.is_floating_point() or x.is_complex())


def as_tuple(x: Any) -> tuple[Any, ...]:
    if isinstance(x, tuple):
        return x
    return tuple(x) if isinstance(x, list) else (x,)


def entries(t: Any) -> Iterator[Index]:
    """The indices of a tensor's entries, the last dimension running fastest."""
    return itertools.product(*(range(n) for n in t.shape))


def units(t: Any) -> Iterator[tuple[Index, complex]]:
    """Each coordinate of a tensor: an index, and the unit it counts."""
    for index in entries(t):
        yield index, 1.0
        if t.is_complex():
            yield index, 1j


def coordinates(t: Any) -> list[float]:
    values = t.detach().reshape(-1).tolist()
    if t.is_complex():
        return [part for z in values for part in (z.real, z.imag)]
    return values


def unit_vector(t: Any, index: Index, unit: complex) -> Any:
    vector = torch.zeros(t.shape, dtype=t.dtype, device=t.device)
    vector[index] = unit
    return vector


# -- by differences -------------------------------------------------------------------------------


def outputs_of(func: Callable[..., Any], inputs: Sequence[Any], places: Sequence[int]) -> list[Any]:
    """The outputs at `places`, safe from later changes of the inputs."""
    outputs = as_tuple(func(*inputs))
    return [outputs[k].detach().clone() for k in places]


def step_for(t: Any, value: complex, eps: float) -> float:
    """How far to move from `value`: `eps`, or more where the dtype could not resolve it."""
    resolution = torch.finfo(t.dtype).eps
    if resolution < 1e-12:
        return eps
    return max(eps, resolution ** (1 / 3) * max(1.0, abs(value)))


def numerical(
    func: Callable[..., Any], inputs: Sequence[Any], i: int, places: Sequence[int], eps: float
) -> list[Table]:
    """Central differences in each coordinate of input `i`: a table for each output in `places`.

    The input is changed in place and restored, because `func` may hold it by other ways too.
    """
    tables: list[Table] = [[] for _ in places]
    entry = inputs[i].detach()
    for index, unit in units(entry):
        value = entry[index].item()
        step = step_for(entry, value, eps)
        sides, reached = [], []
        try:
            for sign in (1, -1):
                entry[index] = value + sign * step * unit
                reached.append(entry[index].item())
                sides.append(outputs_of(func, inputs, places))
        finally:
            entry[index] = value
        _require_alike(sides, f"on index {index} by {step}")
        moved = abs(reached[0] - reached[1])
        for table, above, below in zip(tables, *sides, strict=True):
            pairs = zip(coordinates(above), coordinates(below), strict=True)
            table.append([(a - b) / moved for a, b in pairs])
    return tables


def numerical_along(
    func: Callable[..., Any],
    inputs: Sequence[Any],
    i: int,
    direction: Any,
    places: Sequence[int],
    eps: float,
) -> list[list[float]]:
    """The derivative of each output in `places` along a direction of input `i`."""
    entry = inputs[i].detach()
    before = entry.clone()
    largest = max((abs(v) for v in coordinates(before)), default=0.0)
    step = step_for(entry, largest, eps)
    sides = []
    try:
        for sign in (1, -1):
            entry.copy_(before + sign * step * direction)
            sides.append(outputs_of(func, inputs, places))
    finally:
        entry.copy_(before)
    _require_alike(sides, f"by {step}")
    return [
        [(a - b) / (2 * step) for a, b in zip(coordinates(above), coordinates(below), strict=True)]
        for above, below in zip(*sides, strict=True)
    ]


def _require_alike(sides: list[list[Any]], how: str) -> None:
    """Differences are of numbers: what two calls return must have one shape and dtype."""
    for above, below in zip(*sides, strict=True):
        for what in ("shape", "dtype"):
            one, other = getattr(above, what), getattr(below, what)
            if one != other:
                raise AssertionError(
                    f"Expected `func` to return outputs with the same {what} when inputs are "
                    f"perturbed {how}, but got: {what}s {one} and {other}."
                )


# -- by automatic differentiation -----------------------------------------------------------------


def analytical(output: Any, inputs: Sequence[Any]) -> list[Table]:
    """Reverse mode, one coordinate of the output at a time: a table for each input."""
    columns: list[list[list[float]]] = [[] for _ in inputs]
    for index, unit in units(output):
        vector = unit_vector(output, index, unit)
        grads = torch.autograd.grad(output, inputs, vector, retain_graph=True, allow_unused=True)
        for column, x, g in zip(columns, inputs, grads, strict=True):
            column.append(coordinates(torch.zeros_like(x) if g is None else like(x, g)))
    return [transposed(c, x) for c, x in zip(columns, inputs, strict=True)]


def like(x: Any, g: Any) -> Any:
    """A gradient, as many coordinates as its input has."""
    if x.is_complex() and not g.is_complex():
        return g.to(x.dtype)
    return g.real if g.is_complex() and not x.is_complex() else g


def transposed(columns: list[list[float]], x: Any) -> Table:
    if not columns:
        return [[] for _ in units(x)]
    return [list(row) for row in zip(*columns, strict=True)]


def forward_mode(
    func: Callable[..., Any], inputs: Sequence[Any], i: int, places: Sequence[int]
) -> list[Table]:
    """Forward mode, one coordinate of input `i` at a time: a table for each output in `places`."""
    tables: list[Table] = [[] for _ in places]
    for index, unit in units(inputs[i]):
        tangent = unit_vector(inputs[i], index, unit)
        for table, moved in zip(tables, pushed(func, inputs, i, tangent, places), strict=True):
            table.append(coordinates(moved))
    return tables


def pushed(
    func: Callable[..., Any], inputs: Sequence[Any], i: int, tangent: Any, places: Sequence[int]
) -> list[Any]:
    """The tangents of the outputs in `places` for a tangent of input `i`."""
    return pushed_all(func, inputs, {i: tangent}, places)


def pushed_all(
    func: Callable[..., Any], inputs: Sequence[Any], tangents: dict[int, Any], places: Sequence[int]
) -> list[Any]:
    """The tangents of the outputs in `places` for tangents of some inputs. None requires grad."""
    forward_ad = torch.autograd.forward_ad
    with forward_ad.dual_level():
        given = [x.detach() if is_tensor(x) else x for x in inputs]
        for i, tangent in tangents.items():
            given[i] = forward_ad.make_dual(given[i], tangent)
        outputs = as_tuple(func(*given))
        found = []
        for k in places:
            primal, t = forward_ad.unpack_dual(outputs[k])
            found.append(torch.zeros_like(primal) if t is None else t)
    return found


# -- comparison -----------------------------------------------------------------------------------


class Mismatch:
    """Where two tables differ most, in units of what is allowed."""

    def __init__(self, found: Table, wanted: Table, atol: float, rtol: float) -> None:
        self.count = self.total = 0
        self.worst = -1.0
        for j, (row, expected) in enumerate(zip(found, wanted, strict=True)):
            for k, (a, n) in enumerate(zip(row, expected, strict=True)):
                self.total += 1
                error, allowed = abs(a - n), atol + rtol * abs(n)
                # Written so that a nan is a mismatch.
                if not error <= allowed:
                    self.count += 1
                    excess = error / allowed if allowed and error == error else math.inf
                    if excess > self.worst:
                        self.worst, self.place = excess, (j, k)
                        self.found, self.wanted, self.allowed = a, n, allowed

    def __bool__(self) -> bool:
        return self.count > 0

    @property
    def relative(self) -> float:
        size = max(abs(self.found), abs(self.wanted))
        return abs(self.found - self.wanted) / size if size else 0.0


def place_name(name: str, t: Any, coordinate: int) -> str:
    """A coordinate in a user's terms: `output[2, 0].imag`."""
    parts = 2 if t.is_complex() else 1
    flat, part = divmod(coordinate, parts)
    index: list[int] = []
    for size in reversed(t.shape):
        flat, at = divmod(flat, size)
        index.insert(0, at)
    text = name + (f"[{', '.join(map(str, index))}]" if index else "")
    return text + ((".real", ".imag")[part] if parts == 2 else "")
