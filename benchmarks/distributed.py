"""Collectives of two processes with one thread each: rushlight over MPI, PyTorch over gloo.

    python benchmarks/distributed.py [--sizes 1024 65536] [--rounds 5] [--json]

The libraries take turns, each in its own pair of processes, which stay for the whole run; a row is
the minimum over rounds of the mean time of a call.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import socket
import subprocess
import sys
import time

SIZES = [1 << n for n in (10, 12, 14, 16, 18, 20, 22, 24, 26)]
LIBRARIES = ("rushlight", "torch")
WORLD = 2


def serve(library: str) -> None:
    """A rank: reads sizes and counts, prints the mean time of an all_reduce in microseconds."""
    torch = importlib.import_module(library)
    dist = importlib.import_module(f"{library}.distributed")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for line in sys.stdin:
        size, count = map(int, line.split())
        tensor = torch.zeros(size // 4)
        dist.all_reduce(tensor)
        dist.barrier()
        start = time.perf_counter()
        for _ in range(count):
            dist.all_reduce(tensor)
        print((time.perf_counter() - start) / count * 1e6, flush=True)
    dist.destroy_process_group()


class Pair:
    """The two processes of a library."""

    def __init__(self, library: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.ranks = []
        for rank in range(WORLD):
            names = {"RANK": rank, "WORLD_SIZE": WORLD, "MASTER_PORT": port}
            env = {**os.environ, **{k: str(v) for k, v in names.items()}}
            env.update(MASTER_ADDR="127.0.0.1", OMP_NUM_THREADS="1")
            self.ranks.append(
                subprocess.Popen(
                    [sys.executable, __file__, "--serve", library],
                    env=env,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )

    def time(self, size: int, count: int) -> float:
        for rank in self.ranks:
            rank.stdin.write(f"{size} {count}\n")
            rank.stdin.flush()
        return max(float(rank.stdout.readline()) for rank in self.ranks)

    def close(self) -> None:
        for rank in self.ranks:
            rank.stdin.close()
        for rank in self.ranks:
            rank.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES, help="bytes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        return serve(arguments.serve)
    pairs = {library: Pair(library) for library in LIBRARIES}
    rows = []
    for size in arguments.sizes:
        best = dict.fromkeys(LIBRARIES, float("inf"))
        count = max(2, min(200, (1 << 25) // size))
        for _ in range(arguments.rounds):
            for library, pair in pairs.items():
                best[library] = min(best[library], pair.time(size, count))
        ratio = best["torch"] / best["rushlight"]
        rows.append({"bytes": size, **best, "ratio": ratio})
        if not arguments.json:
            ours, theirs = best["rushlight"], best["torch"]
            print(f"all_reduce {size:>9} bytes  {ours:>10.1f} µs {theirs:>10.1f} µs  {ratio:.2f}×")
    for pair in pairs.values():
        pair.close()
    if arguments.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
