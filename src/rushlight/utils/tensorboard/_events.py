"""Event files as TensorBoard reads them: protocol buffers in records, written without a library.

A record is its length, the masked CRC-32C of the length, the bytes, and their masked CRC-32C. The
messages are those of ``event.proto`` and ``summary.proto``; each function here gives one as bytes.
"""

from __future__ import annotations

import struct
from functools import cache

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any


# --- protocol buffers ------------------------------------------------------------------------


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    found = bytearray()
    while True:
        part, number = number & 0x7F, number >> 7
        found.append(part | (0x80 if number else 0))
        if not number:
            return bytes(found)


def _key(field: int, wire: int) -> bytes:
    return _varint(field << 3 | wire)


def whole(field: int, number: int) -> bytes:
    """A field that holds an integer."""
    return _key(field, 0) + _varint(number) if number else b""


def real(field: int, number: float) -> bytes:
    """A field that holds a float of 32 bits."""
    return _key(field, 5) + struct.pack("<f", number)


def double(field: int, number: float) -> bytes:
    """A field that holds a float of 64 bits."""
    return _key(field, 1) + struct.pack("<d", number)


def doubles(field: int, numbers: Sequence[float]) -> bytes:
    """A field that holds many of them."""
    return chunk(field, struct.pack(f"<{len(numbers)}d", *numbers))


def chunk(field: int, data: bytes | str) -> bytes:
    """A field that holds bytes, text or a message."""
    data = data.encode() if isinstance(data, str) else data
    return _key(field, 2) + _varint(len(data)) + data


# --- records ---------------------------------------------------------------------------------


@cache
def _table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


def masked_crc(data: bytes) -> int:
    """The CRC-32C, turned and shifted as the format wants it."""
    table, value = _table(), 0xFFFFFFFF
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ value >> 8
    value ^= 0xFFFFFFFF
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record(data: bytes) -> bytes:
    """A message as a file holds it."""
    length = struct.pack("<Q", len(data))
    checks = (struct.pack("<I", masked_crc(length)), struct.pack("<I", masked_crc(data)))
    return length + checks[0] + data + checks[1]


# --- messages --------------------------------------------------------------------------------


def event(
    wall_time: float,
    step: int = 0,
    summary: bytes = b"",
    version: str = "",
    graph: bytes = b"",
) -> bytes:
    """An event: a summary of a step, a graph, or the version that opens a file."""
    text = double(1, wall_time) + whole(2, step)
    if version:
        text += chunk(3, version)
    if graph:
        text += chunk(4, graph)
    return text + (chunk(5, summary) if summary else b"")


def graph(nodes: Iterable[tuple[str, str, Sequence[str], Sequence[int] | None]]) -> bytes:
    """A graph of nodes: name (with ``/`` between scopes), operation, names of inputs, shape."""
    found = b""
    for name, op, inputs, shape in nodes:
        node = chunk(1, name) + chunk(2, op) + b"".join(chunk(3, i) for i in inputs)
        if shape is not None:
            sizes = b"".join(chunk(2, whole(1, size)) for size in shape)
            value = chunk(1, chunk(7, sizes))
            node += chunk(5, chunk(1, "_output_shapes") + chunk(2, value))
        found += chunk(1, node)
    return found + chunk(4, whole(1, 22))


def _metadata(plugin: str, content: bytes = b"") -> bytes:
    data = chunk(1, plugin) + (chunk(2, content) if content else b"")
    return chunk(1, data)


def scalar(tag: str, number: float) -> bytes:
    """A summary with one number."""
    return chunk(1, chunk(1, tag) + real(2, number))


def tensor_of_text(tag: str, texts: Sequence[str], plugin: str, content: bytes = b"") -> bytes:
    """A summary with a vector of texts, for a plugin."""
    shape = chunk(2, chunk(2, whole(1, len(texts))))
    tensor = whole(1, 7) + shape + b"".join(chunk(8, text) for text in texts)
    return chunk(1, chunk(1, tag) + chunk(8, tensor) + chunk(9, _metadata(plugin, content)))


def tensor_of_numbers(
    tag: str, numbers: Sequence[float], shape: Sequence[int], plugin: str, content: bytes
) -> bytes:
    """A summary with a tensor of numbers, for a plugin."""
    sizes = b"".join(chunk(2, whole(1, size)) for size in shape)
    values = chunk(5, struct.pack(f"<{len(numbers)}f", *numbers))
    tensor = whole(1, 1) + chunk(2, sizes) + values
    return chunk(1, chunk(1, tag) + chunk(8, tensor) + chunk(9, _metadata(plugin, content)))


def histogram(
    tag: str,
    least: float,
    most: float,
    count: float,
    total: float,
    squares: float,
    limits: Sequence[float],
    counts: Sequence[float],
) -> bytes:
    """A summary with a histogram: right edges of bins and how many values fell into each."""
    facts = [least, most, count, total, squares]
    data = b"".join(double(i + 1, x) for i, x in enumerate(facts))
    data += doubles(6, limits) + doubles(7, counts)
    return chunk(1, chunk(1, tag) + chunk(5, data))


def image(tag: str, height: int, width: int, channels: int, png: bytes) -> bytes:
    """A summary with a picture."""
    data = whole(1, height) + whole(2, width) + whole(3, channels) + chunk(4, png)
    return chunk(1, chunk(1, tag) + chunk(4, data))


def audio(tag: str, rate: float, channels: int, frames: int, wav: bytes) -> bytes:
    """A summary with a sound."""
    data = real(1, rate) + whole(2, channels) + whole(3, frames)
    data += chunk(4, wav) + chunk(5, "audio/wav")
    return chunk(1, chunk(1, tag) + chunk(6, data))


def hyperparameters(
    values: dict[str, Any], metrics: Sequence[str], start: float
) -> tuple[bytes, bytes, bytes]:
    """The summaries that open and close a session of the hparams plugin."""

    def value_of(x: Any) -> bytes:
        if isinstance(x, bool):
            return whole(4, 1) if x else _key(4, 0) + b"\0"
        if isinstance(x, (int, float)):
            return double(2, float(x))
        return chunk(3, str(x))

    kinds = {bool: 2, int: 3, float: 3}
    infos = b"".join(
        chunk(4, chunk(1, name) + whole(4, kinds.get(type(x), 1))) for name, x in values.items()
    )
    infos += b"".join(chunk(5, chunk(1, chunk(2, metric))) for metric in metrics)
    entries = b"".join(
        chunk(1, chunk(1, name) + chunk(2, value_of(x))) for name, x in values.items()
    )

    def summary(tag: str, field: int, data: bytes) -> bytes:
        content = chunk(field, data)
        return chunk(1, chunk(1, tag) + chunk(9, _metadata("hparams", content)))

    session = entries + double(5, start)
    return (
        summary("_hparams_/experiment", 2, infos),
        summary("_hparams_/session_start_info", 3, session),
        summary("_hparams_/session_end_info", 4, whole(1, 1)),
    )
