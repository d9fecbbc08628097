"""Sample inputs of products of tensors, and of pointwise operations that take options.

`samples` imports this module. The plain pointwise operations have theirs from the registry.
"""

import rushlight as torch
from samples import Maker, floating, sample, samples


@samples("addmv")
def added_matrix_vector(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2), make(2, 3), make(3))
    yield sample(make(1), make.transposed(2, 3), make.strided(3), beta=2, alpha=3)
    yield sample(make(), make(2, 3), make(3), beta=0)
    yield sample(make(2), make(2, 0), make(0))


@samples("addr")
def added_outer(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3), make(2), make(3))
    yield sample(make(3), make.strided(2), make(3), beta=2, alpha=3)
    yield sample(make(), make(2), make(3), beta=0)
    yield sample(make(0, 3), make(0), make(3))


@samples("baddbmm")
def added_to_batches(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 2, 2), make(2, 2, 3), make(2, 3, 2))
    yield sample(make(2), make(2, 3, 2).transpose(1, 2), make(2, 3, 2), beta=2, alpha=3)
    yield sample(make(1, 2, 1), make(1, 2, 2), make(1, 2, 3), beta=0)
    yield sample(make(2, 2, 2), make(2, 2, 0), make(2, 0, 2))


@samples("addbmm")
def added_sum_of_batches(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 2), make(2, 2, 3), make(2, 3, 2))
    yield sample(make(2), make(2, 3, 2).transpose(1, 2), make(2, 3, 2), beta=2, alpha=3)
    yield sample(make(2, 1), make(1, 2, 2), make(1, 2, 3), beta=0)
    yield sample(make(2, 2), make(0, 2, 3), make(0, 3, 2))


@samples("nn.functional.bilinear", "bilinear")
@floating
def bilinear(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3), make(2, 2), make(2, 3, 2))
    yield sample(make(2, 3), make.transposed(2, 2), make(2, 3, 2), make(2))
    yield sample(make.strided(2, 1, 2), make(2, 1, 2), make(1, 2, 2), make(1))
    yield sample(make(2), make(1), make(3, 2, 1))
    yield sample(make(0, 3), make(0, 2), make(2, 3, 2))


@samples("chain_matmul")
def chains(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3), make(3, 2))
    yield sample(make(2, 3), make.transposed(3, 1), make(1, 2))
    yield sample(make(1, 2), make(2, 1), make.strided(1, 3), make(3, 2))
    yield sample(make(2, 3))


@samples("linalg.multi_dot")
def multi_dot(dtype, seed):
    make = Maker(dtype, seed)
    yield sample([make(2, 3), make(3, 2)])
    yield sample([make(2, 3), make.transposed(3, 1), make(1, 2)])
    yield sample([make(2), make(2, 3), make.strided(3, 2), make(2)])
    yield sample([make(3), make(3, 2)])


@samples("ger")
def outer_products(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2), make(3))
    yield sample(make.strided(2), make(3))
    yield sample(make(0), make(3))


@samples("vdot")
def inner_products(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(4), make(4))
    yield sample(make.strided(3), make(3))
    yield sample(make(0), make(0))


@samples("inner")
def inner_of_any(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3), make(3))
    yield sample(make(2, 3), make(3))
    yield sample(make.transposed(2, 3), make.strided(2, 2, 3))
    yield sample(make(), make(2))
    yield sample(make(2, 0), make(3, 0))


@samples("kron")
def kronecker(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2), make(3))
    yield sample(make.transposed(2, 3), make(2, 1))
    yield sample(make(2, 2), make.strided(2))
    yield sample(make(), make(2))
    yield sample(make(0), make(2))


@samples("tensordot")
def tensordot(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3), make(2, 3))
    yield sample(make(2, 3), make(3, 2), 1)
    yield sample(make.transposed(2, 3), make(3, 4, 2), ([0, 1], [2, 0]))
    yield sample(make(2), make(3), dims=0)
    yield sample(make(2, 0), make(0, 3), 1)


@samples("cross")
def cross(dtype, seed):
    if dtype == torch.bool:
        return
    make = Maker(dtype, seed)
    yield sample(make(3), make(3))
    yield sample(make.transposed(2, 3), make(2, 3))
    yield sample(make(3, 2), make.strided(3, 2), 0)
    yield sample(make(2, 3), make(1, 3), dim=-1)
    yield sample(make(0, 3), make(0, 3), 1)


@samples("linalg.cross")
def cross_of_last_dim(dtype, seed):
    if dtype == torch.bool:
        return
    make = Maker(dtype, seed)
    yield sample(make(3), make(3))
    yield sample(make.transposed(2, 3), make(1, 3))
    yield sample(make(3, 2), make.strided(3, 2), dim=0)
    yield sample(make(0, 3), make(0, 3))


# Pointwise, with options


