"""Random numbers of CUDA devices: a counter (Philox), the same numbers on any device."""

from __future__ import annotations

from rushlight import _C
from rushlight.cuda._start import found, number_of, require

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

__all__ = [
    "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed",
    "seed_all", "set_rng_state", "set_rng_state_all",
]  # fmt: skip

if TYPE_CHECKING:
    default_generators: tuple[Any, ...]


def __getattr__(name: str) -> Any:
    """``default_generators``: one for each device that is there."""
    if name != "default_generators":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return tuple(_C._cuda_generator(i) for i in range(found()[0]))


def generator_of(device: Any = None) -> Any:
    """The default generator of a device: of the one in use without a number.

    >>> import rushlight as torch
    >>> torch.cuda.random.generator_of().device.type
    'cuda'
    """
    if device is None or device == "cuda":
        return _C._cuda_generator(_C._cuda_chosen())
    return _C._cuda_generator(number_of(device, "default_generators"))


def manual_seed(seed: int) -> None:
    """Seeds the device in use; without one, nothing comes of it.

    >>> import rushlight as torch
    >>> torch.cuda.manual_seed(0)
    """
    generator_of().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds all devices; without one, nothing comes of it.

    >>> import rushlight as torch
    >>> torch.cuda.manual_seed_all(0)
    """
    _C._cuda_seed_all(int(seed))


def seed() -> None:
    """Seeds the device in use from the system's entropy.

    >>> import rushlight as torch
    >>> torch.cuda.seed()
    """
    generator_of().seed()


def seed_all() -> None:
    """Seeds all devices from the system's entropy, the same for all.

    >>> import rushlight as torch
    >>> torch.cuda.seed_all()
    """
    _C._cuda_seed_all(_C._cuda_generator(0).seed())


def initial_seed() -> int:
    """The seed of the device in use.

    >>> import rushlight as torch
    >>> if torch.cuda.is_available():
    ...     torch.cuda.manual_seed(7)
    ...     assert torch.cuda.initial_seed() == 7
    """
    require("initial_seed")
    return generator_of().initial_seed()


def get_rng_state(device: Any = "cuda") -> Any:
    """The state of the device's generator: a tensor of bytes.

    >>> import rushlight as torch
    >>> if torch.cuda.is_available():
    ...     state = torch.cuda.get_rng_state()
    """
    require("get_rng_state")
    return generator_of(device).get_state()


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Sets the state of the device's generator.

    >>> import rushlight as torch
    >>> if torch.cuda.is_available():
    ...     torch.cuda.set_rng_state(torch.cuda.get_rng_state())
    """
    require("set_rng_state")
    generator_of(device).set_state(new_state)


def get_rng_state_all() -> list[Any]:
    """The state of each device.

    >>> import rushlight as torch
    >>> len(torch.cuda.get_rng_state_all()) == torch.cuda.device_count()
    True
    """
    return [get_rng_state(i) for i in range(found()[0])]


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """Sets the state of each device; states of devices that are not there raise.

    >>> import rushlight as torch
    >>> torch.cuda.set_rng_state_all(torch.cuda.get_rng_state_all())
    """
    for i, state in enumerate(new_states):
        set_rng_state(state, i)
