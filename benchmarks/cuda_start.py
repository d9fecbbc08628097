"""Seconds from the start of a process to its first result of a CUDA device, beside PyTorch's."""

import os
import subprocess
import sys
import tempfile
import time

FIRST = """
import time
began = time.perf_counter()
import {library} as torch
there = time.perf_counter()
x = torch.ones(10, device="cuda")
assert (x + x).sum().item() == 20
print(there - began, time.perf_counter() - there)
"""


def start(library, cache):
    """Seconds of the import, of the first operations with the context, and of the whole process."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", FIRST.format(library=library)],
        env={**os.environ, "RUSHLIGHT_CACHE": cache}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    whole = time.perf_counter() - began
    return [*(float(x) for x in done.stdout.split()), whole]


def main(rounds=5):
    print(f"{'':24}{'import':>10}{'first op':>10}{'process':>10}")
    found = {}
    with tempfile.TemporaryDirectory() as warm:
        start("rushlight", warm)
        for i in range(rounds):
            with tempfile.TemporaryDirectory() as cold:
                kinds = {"rushlight, cold cache": cold, "rushlight, warm cache": warm, "torch": ""}
                for name, cache in kinds.items():
                    took = start(name.split(",")[0], cache)
                    found[name] = took if i == 0 else list(map(min, found[name], took))
    for name, took in found.items():
        print(f"{name:24}" + "".join(f"{x:8.2f} s" for x in took))


if __name__ == "__main__":
    sys.exit(main())
