"""Runs every benchmark, each in a process of its own, and says which bars were missed."""

import argparse
import importlib.util
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness import HERE, INTERRUPTED, arguments
from plots import plots
from rushlight._terminal import Progress

SCRIPTS = [
    "overhead",
    "autograd",
    "elementwise",
    "rows",
    "indexing",
    "gemm",
    "halves",
    "linalg",
    "sparse",
    "special",
    "layers",
    "conv",
    "imports",
    "deep",
    "leaks",
    "checkpoint",
    "doctor",
    "train",
    "transforms",
    "modules",
    "optimizers",
    "data",
    "programs",
]
# Those whose figures the README shows.
HEADLINES = [
    "overhead",
    "autograd",
    "elementwise",
    "rows",
    "gemm",
    "train",
    "optimizers",
    "transforms",
    "checkpoint",
    "imports",
]


def summary(rows: list[dict[str, Any]]) -> None:
    """The geometric mean of each script's ratios."""
    groups: dict[str, list[float]] = {}
    for row in rows:
        if row["ratio"] is not None and row["unit"] != "yes/no":
            groups.setdefault(row["script"], []).append(row["ratio"])
    if groups:
        print("\nratio to PyTorch, geometric mean")
    for script, ratios in groups.items():
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"  {script:<16} {mean:6.2f}x   ({len(ratios)} rows)")


def main() -> int:
    parser = arguments(argparse.ArgumentParser(description=__doc__))
    parser.add_argument("scripts", nargs="*", help=f"{', '.join(SCRIPTS)} (all)")
    parser.add_argument("--headlines", action="store_true", help="only those of the README")
    parser.add_argument("--plots", metavar="FOLDER", help="also draw the ratios there, as SVG")
    given = parser.parse_args()
    given.scripts = given.scripts or (HEADLINES if given.headlines else SCRIPTS)
    unknown = [name for name in given.scripts if not (HERE / f"{name}.py").exists()]
    if unknown:
        parser.error(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(SCRIPTS)}")
    passed_on = ["--rounds", str(given.rounds), "--threads", str(given.threads)]
    passed_on += ["--only", given.only, "--subject", given.subject]
    if importlib.util.find_spec("torch") is None:
        print("PyTorch is not installed: rushlight's figures stand alone")
    rows, broken, interrupted = measure(given.scripts, passed_on)
    if given.json:
        Path(given.json).write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    if given.plots:
        drawn = plots(rows, Path(given.plots))
        print("\n".join(f"wrote {path}" for path in drawn) or "no plots: no ratio to PyTorch")
    summary(rows)
    missed = verdict(rows)
    for name in broken:
        print(f"  failed  {name}.py")
    if not rows and given.only:
        print(f"no row's name contains {given.only!r}", file=sys.stderr)
    if interrupted:
        return INTERRUPTED
    return 1 if broken or not rows or (given.strict and missed) else 0


def measure(names: list[str], options: list[str]) -> tuple[list[dict[str, Any]], list[str], bool]:
    """The rows of scripts, the scripts that failed, and whether somebody lost patience."""
    rows: list[dict[str, Any]] = []
    broken = []
    with tempfile.TemporaryDirectory() as folder, Progress(len(names), "done") as progress:
        for done, name in enumerate(names):
            progress.update(done, f"next: {name}")
            file = Path(folder) / f"{name}.json"
            command = [sys.executable, str(HERE / f"{name}.py"), *options, "--json", str(file)]
            try:
                status = subprocess.call(command)
            except KeyboardInterrupt:
                status = INTERRUPTED
            if status == INTERRUPTED:
                return rows, broken, True
            if status == 0:
                rows += json.loads(file.read_text())
            else:
                broken.append(name)
    return rows, broken, False


def verdict(rows: list[dict[str, Any]]) -> list[str]:
    """Says which bars were missed; returns them."""
    bars = [r for r in rows if r["passed"] is not None]
    missed = [f"{r['script']}: {r['name']}" for r in bars if not r["passed"]]
    if bars:
        print(f"\n{len(bars) - len(missed)} of {len(bars)} bars met")
    for name in missed:
        print(f"  missed  {name}")
    return missed


if __name__ == "__main__":
    sys.exit(main())
