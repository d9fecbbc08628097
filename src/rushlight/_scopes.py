"""Blocks whose class states in ``_parts_of`` what they set, and with that their arguments."""

from __future__ import annotations

from rushlight import _C

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from inspect import Signature
    from typing import Any


class _Arguments:
    """``inspect.signature`` of the class: there is no ``__init__`` that would tell it."""

    def __get__(self, instance: Any, owner: Any) -> Signature:
        if instance is not None or owner._parts_of is None:
            raise AttributeError("__signature__")
        import inspect

        if isinstance(owner._parts_of, tuple):
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
            return inspect.Signature([inspect.Parameter("function", kind, default=None)])
        parts = inspect.signature(owner._parts_of)
        return parts.replace(return_annotation=inspect.Signature.empty)


class Block(_C._Scope):
    """A scope that is entered with the arguments of its class."""

    __signature__ = _Arguments()
