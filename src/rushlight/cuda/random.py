"""Random numbers of CUDA devices: seeding none of them always succeeds."""

from __future__ import annotations

from rushlight._absent import failing

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

__all__ = [
    "default_generators", "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed",
    "manual_seed_all", "seed", "seed_all", "set_rng_state", "set_rng_state_all",
]  # fmt: skip

default_generators: tuple[Any, ...] = ()


def manual_seed(seed: int) -> None:
    """Seeds the current device: there is none.

    >>> import rushlight as torch
    >>> torch.cuda.manual_seed(0)
    """
    int(seed)


def manual_seed_all(seed: int) -> None:
    """Seeds all devices: there are none.

    >>> import rushlight as torch
    >>> torch.cuda.manual_seed_all(0)
    """
    int(seed)


def seed() -> None:
    """Seeds the current device from the system's entropy: there is none.

    >>> import rushlight as torch
    >>> torch.cuda.seed()
    """


seed_all = seed


def get_rng_state_all() -> list[Any]:
    """The state of each device: an empty list.

    >>> import rushlight as torch
    >>> torch.cuda.get_rng_state_all()
    []
    """
    return []


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """Sets the state of each device; states of devices that are not there raise.

    >>> import rushlight as torch
    >>> torch.cuda.set_rng_state_all(torch.cuda.get_rng_state_all())
    """
    for state in new_states:
        set_rng_state(state)


initial_seed = failing("cuda", "initial_seed", "The seed of a device.")
get_rng_state = failing("cuda", "get_rng_state", "The state of a device's generator.")
set_rng_state = failing("cuda", "set_rng_state", "Sets the state of a device's generator.")
