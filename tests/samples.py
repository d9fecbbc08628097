"""Sample inputs of the structural operations: one generator for each, given a dtype and a seed.

`SAMPLES[name](dtype, seed)` yields `Sample(args, kwargs)`; `name` is the path under the package
(`sum`, `nn.functional.pad`), and `function(name)` finds the callable. The samples of each
operation include, where they apply, zero dimensions, no elements, layouts that are not
contiguous, negative dims and keepdim. Values are distinct and away from kinks, so that finite
differences may be taken. `references.reference(name, *args, **kwargs)` gives NumPy's answer.
"""

import functools
from typing import NamedTuple

import numpy as np

import rushlight as torch


class Sample(NamedTuple):
    args: tuple
    kwargs: dict


SAMPLES = {}
# What is differentiated in place of an operation, by its name: a function of the operation. Some
# take Hermitian matrices alone, some give numbers up to a phase.
DIFFERENTIATED = {}


def samples(*names):
    """Register a generator of samples for one or more operations."""

    def register(generator):
        SAMPLES.update(dict.fromkeys(names, generator))
        return generator

    return register


def floating(generator):
    """A generator that has samples of floating point alone."""

    @functools.wraps(generator)
    def generate(dtype, seed):
        if dtype.is_floating_point:
            yield from generator(dtype, seed)

    return generate


def function(name):
    """The public callable, `torch.<name>` or a Tensor method; one in place gets a copy."""
    if name.startswith("Tensor.") and name.endswith("_") and not name.endswith("__"):
        method = name.removeprefix("Tensor.")
        return lambda target, *args, **kwargs: getattr(target.clone(), method)(*args, **kwargs)
    home = torch
    for part in name.split("."):
        home = getattr(home, part, None)
    return home if home is not None else getattr(torch.Tensor, name)


def sample(*args, **kwargs):
    return Sample(args, kwargs)


class Maker:
    """Makes tensors of one dtype; every tensor of one Maker has other numbers."""

    def __init__(self, dtype, seed):
        self.dtype = dtype
        self.random = np.random.default_rng(seed)

    def __call__(self, *shape, low=-1.5, high=1.7):
        """A contiguous tensor of distinct numbers between low and high."""
        count = int(np.prod(shape))
        if self.dtype == torch.bool:
            data = self.random.random(shape) > 0.5
        elif not (self.dtype.is_floating_point or self.dtype.is_complex):
            data = self.random.permutation(count).reshape(shape) % 50
        else:
            grid = low + (high - low) * (np.arange(count) + 0.5) / max(count, 1)
            data = self.random.permutation(grid).reshape(shape)
            if self.dtype.is_complex:
                data = data + 1j * self.random.permutation(data.ravel()).reshape(shape)
        return torch.tensor(np.asarray(data)).to(self.dtype)

    def positive(self, *shape):
        return self(*shape, low=0.5, high=2.0)

    def transposed(self, *shape):
        """The same, laid out in the reverse order of its dims."""
        t = self(*reversed(shape))
        return t.permute(tuple(reversed(range(len(shape)))))

    def strided(self, *shape):
        """The same, every second element of a larger tensor, with an offset."""
        wide = self(*shape[:-1], 2 * shape[-1] + 1)
        return wide[..., 1::2]

    def expanded(self, *shape):
        """The same, repeated along the first dim without memory of its own."""
        return self(*shape[1:]).expand(shape)

    def index(self, high, *shape):
        return torch.tensor(self.random.integers(0, high, shape))

    def mask(self, *shape):
        return torch.tensor(self.random.random(shape) > 0.5)


# Reductions


@samples("sum", "mean", "amax", "amin")
def reductions_over_any_dims(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3))
    yield sample(make(2, 3), 0)
    yield sample(make(2, 3), -1, keepdim=True)
    yield sample(make(2, 3, 4), (0, -1))
    yield sample(make(2, 3, 4), dim=[1], keepdim=True)
    yield sample(make.transposed(3, 4), 1)
    yield sample(make.strided(2, 3), (0, 1))
    yield sample(make(3, 0), 0)


@samples("sum", "mean")
def reductions_with_an_identity(dtype, seed):
    make = Maker(dtype, seed)
    yield from reductions_over_any_dims(dtype, seed)
    yield sample(make())
    yield sample(make(0, 3), 1)
    yield sample(make.expanded(4, 3), 0)


