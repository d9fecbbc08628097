"""The instructions of this CPU that kernels use."""

from __future__ import annotations


def read_cpuinfo() -> tuple[str, set[str]]:
    """The processor's name, empty where it is unknown, and all its features.

    >>> import rushlight as torch
    >>> name, features = torch.backends.cpu.read_cpuinfo()
    >>> isinstance(name, str), isinstance(features, set)
    (True, True)
    """
    model, flags = "", set[str]()
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() == "model name":
                    model = value.strip()
                elif key.strip() in ("flags", "Features"):
                    flags = set(value.split())
                if not line.strip():
                    break
    except OSError:
        pass
    return model, flags


def get_cpu_capability() -> str:
    """ "AVX512", "AVX2" or "DEFAULT": the set that the loader chose for the vector loops.

    >>> import rushlight as torch
    >>> torch.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2", "AVX512")
    True
    """
    _, found = read_cpuinfo()
    if {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= found:
        return "AVX512"
    return "AVX2" if {"avx2", "fma"} <= found else "DEFAULT"
