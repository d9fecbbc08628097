"""Random numbers: counter-based, so a seed gives the same numbers for any number of threads."""

from __future__ import annotations

from _weakref import ref

from rushlight import _C

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

_alive: dict[int, ref[Generator]] = {}


class Generator(_C.Generator):
    """A source of random numbers with a state of its own.

    >>> import rushlight as torch
    >>> g = torch.Generator().manual_seed(1)
    >>> a = torch.rand(3, generator=g)
    >>> bool((a == torch.rand(3, generator=torch.Generator().manual_seed(1))).all())
    True
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Generator:
        self = super().__new__(cls, *args, **kwargs)
        key = id(self)
        _alive[key] = ref(self, lambda _: _alive.pop(key, None))
        return self

    def get_state(self) -> Any:
        """The state as a tensor of bytes."""
        return _pack_state(self)

    def set_state(self, new_state: Any) -> None:
        """Continues from a state that ``get_state`` gave."""
        _unpack_state(self, new_state)

    def clone_state(self) -> Generator:
        """Another generator in the same state."""
        other = Generator()
        other._set_raw_state(self._raw_state())
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._raw_state(),)


def live_generators() -> list[Any]:
    """The default generator and every other that someone holds."""
    found = [reference() for reference in list(_alive.values())]
    return [_C.default_generator, *(g for g in found if g is not None)]


def _rebuild(state: tuple[int, int]) -> Generator:
    generator = Generator()
    generator._set_raw_state(state)
    return generator


def _pack_state(generator: Any) -> Any:
    seed, offset = generator._raw_state()
    data = seed.to_bytes(8, "little") + offset.to_bytes(8, "little")
    return _C._tensor(list(data), _C.uint8, None, False)


def _unpack_state(generator: Any, state: Any) -> None:
    if not isinstance(state, _C.Tensor) or state.dtype is not _C.uint8 or state.numel() != 16:
        raise TypeError("expected a torch.ByteTensor of 16 elements, as get_rng_state() returns")
    data = bytes(state.tolist())
    generator._set_raw_state(
        (int.from_bytes(data[:8], "little"), int.from_bytes(data[8:], "little"))
    )


def manual_seed(seed: int) -> Any:
    """Seeds the default generator and returns it."""
    return _C.default_generator.manual_seed(seed)


def seed() -> int:
    """Seeds the default generator from the system's entropy; returns the seed."""
    return _C.default_generator.seed()


def initial_seed() -> int:
    """The seed of the default generator."""
    return _C.default_generator.initial_seed()


def get_rng_state() -> Any:
    """The state of the default generator as a tensor of bytes."""
    return _pack_state(_C.default_generator)


def set_rng_state(new_state: Any) -> None:
    """Sets the state of the default generator."""
    _unpack_state(_C.default_generator, new_state)


class fork_rng:
    """Restores the default generator's state when the block ends."""

    def __init__(self, devices: Any = None, enabled: bool = True, device_type: str = "cpu") -> None:
        self._enabled = enabled

    def __enter__(self) -> fork_rng:
        self._state = _C.default_generator._raw_state()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._enabled:
            _C.default_generator._set_raw_state(self._state)