@samples("prod")
def product(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3))
    yield sample(make())
    yield sample(make(2, 3), 0)
    yield sample(make(2, 3), -1, keepdim=True)
    yield sample(make.transposed(3, 4), 1)
    yield sample(make(0, 3), 0)
    yield sample(torch.tensor([[0, 2], [3, 0]]).to(dtype), 1)


@samples("max", "min")
def extremes(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3))
    yield sample(make())
    yield sample(make(2, 3), 0)
    yield sample(make(2, 3), -1, keepdim=True)
    yield sample(make.transposed(3, 4), 1)
    yield sample(make(3, 0), 0)
    yield sample(make(2, 3), make(3))


@samples("argmax", "argmin")
def positions_of_extremes(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3))
    yield sample(make())
    yield sample(make(2, 3), 0)
    yield sample(make(2, 3), -1, keepdim=True)
    yield sample(make.transposed(3, 4), 1)
    yield sample(make(3, 0), 0)


@samples("any", "all")
def truth_reductions(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make.mask(2, 3).to(dtype))
    yield sample(make(2, 3), 0)
    yield sample(make.mask(2, 3).to(dtype), -1, keepdim=True)
    yield sample(make.mask(3, 4).to(dtype).t(), 1)
    yield sample(make(0, 3), 0)
    yield sample(make())


@samples("norm")
def norms(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3))
    yield sample(make.positive(2, 3), 1)
    yield sample(make(2, 3), 2, dim=-1, keepdim=True)
    yield sample(make(2, 3), 3, dim=0)
    yield sample(make(2, 3), float("inf"), dim=1)
    yield sample(make.transposed(3, 4), p=2, dim=(0, 1))


@samples("logsumexp", "softmax", "log_softmax")
def along_one_dim(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3), 0)
    yield sample(make(), 0)
    yield sample(make(2, 3), 0)
    yield sample(make(2, 3, 4), -1)
    yield sample(make.transposed(3, 4), 1)
    yield sample(make.strided(2, 3), -2)
    yield sample(make(2, 0), 0)
    yield sample(make.expanded(2, 3), 0)


# Contractions


@samples("mm")
def matrix_products(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3), make(3, 4))
    yield sample(make.transposed(2, 3), make(3, 4))
    yield sample(make(2, 3), make.transposed(3, 4))
    yield sample(make.strided(2, 3), make.strided(3, 2))
    yield sample(make(0, 3), make(3, 2))
    yield sample(make(2, 0), make(0, 3))
    yield sample(make(1, 1), make(1, 1))


@samples("bmm")
def batched_products(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 2, 3), make(2, 3, 4))
    yield sample(make(2, 3, 2).transpose(1, 2), make(2, 3, 4))
    yield sample(make.expanded(2, 2, 3), make(2, 3, 2))
    yield sample(make(0, 2, 3), make(0, 3, 2))
    yield sample(make(2, 2, 0), make(2, 0, 3))


@samples("matmul")
def general_products(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3), make(3))
    yield sample(make(2, 3), make(3))
    yield sample(make(3), make(3, 2))
    yield sample(make.transposed(2, 3), make(3, 2))
    yield sample(make(4, 2, 3), make(3, 2))
    yield sample(make(4, 2, 3), make(3))
    yield sample(make(3), make(4, 3, 2))
    yield sample(make(2, 1, 2, 3), make(3, 3, 2))
    yield sample(make(0), make(0))
    yield sample(make(2, 0), make(0, 2))


@samples("addmm")
def added_products(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 4), make(2, 3), make(3, 4))
    yield sample(make(4), make(2, 3), make(3, 4), beta=2, alpha=3)
    yield sample(make(2, 1), make.transposed(2, 3), make(3, 4), beta=0)
    yield sample(make(), make(2, 3), make(3, 4))
    yield sample(make(2, 2), make(2, 0), make(0, 2))


@samples("mv")
def matrix_vector(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3), make(3))
    yield sample(make.transposed(2, 3), make.strided(3))
    yield sample(make(0, 3), make(3))
    yield sample(make(2, 0), make(0))


@samples("dot")
def inner_products(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(4), make(4))
    yield sample(make.strided(4), make(4))
    yield sample(make(0), make(0))
    yield sample(make().expand(3), make(3))


@samples("outer")
def outer_products(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2), make(3))
    yield sample(make.strided(2), make(3))
    yield sample(make(0), make(3))
    yield sample(make(1), make(1))


