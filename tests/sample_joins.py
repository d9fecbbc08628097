"""Sample inputs of joining, splitting and reshaping; `samples` imports this module."""

import rushlight as torch
from samples import Maker, floating, sample, samples

COMPLEX = {torch.float32: torch.complex64, torch.float64: torch.complex128}


@samples("concat", "concatenate")
def joined(dtype, seed):
    make = Maker(dtype, seed)
    yield sample([make(2, 3), make(1, 3)])
    yield sample((make(2, 3), make.strided(2, 1), make.transposed(2, 2)), -1)
    yield sample([make(0), make(2)], dim=0)


@samples("hstack", "vstack", "row_stack", "dstack", "column_stack")
def stacked(dtype, seed):
    make = Maker(dtype, seed)
    yield sample([make(), make(), make()])
    yield sample([make(3), make.strided(3)])
    yield sample((make(2, 3), make.transposed(2, 3)))
    yield sample([make(2, 0)])
    yield sample([make(2, 3, 2), make(2, 3, 2)])


@samples("block_diag")
def blocks(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 2), make(1, 3))
    yield sample(make(), make(3), make.transposed(3, 2))
    yield sample(make.strided(2, 1))
    yield sample(make(0, 2), make(2, 1))


@samples("atleast_1d", "atleast_2d", "atleast_3d")
def dims_added(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make())
    yield sample(make.strided(3))
    yield sample(make.transposed(2, 3))
    yield sample(make(2, 0, 2))
    yield sample(make(), make(3), make(2, 2))
    yield sample([make(2), make(1, 2, 2)])


@samples("broadcast_tensors")
def broadcast(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3), make(2, 1))
    yield sample(make(), make.transposed(2, 3))
    yield sample(make(2, 1, 2), make(3, 1), make(1))
    yield sample(make(0, 1), make(3))


@samples("broadcast_to")
def broadcast_to_a_shape(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3), (2, 3))
    yield sample(make.strided(2, 1), (2, 3))
    yield sample(make(), (2,))
    yield sample(make(1), (0,))


@samples("Tensor.expand_as")
def expanded_like(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3), make.mask(2, 3))
    yield sample(make.strided(2, 1), make.mask(2, 3))
    yield sample(make(), make.mask(2))
    yield sample(make(1), make.mask(0))


@samples("Tensor.view_as", "Tensor.reshape_as")
def shaped_like(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3), make.mask(3, 2))
    yield sample(make.strided(4, 3), make.mask(2, 2, 3))
    yield sample(make(), make.mask(1, 1))
    yield sample(make(0, 3), make.mask(0))


@samples("ravel")
def raveled(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3))
    yield sample(make.transposed(2, 3))
    yield sample(make.strided(2, 3))
    yield sample(make())
    yield sample(make(0, 2))


@samples("unflatten")
def unflattened(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(6), 0, (2, 3))
    yield sample(make.transposed(2, 6), -1, (-1, 2))
    yield sample(make.strided(4, 2), 0, (2, 1, 2))
    yield sample(make(2, 0), 1, (0, 3))


@samples("moveaxis")
def moved(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3, 4), 0, -1)
    yield sample(make.transposed(2, 3, 2), (0, 1), (2, 0))
    yield sample(make(3), 0, 0)


@samples("swapaxes", "swapdims")
def swapped(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3, 2), 0, -1)
    yield sample(make.transposed(2, 3), 1, 0)
    yield sample(make(3), 0, 0)
    yield sample(make(0, 2), 0, 1)


@samples("hsplit")
def split_columns(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(6), 3)
    yield sample(make(2, 4), 2)
    yield sample(make.transposed(2, 5), (1, 3))
    yield sample(make(2, 0), 1)


@samples("vsplit")
def split_rows(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(4, 2), 2)
    yield sample(make.transposed(5, 2), (1, 3))
    yield sample(make.strided(2, 2), (1,))
    yield sample(make(0, 2), 1)


@samples("dsplit")
def split_depth(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(1, 2, 4), 2)
    yield sample(make.transposed(2, 1, 5), (1, 3))
    yield sample(make(2, 0, 3), 3)


@samples("tensor_split")
def split_anywhere(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5), 3)
    yield sample(make.transposed(2, 5), (1, 3), -1)
    yield sample(make.strided(3, 2), (2, 7), dim=0)
    yield sample(make(2, 5), torch.tensor(2), 1)
    yield sample(make(5), torch.tensor([1, 4]))
    yield sample(make(0), 2)


@samples("meshgrid")
def grids(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2), make(3), indexing="ij")
    yield sample(make.strided(2), make(3), indexing="xy")
    yield sample([make(), make(2), make(3)], indexing="ij")
    yield sample(make(0), make(3), indexing="ij")


