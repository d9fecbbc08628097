"""Whole programs from start to end, imports included: `python` against `rushlight run`.

The programs are those of tests/programs, which print the same under both.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterable

from harness import HERE, Bench, Row, main

PROGRAMS = HERE.parent / "tests" / "programs"


def seconds(command: list[str], threads: int) -> float:
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "PYTHONWARNINGS": "ignore"}
    start = time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def rows(bench: Bench) -> Iterable[Row]:
    for path in sorted(PROGRAMS.glob("*.py")):
        if not bench.wants(path.stem):
            continue
        commands = ([sys.executable, "-m", bench.subject, "run"], [sys.executable])
        rounds = [
            [seconds([*command, str(path)], bench.threads) for command in commands]
            for _ in range(max(2, bench.rounds // 6))
        ]
        ours, theirs = (min(times) for times in zip(*rounds, strict=True))
        yield Row(path.stem, ours, theirs, "s")


if __name__ == "__main__":
    main(rows, "programs: from start to end")