@samples("clamp", "clip")
@floating
def clamps(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5), -0.5, 0.6)
    yield sample(make.transposed(2, 3), min=0.2)
    yield sample(make.strided(2, 3), max=0.2)
    yield sample(make(2, 3), make(3, low=-1.1, high=-0.3), make(2, 1, low=0.2, high=1.0))
    yield sample(make(5), max=make(5, low=-1.1, high=1.2))
    yield sample(make(), -1, 1)
    yield sample(make(0), 0, 1)


@samples("clamp_max", "clamp_min")
@floating
def one_bound(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5), 0.6)
    yield sample(make.transposed(2, 3), make(3, low=-1.1, high=1.2))
    yield sample(make(), 1)
    yield sample(make(0), 0)


@samples("pow")
@floating
def powers(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make.positive(5), 2.5)
    yield sample(make.transposed(2, 3), 2)
    yield sample(make.strided(2, 3), -1)
    yield sample(make(5), 3)
    yield sample(make(5), 1)
    yield sample(make(5), 0)
    yield sample(2, make(5))


@samples("float_power")
@floating
def float_powers(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make.positive(5), 2.5)
    yield sample(make.positive(3, 2).t(), make(3))
    yield sample(2, make(5))
    yield sample(make(), 2)


@samples("square")
def squares(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5))
    yield sample(make.transposed(2, 3))
    yield sample(make.strided(2, 3))
    yield sample(make())
    yield sample(make(0))


@samples("copysign")
@floating
def signs_from_a_number(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5), -2.0)
    yield sample(make.transposed(2, 3), 3.0)
    yield sample(make(), -0.0)
    yield sample(make(0), 1)


@samples("div", "divide")
@floating
def rounded_quotients(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5), make.positive(5), rounding_mode=None)
    yield sample(make(5), 0.7, rounding_mode="floor")
    yield sample(make.transposed(2, 3), make.positive(3), rounding_mode="trunc")
    yield sample(make(), 0.3, rounding_mode="floor")


@samples("heaviside")
@floating
def steps(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5), make(5))
    yield sample(make.transposed(2, 3), make(3))
    yield sample(make(), make())
    yield sample(make(0), make(0))


@samples("logit")
@floating
def logits(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5, low=0.1, high=0.9))
    yield sample(make(3, 2, low=0.1, high=0.9).t(), 0.2)
    yield sample(make(5, low=0.05, high=0.98), eps=0.3)
    yield sample(make(low=0.1, high=0.7))
    yield sample(make(0))


@samples("nan_to_num")
@floating
def replaced(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5))
    yield sample(make.transposed(2, 3), 0.5)
    yield sample(make(), nan=1.0, posinf=2.0, neginf=-2.0)
    yield sample(make(0))


@samples("nextafter")
@floating
def neighbours(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5), make(5, low=2, high=3))
    yield sample(make.transposed(2, 3), make(3, low=-3, high=-2))
    yield sample(make(), make(low=2, high=3))
    yield sample(make(0), make(0))


@samples("polygamma")
@floating
def polygammas(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(0, make.positive(5))
    yield sample(1, make.positive(3, 2).t())
    yield sample(2, make.positive())
    yield sample(3, make(0))


@samples("Tensor.polygamma")
@floating
def polygammas_of_a_tensor(dtype, seed):
    for order, t in (s.args for s in polygammas(dtype, seed)):
        yield sample(t, order)


@samples("mvlgamma")
@floating
def multivariate_gammas(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5, low=1.2, high=3.0), 1)
    yield sample(make(3, 2, low=1.2, high=3.0).t(), 3)
    yield sample(make(low=1.2, high=3.0), 2)
    yield sample(make(0), 2)


@samples("round")
@floating
def rounded(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5), decimals=1)
    yield sample(make.transposed(2, 3), decimals=2)
    yield sample(make(), decimals=0)
    yield sample(make(5) * 100, decimals=-1)


@samples("xlogy")
@floating
def times_a_log(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5), 2.0)
    yield sample(2.0, make.positive(3, 2).t())
    yield sample(make.strided(2, 3), 0.5)
    yield sample(1, make.positive())
    yield sample(make(0), 2)


def factor(dtype):
    return 0.5 - 2j if dtype.is_complex else 2


@samples("add", "sub", "subtract", "rsub")
def scaled_terms(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3), make(2, 3), alpha=factor(dtype))
    yield sample(make(2, 1), make(3), alpha=factor(dtype))
    yield sample(make.transposed(2, 3), make.strided(2, 3), alpha=factor(dtype))
    yield sample(make(0, 2), make(2), alpha=factor(dtype))


@samples("addcmul", "addcdiv")
def scaled_products(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3), make(2, 3), make.positive(2, 3), value=factor(dtype))
    yield sample(make(2, 1), make(3), make.positive(), value=factor(dtype))
    yield sample(make.transposed(2, 3), make(3), make.positive(2, 1), value=factor(dtype))
