"""Power series of tensors, computed term by term.

A series is asked for its n-th coefficient and remembers it; to find one it asks others for theirs,
up to the n-th. A pointwise op follows from its derivative: y' is the sum of partial_i(x, y) x_i',
where the partials, the registry's own formulas, are series again, which may depend on y itself.
"""

from __future__ import annotations

import functools

from rushlight import _C

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_ops = _C._namespaces[""]

# What the formulas call by the names of C.
_FUNCTIONS = {"fabs": "abs", "rint": "round"}
_OPERATORS = {"!", "?:", "+", "-", "*", "/", "neg", "isnan"}


@functools.cache
def formulas() -> dict[str, list[dict[str, Any]]]:
    """The pointwise entries of the registry by name."""
    table: dict[str, list[dict[str, Any]]] = {}
    for entry in _C._registry():
        if "formula" in entry:
            table.setdefault(entry["name"], []).append(entry)
    return table


class Series:
    """Coefficients c0, c1, ... of powers of t; None stands for zero."""

    def __init__(self, known: Sequence[Any] = ()) -> None:
        self.known: list[Any] = list(known)

    def __getitem__(self, n: int) -> Any:
        while len(self.known) <= n:
            self.known.append(self.next(len(self.known)))
        return self.known[n]

    def next(self, n: int) -> Any:
        """The n-th coefficient, those before it being known: zero past the end of what is given."""
        return None


class Sum(Series):
    def __init__(self, a: Series, b: Series, sign: int = 1) -> None:
        super().__init__()
        self.a, self.b, self.sign = a, b, sign

    def next(self, n: int) -> Any:
        a, b = self.a[n], self.b[n]
        if b is None:
            return a
        if self.sign < 0:
            return -b if a is None else a - b
        return b if a is None else a + b


class Product(Series):
    def __init__(self, a: Series, b: Series, times: Callable[..., Any] | None = None) -> None:
        super().__init__()
        self.a, self.b = a, b
        self.times = times or (lambda a, b: a * b)

    def next(self, n: int) -> Any:
        total = None
        for j in range(n + 1):
            a, b = self.a[j], self.b[n - j]
            if a is not None and b is not None:
                term = self.times(a, b)
                total = term if total is None else total + term
        return total


class Quotient(Series):
    def __init__(self, a: Series, b: Series) -> None:
        super().__init__()
        self.a, self.b = a, b

    def next(self, n: int) -> Any:
        rest = self.a[n]
        for j in range(n):
            q, b = self.known[j], self.b[n - j]
            if q is not None and b is not None:
                rest = -(q * b) if rest is None else rest - q * b
        return None if rest is None else rest / self.b[0]


class Choice(Series):
    """Where the condition holds at t = 0, the one series, elsewhere the other.

    Two numbers have the type of what the formula is of, not the default one.
    """

    def __init__(self, condition: Any, a: Series, b: Series, dtype: Any) -> None:
        super().__init__()
        self.condition, self.a, self.b, self.dtype = condition, a, b, dtype

    def next(self, n: int) -> Any:
        if isinstance(self.condition, bool):
            return (self.a if self.condition else self.b)[n]
        a, b = self.a[n], self.b[n]
        if a is None and b is None:
            return None
        a, b = (0.0 if v is None else v for v in (a, b))
        if not isinstance(a, _C.Tensor) and not isinstance(b, _C.Tensor):
            a = _ops["full"]((), a, dtype=self.dtype)
        return _ops["where"](self.condition, a, b)


class Map(Series):
    """A linear function of a series, term by term."""

    def __init__(self, function: Callable[[Any, int], Any], a: Series) -> None:
        super().__init__()
        self.function, self.a = function, a

    def next(self, n: int) -> Any:
        return None if self.a[n] is None else self.function(self.a[n], n)


class Pointwise(Series):
    """A pointwise op of series; `made` holds what was made of the same arguments before."""

    def __init__(
        self,
        entry: dict[str, Any],
        value: Callable[..., Any],
        inputs: Sequence[Series],
        params: Sequence[float],
        made: dict[Any, Series],
    ) -> None:
        super().__init__([_of_tensors(value, [x[0] for x in inputs])])
        self.inputs, self.made = inputs, made
        self.formulas = entry["partials"]
        self.names: dict[str, Any] = dict(zip("abc", inputs, strict=False))
        self.names["y"] = self
        self.names.update({f"p{i}": p for i, p in enumerate(params)})

    @functools.cached_property
    def partials(self) -> list[Series | None]:
        """None for a partial of one."""
        return [
            None if tree is None else as_series(Reading(self.names, self.made).of(tree))
            for tree in self.formulas
        ]

    def next(self, n: int) -> Any:
        total = None
        for x, partial in zip(self.inputs, self.partials, strict=False):
            for j in range(1, n + 1):
                if x[j] is None:
                    continue
                if partial is None:
                    term = x[j] if j == n else None
                else:
                    p = partial[n - j]
                    term = None if p is None else p * x[j] * (j / n)
                if term is not None:
                    total = term if total is None else total + term
        return total


