"""What commands show on a terminal: colour where it is wanted, progress where there is a wait."""

from __future__ import annotations

import os
import sys
import time
from typing import Any, TextIO

_CODES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "blue": 34, "cyan": 36}
_WIDTH = 24


def is_terminal(stream: TextIO) -> bool:
    """Whether a line can be drawn over there."""
    return bool(getattr(stream, "isatty", bool)()) and os.environ.get("TERM") != "dumb"


def in_colour(stream: TextIO) -> bool:
    """On a terminal, unless NO_COLOR is set (https://no-color.org)."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def paint(text: str, *styles: str, stream: TextIO | None = None) -> str:
    """The text in bold, dim or a colour, when the stream (standard output) shows colours.

    >>> from rushlight._terminal import paint
    >>> paint("ok", "bold", "green")
    'ok'
    """
    if not styles or not in_colour(stream or sys.stdout):
        return text
    return f"\x1b[{';'.join(str(_CODES[style]) for style in styles)}m{text}\x1b[0m"


def duration(seconds: float) -> str:
    """A time to wait, as people say it.

    >>> from rushlight._terminal import duration
    >>> duration(7.4), duration(100), duration(4000)
    ('7 s', '1 min 40 s', '1 h 06 min')
    """
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


class Progress:
    """How far something is and how long it will still take.

    Shows nothing before `delay` seconds: most work is done by then. On a terminal it is one line
    that is drawn over, tqdm's when that is installed; on a file or pipe, a line now and then.

    >>> from rushlight._terminal import Progress
    >>> with Progress(3, "files") as progress:
    ...     for done in range(1, 4):
    ...         progress.update(done)
    """

    def __init__(
        self,
        total: int,
        what: str = "",
        *,
        stream: TextIO | None = None,
        delay: float = 2.0,
        unit: str = "",
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._total, self._what, self._delay, self._unit = max(total, 1), what, delay, unit
        self._live = is_terminal(self._stream)
        self._began = time.perf_counter()
        self._drawn, self._told, self._shown = 0.0, 0, False
        self._bar: Any = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def update(self, done: int, note: str = "", share: float | None = None) -> None:
        """Says how much is done; `share` when that is not `done / total`."""
        now = time.perf_counter()
        part = min(1.0, done / self._total if share is None else share)
        if now - self._began < self._delay:
            return
        if not self._live:
            self._tell(done, part, note, now)
        elif now - self._drawn >= 0.1 or part >= 1:
            self._drawn = now
            self._draw(done, part, note, now)

    def close(self) -> None:
        """Ends the line."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
        elif self._shown and self._live:
            self._stream.write("\n")
            self._stream.flush()
        self._shown = False

    def _tell(self, done: int, part: float, note: str, now: float) -> None:
        if int(8 * part) > self._told or (part >= 1 and self._told < 8):
            self._told = 8 if part >= 1 else int(8 * part)
            self._stream.write(f"{self._line(done, part, note, now)}\n")
            self._stream.flush()

    def _draw(self, done: int, part: float, note: str, now: float) -> None:
        if self._bar is None and not self._shown:
            self._bar = _tqdm(self._stream, self._what)
        self._shown = True
        if self._bar is not None:
            self._bar.start_t = time.time() - (now - self._began)
            self._bar.n = 100 * part
            self._bar.set_postfix_str(note, refresh=False)
            self._bar.refresh()
            return
        unicode = (getattr(self._stream, "encoding", None) or "").lower().startswith("utf")
        full, rest = ("━", "─") if unicode else ("#", "-")
        filled = int(_WIDTH * part)
        bar = full * filled + rest * (_WIDTH - filled)
        self._stream.write(f"\r  {bar} {self._line(done, part, note, now).strip()}\x1b[K")
        self._stream.flush()

    def _line(self, done: int, part: float, note: str, now: float) -> str:
        counted = f"{done:>{len(str(self._total))}}/{self._total}"
        counted = f"{counted} {self._unit}".rstrip()
        left = (now - self._began) * (1 - part) / part if part > 0 else 0.0
        wait = f"{duration(left)} left" if part < 1 else duration(now - self._began)
        return "  " + "  ".join(text for text in (self._what, counted, note, wait) if text)


def _tqdm(stream: TextIO, what: str) -> Any:
    """tqdm's bar, or None where it is not installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    form = "  {desc}{percentage:3.0f}% {bar} {elapsed}, {remaining} left {postfix}"
    return tqdm(total=100, desc=what, file=stream, bar_format=form, leave=True)
