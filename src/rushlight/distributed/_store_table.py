"""What a store holds, and the commands that every kind of store answers."""

from __future__ import annotations

import struct
from collections import deque
from typing import Any


class Table:
    """Keys, values and queues. ``run`` answers a command, or None: its keys are not there yet."""

    def __init__(self, keeps_journal: bool = False) -> None:
        self.values: dict[bytes, bytes] = {}
        self.queues: dict[bytes, deque[bytes]] = {}
        self.journal: list[bytes] = []  # what the commands changed, for a file
        self.keeps_journal = keeps_journal

    def run(self, command: str, arguments: tuple[bytes, ...] | list[bytes]) -> list[bytes] | None:
        return _COMMANDS[command](self, *arguments)

    def write(self, kind: bytes, key: bytes, value: bytes = b"") -> None:
        """The one way to change the table: set, delete, push or pop."""
        if kind == b"=":
            self.values[key] = value
        elif kind == b"-":
            self.values.pop(key, None)
        elif kind == b">":
            self.queues.setdefault(key, deque()).append(value)
        else:
            self.queues[key].popleft()
        if self.keeps_journal:
            self.journal.append(struct.pack("<cII", kind, len(key), len(value)) + key + value)

    def replay(self, data: bytes) -> None:
        """Applies a journal."""
        at = 0
        while at < len(data):
            kind, keys, values = struct.unpack_from("<cII", data, at)
            at += 9
            self.write(kind, data[at : at + keys], data[at + keys : at + keys + values])
            at += keys + values


def _set(table: Table, *pairs: bytes) -> list[bytes]:
    for key, value in zip(pairs[::2], pairs[1::2], strict=True):
        table.write(b"=", key, value)
    return []


def _get(table: Table, *keys: bytes) -> list[bytes] | None:
    found = [table.values.get(key) for key in keys]
    return None if any(value is None for value in found) else found  # type: ignore[return-value]


def _wait(table: Table, *keys: bytes) -> list[bytes] | None:
    return [] if all(key in table.values or table.queues.get(key) for key in keys) else None


def _check(table: Table, *keys: bytes) -> list[bytes]:
    return [b"0" if _wait(table, *keys) is None else b"1"]


def _add(table: Table, key: bytes, amount: bytes) -> list[bytes]:
    value = b"%d" % (int(table.values.get(key, b"0")) + int(amount))
    table.write(b"=", key, value)
    return [value]


def _append(table: Table, key: bytes, value: bytes) -> list[bytes]:
    table.write(b"=", key, table.values.get(key, b"") + value)
    return []


def _compare_set(table: Table, key: bytes, expected: bytes, desired: bytes) -> list[bytes]:
    there = table.values.get(key)
    if there == expected or (there is None and not expected):
        table.write(b"=", key, desired)
        return [desired]
    return [expected if there is None else there]


def _delete(table: Table, key: bytes) -> list[bytes]:
    if key not in table.values:
        return [b"0"]
    table.write(b"-", key)
    return [b"1"]


def _push(table: Table, key: bytes, value: bytes) -> list[bytes]:
    table.write(b">", key, value)
    return []


def _pop(table: Table, key: bytes) -> list[bytes] | None:
    queue = table.queues.get(key)
    if not queue:
        return None
    value = queue[0]
    table.write(b"<", key)
    return [value]


_COMMANDS: dict[str, Any] = {
    "set": _set,
    "get": _get,
    "wait": _wait,
    "check": _check,
    "add": _add,
    "append": _append,
    "compare_set": _compare_set,
    "delete": _delete,
    "count": lambda table: [b"%d" % len(table.values)],
    "push": _push,
    "pop": _pop,
    "length": lambda table, key: [b"%d" % len(table.queues.get(key, ()))],
}
