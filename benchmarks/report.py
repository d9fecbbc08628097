"""What rushlight.report costs: training steps of a char GPT with and without it, alternately.

    python benchmarks/report.py [--steps N] [--rounds N] [--json FILE]

The bar is 3 % of the step. Blocks of steps with and without the report follow each other, on one
thread; the medians of both kinds count. The report's own account of its cost is printed beside.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import rushlight as torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

BAR = 0.03


def training(seed: int = 0) -> Any:
    """A function that makes one training step."""
    from char_gpt import GPT

    torch.manual_seed(seed)
    model = GPT(80, length=64, width=128, heads=4, layers=4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = torch.randint(0, 80, (16, 65))

    def step() -> None:
        logits = model(data[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), data[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def timed(step: Any, count: int) -> float:
    """Seconds of the processor per step: what else the machine does is not counted."""
    started = time.process_time()
    for _ in range(count):
        step()
    return (time.process_time() - started) / count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40, help="steps in a block (40)")
    parser.add_argument("--rounds", type=int, default=8, help="blocks of each kind (8)")
    parser.add_argument("--json", help="write the figures to a file")
    given = parser.parse_args()
    torch.set_num_threads(1)
    step = training()
    timed(step, 10)
    report = torch.report()
    plain, watched = [], []
    for _ in range(given.rounds):
        plain.append(timed(step, given.steps))
        report.start()
        watched.append(timed(step, given.steps))
        report.stop()
    without, with_report = median(plain), median(watched)
    cost = with_report / without - 1
    row = {
        "script": "report", "name": "report of a char GPT step", "plain_ms": 1e3 * without,
        "watched_ms": 1e3 * with_report, "cost": cost, "account": report.overhead,
        "bar": f"<= {BAR:.0%}", "passed": cost <= BAR,
    }  # fmt: skip
    print(
        f"step {1e3 * without:.2f} ms, with the report {1e3 * with_report:.2f} ms: "
        f"{100 * cost:+.1f} % (bar {BAR:.0%}); by its own account {100 * report.overhead:.1f} %"
    )
    if given.json:
        Path(given.json).write_text(json.dumps([row], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
