"""What this build is. There is no CUDA, ROCm or XPU in it."""

from __future__ import annotations

from typing import Any

__all__ = ["cuda", "debug", "git_version", "hip", "rocm", "xpu"]

cuda: str | None = None
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
debug = False
git_version = "unknown"


def __getattr__(name: str) -> Any:
    if name == "__version__":
        import rushlight

        return rushlight.__version__
    from rushlight._missing import MissingAttribute

    raise MissingAttribute("rushlight.version", name)
