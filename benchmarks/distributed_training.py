"""Steps of two processes under DDP, one thread each, against PyTorch's DDP with gloo."""

from __future__ import annotations

from collections.abc import Iterable

import harness
from harness import Bench, Row
from ranks import MODELS, Team

SIZE = 2


def slowest(team: Team, *call: object) -> float:
    """The time of the process that took longest: a step ends when all have."""
    return float(max(team.run(*call)))  # type: ignore[arg-type]


def rows(bench: Bench) -> Iterable[Row]:
    with Team(bench.subject, SIZE) as ours, Team("torch", SIZE) as theirs:
        for name in MODELS:
            if not bench.wants(name):
                continue
            found: dict[tuple[int, str], float] = {}
            for _ in range(bench.rounds):
                for i, team in enumerate((ours, theirs)):
                    for how in ("alone", "ddp"):
                        took = slowest(team, "step", name, how, 20)
                        found[i, how] = min(found.get((i, how), took), took)
            a, b = found[0, "ddp"], found[1, "ddp"]
            short = name == "small MLP"  # its step takes as long as a few messages
            passed = None if short else b / a >= 1.5
            yield Row(f"{name}: DDP step", a, b, "s", "" if short else ">= 1.5x", passed)
            over = [max(found[i, "ddp"] - found[i, "alone"], 1e-9) for i in (0, 1)]
            note = f"alone {found[0, 'alone'] * 1e6:.0f} and {found[1, 'alone'] * 1e6:.0f} µs"
            yield Row(
                f"{name}: over the step alone", *over, "s", "<= 0.5x", over[0] <= 0.5 * over[1],
                note=note,
            )  # fmt: skip
            share = [found[i, "alone"] / found[i, "ddp"] for i in (0, 1)]
            yield Row(
                f"{name}: efficiency of 2 processes", *share, "", "" if short else ">= 0.85",
                None if short else share[0] >= 0.85, better="more",
            )  # fmt: skip


if __name__ == "__main__":
    harness.main(rows, "two processes, one thread each, DDP over the CPU engine")
