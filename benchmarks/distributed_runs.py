"""The simulator against this machine: steps of 2, 4 and 8 processes, predicted and measured."""

from __future__ import annotations

from typing import Any

from ranks import Team
from simulate import Cluster, Layer, Link, Plan, predict

SIZES = [512, 768, 768, 768, 768, 256]
BATCH = 64
CAP = 1.0  # MiB of a bucket


def fitted(points: list[tuple[float, float]]) -> tuple[float, float]:
    """(the time of nothing, bytes each second) of times of messages, by the ends of the range."""
    (small, first), (large, last) = points[0], points[-1]
    slope = max((last - first) / (large - small), 1e-12)
    return max(first - small * slope, 1e-7), 1 / slope


def link_of(team: Team, rounds: int) -> Link:
    """The link that explains the all_reduces of this team, whose ring it is part of."""
    n = team.size
    points = []
    for count in (256, 1 << 16, 1 << 20):
        took = max(team.run("all_reduce", count, rounds))
        points.append((4.0 * count, took))
    start, rate = fitted(points)
    # all_reduce: 2 (n - 1) messages of size / n each (or fewer, as many bytes).
    steps = 2 * max(1, (n - 1).bit_length())
    return Link(start / steps, rate * 2 * (n - 1) / n)


def check(rounds: int = 30) -> list[dict[str, Any]]:
    """Prints and returns each prediction beside its measurement."""
    print(f"{'ranks':>6}{'plan':>6}{'measured ms':>13}{'predicted ms':>14}{'error':>8}")
    rows = []
    for size in (2, 4, 8):
        with Team("rushlight", size) as team:
            link = link_of(team, rounds)
            # Every process measures at once: what they take from each other is in the times.
            times = team.run("layers", SIZES, BATCH, rounds)
            worst = [
                tuple(max(t[i][k] for t in times) for k in range(3)) for i in range(len(SIZES) - 1)
            ]
            layers = [Layer(f, b, p) for f, b, p in worst]
            cluster = Cluster(size, size, link, link)
            for how in ("alone", "ddp", "fsdp"):
                took = max(max(team.run("chain", SIZES, BATCH, how, CAP, rounds)) for _ in range(2))
                data = 1 if how == "alone" else size
                plan = Plan(data=data, sharded=how == "fsdp", bucket=CAP * 2**20)
                ranks = Cluster(data, data, link, link) if how == "alone" else cluster
                guess = predict(layers, plan, ranks).step
                error = guess / took - 1
                rows.append(
                    {
                        "ranks": size,
                        "plan": how,
                        "measured": took,
                        "predicted": guess,
                        "error": error,
                    }
                )
                print(
                    f"{size:>6}{how:>6}{took * 1e3:>13.2f}{guess * 1e3:>14.2f}{error:>8.0%}",
                    flush=True,
                )
    return rows


if __name__ == "__main__":
    check()
