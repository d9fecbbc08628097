"""Random numbers: counter-based, so a seed gives the same numbers for any number of threads.

``torch_streams`` switches to PyTorch's own engine, whose numbers a seed then gives exactly.
"""

from __future__ import annotations

from _weakref import ref

from rushlight import _C

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

_TORCH_BYTES = 5056  # of a saved state of PyTorch's CPU generator
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

    def set_state(self, new_state: Any) -> Generator:
        """Continues from a state that ``get_state`` gave, here or in PyTorch; returns itself."""
        _unpack_state(self, new_state)
        return self

    def _initial_state(self) -> Any:
        """The state at the start of the seed's sequence."""
        if not self._torch:
            return (self.initial_seed(), 0)
        other = self.clone_state()
        other._restart(True)
        return other._raw_state()

    def clone_state(self) -> Generator:
        """Another generator in the same state."""
        other = Generator(self.device)
        other._set_raw_state(self._raw_state())
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._raw_state(), self.device)


def live_generators() -> list[Any]:
    """The default generator and every other that someone holds.

    >>> import rushlight as torch
    >>> mine = torch.Generator()
    >>> alive = torch.random.live_generators()
    >>> mine in alive, torch.default_generator in alive
    (True, True)
    """
    found = [reference() for reference in list(_alive.values())]
    return [g for g in found if g is not None] + _of_devices()


def _of_devices(devices: Any = None) -> list[Any]:
    """The generators of CUDA devices: of all that are in use, or of some."""
    if not _C._cuda_started():
        return []
    from rushlight.cuda._start import found, number_of

    numbers = range(found()[0]) if devices is None else devices
    return [_C._cuda_generator(number_of(each, "default_generators")) for each in numbers]


def _rebuild(state: Any, device: Any = "cpu") -> Generator:
    generator = Generator(device)
    generator._set_raw_state(state)
    return generator


def _pack_state(generator: Any) -> Any:
    state = generator._raw_state()
    if isinstance(state, tuple):
        state = state[0].to_bytes(8, "little") + state[1].to_bytes(8, "little")
    return _C._share_buffer(bytearray(state)).clone()


def _unpack_state(generator: Any, state: Any) -> None:
    if not isinstance(state, _C.Tensor) or state.dtype is not _C.uint8:
        raise TypeError("expected a torch.ByteTensor, as get_rng_state() returns")
    data = _C._bytes(state)
    if len(data) == 16:
        generator._set_raw_state(
            (int.from_bytes(data[:8], "little"), int.from_bytes(data[8:], "little"))
        )
    elif len(data) == _TORCH_BYTES:
        generator._set_raw_state(data)
    else:
        raise RuntimeError(
            f"set_state: RNG state is wrong size: expected 16 bytes or PyTorch's {_TORCH_BYTES}, "
            f"got {len(data)}"
        )


def manual_seed(seed: int) -> Any:
    """Seeds the default generator and returns it; those of CUDA devices too.

    >>> import rushlight as torch
    >>> _ = torch.manual_seed(0)
    >>> first = torch.rand(2)
    >>> _ = torch.manual_seed(0)
    >>> torch.equal(first, torch.rand(2))
    True
    """
    seed = int(seed)
    default_generator.manual_seed(seed)
    _C._cuda_seed_all(seed)
    return default_generator


def seed() -> int:
    """Seeds the default generator from the system's entropy; returns the seed.

    >>> import rushlight as torch
    >>> torch.seed() == torch.initial_seed()
    True
    """
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the default generator.

    >>> import rushlight as torch
    >>> _ = torch.manual_seed(5)
    >>> torch.initial_seed()
    5
    """
    return default_generator.initial_seed()


def get_rng_state() -> Any:
    """The state of the default generator as a tensor of bytes.

    >>> import rushlight as torch
    >>> state = torch.get_rng_state()
    >>> first = torch.rand(2)
    >>> torch.set_rng_state(state)
    >>> torch.equal(first, torch.rand(2))
    True
    """
    return _pack_state(default_generator)


def set_rng_state(new_state: Any) -> None:
    """Sets the state of the default generator.

    >>> import rushlight as torch
    >>> state = torch.get_rng_state()
    >>> first = torch.rand(2)
    >>> torch.set_rng_state(state)
    >>> torch.equal(first, torch.rand(2))
    True
    """
    _unpack_state(default_generator, new_state)


class fork_rng(_C._Scope):
    """Restores the state of the default generator and those of CUDA devices when the block ends.

    ``devices`` names some of them; without it they are all meant.

    >>> import rushlight as torch
    >>> _ = torch.manual_seed(1)
    >>> with torch.random.fork_rng():
    ...     inside = torch.rand(2)
    >>> torch.equal(inside, torch.rand(2))
    True
    """

    def __init__(
        self,
        devices: Any = None,
        enabled: bool = True,
        _caller: str = "fork_rng",
        _devices_kw: str = "devices",
        device_type: str = "cpu",
    ) -> None:
        if enabled:
            generators = [default_generator, *_of_devices(devices)]
            states = tuple((g._raw_state, g._set_raw_state, None) for g in generators)
            self._set_parts(("states", states))


class torch_streams:
    """Makes the default generator and all new ones draw the numbers of PyTorch on a CPU.

    Takes effect at once, like ``torch.set_grad_enabled``; as a context manager it is undone when
    the block ends. The default generator starts its seed's sequence anew. ``rushlight run`` turns
    it on. PyTorch's engine is sequential: large tensors are filled faster without it.

    >>> import rushlight as torch
    >>> with torch.random.torch_streams():
    ...     _ = torch.manual_seed(0)
    ...     torch.rand(3)
    tensor([0.4963, 0.7682, 0.0885])
    """

    def __init__(self, enabled: bool = True) -> None:
        self._before = _C._use_torch_streams(bool(enabled))
        self._state = default_generator._raw_state()
        if default_generator._torch is not bool(enabled):
            default_generator._restart(bool(enabled))

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        _C._use_torch_streams(self._before)
        default_generator._set_raw_state(self._state)


default_generator = Generator()
_C._set_default_generator(default_generator)
