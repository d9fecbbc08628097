"""How CUDA's libraries are found and devices are made ready: when a program first asks for them."""

from __future__ import annotations

import functools
import os
import sys

from rushlight import _C

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any


def library_folders() -> list[str]:
    """Where to look before the system's own places: ``RUSHLIGHT_CUDA_PATH`` and NVIDIA's wheels."""
    found = [f for f in os.environ.get("RUSHLIGHT_CUDA_PATH", "").split(os.pathsep) if f]
    for place in sys.path:
        wheels = os.path.join(place or ".", "nvidia")
        if os.path.isdir(wheels):
            libraries = (os.path.join(wheels, part, "lib") for part in sorted(os.listdir(wheels)))
            found += [folder for folder in libraries if os.path.isdir(folder)]
    found += [f for f in ("/usr/local/cuda/lib64",) if os.path.isdir(f)]
    return found


def cache_folder() -> str:
    """Where compiled kernels are kept: under ``RUSHLIGHT_CACHE`` or the user's cache folder."""
    base = os.environ.get("RUSHLIGHT_CACHE")
    if base is None:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        base = os.path.join(base, "rushlight")
    return os.path.join(base, "cuda") if base else ""


@functools.cache
def found() -> tuple[int, str]:
    """How many devices there are, and why there is none."""
    return _C._cuda_open(":".join(library_folders()), cache_folder())


def start() -> str | None:
    """Makes devices usable; says why when there is none."""
    count, why = found()
    if count == 0:
        return why
    _C._cuda_start()
    return None


def number_of(device: Any, name: str) -> int:
    """The number of a device, given as a number, a device, a name or None: the one in use."""
    require(name)
    if device is None:
        return _C._cuda_chosen()
    if not isinstance(device, int):
        place = _C.device(device)
        if place.type != "cuda":
            raise ValueError(f"Expected a cuda device, but got: {place}")
        device = place.index
    if device is None or device == -1:
        return _C._cuda_chosen()
    if not 0 <= device < found()[0]:
        raise AssertionError(
            f"torch.cuda.{name}(): Invalid device id: there is no cuda:{device}, the devices are "
            f"cuda:0 to cuda:{found()[0] - 1}"
        )
    return device


def require(name: str, error: type[Exception] = AssertionError) -> None:
    """Devices are usable afterwards; raises, in the name of a function, when there is none."""
    if not _C._cuda_started() and (why := start()) is not None:
        raise error(
            f"torch.cuda.{name}(): Torch not compiled with CUDA enabled: {why}; ask "
            "torch.cuda.is_available() before using torch.cuda"
        )
