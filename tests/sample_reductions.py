"""Sample inputs of reductions, scans and sorting; `samples` imports this module."""

import rushlight as torch
from samples import Maker, floating, sample, samples


@samples("var", "std", "var_mean", "std_mean")
@floating
def spreads(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3))
    yield sample(make(2, 3), -1, keepdim=True)
    yield sample(make(2, 3, 4), (0, -1), False)
    yield sample(make.transposed(3, 4), [1], correction=0)
    yield sample(make.strided(2, 3), dim=(0, 1), correction=2, keepdim=True)
    yield sample(make(5), False)
    yield sample(make(3, 0), 0)
    yield sample(make(), correction=0)


@samples("aminmax")
def both_extremes(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3))
    yield sample(make())
    yield sample(make(2, 3), dim=0)
    yield sample(make.transposed(3, 4), dim=-1, keepdim=True)
    yield sample(make(3, 0), dim=0)


@samples("count_nonzero")
def counts(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make.mask(2, 3).to(dtype))
    yield sample(make.mask(2, 3).to(dtype), 0)
    yield sample(make.mask(2, 3, 2).to(dtype), (0, -1))
    yield sample(make.mask(3, 4).to(dtype).t(), -1)
    yield sample(make())
    yield sample(make(0, 3), 0)


@samples("dist")
@floating
def distances(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5), make(5, low=2, high=4))
    yield sample(make(2, 3), make.transposed(2, 3) + 3.5, 1)
    yield sample(make.strided(2, 3), make(3, low=2, high=4), 3)
    yield sample(make(), make(low=2, high=4))
    yield sample(make(2, 2), make(2, 1, low=2, high=4), float("inf"))


@samples("median")
def medians(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5))
    yield sample(make(2, 3))
    yield sample(make())
    yield sample(make(2, 4), 1)
    yield sample(make.transposed(3, 4), -2, keepdim=True)
    yield sample(make(3, 0), 0)


@samples("mode")
def modes(dtype, seed):
    if dtype == torch.bool:  # which of the places of a tie is torch's business
        return
    make = Maker(dtype, seed)
    yield sample(make(5))
    yield sample(make(2, 3), 0)
    yield sample(make.transposed(3, 4), -1, keepdim=True)
    yield sample(make())


@samples("kthvalue")
def kth_values(dtype, seed):
    if dtype == torch.bool:
        return
    make = Maker(dtype, seed)
    yield sample(make(5), 2)
    yield sample(make(2, 3), 1, 0)
    yield sample(make.transposed(3, 4), 4, -1, keepdim=True)
    yield sample(make.strided(2, 3), 3)
    yield sample(make(), 1)


@samples("linalg.vector_norm")
@floating
def vector_norms(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3))
    yield sample(make(2, 3), 1, dim=0)
    yield sample(make(2, 3), 3, dim=-1, keepdim=True)
    yield sample(make.transposed(3, 4), float("inf"), dim=1)
    yield sample(make.strided(2, 3), float("-inf"), dim=(0, 1))
    yield sample(make(2, 3), 0.5)
    yield sample(make(5), 0)
    yield sample(make())
    yield sample(make(0, 3), dim=0)


@samples("nansum", "nanmean")
@floating
def reductions_without_nan(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3))
    yield sample(make(2, 3), 0)
    yield sample(make.transposed(3, 4), (0, -1), keepdim=True)
    yield sample(make())
    yield sample(make(0, 3), 1)


@samples("cumsum", "cumprod", "Tensor.cumprod_", "logcumsumexp", "cummax", "cummin")
def scans(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5), 0)
    yield sample(make(), 0)
    yield sample(make(2, 3), 0)
    yield sample(make(2, 3, 2), -2)
    yield sample(make.transposed(3, 4), 1)
    yield sample(make.strided(2, 3), -1)
    yield sample(make(2, 0), 1)


@samples("nn.functional.softmax", "nn.functional.log_softmax", "nn.functional.softmin")
@samples("special.softmax", "special.log_softmax")
@floating
def softmaxes(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5), 0)
    yield sample(make(), 0)
    yield sample(make(2, 3), 0)
    yield sample(make.transposed(3, 4), -1)
    yield sample(make.strided(2, 3), dim=1, dtype=torch.float64)
    yield sample(make(2, 0), 1)


@samples("trace")
def traces(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3, 3))
    yield sample(make.transposed(2, 4))
    yield sample(make.strided(3, 2))
    yield sample(make(0, 3))


@samples("diff")
def differences(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5))
    yield sample(make(3, 3), 2, 0)
    yield sample(make.transposed(3, 4), dim=-1)
    yield sample(make(2, 3), prepend=make(2, 1), append=make(2, 2))
    yield sample(make(2, 3), 1, -2, make(1, 3))
    yield sample(make(2, 3), 4)
    yield sample(make(0, 3), dim=1)


@samples("trapezoid", "trapz", "cumulative_trapezoid")
@floating
def areas(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5))
    yield sample(make(2, 3), make(2, 3))
    yield sample(make.transposed(3, 4), dx=0.5, dim=0)
    yield sample(make(2, 3), make(3), dim=-1)
    yield sample(make.strided(2, 3), make(2, 1), dim=0)
    yield sample(make(1))


@samples("argsort")
def orders(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5), stable=True)
    yield sample(make(2, 3), stable=True, dim=0)
    yield sample(make.transposed(3, 4), stable=True, dim=-1, descending=True)
    yield sample(make(), stable=True)
    if dtype != torch.bool:
        yield sample(make.strided(2, 4), -1, True)


@samples("msort")
def sorted_rows(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5))
    yield sample(make(2, 3))
    yield sample(make.transposed(3, 4))
    yield sample(make())
    yield sample(make(0, 3))


@samples("bincount")
def bins_of_integers(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make.index(4, 7))
    yield sample(make.index(4, 7), minlength=6)
    yield sample(make.index(4, 5), make(5))
    yield sample(make.index(4, 5), make.strided(5), 9)
    yield sample(make.index(4, 0))


@samples("histc")
@floating
def bins_of_numbers(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(7), 4)
    yield sample(make.transposed(3, 5), 5, -1.0, 1.0)
    yield sample(make(7), bins=3, min=0, max=2)


@samples("bucketize")
def buckets(dtype, seed):
    make = Maker(dtype, seed)
    edges = make(5).sort().values
    yield sample(make(2, 3), edges)
    yield sample(make.transposed(2, 3), edges, right=True)
    yield sample(edges, edges, out_int32=True)
    yield sample(make(), edges)
    yield sample(make(0), edges)
    yield sample(1, edges)


@samples("searchsorted")
def places_in_order(dtype, seed):
    make = Maker(dtype, seed)
    rows = make(2, 5).sort(-1).values
    yield sample(rows, make(2, 3))
    yield sample(rows, rows, right=True)
    yield sample(rows[0], make.transposed(2, 3), side="left")
    yield sample(rows[1], make(), out_int32=True)
    yield sample(rows[1], 1)


@samples("unique")
def distinct(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5))
    yield sample(make.index(3, 7).to(dtype), return_inverse=True)
    yield sample(make.index(3, 2, 4).to(dtype), return_counts=True)
    yield sample(make.index(2, 5, 2).to(dtype), return_inverse=True, return_counts=True, dim=0)
    yield sample(make(0))


@samples("unique_consecutive")
def runs(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5))
    yield sample(make.index(2, 7).to(dtype), return_inverse=True)
    yield sample(make.index(2, 8).to(dtype), return_inverse=True, return_counts=True)
    yield sample(make(0))