@samples("cartesian_prod")
def cartesian(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2), make.strided(3))
    yield sample(make(2), make(1), make(3))
    yield sample(make(3))


@samples("combinations")
def combined(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(4))
    yield sample(make.strided(4), 3)
    yield sample(make(3), r=2, with_replacement=True)
    yield sample(make(3), 1)


@samples("diag")
def diag(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3))
    yield sample(make.strided(2), -1)
    yield sample(make(3, 3))
    yield sample(make.transposed(2, 4), 1)
    yield sample(make(0))


@samples("diag_embed")
def diag_embedded(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3))
    yield sample(make.strided(2, 2), 1)
    yield sample(make.transposed(2, 3), -1, 0, 2)
    yield sample(make(2, 0))


@samples("diagflat")
def diag_of_all(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3))
    yield sample(make.transposed(2, 2), 1)
    yield sample(make(), -1)


@samples("diagonal_copy")
def diagonals(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3, 3))
    yield sample(make.transposed(2, 4), 1)
    yield sample(make(2, 3, 2), -1, dim1=-2, dim2=0)


@samples("fliplr")
def flipped_sideways(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3))
    yield sample(make.transposed(2, 3))
    yield sample(make(0, 2))


@samples("flipud")
def flipped_over(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3))
    yield sample(make.transposed(2, 3))
    yield sample(make(0, 2))


@samples("rot90")
def turned(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3))
    yield sample(make.transposed(2, 3), 2)
    yield sample(make(2, 3, 2), -1, (0, -1))
    yield sample(make.strided(2, 3), 4, [0, 1])


@samples("tile")
def tiled(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3), (2,))
    yield sample(make.transposed(2, 3), (2,))
    yield sample(make(2), (2, 3))
    yield sample(make(), (3,))
    yield sample(make(2), (0,))


@samples("repeat_interleave")
def repeated_in_place(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3), 2)
    yield sample(make.transposed(2, 3), 2)
    yield sample(make(2, 3), 3, -1)
    yield sample(make(2, 3), torch.tensor([1, 0, 2]), dim=1)
    yield sample(make.strided(2, 2), torch.tensor([2, 1]), 0, output_size=3)
    yield sample(torch.tensor([1, 0, 2]))
    yield sample(make(0), 2)


@samples("constant_pad_nd")
def padded(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3), (1, 2))
    yield sample(make.transposed(2, 3), (1, 0, 0, 2), 1)
    yield sample(make(2, 3), (-1, 2))
    yield sample(make(0), (1, 1))


@samples("vander")
def vandermonde(dtype, seed):
    if dtype == torch.bool:
        return
    make = Maker(dtype, seed)
    yield sample(make(3))
    yield sample(make.strided(3), 2)
    yield sample(make(2), N=4, increasing=True)


@samples("Tensor.copy_")
def copied_over(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3), make.transposed(2, 3))
    yield sample(make(2, 3), make(3))
    yield sample(make(), make(1).squeeze())
    yield sample(make(0, 3), make(1, 3))


@samples("Tensor.zero_")
def zeroed(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3))
    yield sample(make.transposed(2, 3))
    yield sample(make())
    yield sample(make(0))


@samples("fill")
def filled(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3), 1)
    yield sample(make.transposed(2, 3), make())
    yield sample(make(), 0)
    yield sample(make(0), 1)


# Complex numbers and their parts


@samples("complex")
@floating
def from_parts(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3), make(2, 3))
    yield sample(make.transposed(2, 3), make(3))
    yield sample(make(), make())
    yield sample(make(0), make(0))


@samples("polar")
@floating
def from_length_and_angle(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make.positive(2, 3), make(2, 3))
    yield sample(make.positive(3), make.transposed(2, 3))
    yield sample(make.positive(), make())
    yield sample(make(0), make(0))


@samples("view_as_complex")
@floating
def pairs_as_complex(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3, 2))
    yield sample(make(2, 2, 2).transpose(0, 1))
    yield sample(make(2))
    yield sample(make(0, 2))


@samples("real", "imag", "view_as_real", "resolve_conj", "resolve_neg", "conj", "conj_physical")
@samples("sgn", "angle", "is_complex", "is_conj", "is_neg")
@floating
def of_complex(dtype, seed):
    make = Maker(COMPLEX.get(dtype, torch.complex64), seed)
    yield sample(make(3))
    yield sample(make.transposed(2, 3))
    yield sample(make.strided(2, 2))
    yield sample(make())
    yield sample(make(0))


@samples("resolve_conj", "resolve_neg", "conj", "conj_physical", "sgn", "angle")
@samples("is_complex", "is_conj", "is_neg", "real")
@floating
def of_complex_and_real(dtype, seed):
    make = Maker(dtype, seed)
    yield from of_complex(dtype, seed)
    yield sample(make(2, 3))
    yield sample(make.transposed(2, 2))
