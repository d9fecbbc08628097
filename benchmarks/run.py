"""Runs every benchmark, each in a process of its own, and says which bars were missed."""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from harness import HERE, arguments
from plots import plots
from rushlight._terminal import Progress

SCRIPTS = [
    "overhead",
    "autograd",
    "elementwise",
    "rows",
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
    rows, broken = [], []
    with tempfile.TemporaryDirectory() as folder, Progress(len(given.scripts), "done") as progress:
        for done, name in enumerate(given.scripts):
            progress.update(done, f"next: {name}")
            file = Path(folder) / f"{name}.json"
            script = HERE / f"{name}.py"
            status = subprocess.call([sys.executable, str(script), *passed_on, "--json", str(file)])
            if status == 0:
                rows += json.loads(file.read_text())
            else:
                broken.append(name)
    if given.json:
        Path(given.json).write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    if given.plots:
        for path in plots(rows, Path(given.plots)):
            print(f"wrote {path}")
    summary(rows)
    bars = [r for r in rows if r["passed"] is not None]
    missed = [f"{r['script']}: {r['name']}" for r in bars if not r["passed"]]
    print(f"\n{len(bars) - len(missed)} of {len(bars)} bars met")
    for name in missed:
        print(f"  missed  {name}")
    for name in broken:
        print(f"  failed  {name}.py")
    return 1 if broken or (given.strict and missed) else 0


if __name__ == "__main__":
    sys.exit(main())
