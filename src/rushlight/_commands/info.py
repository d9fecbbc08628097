"""what this installation is and what it runs on"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Iterator
from typing import Any

EXAMPLES = (("rushlight info", "versions, processor, threads, memory: what a bug report needs"),)

# Instruction sets that the kernels are compiled for or that decide the speed of the BLAS.
_FEATURES = ("sse4_2", "avx", "avx2", "fma", "avx512f", "avx512bw", "avx512_bf16", "amx_bf16")


def run(arguments: argparse.Namespace) -> int:
    for name, value in facts():
        print(f"{name:<10} {value}")
    return 0


def facts() -> Iterator[tuple[str, str]]:
    """What this installation is and what it runs on: names and texts.

    >>> from rushlight._commands.info import facts
    >>> [name for name, _ in facts()][:3]
    ['rushlight', 'python', 'system']
    """
    import rushlight

    yield "rushlight", f"{rushlight.__version__}  ({os.path.dirname(rushlight.__file__ or '')})"
    yield "python", f"{platform.python_version()} {platform.python_implementation()}"
    yield "system", platform.platform()
    model, features = _cpu()
    yield "cpu", f"{model}, {os.cpu_count()} logical cores"
    if features:
        yield "features", " ".join(features)
    yield "threads", str(rushlight.get_num_threads())
    yield "blas", _blas()
    rows = list(_memory(getattr(rushlight, "memory_stats", dict)()))
    yield from zip(["memory"] + [""] * len(rows), rows, strict=False)


def _cpu() -> tuple[str, list[str]]:
    """The processor's name and those of its features that matter here."""
    from rushlight.backends.cpu import read_cpuinfo

    model, flags = read_cpuinfo()
    known = [name for name in _FEATURES if name in flags]
    return model or platform.processor() or platform.machine(), known


def _blas() -> str:
    from importlib import metadata

    try:
        return f"OpenBLAS, scipy-openblas32 {metadata.version('scipy-openblas32')}"
    except metadata.PackageNotFoundError:
        return "the scipy-openblas32 package is not installed"


def _memory(stats: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, value in stats.items():
        label = f"{path}{name}"
        if isinstance(value, dict):
            yield from _memory(value, label + ".")
        elif "bytes" in label and isinstance(value, int):
            yield f"{label} = {value:,} ({value / 2**20:.1f} MiB)"
        else:
            yield f"{label} = {value:,}" if isinstance(value, int) else f"{label} = {value}"
