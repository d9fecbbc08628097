"""A recomputation draws the random numbers of the forward pass, wherever they came from."""

import functools
import random
import subprocess
import sys

import numpy as np
import pytest

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.utils.checkpoint import checkpoint
from support import randleaf, values

CUSTOM = torch.Generator().manual_seed(5)


def torch_noise(x):
    return torch.rand(x.shape, dtype=x.dtype)


def custom_noise(x):
    return torch.rand(x.shape, dtype=x.dtype, generator=CUSTOM)


def python_noise(x):
    return torch.tensor([random.random() for _ in range(x.numel())], dtype=x.dtype)


def numpy_noise(x):
    return torch.from_numpy(np.random.rand(x.numel()))  # noqa: NPY002


def one_gauss(x):
    """NumPy and `random` both keep the second of two normal numbers for the next call."""
    return x.new_full(x.shape, np.random.randn() + random.gauss(0, 1))  # noqa: NPY002


GLOBAL = np.random.default_rng(3)
PYTHON = random.Random(3)


class Noisy(torch.nn.Module):
    """A module that keeps a generator, as layers with noise of their own do."""

    def __init__(self, generator):
        super().__init__()
        self.inner = torch.nn.Module()
        self.inner.sources = {"noise": [generator]}

    def forward(self, x):
        return torch.from_numpy(self.inner.sources["noise"][0].standard_normal(x.shape))


class OfItsClass:
    generator = np.random.default_rng(4)

    @classmethod
    def noise(cls, x):
        return torch.from_numpy(cls.generator.random(x.shape))


def closed_over(generator):
    return lambda x: torch.from_numpy(generator.random(x.shape))


def by_default(x, generator=np.random.default_rng(6)):  # noqa: B008
    return torch.from_numpy(generator.normal(size=x.shape))


def in_an_inner_function(x):
    def inner():
        return [GLOBAL.random() for _ in range(x.numel())]

    return torch.tensor(inner(), dtype=x.dtype).reshape(x.shape)


SOURCES = [torch_noise, custom_noise, python_noise, numpy_noise, one_gauss]
OBJECTS = {
    "global": lambda x: torch.from_numpy(GLOBAL.standard_normal(x.shape)),
    "inner function": in_an_inner_function,
    "closure": closed_over(np.random.Generator(np.random.MT19937(1))),
    "legacy": closed_over(np.random.RandomState(2)),
    "philox": closed_over(np.random.Generator(np.random.Philox(2))),
    "default": by_default,
    "module": Noisy(np.random.default_rng(5)),
    "bound method": Noisy(np.random.default_rng(5)).forward,
    "class": OfItsClass.noise,
    "partial": functools.partial(by_default, generator=np.random.default_rng(8)),
    "python": lambda x: torch.tensor([PYTHON.gauss(0, 1) for _ in x]),
}


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)
    CUSTOM.manual_seed(5)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002


def everything():
    """The states of all sources."""
    numpy_state = np.random.get_state(legacy=False)  # noqa: NPY002
    numpy_key = numpy_state["state"].pop("key").tolist()
    states = torch.get_rng_state().tolist(), CUSTOM.get_state().tolist()
    return (*states, random.getstate(), numpy_key, str(numpy_state))


@pytest.mark.parametrize("noise", SOURCES)
def test_the_noise_is_drawn_again(noise):
    drawn = []

    def f(x):
        drawn.append(values(noise(x)))
        return (x * torch.tensor(drawn[-1])).sin().exp()

    noise(randleaf(1))  # leaves half a pair of normal numbers behind
    y = checkpoint(f, randleaf(4)).sum()
    after = everything()
    for _ in range(3):
        noise(randleaf(3))
    torch.rand(3)
    moved = everything()
    y.backward(retain_graph=True)
    y.backward()
    np.testing.assert_array_equal(drawn[1], drawn[0])
    np.testing.assert_array_equal(drawn[2], drawn[0])
    assert everything() == moved != after


@pytest.mark.parametrize("noise", OBJECTS.values(), ids=OBJECTS)
def test_generators_that_are_objects_of_other_libraries(noise):
    drawn = []

    def f(x):
        drawn.append(values(noise(x)))
        return (x * torch.tensor(drawn[-1])).sin().exp()

    y = checkpoint(f, randleaf(4)).sum()
    noise(randleaf(3))
    y.backward(retain_graph=True)
    noise(randleaf(3))
    y.backward()
    np.testing.assert_array_equal(drawn[1], drawn[0])
    np.testing.assert_array_equal(drawn[2], drawn[0])


def test_a_generator_among_the_arguments_goes_on_where_it_was():
    def f(x, generator):
        return (x * torch.from_numpy(generator.random(x.shape))).sin()

    ours, twin = np.random.default_rng(1), np.random.default_rng(1)
    y = checkpoint(f, randleaf(3), ours)
    y.sum().backward()
    twin.random(3)
    assert ours.random() == twin.random()


@pytest.mark.parametrize("memory_budget", [None, 0.0, 0.5])
def test_dropout_is_bit_exact(memory_budget):
    def f(x):
        return F.dropout(F.dropout(x.sin(), 0.5).exp() * custom_noise(x), 0.3)

    def gradient(call):
        torch.manual_seed(1)
        CUSTOM.manual_seed(2)
        x = randleaf(40)
        y = call(x).sum()
        torch.rand(5)
        custom_noise(x)
        return values(y), values(torch.autograd.grad(y, x)[0])

    plain = gradient(f)
    ours = gradient(lambda x: checkpoint(f, x, memory_budget=memory_budget))
    for a, b in zip(ours, plain, strict=True):
        np.testing.assert_array_equal(a, b)


def test_not_preserved_on_request():
    drawn = []

    def f(x):
        drawn.append(values(torch_noise(x)))
        return x.sin()

    checkpoint(f, randleaf(4), preserve_rng_state=False).sum().backward()
    assert not np.array_equal(*drawn)


def test_a_generator_that_the_region_makes_and_keeps():
    kept, drawn = [], []

    def f(x):
        if not kept:
            kept.append(torch.Generator().manual_seed(9))
        drawn.append(values(torch.rand(x.shape, dtype=x.dtype, generator=kept[0])))
        return (x * torch.tensor(drawn[-1])).sin()

    y = checkpoint(f, randleaf(3)).sum()
    state = kept[0].get_state().tolist()
    y.backward()
    np.testing.assert_array_equal(*drawn)
    assert kept[0].get_state().tolist() == state


def test_nested_regions_draw_their_own():
    def inner(x):
        return F.dropout(x, 0.5)

    def outer(x):
        h = checkpoint(inner, F.dropout(x.exp(), 0.5)).sin()
        return checkpoint(inner, F.dropout(h, 0.5)).cos()

    def plain(x):
        return inner(F.dropout(inner(F.dropout(x.exp(), 0.5)).sin(), 0.5)).cos()

    results = []
    for f in (plain, lambda x: checkpoint(outer, x)):
        torch.manual_seed(3)
        x = randleaf(50)
        y = f(x).sum()
        results.append((values(y), values(torch.autograd.grad(y, x)[0]), torch.rand(2).tolist()))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])
    assert results[0][2] == results[1][2]


def test_libraries_that_were_not_imported_stay_so():
    program = """
import sys
import rushlight as torch
assert "rushlight.utils.checkpoint" not in sys.modules
from rushlight.utils.checkpoint import checkpoint
before = set(sys.modules)
checkpoint(torch.exp, torch.ones(2, requires_grad=True)).sum().backward()
assert not {"numpy", "random"} & (set(sys.modules) - before)
assert "numpy" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
