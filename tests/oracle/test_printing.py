"""`repr(tensor)` is PyTorch's, character by character."""

import math
import random

import pytest
import torch

import rushlight

FLOATS = ["float64", "float32", "float16", "bfloat16"]
COMPLEX = ["complex64", "complex128"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8"]
DTYPES = [*FLOATS, *COMPLEX, *INTEGERS, "bool"]
SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0]


@pytest.fixture(autouse=True)
def _default_options():
    yield
    for library in (rushlight, torch):
        library.set_printoptions(profile="default")
        library.set_default_dtype(library.float32)


def random_shape(rng):
    kind = rng.random()
    if kind < 0.1:
        return ()
    if kind < 0.2:
        return tuple(rng.choice([0, 1, 2, 3]) for _ in range(rng.randint(1, 4)))
    if kind < 0.35:
        return (rng.choice([30, 100, 999, 1000, 1001, 1500]),)
    if kind < 0.45:
        return tuple(rng.choice([3, 7, 12, 30]) for _ in range(rng.randint(2, 3)))
    return tuple(rng.randint(1, 9) for _ in range(rng.randint(1, 3)))


def random_floats(rng, n, largest):
    """n numbers of one of the kinds that print differently."""
    scale = rng.choice([1, 1, 1, 1e-3, 1e-6, 1e3, 1e6, 1e9])
    spread = rng.choice([0, 0, 2, 8])
    finish = rng.choice(
        [lambda x: x, lambda x: x, float.__round__, lambda x: round(4 * x) / 4, abs]
    )
    special = rng.sample(SPECIAL, rng.choice([0, 0, 1, 2]))
    if special and rng.random() < 0.05:
        return [special[0]] * n
    values = []
    for _ in range(n):
        x = float(finish(rng.gauss(0, 1) * scale * math.exp(spread * rng.gauss(0, 1))))
        x = max(-largest, min(largest, x))
        values.append(rng.choice(special) if special and rng.random() < 0.1 else x)
    return values


def random_values(rng, n, dtype):
    if dtype == "bool":
        return [rng.random() < 0.5 for _ in range(n)]
    if dtype in INTEGERS:
        high = rng.choice([1, 9, 120])
        low = 0 if dtype == "uint8" else -high
        factor = 10 ** rng.choice([0, 3, 16]) if dtype == "int64" else 1
        return [rng.randint(low, high) * factor for _ in range(n)]
    largest = 6e4 if dtype == "float16" else 1e30
    if dtype in COMPLEX:
        pairs = zip(random_floats(rng, n, largest), random_floats(rng, n, largest), strict=True)
        return [complex(re, im) for re, im in pairs]
    return random_floats(rng, n, largest)


def random_options(rng):
    options = {}
    if rng.random() < 0.5:
        options["precision"] = rng.randint(0, 8)
    if rng.random() < 0.5:
        options["threshold"] = rng.choice([0, 5, 50, 1000, math.inf])
    if rng.random() < 0.5:
        options["edgeitems"] = rng.choice([0, 1, 2, 3, 5])
    if rng.random() < 0.5:
        options["linewidth"] = rng.choice([1, 20, 40, 60, 80, 120, 200])
    if rng.random() < 0.3:
        options["sci_mode"] = rng.choice([True, False])
    if rng.random() < 0.3:
        options["profile"] = rng.choice(["default", "short", "full"])
    return options


def both(values, shape, dtype, finish=lambda x: x):
    """The same tensor in both libraries, as text."""
    return [
        repr(finish(library.tensor(values, dtype=getattr(library, dtype)).reshape(shape)))
        for library in (rushlight, torch)
    ]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(3))
def test_random_tensors(dtype, seed):
    rng = random.Random(f"{dtype} {seed}")
    for _ in range(80):
        shape = random_shape(rng)
        ours, theirs = both(random_values(rng, math.prod(shape), dtype), shape, dtype)
        assert ours == theirs


@pytest.mark.parametrize("dtype", DTYPES)
def test_random_options(dtype):
    rng = random.Random(dtype)
    for _ in range(120):
        options = random_options(rng)
        rushlight.set_printoptions(**options)
        torch.set_printoptions(**options)
        shape = random_shape(rng)
        ours, theirs = both(random_values(rng, math.prod(shape), dtype), shape, dtype)
        assert ours == theirs, options


@pytest.mark.parametrize("default", ["float64", "float16", "bfloat16"])
def test_other_default_dtypes(default):
    for library in (rushlight, torch):
        library.set_default_dtype(getattr(library, default))
    for dtype in DTYPES:
        for shape in [(2,), (0,), (0, 3), ()]:
            ours, theirs = both([1] * math.prod(shape), shape, dtype)
            assert ours == theirs


HISTORIES = {
    "leaf": lambda x: x,
    "add": lambda x: x + 1,
    "mul": lambda x: x * x,
    "sum": lambda x: x.sum(),
    "select": lambda x: x[0],
    "transpose": lambda x: x.t(),
    "detach": lambda x: x.detach(),
    "expand": lambda x: x.expand(3, *x.shape),
}


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX])
def test_history(history, dtype):
    finish = HISTORIES[history]
    for columns in range(1, 12):
        values = [0.25 * i for i in range(2 * columns)]
        ours, theirs = both(values, (2, columns), dtype, lambda x: finish(x.requires_grad_()))
        assert ours == theirs
