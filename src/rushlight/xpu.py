"""Intel's GPUs as programs ask for them: there are none, queries say so, uses raise."""

from __future__ import annotations

from rushlight._absent import absent_class, failing, of_name, rest

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "Event", "Stream", "current_device", "current_stream", "device_count", "empty_cache",
    "get_device_capability", "get_device_name", "get_device_properties", "get_rng_state",
    "get_rng_state_all", "init", "is_available", "is_bf16_supported",
    "is_current_stream_capturing", "is_initialized",
    "manual_seed", "manual_seed_all", "max_memory_allocated", "memory_allocated",
    "memory_reserved", "seed", "seed_all", "set_device", "set_rng_state", "set_stream",
    "synchronize",
]  # fmt: skip

Stream = absent_class("xpu", "Stream", "A queue of work on a device.")
Event = absent_class("xpu", "Event", "A point in a queue of work.")


def is_available() -> bool:
    """False: this build computes on the CPU only.

    >>> import rushlight as torch
    >>> torch.xpu.is_available()
    False
    """
    return False


is_initialized = is_current_stream_capturing = is_available


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False: there is no device.

    >>> import rushlight as torch
    >>> torch.xpu.is_bf16_supported()
    False
    """
    return False


def device_count() -> int:
    """0: there is no such device.

    >>> import rushlight as torch
    >>> torch.xpu.device_count()
    0
    """
    return 0


def manual_seed(seed: int) -> None:
    """Seeds the current device: there is none.

    >>> import rushlight as torch
    >>> torch.xpu.manual_seed(0)
    """
    int(seed)


manual_seed_all = manual_seed


def seed() -> None:
    """Seeds the current device from the system's entropy: there is none.

    >>> import rushlight as torch
    >>> torch.xpu.seed()
    """


seed_all = seed


def empty_cache() -> None:
    """Nothing to give back.

    >>> import rushlight as torch
    >>> torch.xpu.empty_cache()
    """


def memory_allocated(device: Any = None) -> int:
    """Bytes in use on a device: 0.

    >>> import rushlight as torch
    >>> torch.xpu.memory_allocated()
    0
    """
    return 0


max_memory_allocated = memory_reserved = memory_allocated


def get_rng_state_all() -> list[Any]:
    """The state of each device: an empty list.

    >>> import rushlight as torch
    >>> torch.xpu.get_rng_state_all()
    []
    """
    return []


init = failing("xpu", "init", "Prepares the devices.")
synchronize = failing("xpu", "synchronize", "Waits for a device.")
current_device = failing("xpu", "current_device", "The number of the device in use.")
set_device = failing("xpu", "set_device", "Chooses the device.")
get_device_name = failing("xpu", "get_device_name", "The name of a device.")
get_device_capability = failing("xpu", "get_device_capability", "What a device can do.")
get_device_properties = failing("xpu", "get_device_properties", "The facts about a device.")
current_stream = failing("xpu", "current_stream", "The queue in use.")
set_stream = failing("xpu", "set_stream", "Chooses the queue.")
get_rng_state = failing("xpu", "get_rng_state", "The state of a device's generator.")
set_rng_state = failing("xpu", "set_rng_state", "Sets the state of a device's generator.")


def __getattr__(name: str) -> Any:
    if name in rest("xpu"):
        return of_name("xpu", name)
    from rushlight._missing import MissingAttribute

    raise MissingAttribute("rushlight.xpu", name)
