"""Runs every benchmark, each in a process of its own, and says which bars were missed."""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import HERE, arguments

SCRIPTS = [
    "overhead",
    "autograd",
    "elementwise",
    "rows",
    "gemm",
    "halves",
    "linalg",
    "layers",
    "conv",
    "imports",
    "deep",
    "leaks",
    "checkpoint",
    "train",
    "transforms",
    "modules",
    "optimizers",
    "data",
    "programs",
]


def main() -> int:
    parser = arguments(argparse.ArgumentParser(description=__doc__))
    parser.add_argument("scripts", nargs="*", default=SCRIPTS, help=", ".join(SCRIPTS))
    given = parser.parse_args()
    passed_on = ["--rounds", str(given.rounds), "--threads", str(given.threads)]
    passed_on += ["--only", given.only, "--subject", given.subject]
    rows, broken = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name in given.scripts:
            file = Path(folder) / f"{name}.json"
            script = HERE / f"{name}.py"
            status = subprocess.call([sys.executable, str(script), *passed_on, "--json", str(file)])
            if status == 0:
                rows += json.loads(file.read_text())
            else:
                broken.append(name)
    if given.json:
        Path(given.json).write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
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
