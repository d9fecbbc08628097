"""Sample inputs of normalisations by channel; `samples` imports this module.

Running statistics are written while training, which samples may not be: test_norms tests them.
"""

from samples import Maker, floating, sample, samples


@samples("nn.functional.batch_norm")
@floating
def batch_norms(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3, 2), None, None, training=True)
    yield sample(make(4, 2), None, None, make(2), make(2), True)
    yield sample(make.transposed(2, 3, 2), None, None, None, make(3), True, 0.3, 0.1)
    yield sample(make.strided(2, 2, 3), make(2), make.positive(2), make(2), make(2))
    yield sample(make(1, 2, 2, 9), None, None, make(2), make(2), training=True)
    yield sample(make(3, 2), make(2), make.positive(2), eps=1e-3)
    yield sample(make(0, 2), None, None, make(2), make(2), training=True)


@samples("batch_norm")
@floating
def plain_batch_norms(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3, 2), None, None, None, None, True, 0.1, 1e-5, False)
    yield sample(make(3, 2), make(2), None, make(2), make.positive(2), False, 0.1, 1e-3, True)
    yield sample(make(2, 2, 3), make(2), make(2), None, None, True, 0.2, 1e-3, True)


@samples("native_batch_norm")
@floating
def native_batch_norms(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3, 2), None, None, None, None, True, 0.1, 1e-5)
    yield sample(make(2, 2, 2), make(2), make(2), None, None, True, 0.2, 1e-3)
    yield sample(make(3, 2), make(2), make(2), make(2), make.positive(2), False, 0.2, 1e-3)


@samples("nn.functional.group_norm", "group_norm")
@floating
def group_norms(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 4), 2)
    yield sample(make(2, 4), 2, make(4), make(4))
    yield sample(make.transposed(2, 4, 3), 4, make(4), None, 0.1)
    yield sample(make.strided(1, 2, 3), 1, None, make(2))
    yield sample(make(2, 3, 2, 2), num_groups=1, weight=make(3), bias=make(3), eps=1e-3)
    yield sample(make(0, 4, 2), 2, make(4), make(4))


@samples("native_group_norm")
@floating
def native_group_norms(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 2, 2), None, None, 2, 2, 2, 1, 1e-5)
    yield sample(make(2, 4, 3), make(4), make(4), 2, 4, 3, 2, 1e-3)
    yield sample(make.transposed(1, 4), make(4), None, 1, 4, 1, 2, 0.1)


@samples("nn.functional.instance_norm")
@floating
def instance_norms(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 2, 3))
    yield sample(make(1, 2, 3), None, None, make(2), make(2))
    yield sample(make.transposed(2, 2, 4), None, None, make(2), None, True, 0.3, 0.1)
    yield sample(make(2, 2, 2), make(2), make.positive(2), make(2), make(2), False)


@samples("instance_norm")
@floating
def plain_instance_norms(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(1, 2, 3), None, None, None, None, True, 0.1, 1e-5, False)
    yield sample(make.strided(2, 1, 3), make(1), make(1), None, None, True, 0.1, 1e-3, False)
    yield sample(make(2, 2, 2), make(2), make(2), make(2), make.positive(2), False, 0.1, 0.1, True)


@samples("nn.functional.local_response_norm")
@floating
def local_response_norms(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(1, 4, 2), 2)
    yield sample(make.transposed(1, 5, 1, 2), 3, 0.3, 0.6, 1.5)
    yield sample(make(2, 2, 1), size=5, alpha=0.4)
    yield sample(make(0, 2, 1), 2)


@samples("nn.functional.normalize")
@floating
def normalizations(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3))
    yield sample(make.transposed(2, 3), 3.0, 0)
    yield sample(make.strided(2, 3), p=1.0, dim=-1)
    yield sample(make(2, 2), 2.0, (0, 1), eps=9.0)
    yield sample(make(0, 3))
