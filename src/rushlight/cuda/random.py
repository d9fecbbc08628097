"""Random numbers of the CUDA device: a counter (Philox), the same numbers on any device."""

from __future__ import annotations

from rushlight import _C
from rushlight.cuda._start import found, require

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

__all__ = [
    "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed",
    "seed_all", "set_rng_state", "set_rng_state_all",
]  # fmt: skip

_generator: Any = _C._cuda_generator()
if TYPE_CHECKING:
    default_generators: tuple[Any, ...]


def __getattr__(name: str) -> Any:
    """``default_generators``: one for each device that is there."""
    if name != "default_generators":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return (_generator,) if found()[0] else ()


def manual_seed(seed: int) -> None:
    """Seeds the device; without one, nothing comes of it.

    >>> import rushlight as torch
    >>> torch.cuda.manual_seed(0)
    """
    _generator.manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seeds all devices; without one, nothing comes of it.

    >>> import rushlight as torch
    >>> torch.cuda.manual_seed_all(0)
    """
    _generator.manual_seed(seed)


def seed() -> None:
    """Seeds the device from the system's entropy.

    >>> import rushlight as torch
    >>> torch.cuda.seed()
    """
    _generator.seed()


seed_all = seed


def initial_seed() -> int:
    """The seed of the device.

    >>> import rushlight as torch
    >>> if torch.cuda.is_available():
    ...     torch.cuda.manual_seed(7)
    ...     assert torch.cuda.initial_seed() == 7
    """
    require("initial_seed")
    return _generator.initial_seed()


def get_rng_state(device: Any = "cuda") -> Any:
    """The state of the device's generator: a tensor of bytes.

    >>> import rushlight as torch
    >>> if torch.cuda.is_available():
    ...     state = torch.cuda.get_rng_state()
    """
    require("get_rng_state")
    return _generator.get_state()


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Sets the state of the device's generator.

    >>> import rushlight as torch
    >>> if torch.cuda.is_available():
    ...     torch.cuda.set_rng_state(torch.cuda.get_rng_state())
    """
    require("set_rng_state")
    _generator.set_state(new_state)


def get_rng_state_all() -> list[Any]:
    """The state of each device.

    >>> import rushlight as torch
    >>> len(torch.cuda.get_rng_state_all()) == min(torch.cuda.device_count(), 1)
    True
    """
    return [get_rng_state()] if found()[0] else []


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """Sets the state of each device; states of devices that are not there raise.

    >>> import rushlight as torch
    >>> torch.cuda.set_rng_state_all(torch.cuda.get_rng_state_all())
    """
    for state in new_states:
        set_rng_state(state)
