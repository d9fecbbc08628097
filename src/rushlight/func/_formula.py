"""The formulas of pointwise ops, as the registry prints them, read into trees.

A formula is an expression of C: numbers, names, calls, arithmetic, comparisons, `&&`, `||`, `!` and
`?:`. A tree is a number, a name, or a tuple whose first item says what is done to the others.
"""

from __future__ import annotations

import functools
import re

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

_TOKEN = re.compile(r"\s*(\d+\.?\d*(?:e[+-]?\d+)?|\w+|&&|\|\||[<>=!]=|[-+*/<>!?:(),])")
# Binary operators by how tightly they bind, loosest first.
_LEVELS = (("||",), ("&&",), ("==", "!="), ("<", "<=", ">", ">="), ("+", "-"), ("*", "/"))


class _Reader:
    def __init__(self, text: str) -> None:
        self.tokens = _TOKEN.findall(text)
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def choice(self) -> Any:
        condition = self.binary(0)
        if self.peek() != "?":
            return condition
        self.take()
        first = self.choice()
        self.take()
        return ("?", condition, first, self.choice())

    def binary(self, level: int) -> Any:
        if level == len(_LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while self.peek() in _LEVELS[level]:
            left = (self.take(), left, self.binary(level + 1))
        return left

    def unary(self) -> Any:
        token = self.take()
        if token == "-":
            return ("neg", self.unary())
        if token == "!":
            return ("!", self.unary())
        if token == "(":
            inside = self.choice()
            self.take()
            return inside
        if token[0].isdigit():
            return float(token)
        if self.peek() != "(":
            return token
        self.take()
        arguments = [self.choice()]
        while self.take() == ",":
            arguments.append(self.choice())
        return (token, *arguments)


@functools.cache
def parse(text: str) -> Any:
    """The tree of a formula.

    >>> from rushlight.func._formula import parse
    >>> parse("(1 - (y * y))")
    ('-', 1.0, ('*', 'y', 'y'))
    >>> parse("((a < 0) ? 0 : exp(a))")
    ('?', ('<', 'a', 0.0), 0.0, ('exp', 'a'))
    """
    return _Reader(text).choice()
