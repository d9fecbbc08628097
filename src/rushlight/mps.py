"""Apple's GPU as programs ask for it: there is none, queries say so, uses raise."""

from __future__ import annotations

from rushlight._absent import absent_class, failing

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "Event", "current_allocated_memory", "device_count", "driver_allocated_memory", "empty_cache",
    "get_rng_state", "is_available", "manual_seed", "recommended_max_memory", "seed",
    "set_per_process_memory_fraction", "set_rng_state", "synchronize",
]  # fmt: skip

Event = absent_class("mps", "Event", "A point in a queue of work.")


def is_available() -> bool:
    """False: this build computes on the CPU only.

    >>> import rushlight as torch
    >>> torch.mps.is_available()
    False
    """
    return False


def device_count() -> int:
    """0: there is no such device.

    >>> import rushlight as torch
    >>> torch.mps.device_count()
    0
    """
    return 0


def manual_seed(seed: int) -> None:
    """Seeds the device: there is none.

    >>> import rushlight as torch
    >>> torch.mps.manual_seed(0)
    """
    int(seed)


def seed() -> None:
    """Seeds the device from the system's entropy: there is none.

    >>> import rushlight as torch
    >>> torch.mps.seed()
    """


def empty_cache() -> None:
    """Nothing to give back.

    >>> import rushlight as torch
    >>> torch.mps.empty_cache()
    """


def current_allocated_memory() -> int:
    """Bytes that tensors take on the device: 0.

    >>> import rushlight as torch
    >>> torch.mps.current_allocated_memory()
    0
    """
    return 0


driver_allocated_memory = recommended_max_memory = current_allocated_memory
synchronize = failing("mps", "synchronize", "Waits for the device.")
get_rng_state = failing("mps", "get_rng_state", "The state of the device's generator.")
set_rng_state = failing("mps", "set_rng_state", "Sets the state of the device's generator.")
set_per_process_memory_fraction = failing(
    "mps", "set_per_process_memory_fraction", "Limits what this process may take."
)


def __getattr__(name: str) -> Any:
    from rushlight._missing import MissingAttribute

    raise MissingAttribute("rushlight.mps", name)
