"""The namespace ``torch.ops.aten``: PyTorch's names and signatures over the ops that exist here.

``aten.txt`` has the signatures. An op of the same name computes, found in the top namespace, among
the methods or in ``nn.functional``; where the order of arguments differs, ``aten_calls`` says how.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from rushlight._C import Tensor
from rushlight._operators.overloads import OpOverloadPacket
from rushlight._operators.schema import FunctionSchema

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_SPACES = ("special", "linalg", "fft")  # aten::special_erf is torch.special.erf


@cache
def _signatures() -> dict[str, list[tuple[bool, str]]]:
    """For each name: whether PyTorch composes the op of others, and its signature."""
    found: dict[str, list[tuple[bool, str]]] = {}
    text = Path(__file__).with_name("aten.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        signature = line.removeprefix("* ")
        name = signature.partition("(")[0].partition(".")[0]
        found.setdefault(name, []).append((line.startswith("* "), signature))
    return found


def names() -> set[str]:
    """The names that can be called."""
    return {name for name in _signatures() if implementation(name) is not None}


def composite(name: str) -> bool:
    """Whether PyTorch composes the op of others."""
    return any(flag for flag, _ in _signatures().get(name, ()))


@cache
def implementation(name: str) -> Any:
    """What computes an op of aten, or None."""
    import rushlight
    from rushlight import _internals
    from rushlight._operators import aten_calls

    for module in (aten_calls, _internals):
        found = vars(module).get(name)
        if callable(found) and getattr(found, "__module__", "") == module.__name__:
            return found
    space, _, rest = name.partition("_")
    if space in _SPACES and rest:
        return getattr(getattr(rushlight, space, None), rest, None)
    if name.endswith("_"):
        found = getattr(Tensor, name, None) or getattr(rushlight.nn.functional, name, None)
        base = None if found else implementation(name[:-1])
        return _written(base) if base else found
    for home in (rushlight, Tensor, rushlight.nn.functional):
        found = getattr(home, name, None)
        if callable(found):
            return found
    return None


def _written(function: Callable[..., Any]) -> Callable[..., Any]:
    """The op in place, where there is no other form of it."""

    def inplace(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return self.copy_(function(self, *args, **kwargs))

    return inplace


def _caller(function: Callable[..., Any], schema: FunctionSchema) -> Callable[..., Any]:
    """Calls the function with arguments as the signature orders them; defaults are left out."""
    places = [a.name for a in schema.arguments if not a.kwarg_only]
    defaults = {a.name: a.default_value for a in schema.arguments}
    factor = places.index("alpha") if "alpha" in places else len(places)

    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) > len(places):
            raise RuntimeError(
                f"{schema.name}() expected at most {len(places)} argument(s) but received "
                f"{len(args)} argument(s). Declaration: {schema}"
            )
        named = {}
        rest = dict.fromkeys(places[len(args) :])
        for name, value in kwargs.items():
            if name in rest:
                rest[name] = value
            elif name == "out":
                named[name] = value
            elif name not in defaults or name in places:
                raise RuntimeError(
                    f"{schema.name}(): Unknown keyword argument '{name}'. Declaration: {schema}"
                )
            elif value is not None:
                named[name] = value
        given = list(args)
        last = max((places.index(n) for n in kwargs if n in rest), default=len(args) - 1)
        for name in places[len(args) : last + 1]:
            given.append(kwargs.get(name, defaults[name]))
        if factor < len(given):  # a keyword in Python, whatever the signature says
            named["alpha"] = given.pop(factor)
        return function(*given, **named)

    return call


def packet(name: str) -> OpOverloadPacket | None:
    """The op with all its signatures, or None where it does not exist here."""
    known = _signatures().get(name)
    function = implementation(name) if known else None
    if known is None or function is None:
        return None
    made = OpOverloadPacket("aten", name)
    # A number that is a tensor of no dimensions is a tensor where there is a choice.
    for _, text in sorted(known, key=lambda each: each[1].count("Scalar ")):
        schema = FunctionSchema.parse(f"aten::{text}")
        made.add(schema, _caller(function, schema))
    if "out" not in made.overloads() and not name.endswith("_"):
        first = FunctionSchema.parse(f"aten::{known[0][1]}")
        from rushlight._operators.schema import Argument

        if [str(r.type) for r in first.returns] == ["Tensor"]:
            out = Argument("out", "Tensor", kwarg_only=True, alias="a!")
            schema = FunctionSchema(first.name, "out", [*first.arguments, out], first.returns)
            made.add(schema, _caller(function, schema))
    return made
