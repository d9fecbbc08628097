"""Sample inputs of the views and of indexing; `samples` imports this module."""

import rushlight
from samples import Maker, sample, samples


def layouts(make, *shape):
    return (make(*shape), make.transposed(*shape), make.strided(*shape))


@samples("Tensor.view")
def viewed(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3), 6)
    yield sample(make(2, 3), (3, -1))
    yield sample(make(), 1, 1)
    yield sample(make(0, 3), 3, 0)
    yield sample(make.strided(2, 4), 2, 2, 2)
    yield sample(make.transposed(2, 3), dtype)


@samples("reshape")
def reshaped(dtype, seed):
    make = Maker(dtype, seed)
    for t in layouts(make, 2, 6):
        yield sample(t, (3, 4))
    yield sample(make.transposed(2, 3), (-1,))
    yield sample(make(), ())
    yield sample(make(0, 3), (0,))


@samples("permute")
def permuted(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3, 4), (2, 0, 1))
    yield sample(make.transposed(2, 3), (-1, 0))
    yield sample(make(3), (0,))
    yield sample(make(), ())
    yield sample(make(2, 0), (1, 0))


@samples("transpose")
def transposed(dtype, seed):
    make = Maker(dtype, seed)
    for t in layouts(make, 2, 3):
        yield sample(t, 0, 1)
    yield sample(make(2, 3, 4), -1, 0)
    yield sample(make(3), 0, -1)


@samples("positive")
def itself(dtype, seed):
    if dtype == rushlight.bool:
        return
    make = Maker(dtype, seed)
    for t in layouts(make, 2, 3):
        yield sample(t)
    yield sample(make())
    yield sample(make(0, 3))


@samples("t")
def matrix_transposed(dtype, seed):
    make = Maker(dtype, seed)
    for t in layouts(make, 2, 3):
        yield sample(t)
    yield sample(make(3))
    yield sample(make())


@samples("Tensor.expand")
def expanded(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3), 2, 3)
    yield sample(make(2, 1), (-1, 3))
    yield sample(make.strided(1, 2), 3, 2)
    yield sample(make(), (2, 2))
    yield sample(make(1), 0)


@samples("squeeze")
def squeezed(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(1, 3, 1))
    yield sample(make(1, 3, 1), -1)
    yield sample(make(1, 3, 1), (0, 2))
    yield sample(make(2, 3), 0)
    yield sample(make())


@samples("unsqueeze")
def unsqueezed(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3), 0)
    yield sample(make.transposed(2, 3), -1)
    yield sample(make(), 0)
    yield sample(make(0), 1)


@samples("select")
def one_selected(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3), 0, 1)
    yield sample(make.transposed(2, 3), -1, -2)
    yield sample(make(3), 0, 0)
    yield sample(make(2, 0), 0, 1)


@samples("narrow")
def narrowed(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(4), 0, 1, 2)
    yield sample(make.transposed(2, 3), -1, 0, 2)
    yield sample(make(2, 3), 0, 1, 0)
    yield sample(make.strided(2, 3), 1, -2, 2)


@samples("split")
def parts_of_a_size(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5), 2)
    yield sample(make(2, 5), (2, 3), dim=-1)
    yield sample(make.transposed(4, 3), 3, 0)
    yield sample(make(0), 1)


@samples("chunk")
def number_of_parts(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5), 2)
    yield sample(make(2, 4), 3, dim=-1)
    yield sample(make.transposed(4, 3), 2, 0)
    yield sample(make(2), 5)


@samples("unbind")
def unbound(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3))
    yield sample(make(2, 3), -1)
    yield sample(make.transposed(2, 3), 0)
    yield sample(make(2, 0), 0)


@samples("diagonal")
def diagonals(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3, 3))
    yield sample(make(2, 4), 1)
    yield sample(make.transposed(4, 3), -1)
    yield sample(make(2, 3, 4), 0, dim1=-2, dim2=0)
    yield sample(make(2, 3), 5)


@samples("Tensor.unfold")
def windows(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5), 0, 2, 1)
    yield sample(make(5), 0, 3, 2)
    yield sample(make.transposed(2, 4), -1, 2, 2)
    yield sample(make(3, 4), 0, 3, 1)


@samples("as_strided")
def restrided(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(6), (2, 2), (3, 1))
    yield sample(make(6), (4, 3), (1, 1))
    yield sample(make(2, 3), (3,), (0,), 2)
    yield sample(make(6), (), (), 3)


@samples("movedim")
def moved(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3, 4), 0, -1)
    yield sample(make(2, 3, 4), (0, 1), (2, 0))
    yield sample(make.transposed(2, 3), 1, 0)
    yield sample(make(3), 0, 0)


@samples("flatten")
def flattened(dtype, seed):
    make = Maker(dtype, seed)
    for t in layouts(make, 2, 3):
        yield sample(t)
    yield sample(make(2, 3, 4), 1)
    yield sample(make(2, 3, 4), start_dim=0, end_dim=-2)
    yield sample(make())


@samples("Tensor.__getitem__")
def indexed(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(4), 1)
    yield sample(make(2, 3), (slice(None), slice(0, 3, 2)))
    yield sample(make.transposed(2, 3), (Ellipsis, None, 1))
    yield sample(make(4, 3), [0, 0, 2])
    yield sample(make(4, 3), (make.index(4, 2, 2), slice(1, None)))
    yield sample(make(4, 3), make.mask(4, 3))
