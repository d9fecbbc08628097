"""A line search for the strong Wolfe conditions."""

from __future__ import annotations

from rushlight._C import Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SUFFICIENT = 1e-4  # the part of the promised decrease that must be reached
CURVATURE = 0.9  # the part of the slope that may remain
SMALLEST = 1e-9  # brackets shorter than this are not divided


class Point:
    """A step size with the loss, the gradient and the slope along the direction there."""

    def __init__(self, size: Any, loss: float, gradient: Tensor, slope: Any) -> None:
        self.size = size
        self.loss = loss
        self.gradient = gradient
        self.slope = slope


def cubic_minimum(a: Point, b: Point, bounds: tuple[Any, Any] | None = None) -> Any:
    """The minimum of the cubic through two points and their slopes, kept within bounds."""
    low, high = bounds or ((a.size, b.size) if a.size <= b.size else (b.size, a.size))
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.size - b.size)
    square = d1**2 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2.0
    d2 = square.sqrt()
    if a.size <= b.size:
        part = (b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2)
        best = b.size - (b.size - a.size) * part
    else:
        part = (a.slope + d2 - d1) / (a.slope - b.slope + 2 * d2)
        best = a.size - (a.size - b.size) * part
    return min(max(best, low), high)


def strong_wolfe(
    objective: Callable[[Any], tuple[float, Tensor]],
    size: Any,
    direction: Tensor,
    loss: float,
    gradient: Tensor,
    slope: Any,
    most: int = 25,
    sufficient: float = SUFFICIENT,
    curvature: float = CURVATURE,
    smallest: float = SMALLEST,
) -> tuple[float, Tensor, Any, int]:
    """(loss, gradient, size, evaluations) of a step along `direction` that goes down enough and
    leaves little slope; after `most` evaluations, of the best one seen."""

    def at(size: Any) -> Point:
        value, there = objective(size)
        return Point(size, value, there, there.dot(direction))

    def too_high(p: Point) -> bool:
        return bool(p.loss > loss + sufficient * p.size * slope)

    def flat_enough(p: Point) -> bool:
        return bool(abs(p.slope) <= -curvature * slope)

    start = Point(0, loss, gradient.clone(), slope)
    before, now = start, at(size)
    evaluations, rounds = 1, 0
    bracket: list[Point] = []
    while rounds < most:
        if too_high(now) or (rounds > 1 and now.loss >= before.loss):
            bracket = [before, now]
            break
        if flat_enough(now):
            return now.loss, now.gradient, now.size, evaluations
        if now.slope >= 0:
            bracket = [before, now]
            break
        bounds = (now.size + 0.01 * (now.size - before.size), now.size * 10)
        size = cubic_minimum(before, now, bounds)
        before, now = now, at(size)
        evaluations += 1
        rounds += 1
    if not bracket:
        bracket = [start, now]
    best, evaluations = _divide(
        bracket,
        at,
        too_high,
        flat_enough,
        direction.abs().max(),
        evaluations,
        rounds,
        most,
        smallest,
    )
    return best.loss, best.gradient, best.size, evaluations


def _divide(
    bracket: list[Point],
    at: Callable[[Any], Point],
    too_high: Callable[[Point], bool],
    flat_enough: Callable[[Point], bool],
    length: Any,
    evaluations: int,
    rounds: int,
    most: int,
    smallest: float,
) -> tuple[Point, int]:
    """Narrows a bracket around a point that fulfils the conditions."""
    stuck = False
    low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
    while rounds < most:
        left, right = sorted(p.size for p in bracket)
        if (right - left) * length < smallest:
            break
        size = cubic_minimum(bracket[0], bracket[1])
        # A point close to an end of the bracket twice in a row is moved inside.
        margin = 0.1 * (right - left)
        if min(right - size, size - left) < margin:
            if stuck or size >= right or size <= left:
                size = right - margin if abs(size - right) < abs(size - left) else left + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        now = at(size)
        evaluations += 1
        rounds += 1
        if too_high(now) or now.loss >= bracket[low].loss:
            bracket[high] = now
            low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
            continue
        done = flat_enough(now)
        if not done and now.slope * (bracket[high].size - bracket[low].size) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = now
        if done:
            break
    return bracket[low], evaluations
