"""What the doctor reports: a finding, and the line of the program it is about."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

# From the worst to the mildest: the first makes the command fail.
SEVERITIES = ("serious", "warning", "note")

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class Place(NamedTuple):
    """A line of the user's program."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{shown(self.file)}:{self.line}"

    @property
    def source(self) -> str:
        """The text of the line, or an empty string."""
        import linecache

        return linecache.getline(self.file, self.line).strip()


def shown(file: str) -> str:
    """A path as the reader would type it: relative where that is shorter."""
    try:
        relative = os.path.relpath(file)
    except ValueError:  # another drive
        return file
    return file if relative.startswith("..") or not os.path.isabs(file) else relative


def is_ours(frame: Any) -> bool:
    """Whether a frame belongs to the library rather than to the program."""
    file = frame.f_code.co_filename
    return bool(file.startswith((PACKAGE, "<frozen")))


def user_place(depth: int = 1) -> Place | None:
    """The innermost line of the program that led here."""
    frame: Any = sys._getframe(depth)
    while frame is not None and is_ours(frame):
        frame = frame.f_back
    if frame is None:
        return None
    return Place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def of_node(node: Any) -> Place | None:
    """The line whose operation recorded a node."""
    where = node._where
    return Place(*where) if where else None


@dataclass
class Finding:
    """One mistake: its name, how bad it is, where, the numbers that show it, and the fix.

    >>> from rushlight.doctor import Finding
    >>> found = Finding("grads-not-cleared", "serious", "gradients add up", fix="zero_grad()")
    >>> found.name, found.severity, found.place
    ('grads-not-cleared', 'serious', None)
    """

    name: str
    severity: str
    message: str
    place: Place | None = None
    evidence: dict[str, Any] = field(default_factory=dict)
    fix: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        values = asdict(self)
        values["place"] = self.place and {**self.place._asdict(), "source": self.place.source}
        return values


def number(value: float) -> str:
    """A figure to be read: 12,345 or 0.00123 or 1.2e-09."""
    if isinstance(value, int):
        return f"{value:,}"
    size = abs(value)
    return f"{value:,.0f}" if 1000 <= size < 1e7 else f"{value:.3g}"


def size_text(count: float) -> str:
    """Bytes as text."""
    for unit in ("bytes", "KiB", "MiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
