"""Sample inputs of picking and placing by index; `samples` imports this module."""

import rushlight as torch
from samples import Maker, sample, samples


@samples("argwhere", "nonzero")
def places_of_truth(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make.mask(2, 3).to(dtype))
    yield sample(make.mask(3, 4).to(dtype).t())
    yield sample(make.mask(5).to(dtype))
    yield sample(make(0, 3))
    yield sample(make())


@samples("nn.functional.one_hot")
def one_hot(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make.index(4, 5))
    yield sample(make.index(4, 2, 3), 6)
    yield sample(make.index(3, 4, 2).t(), num_classes=4)
    yield sample(torch.tensor(1), 3)


@samples("embedding")
def embeddings(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(4, 3), make.index(4, 5))
    yield sample(make.transposed(4, 3), make.index(4, 2, 2))
    yield sample(make(4, 3), torch.tensor(1))
    yield sample(make(4, 3), make.index(4, 0))


@samples("take")
def taken(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5), make.index(5, 7))
    yield sample(make.transposed(2, 3), make.index(6, 2, 2))
    yield sample(make(2, 3), torch.tensor([-1, 0, -6]))
    yield sample(make(), torch.tensor(0))
    yield sample(make(3), make.index(3, 0))


@samples("put")
def put(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5), torch.tensor([3, 0]), make(2))
    yield sample(make.transposed(2, 3), torch.tensor([[5, -6], [1, 2]]), make.strided(2, 2))
    yield sample(make(4), make.index(4, 6), make(6), accumulate=True)
    yield sample(make(3), make.index(3, 0), make(0))


@samples("index_copy")
def copied(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(4), 0, torch.tensor([2, 0]), make(2))
    yield sample(make.transposed(2, 3), -1, torch.tensor([1, 2]), make.strided(2, 2))
    yield sample(make(3, 2), 0, torch.tensor([2]), make(1, 2))
    yield sample(make(3, 2), 0, make.index(3, 0), make(0, 2))


@samples("index_fill")
def filled(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(4), 0, torch.tensor([2, 0]), 1)
    yield sample(make.transposed(2, 3), -1, torch.tensor([1, 1]), make())
    yield sample(make.strided(3, 2), 0, torch.tensor([2]), 0)
    yield sample(make(3, 2), 0, make.index(3, 0), 1)


@samples("index_put")
def index_put(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(4), [torch.tensor([2, 0])], make(2))
    yield sample(make.transposed(3, 2), (torch.tensor([2, 0]), torch.tensor([1, 1])), make(2))
    yield sample(make(3, 2), [torch.tensor([2, 2, 0])], make(3, 2), accumulate=True)
    yield sample(make(3, 2), [torch.tensor([1, 2])], make(2))
    yield sample(make(2, 2), [torch.tensor([[True, False], [False, True]])], make())


@samples("masked_select")
def masked_select(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5), make.mask(5))
    yield sample(make.transposed(2, 3), make.mask(3))
    yield sample(make.strided(3), make.mask(2, 3))
    yield sample(make(), torch.tensor(True))
    yield sample(make(0), make.mask(0))


@samples("masked_scatter")
def masked_scatter(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5), make.mask(5), make(7))
    yield sample(make.transposed(2, 3), make.mask(3), make.strided(2, 3))
    yield sample(make(2, 2), make.mask(2, 1), make(2, 2))
    yield sample(make(0), make.mask(0), make(2))


@samples("scatter_reduce")
def scatter_reduced(dtype, seed):
    make = Maker(dtype, seed)

    def source(*shape):  # apart from the input, so that no two numbers tie
        return make(*shape) if dtype == torch.bool else make(*shape) + 2

    yield sample(make(4), 0, make.index(4, 6), source(6), "sum")
    yield sample(make.transposed(2, 3), -1, make.index(3, 2, 3), source(2, 3), "prod")
    yield sample(make(2, 3), 1, make.index(3, 2, 4), source(2, 4), "amax", include_self=True)
    yield sample(make(2, 3), 0, make.index(2, 2, 3), source(2, 3), "amin", include_self=False)
    yield sample(make(4), 0, make.index(4, 5), source(5), "prod", include_self=False)
    yield sample(make(3), 0, make.index(3, 0), make(0), "sum")
    if dtype.is_floating_point:
        yield sample(make(4), 0, make.index(4, 6), source(6), "mean")
        yield sample(make(2, 3), 1, make.index(3, 2, 3), source(2, 3), "mean", include_self=False)


@samples("select_scatter")
def select_placed(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3), make(3), 0, 1)
    yield sample(make.transposed(2, 3), make.strided(2), -1, -2)
    yield sample(make(3), make(), 0, 0)
    yield sample(make(2, 0), make(0), 0, 1)


@samples("slice_scatter")
def slice_placed(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5), make(2), 0, 1, 3)
    yield sample(make.transposed(2, 5), make.strided(2, 2), -1, 1, 5, 2)
    yield sample(make(3, 2), make(2, 2), start=-2)
    yield sample(make(3, 2), make(3, 2))
    yield sample(make(3), make(0), 0, 2, 2)


@samples("diagonal_scatter")
def diagonal_placed(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3, 3), make(3))
    yield sample(make.transposed(2, 4), make.strided(2), 1)
    yield sample(make(2, 3, 2), make(3, 2), 0, 0, 2)
    yield sample(make(3, 2), make(2), offset=-1)


@samples("as_strided_scatter")
def strides_placed(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(6), make(2, 2), (2, 2), (3, 1))
    yield sample(make(2, 3), make.strided(2), (2,), (2,), 1)
    yield sample(make(6), make(), (), (), 3)
