"""Signatures of ops as text, ``mylib::scale(Tensor x, float by=1.0) -> Tensor``, and as objects."""

from __future__ import annotations

import ast
import re

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class Type(str):
    """The type of an argument; its text is PyTorch's in signatures."""

    @property
    def annotation_str(self) -> str:
        return str(self)

    def kind(self) -> str:
        """PyTorch's name for the kind of type."""
        if self.endswith("?"):
            return "OptionalType"
        if "[" in self:
            return "ListType"
        kinds = {
            "Tensor": "TensorType", "int": "IntType", "SymInt": "SymIntType", "bool": "BoolType",
            "float": "FloatType", "Scalar": "NumberType", "number": "NumberType",
            "str": "StringType", "Device": "DeviceObjType",
        }  # fmt: skip
        return kinds.get(str(self), "AnyType")


class AliasInfo:
    """Which argument shares memory with which result, and whether it is written to."""

    def __init__(self, text: str) -> None:
        self.is_write = text.endswith("!")
        self.before_set = self.after_set = {text.rstrip("!")}

    def __str__(self) -> str:
        return "".join(self.before_set) + ("!" if self.is_write else "")


class Argument:
    """One argument or result of a signature."""

    def __init__(
        self,
        name: str,
        type: str,
        default: Any = None,
        has_default: bool = False,
        kwarg_only: bool = False,
        alias: str | None = None,
    ) -> None:
        self.name = name
        self.type = self.real_type = Type(type)
        self.default_value = default
        self.kwarg_only = kwarg_only
        self.alias_info = AliasInfo(alias) if alias else None
        self.is_out = kwarg_only and self.is_write
        self.N = None
        self._has_default = has_default

    @property
    def is_write(self) -> bool:
        return self.alias_info is not None and self.alias_info.is_write

    def has_default_value(self) -> bool:
        return self._has_default

    def __str__(self) -> str:
        kind = str(self.type)
        if self.alias_info is not None:
            kind = re.sub(r"^Tensor", f"Tensor({self.alias_info})", kind)
        text = f"{kind} {self.name}".strip()
        return f"{text}={_default_text(self.default_value)}" if self._has_default else text

    __repr__ = __str__


def _default_text(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) and not _is_word(value) else str(value)


class Word(str):
    """A default that is a name and no text: ``contiguous_format``."""


def _is_word(value: str) -> bool:
    return isinstance(value, Word)


_ARGUMENT = re.compile(
    r"(?P<type>\w+(?:\((?P<alias>[^)]*)\))?(?:\[\d*\]|\?)*)(?:\s+(?P<name>\w+))?(?:=(?P<default>.*))?$"
)


def _default(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return Word(text)


def _split(text: str) -> list[str]:
    """At the commas that stand in no bracket or quote."""
    parts, depth, quoted = [""], 0, False
    for letter in text:
        if letter in "\"'":
            quoted = not quoted
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def _argument(text: str, kwarg_only: bool) -> Argument:
    found = _ARGUMENT.match(text)
    if found is None:
        raise RuntimeError(f"schema: cannot read the argument {text!r}")
    kind, alias = found["type"], found["alias"]
    if alias is not None:
        kind = kind.replace(f"({alias})", "", 1)
        alias = alias.partition(" ->")[0]
    given = found["default"]
    default = None if given is None else _default(given)
    return Argument(found["name"] or "", kind, default, given is not None, kwarg_only, alias)


class FunctionSchema:
    """The signature of an op."""

    def __init__(
        self,
        name: str,
        overload_name: str,
        arguments: Sequence[Argument],
        returns: Sequence[Argument],
    ) -> None:
        self.name = name
        self.overload_name = overload_name
        self.arguments = list(arguments)
        self.returns = list(returns)
        self._text: str | None = None  # as it was read

    @classmethod
    def parse(cls, text: str) -> FunctionSchema:
        """Reads a signature."""
        head, bracket, rest = text.strip().partition("(")
        close = _closing(rest)
        arrow = rest[close + 1 :].strip()
        if not bracket or not arrow.startswith("->") or not re.fullmatch(r"[\w:.]+", head.strip()):
            raise RuntimeError(f"schema: expected 'name(Type argument, ...) -> Type', got {text!r}")
        name, _, overload = head.strip().partition(".")
        arguments, keywords = [], False
        for part in _split(rest[:close]):
            if part == "*":
                keywords = True
            else:
                arguments.append(_argument(part, keywords))
        results = arrow[2:].strip()
        whole = results.startswith("(") and results.endswith(")")
        returns = [_argument(part, False) for part in _split(results[1:-1] if whole else results)]
        schema = cls(name, overload, arguments, returns)
        schema._text = text.strip()
        return schema

    @property
    def is_mutable(self) -> bool:
        """Whether an argument is written to."""
        return any(argument.is_write for argument in self.arguments)

    def written(self) -> list[str]:
        """The names of the arguments that are written to."""
        return [argument.name for argument in self.arguments if argument.is_write]

    def __str__(self) -> str:
        if self._text is not None:
            return self._text
        texts, keywords = [], False
        for argument in self.arguments:
            if argument.kwarg_only and not keywords:
                texts.append("*")
                keywords = True
            texts.append(str(argument))
        results = ", ".join(map(str, self.returns))
        if len(self.returns) != 1:
            results = f"({results})"
        name = f"{self.name}.{self.overload_name}" if self.overload_name else self.name
        return f"{name}({', '.join(texts)}) -> {results}"

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionSchema) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


def _closing(text: str) -> int:
    """Where the bracket closes that was opened before the text."""
    depth = 1
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return at
    raise RuntimeError(f"schema: a bracket is not closed in {text!r}")
