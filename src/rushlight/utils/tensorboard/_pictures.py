"""Pictures and sounds as files in memory, without a library."""

from __future__ import annotations

import struct
import zlib

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

    from rushlight._C import Tensor

_COLORS = {1: 0, 2: 4, 3: 2, 4: 6}  # channels: PNG's type of colour


def png(pixels: Any) -> bytes:
    """A PNG of a tensor of bytes (height, width, channels)."""
    height, width, channels = pixels.shape
    rows = bytes(pixels.contiguous().flatten().tolist())
    line = width * channels
    lines = b"".join(b"\0" + rows[i * line : (i + 1) * line] for i in range(height))

    def part(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    header = struct.pack(">IIBBBBB", width, height, 8, _COLORS[channels], 0, 0, 0)
    body = part(b"IHDR", header) + part(b"IDAT", zlib.compress(lines)) + part(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def wav(sound: Any, rate: int) -> bytes:
    """A WAV of 16 bits of a vector of numbers between -1 and 1."""
    samples = (sound.float().clamp(-1, 1) * 32767).round().to(dtype=_int16()).tolist()
    data = struct.pack(f"<{len(samples)}h", *samples)
    head = struct.pack("<4sI4s4sIHHIIHH", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, 1, 1, rate,
                       rate * 2, 2, 16)  # fmt: skip
    return head + struct.pack("<4sI", b"data", len(data)) + data


def _int16() -> Any:
    from rushlight import _C

    return _C.int16


def rows_columns_channels(picture: Tensor, dataformats: str) -> Tensor:
    """A picture in the order height, width, channels; several become one, side by side."""
    formats = dataformats.upper()
    if len(formats) != picture.dim() or len(set(formats)) != len(formats):
        raise ValueError(
            f"size of input tensor and input format are different: tensor shape: "
            f"{tuple(picture.shape)}, input_format: {dataformats}"
        )
    if not set(formats) <= set("NHWC"):
        raise ValueError(f"add_image: dataformats are made of N, H, W and C, got {dataformats!r}")
    if formats == "HW":
        picture, formats = picture.unsqueeze(-1), "HWC"
    if "N" not in formats:
        picture, formats = picture.unsqueeze(0), "N" + formats
    picture = picture.permute([formats.index(letter) for letter in "NHWC"])
    count, height, width, channels = picture.shape
    columns = min(count, 8)
    rows = -(-count // columns)
    if rows * columns > count:
        blank = picture.new_zeros(rows * columns - count, height, width, channels)
        from rushlight import _C

        picture = _C._namespaces[""]["cat"]([picture, blank])
    grid = picture.reshape(rows, columns, height, width, channels).permute(0, 2, 1, 3, 4)
    return grid.reshape(rows * height, columns * width, channels)
