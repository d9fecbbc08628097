"""How the pickles of a file are read: by the machine that runs nothing, or by Python's."""

from __future__ import annotations

import contextlib
import pickletools
import warnings
from typing import Any

from rushlight._serialization.allowed import UnknownGlobal, allowed_globals, known, python3_name
from rushlight._serialization.trusted import get_force_weights_only, unpickler
from rushlight._serialization.unpickling import Unpickler


class Unpickling:
    """Reads pickles; trusted ones may run code, with the unpickler of ``pickle_module``."""

    def __init__(
        self, trusted: bool, encoding: str, pickle_module: Any = None, **options: Any
    ) -> None:
        self._trusted = trusted
        self._encoding = encoding
        self._pickle_module = pickle_module
        self._options = options

    def read(self, file: Any, size: int, persistent_load: Any) -> Any:
        """The object of a pickle that has at most ``size`` bytes."""
        if self._trusted:
            options = {**self._options, "encoding": self._encoding}
            return unpickler(file, persistent_load, self._pickle_module, **options).load()
        start = file.tell()
        try:
            return Unpickler(file, size, persistent_load, self._encoding).load()
        except UnknownGlobal as error:
            names = error.names
            with contextlib.suppress(ValueError), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of odd escapes in a damaged name
                file.seek(start)
                names = unknown_in_pickle(file.read(size)) or names
            raise UnknownGlobal(names, get_force_weights_only()) from None


def unknown_in_pickle(data: bytes) -> list[str]:
    """The names in a pickle that are neither known nor allowed."""
    allowed = allowed_globals()
    return sorted(n for n in _names(data) if known(n) is None and n not in allowed)


def _names(data: bytes) -> set[str]:
    """Every global that a pickle names; nothing is built."""
    names: set[str] = set()
    memo: dict[int, Any] = {}
    strings: list[Any] = [None, None]  # the last two values that were pushed as text
    protocol = 0
    operations: Any = pickletools.genops(data)
    for opcode, argument, _ in operations:
        if opcode.name == "PROTO":
            protocol = argument
        elif opcode.name == "GLOBAL":
            module, _, name = argument.partition(" ")
            names.add(".".join(python3_name(module, name) if protocol < 3 else (module, name)))
        elif opcode.name == "STACK_GLOBAL":
            names.add(f"{strings[-2]}.{strings[-1]}")
        elif opcode.name == "MEMOIZE":
            memo[len(memo)] = strings[-1]
        elif opcode.name in ("BINPUT", "LONG_BINPUT", "PUT"):
            memo[int(argument)] = strings[-1]
        elif opcode.name in ("BINGET", "LONG_BINGET", "GET"):
            strings = [strings[-1], memo.get(int(argument))]
        elif isinstance(argument, str):
            strings = [strings[-1], argument]
    return names