@samples("einsum")
def index_products(dtype, seed):
    make = Maker(dtype, seed)
    yield sample("ij,jk->ik", make(2, 3), make(3, 4))
    yield sample("ij,kj", make(2, 3), make.strided(4, 3))
    yield sample("bij,bjk->bik", make(2, 2, 3), make(2, 3, 2))
    yield sample("...ij,...jk->...ik", make(2, 2, 3), make(3, 2))
    yield sample("i,j,k->kji", make(2), make(3), make(2))
    yield sample("ij->ji", make(2, 3))
    yield sample("ij->", make.transposed(2, 3))
    yield sample("ii->i", make(3, 3))
    yield sample("ij,ij->", make(2, 3), make(2, 3))


@samples("nn.functional.linear")
def linear(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3), make(4, 3))
    yield sample(make(2, 3), make(4, 3), make(4))
    yield sample(make(3), make(4, 3), make(4))
    yield sample(make(2, 2, 3), make.transposed(4, 3), make(4))
    yield sample(make(0, 3), make(4, 3), make(4))


# Joining, picking and placing


@samples("cat")
def joined(dtype, seed):
    make = Maker(dtype, seed)
    yield sample([make(2, 3), make(1, 3)])
    yield sample([make(2, 3), make.strided(2, 1), make.transposed(2, 2)], dim=-1)
    yield sample([make(3)])
    yield sample([make(0), make(2)], 0)
    yield sample([make(2, 0), make(2, 3)], 1)
    yield sample([make(2)] * 3)


@samples("stack")
def stacked(dtype, seed):
    make = Maker(dtype, seed)
    yield sample([make(2, 3), make(2, 3)])
    yield sample([make(2, 3), make.transposed(2, 3)], dim=-1)
    yield sample([make(), make(), make()], 0)
    yield sample([make(0)], 1)


@samples("gather")
def gathered(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3), 1, make.index(3, 2, 4))
    yield sample(make(), 0, torch.tensor(0))
    yield sample(make(4), 0, make.index(4, 6))
    yield sample(make.transposed(4, 3), -2, make.index(4, 2, 2))
    yield sample(make(2, 3), 1, make.index(3, 2, 0))


@samples("take_along_dim")
def taken(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3), make.index(3, 2, 4), 1)
    yield sample(make(2, 3), make.index(3, 1, 4), 1)
    yield sample(make(2, 3), make.index(6, 4))
    yield sample(make.transposed(4, 3), make.index(4, 2, 3), -2)


@samples("scatter")
def placed(dtype, seed):
    make = Maker(dtype, seed)
    rows = torch.tensor(np.stack([make.random.permutation(3) for _ in range(2)]))
    yield sample(make(2, 3), 1, rows, make(2, 3))
    yield sample(make(2, 3), 1, rows[:, :2], make(2, 2))
    yield sample(make.transposed(2, 3), -1, rows, make.strided(2, 3))
    yield sample(make(3), 0, torch.tensor([2]), 1)
    yield sample(make(2, 3), 1, rows[:, :0], make(2, 0))


@samples("scatter_add")
def scattered_sums(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3), 1, make.index(3, 2, 3), make(2, 3))
    yield sample(make(4), 0, make.index(4, 7), make(7))
    yield sample(make.transposed(2, 3), -1, make.index(3, 2, 2), make(2, 2))
    yield sample(make(2, 3), 1, make.index(3, 2, 0), make(2, 0))


@samples("index_select")
def selected(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(4), 0, make.index(4, 6))
    yield sample(make(2, 3), 1, make.index(3, 2))
    yield sample(make.transposed(4, 3), -2, make.index(4, 3))
    yield sample(make(2, 3), 0, make.index(2, 0))
    yield sample(make(2, 3), 0, torch.tensor(1))


@samples("index_add")
def index_sums(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(4), 0, make.index(4, 6), make(6))
    yield sample(make(2, 3), 1, make.index(3, 5), make(2, 5))
    yield sample(make.transposed(4, 3), -2, make.index(4, 2), make(2, 3))
    yield sample(make(2, 3), 0, make.index(2, 0), make(0, 3))


@samples("masked_fill")
def masked(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3), make.mask(2, 3), 1)
    yield sample(make(2, 3), make.mask(3), 0)
    yield sample(make.transposed(2, 3), make.mask(2, 1), 1)
    yield sample(make(2, 3), make.mask(2, 3), make())
    yield sample(make(0), make.mask(0), 1)
    yield sample(make(), torch.tensor(True), 1)


