"""The process that starts ranks on a machine, prints what they print, and ends them together."""

from __future__ import annotations

import collections
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import IO, Any

_PATIENCE = 3.0  # seconds between asking a process to end and ending it
_TAIL = 400  # lines of a rank's errors that are kept, to show its traceback at the end


def _die_with_parent() -> None:
    """In a new rank: the kernel ends it if the launcher is killed."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))


class Rank:
    """A rank's process; threads pass its output on, each line with the rank's number."""

    def __init__(
        self, command: list[str], env: dict[str, str], rank: int, label: bool, logs: Any
    ) -> None:
        self.rank = rank
        self.ended: float | None = None
        self.errors: collections.deque[str] = collections.deque(maxlen=_TAIL)
        self._label = f"[rank{rank}]: " if label else ""
        self.process = subprocess.Popen(
            command,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=_die_with_parent,
        )
        streams = ((self.process.stdout, sys.stdout, None), (self.process.stderr, sys.stderr, 1))
        self._threads = []
        for i, (source, target, kept) in enumerate(streams):
            arguments = (source, target, kept is not None, logs(i))
            thread = threading.Thread(target=self._pass_on, args=arguments, daemon=True)
            thread.start()
            self._threads.append(thread)

    def _pass_on(
        self, source: IO[bytes], target: IO[str], keep: bool, log: tuple[Any, bool]
    ) -> None:
        file, shown = log
        for line in source:
            text = line.decode(errors="replace")
            if keep:
                self.errors.append(text)
            if file is not None:
                file.write(text)
                file.flush()
            if shown:
                with contextlib.suppress(BrokenPipeError, ValueError):
                    target.write(self._label + text)
                    target.flush()
        source.close()
        if file is not None:
            file.close()

    def poll(self) -> int | None:
        """The exit status, once there is one."""
        code = self.process.poll()
        if code is not None and self.ended is None:
            self.ended = time.monotonic()
        return code

    def drain(self) -> None:
        """Waits for the rest of the output."""
        for thread in self._threads:
            thread.join(2.0)

    def traceback(self) -> str:
        """The last traceback that the rank printed."""
        lines = list(self.errors)
        starts = [i for i, line in enumerate(lines) if line.startswith("Traceback (most recent")]
        return "".join(lines[starts[-1] :]) if starts else ""


def end(ranks: list[Rank]) -> None:
    """Ends all processes: asks, then kills."""
    for number, limit in ((signal.SIGTERM, _PATIENCE), (signal.SIGKILL, 10.0)):
        for rank in ranks:
            if rank.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    rank.process.send_signal(number)
        until = time.monotonic() + limit
        while any(rank.poll() is None for rank in ranks) and time.monotonic() < until:
            time.sleep(0.01)
    for rank in ranks:
        rank.drain()


def how(code: int) -> str:
    """An exit status in words."""
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def report(failed: Rank, restarts: int) -> str:
    """What the user sees last: which rank failed first, and its traceback."""
    code = failed.poll()
    text = f"rushlight launch: rank {failed.rank} failed first: it {how(code or 0)}"
    if restarts:
        text += f" (after {restarts} restart{'s' if restarts > 1 else ''})"
    trace = failed.traceback()
    return f"{text}\n{trace}" if trace else text + "\n"


def watch(ranks: list[Rank], stop: Any, interval: float) -> Rank | None:
    """Waits for the end of all; the rank that failed first, if one did. ``stop()`` ends early."""
    while True:
        codes = [rank.poll() for rank in ranks]
        bad = [rank for rank, code in zip(ranks, codes, strict=True) if code not in (None, 0)]
        if bad:
            return min(bad, key=lambda rank: rank.ended or 0.0)
        if all(code == 0 for code in codes) or stop():
            return None
        time.sleep(interval)


class Logs:
    """Where the output of ranks goes: to the terminal, to files, or both."""

    def __init__(self, folder: str | None, redirects: str, tee: str) -> None:
        self._folder = folder
        self._redirects, self._tee = _choices(redirects), _choices(tee)

    def of(self, attempt: int, local_rank: int, shown: bool) -> Any:
        """For stream 0 or 1 of a rank: an open file or None, and whether it is printed."""

        def stream(index: int) -> tuple[Any, bool]:
            bit = index + 1
            redirect = self._redirects(local_rank) & bit
            tee = self._tee(local_rank) & bit
            if self._folder is None or not (redirect or tee):
                return None, shown
            path = os.path.join(self._folder, f"attempt_{attempt}", str(local_rank))
            os.makedirs(path, exist_ok=True)
            file = open(os.path.join(path, ("stdout", "stderr")[index] + ".log"), "w")  # noqa: SIM115
            return file, shown and (bool(tee) or not redirect)

        return stream


def _choices(text: str) -> Any:
    """`3`, or `0:3,1:1` by local rank: 1 is stdout, 2 stderr, 3 both."""
    if ":" not in text:
        return lambda rank: int(text)
    by_rank = {int(a): int(b) for a, b in (part.split(":") for part in text.split(","))}
    return lambda rank: by_rank.get(rank, 0)