def as_series(value: Any) -> Series:
    return value if isinstance(value, Series) else Series([value])


def at_start(value: Any) -> Any:
    return value[0] if isinstance(value, Series) else value


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "&&": lambda a, b: a & b,
    "||": lambda a, b: a | b,
}


class Reading:
    """The values of a formula's parts, each found once: series, or numbers where nothing varies.

    A formula is a number, a name, or a tuple whose first item says what is done to the others.
    """

    def __init__(self, names: dict[str, Any], made: dict[Any, Series]) -> None:
        self.names, self.made = names, made
        self.found: dict[int, Any] = {}

    def of(self, tree: Any) -> Any:
        if isinstance(tree, float):
            return tree
        if isinstance(tree, str):
            return self.names[tree]
        if id(tree) not in self.found:
            self.found[id(tree)] = self.value(tree[0], [self.of(part) for part in tree[1:]])
        return self.found[id(tree)]

    def value(self, head: str, values: list[Any]) -> Any:
        if head in _COMPARISONS:
            return _COMPARISONS[head](*map(at_start, values))
        if head == "!":
            truth = at_start(values[0])
            return not truth if isinstance(truth, bool) else ~truth
        if head == "isnan":
            return _ops["isnan"](as_tensor(at_start(values[0])))
        if head == "?:":
            dtype = getattr(self.names["y"][0], "dtype", _C.float64)
            return Choice(values[0], as_series(values[1]), as_series(values[2]), dtype)
        if not any(isinstance(v, Series) for v in values):
            return _constant(head, values)
        if head == "neg":
            return Map(lambda c, _: -c, as_series(values[0]))
        a, b = (as_series(v) for v in (values if len(values) == 2 else (values[0], 0.0)))
        if head in "+-":
            return Sum(a, b, 1 if head == "+" else -1)
        if head == "*":
            return Product(a, b)
        if head == "/":
            return Quotient(a, b)
        return pointwise(_FUNCTIONS.get(head, head), values, self.made)


def _number(value: Any) -> Any:
    """A truth counts as one in arithmetic."""
    return value * 1.0 if isinstance(value, _C.Tensor) and not value.is_floating_point() else value


def as_tensor(value: Any) -> Any:
    return value if isinstance(value, _C.Tensor) else _ops["full"]((), value, dtype=_C.float64)


def _constant(head: str, values: list[Any]) -> Any:
    if head == "neg":
        return -values[0]
    if head in "+-*/":
        a, b = map(_number, values)
        return a + b if head == "+" else a - b if head == "-" else a * b if head == "*" else a / b
    return _of_tensors(function_of(_FUNCTIONS.get(head, head)), values)


def _of_tensors(function: Callable[..., Any], values: Sequence[Any]) -> Any:
    """A function of tensors, of numbers too: then the result is a number."""
    dtype = next((v.dtype for v in values if isinstance(v, _C.Tensor)), None)
    wide = _C.float64 if dtype is None else dtype
    result = function(
        *(v if isinstance(v, _C.Tensor) else _ops["full"]((), v, dtype=wide) for v in values)
    )
    return result.item() if dtype is None else result


def function_of(name: str) -> Callable[..., Any]:
    for space in ("", "special", "nn.functional"):
        if name in _C._namespaces.get(space, {}):
            return _C._namespaces[space][name]
    raise KeyError(name)


@functools.cache
def is_readable(name: str) -> bool:
    """Whether the partials of an op are made of ops alone, and theirs too; some are of functions
    that exist for formulas only."""
    waiting, seen = [name], {name}
    while waiting:
        for entry in formulas().get(waiting.pop(), ()):
            trees = list(entry["partials"])
            while trees:
                tree = trees.pop()
                if not isinstance(tree, tuple):
                    continue
                trees += tree[1:]
                head = _FUNCTIONS.get(tree[0], tree[0])
                if head in seen or head in _OPERATORS or head in _COMPARISONS:
                    continue
                if head not in formulas() or not any(head in s for s in _C._namespaces.values()):
                    return False
                seen.add(head)
                waiting.append(head)
    return True


def pointwise(name: str, values: Sequence[Any], made: dict[Any, Series]) -> Series:
    """A pointwise function of series, one for each set of arguments."""
    key = (name, *(id(v) if isinstance(v, Series) else v for v in values))
    if key not in made:
        made[key] = _pointwise(name, values, made)
    return made[key]


def _pointwise(name: str, values: Sequence[Any], made: dict[Any, Series]) -> Series:
    function = function_of(name)
    if name == "polygamma":
        x, order = values
        entry = formulas()["polygamma"][0]
        return Pointwise(entry, lambda v: function(int(order), v), [x], [order], made)
    entry = formulas()[name][0]
    series = [as_series(v) for v in values]
    return Pointwise(entry, function, series, [], made)