@samples("where")
def chosen(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make.mask(2, 3), make(2, 3), make(2, 3))
    yield sample(make.mask(3), make(2, 3), make(2, 1))
    yield sample(make.mask(2, 3), make.transposed(2, 3), make())
    yield sample(torch.tensor(True), make(), make())
    yield sample(make.mask(0), make(0), make(0))


@samples("sort")
def sorted_values(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5), stable=True)
    yield sample(make(2, 3), dim=0, stable=True)
    yield sample(make.transposed(3, 4), dim=-1, descending=True, stable=True)
    yield sample(make.strided(2, 4), stable=True)
    yield sample(make(), stable=True)
    yield sample(make(0, 3), dim=0, stable=True)


@samples("topk")
def largest(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5), 2)
    yield sample(make(2, 4), 3, dim=-1, largest=False)
    yield sample(make.transposed(4, 3), 2, dim=0)
    yield sample(make(4), 4)
    yield sample(make(4), 0)


@samples("flip")
def flipped(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3), (0,))
    yield sample(make(2, 3), (0, -1))
    yield sample(make.transposed(2, 3), (1,))
    yield sample(make(0, 3), (0,))
    yield sample(make(2, 3), ())


@samples("roll")
def rolled(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5), 2)
    yield sample(make(2, 3), -1, 1)
    yield sample(make.transposed(3, 4), (1, 5), (0, -1))
    yield sample(make(2, 3), 4)
    yield sample(make(0, 3), 1, 0)


@samples("tril", "triu")
def triangles(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3, 3))
    yield sample(make(2, 4), 1)
    yield sample(make.transposed(4, 2), -1)
    yield sample(make(2, 3, 3), 5)
    yield sample(make(0, 3))


@samples("Tensor.repeat")
def repeated(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3), 2)
    yield sample(make(3), (2, 3))
    yield sample(make.transposed(2, 3), 1, 2)
    yield sample(make(), 4)
    yield sample(make(2), 0)


@samples("nn.functional.pad")
def padded(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3), (1, 2))
    yield sample(make(2, 3), (1, 0, 0, 2), value=1)
    yield sample(make.transposed(3, 4), (-1, 2))
    yield sample(make(0), (1, 1))
    yield sample(make(2, 3), (0, 0))


@samples("clone", "Tensor.contiguous")
def copies(dtype, seed):
    make = Maker(dtype, seed)
    for t in (make(2, 3), make.transposed(2, 3), make.strided(2, 3), make.expanded(2, 3)):
        yield sample(t)
    yield sample(make())
    yield sample(make(0, 2))


# Losses and layers


@samples("nn.functional.nll_loss")
def class_losses(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3, 4), make.index(4, 3))
    yield sample(make.transposed(3, 4), make.index(4, 3), reduction="sum")
    yield sample(make(3, 4), make.index(4, 3), weight=make.positive(4))
    yield sample(make(3, 4), torch.tensor([1, -100, 2]))
    yield sample(make(2, 4, 3), make.index(4, 2, 3), reduction="none")
    yield sample(make(4), torch.tensor(2))


@samples("nn.functional.embedding")
def embeddings(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make.index(4, 5), make(4, 3))
    yield sample(make.index(4, 2, 3), make.transposed(4, 3))
    yield sample(torch.tensor(1), make(4, 3))
    yield sample(make.index(4, 0), make(4, 3))


@samples("nn.functional.layer_norm")
def normalised(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3), (3,))
    yield sample(make(2, 3), (3,), make(3), make(3))
    yield sample(make.transposed(4, 3), (3,), make(3), None, 0.1)
    yield sample(make(2, 3, 4), (3, 4), make(3, 4), make(3, 4))
    yield sample(make(0, 3), (3,), make(3), make(3))


# These modules add their own to SAMPLES.
import sample_attention  # noqa: E402, F401
import sample_contractions  # noqa: E402, F401
import sample_fft  # noqa: E402, F401
import sample_indexing  # noqa: E402, F401
import sample_joins  # noqa: E402, F401
import sample_layers  # noqa: E402, F401
import sample_linalg  # noqa: E402, F401
import sample_losses  # noqa: E402, F401
import sample_norms  # noqa: E402, F401
import sample_recurrent  # noqa: E402, F401
import sample_reductions  # noqa: E402, F401
import sample_views  # noqa: E402, F401
import sample_vision  # noqa: E402, F401
