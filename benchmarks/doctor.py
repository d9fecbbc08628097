"""What the doctor costs: whole runs of training, with and without it, in turn.

A run is as many steps as take a second without the doctor, at least 40; its first steps, which are
watched most closely, are part of it.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any

from harness import Bench, Row, at_most, main
from models import STEPS

BAR = 1.5
MODELS = (
    "MLP 64-128-10, batch 32",
    "MLP 784-512-10, batch 128",
    "tiny GPT, 2 layers, 32 wide, T 16, B 4",
    "char GPT, 4 layers, 128 wide, T 64, B 16",
)
SECONDS, LEAST = 1.0, 40


def run(step: Callable[[], Any], count: int) -> float:
    began = time.process_time()
    for _ in range(count):
        step()
    return time.process_time() - began


def rows(bench: Bench) -> Iterable[Row]:
    torch = bench.load()[0]
    for name in MODELS:
        if not bench.wants(name):
            continue
        step = STEPS[name](torch)
        run(step, 3)
        count = max(LEAST, int(SECONDS / min(run(step, 5) / 5 for _ in range(3))))
        plain, watched = [], []
        for _ in range(bench.rounds):
            plain.append(run(step, count))
            with torch.doctor():
                watched.append(run(step, count))
        ours = min(watched) / min(plain)
        row = at_most(name, ours, BAR, "x plain")
        row.note = f"{count} steps, {1e6 * min(plain) / count:.0f} µs each without the doctor"
        yield row


if __name__ == "__main__":
    main(rows, "doctor: runs that it watches")
