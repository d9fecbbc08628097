"""The simulator against this machine: steps of 2, 4 and 8 processes, predicted and measured.

What a prediction is given contains no step under DDP or FSDP between processes. It is measured in
as many processes, at once: the plain layers, and layers under DDP and FSDP where each process is a
group of its own (copies and hooks, without messages); and all_reduces of two sizes. A plain step
of N processes is predicted from one of as many processes as there are cores: it says whether the
machine had nothing else to do.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from ranks import Team
from simulate import Cluster, Layer, Link, Plan, predict

SIZES = [512, 768, 768, 768, 768, 256]
BATCH = 64
CAP = 1.0  # MiB of a bucket
COUNTS = (1 << 12, 1 << 19)  # floats of an all_reduce: few that go the same way, and a bucket's
KINDS = ("plain", "ddp", "fsdp")
TURNS = 4  # of all that is measured; the best of each counts


def measured(team: Team, rounds: int) -> dict[tuple[Any, ...], float]:
    """Seconds of a step of each kind, in groups of one and of all, and of all_reduces."""
    calls: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for how in KINDS:
        for alone in (True, False):
            calls[how, alone] = ("chain", SIZES, BATCH, how, CAP, rounds, alone)
    for count in COUNTS:
        calls["all_reduce", count] = ("steady_all_reduce", count, 3 * rounds)
    found: dict[tuple[Any, ...], float] = {}
    for _ in range(TURNS):
        for key, (name, *arguments) in calls.items():
            took = max(team.run(name, *arguments))
            found[key] = min(found.get(key, took), took)
    return found


def link_of(size: int, times: dict[tuple[Any, ...], float]) -> Link:
    """The link that explains the all_reduces: two rounds, each of them direct."""
    few, many = (times["all_reduce", count] for count in COUNTS)
    rate = 4.0 * (COUNTS[1] - COUNTS[0]) / max(many - few, 1e-9)
    return Link(few / 2, rate * 2 * (size - 1) / size)


def spread(layers: list[Layer], plain: float, step: float) -> list[Layer]:
    """Layers whose plain step takes ``plain``, and what ``step`` takes more shared out by bytes."""
    scale = plain / sum(x.forward + x.backward for x in layers)
    beside = (step - plain) / sum(x.parameters for x in layers)
    return [
        replace(x, forward=x.forward * scale, backward=x.backward * scale + beside * x.parameters)
        for x in layers
    ]


def check(rounds: int = 6) -> list[dict[str, Any]]:
    """Prints and returns each prediction beside its measurement."""
    cores = len(os.sched_getaffinity(0))
    with Team("rushlight", cores) as team:
        layers = [Layer(*times) for times in team.run("layers", SIZES, BATCH, rounds)[0]]
        plain = min(max(team.run("chain", SIZES, BATCH, "plain", CAP, rounds, True)) for _ in "123")
    print(f"{'ranks':>6}{'plan':>6}{'measured ms':>13}{'predicted ms':>14}{'error':>8}")
    rows = []
    for size in (2, 4, 8):
        with Team("rushlight", size) as team:
            times = measured(team, rounds)
        link = link_of(size, times)
        cluster = Cluster(size, size, link, link, cores=cores)
        slow = cluster.crowding()
        for how in KINDS:
            guess = plain * slow
            if how != "plain":
                alone = spread(layers, times["plain", True] / slow, times[how, True] / slow)
                plan = Plan(data=size, sharded=how == "fsdp", bucket=CAP * 2**20)
                guess = predict(alone, plan, cluster).step
            took = times[how, False]
            error = guess / took - 1
            rows.append(
                {"ranks": size, "plan": how, "measured": took, "predicted": guess, "error": error}
            )
            figures = f"{took * 1e3:>13.2f}{guess * 1e3:>14.2f}{error:>8.0%}"
            print(f"{size:>6}{how:>6}{figures}", flush=True)
    return rows


if __name__ == "__main__":
    check()
