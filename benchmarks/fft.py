"""Fourier transforms against PyTorch's, in one run: lines and images of 64 to 4096 points a side.

Usage: ``python benchmarks/fft.py``; a ratio above 1 means that rushlight is faster.
"""

import math
import time

import numpy as np
import torch

import rushlight


def seconds(call, budget=0.15):
    """The best of several alternating runs."""
    call()
    best, spent = math.inf, 0.0
    while spent < budget:
        start = time.perf_counter()
        call()
        took = time.perf_counter() - start
        best, spent = min(best, took), spent + took
    return best


def row(name, array, transform):
    ours, theirs = rushlight.tensor(array), torch.tensor(array)
    times = [math.inf, math.inf]
    for _ in range(3):
        times[0] = min(times[0], seconds(lambda: transform(rushlight.fft, ours)))
        times[1] = min(times[1], seconds(lambda: transform(torch.fft, theirs)))
    ratio = times[1] / times[0]
    print(
        f"{name:28} {times[0] * 1e6:12.1f} us {times[1] * 1e6:12.1f} us {ratio:6.2f}x", flush=True
    )
    return ratio


def main():
    random = np.random.default_rng(0)
    ratios = []
    print(f"{'':28} {'rushlight':>15} {'torch':>15}")
    for n in (64, 256, 1000, 1024, 4096, 16384, 65536, 1 << 20):
        x = random.standard_normal(n).astype(np.float32)
        ratios.append(row(f"fft {n}", x + 0j, lambda fft, t: fft.fft(t)))
        ratios.append(row(f"rfft {n}", x, lambda fft, t: fft.rfft(t)))
    for n in (64, 256, 1024):
        x = random.standard_normal((1000, n)).astype(np.float32)
        ratios.append(row(f"fft 1000 x {n}", x + 0j, lambda fft, t: fft.fft(t)))
        ratios.append(row(f"rfft 1000 x {n}", x, lambda fft, t: fft.rfft(t)))
    for n in (64, 256, 512, 1024, 2048, 4096):
        x = random.standard_normal((n, n)).astype(np.float32)
        ratios.append(row(f"fft2 {n} x {n}", x + 0j, lambda fft, t: fft.fft2(t)))
        ratios.append(row(f"rfft2 {n} x {n}", x, lambda fft, t: fft.rfft2(t)))
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"geometric mean {mean:.2f}x, least {min(ratios):.2f}x")


if __name__ == "__main__":
    main()
