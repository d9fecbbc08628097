"""Measures rushlight and PyTorch alternately in one run and prints both, their ratio and the bar.

Where PyTorch is not installed, the figures of rushlight stand alone.

A piece of work is a `Case`: a statement and a function that makes its names for a library. Each
round times a slice of the one library, then a slice of the other; the quickest round of each
counts, so that what else the machine does falls on neither alone.

Every script takes `--json FILE`, `--rounds N`, `--threads N`, `--only TEXT`, and `--subject NAME`
(another module in rushlight's place, for trying a script out).
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import math
import subprocess
import sys
import time
import timeit
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

PATIENCE = 0.02  # seconds in a slice of quick work; slow work runs once
HERE = Path(__file__).resolve().parent
INTERRUPTED = 130  # the exit status of who is interrupted, as shells have it


@dataclass
class Case:
    """Work that both libraries do; `bar` is the ratio that rushlight must reach."""

    name: str
    names: Callable[[Any], dict[str, Any]]
    statement: str = "work()"
    bar: float | None = None
    per: int = 1  # units of work in one execution of the statement
    flops: float | None = None  # shows a rate instead of a time


@dataclass
class Row:
    """A line of the table. `better` says whether more or less of the value is better."""

    name: str
    ours: float
    theirs: float | None
    unit: str
    bar: str = ""
    passed: bool | None = None
    better: str = "less"
    note: str = ""

    @property
    def ratio(self) -> float | None:
        if self.theirs is None or not self.ours or not self.theirs:
            return None
        return self.theirs / self.ours if self.better == "less" else self.ours / self.theirs


@dataclass
class Bench:
    """What a script's `rows` function is given."""

    subject: str
    rounds: int
    threads: int
    only: str
    libraries: dict[str, Any] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The libraries to measure: without PyTorch, the subject alone."""
        return [self.subject, *(["torch"] if importlib.util.find_spec("torch") else [])]

    def load(self) -> tuple[Any, Any]:
        """The subject, and PyTorch or None."""
        for name in self.names:
            if name not in self.libraries:
                library = importlib.import_module(name)
                library.set_num_threads(self.threads)
                self.libraries[name] = library
        return self.libraries[self.subject], self.libraries.get("torch")

    def wants(self, name: str) -> bool:
        return self.only in name

    def compare(self, case: Case) -> Row:
        timers = [
            timeit.Timer(case.statement, globals=case.names(library))
            for library in self.load()
            if library is not None
        ]
        a, *others = (spent / case.per for spent in _alternate(timers, self.rounds))
        b = others[0] if others else None
        passed = None if case.bar is None or b is None else b / a >= case.bar
        bar = "" if passed is None else f">= {case.bar:g}x"
        if case.flops:
            rate = case.flops * 1e-9
            theirs = None if b is None else rate / b
            return Row(case.name, rate / a, theirs, "GFLOP/s", bar, passed, better="more")
        return Row(case.name, a, b, "s", bar, passed)

    def compare_all(self, cases: Iterable[Case]) -> Iterable[Row]:
        for case in cases:
            if self.wants(case.name):
                yield self.compare(case)

    def child(self, code: str, *arguments: str, limit: str = "", check: bool = True) -> Any:
        """Runs a script's text in a fresh interpreter; returns the JSON of its last line.

        `limit` is a shell command to run first, such as `ulimit -s 256`.
        """
        command = [sys.executable, "-c", code, *arguments]
        if limit:
            command = ["bash", "-c", f'{limit} && exec "$@"', "bash", *command]
        done = subprocess.run(command, capture_output=True, text=True, cwd=HERE)
        if done.returncode != 0:
            if check:
                raise RuntimeError(f"a child failed ({done.returncode}):\n{done.stderr[-3000:]}")
            return None
        return json.loads(done.stdout.splitlines()[-1])


def peak_memory() -> int:
    """The most memory that this program had; getrusage counts what the process was before it."""
    return _status("VmHWM")


def resident_memory() -> int:
    """What it has now."""
    return _status("VmRSS")


def _status(field: str) -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0]) * 1024


def at_most(name: str, value: float, limit: float, unit: str, theirs: float | None = None) -> Row:
    """A row whose bar is a figure, not a ratio."""
    text = f"<= {_figure(limit, unit)}"
    return Row(name, value, theirs, unit, text, value <= limit)


def yes(name: str, value: bool, theirs: bool | None = None) -> Row:
    """A row whose bar is that something holds."""
    other = None if theirs is None else float(theirs)
    return Row(name, float(value), other, "yes/no", "yes", bool(value))


def _alternate(timers: list[timeit.Timer], rounds: int) -> list[float]:
    counts = [_repeats(t) for t in timers]
    best = [math.inf for _ in timers]
    slow = max(spent for _, spent in counts) > 0.3
    for _ in range(max(3, rounds // 2) if slow else rounds):
        for i, timer in enumerate(timers):
            # Worker threads of the other library spin a while before they sleep.
            time.sleep(0.004)
            timer.timeit(1)
            n = counts[i][0]
            best[i] = min(best[i], timer.timeit(n) / n)
    return best


def _repeats(timer: timeit.Timer) -> tuple[int, float]:
    """How often to run in one slice, and about how long one run takes."""
    timer.timeit(1)
    n = 1
    while True:
        spent = timer.timeit(n)
        if spent >= PATIENCE / 4 or n >= 1_000_000:
            return max(1, round(n * PATIENCE / max(spent, 1e-9))), spent / n
        n *= 4


# -- the table ------------------------------------------------------------------------------------


def _figure(value: float, unit: str) -> str:
    if unit == "yes/no":
        return "yes" if value else "no"
    if unit == "s":
        for scale, name in ((1e9, "ns"), (1e6, "µs"), (1e3, "ms")):
            if abs(value) * scale < 1000:
                return f"{value * scale:.3g} {name}"
        return f"{value:.3g} s"
    if unit == "B":
        return f"{value / 2**20:.1f} MiB"
    return f"{value:.4g} {unit}".strip()


def _line(cells: Iterable[str], widths: list[int]) -> str:
    name, *rest = cells
    return "  ".join([name.ljust(widths[0]), *(c.rjust(w) for c, w in zip(rest, widths[1:]))])  # noqa: B905


def show(rows: Iterable[Row], title: str, subject: str) -> list[Row]:
    """Prints rows as they come, with a title when the first one comes; returns them."""
    widths = [46, 14, 14, 8, 11, 6]
    kept: list[Row] = []
    for row in rows:
        if not kept:
            print(f"\n{title}")
            print(_line(["", subject, "torch", "ratio", "bar", ""], widths))
        kept.append(row)
        theirs = "" if row.theirs is None else _figure(row.theirs, row.unit)
        ratio = "" if row.ratio is None or row.unit == "yes/no" else f"{row.ratio:.2f}x"
        verdict = {None: "", True: "ok", False: "BELOW"}[row.passed]
        cells = [row.name, _figure(row.ours, row.unit), theirs, ratio, row.bar, verdict]
        print(_line(cells, widths) + (f"  {row.note}" if row.note else ""), flush=True)
    return kept


def arguments(parser: argparse.ArgumentParser | None = None) -> argparse.ArgumentParser:
    parser = parser or argparse.ArgumentParser()
    parser.add_argument("--json", metavar="FILE", help="also write the rows there")
    parser.add_argument("--rounds", type=int, default=12, help="slices of each library (12)")
    parser.add_argument("--threads", type=int, default=2, help="threads of each library (2)")
    parser.add_argument("--only", default="", help="only rows whose name contains this")
    parser.add_argument("--subject", default="rushlight", help="the module to measure")
    parser.add_argument("--strict", action="store_true", help="fail when a bar is missed")
    return parser


def main(rows: Callable[[Bench], Iterable[Row]], title: str) -> None:
    """The command line of one script."""
    given = arguments(argparse.ArgumentParser(description=title)).parse_args()
    warnings.simplefilter("ignore")
    bench = Bench(given.subject, given.rounds, given.threads, given.only)
    try:
        kept = show(rows(bench), title, given.subject)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    if given.json:
        records = [{"script": Path(sys.argv[0]).name, **asdict(r), "ratio": r.ratio} for r in kept]
        Path(given.json).write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n")
    sys.exit(1 if given.strict and any(r.passed is False for r in kept) else 0)
