"""Sample inputs of activations, losses and normalisations; `samples` imports this module."""

from samples import Maker, floating, sample, samples

WIDE = {"low": -4.3, "high": 4.9}  # over every knee of the activations


def apart(make, *shape):
    """Numbers that no tensor of the default range holds, nor is at a knee's distance from."""
    return make(*shape, low=-1.13, high=1.91)


@samples("nn.functional.gelu", "nn.functional.mish", "nn.functional.silu", "nn.functional.softsign")
@samples("nn.functional.sigmoid", "nn.functional.tanh", "nn.functional.relu6")
@samples("nn.functional.hardsigmoid", "nn.functional.hardswish", "nn.functional.relu")
@samples("nn.functional.selu", "selu", "nn.functional.celu", "celu", "nn.functional.elu")
@samples("nn.functional.leaky_relu", "nn.functional.hardtanh")
@samples("nn.functional.hardshrink", "nn.functional.softshrink", "nn.functional.tanhshrink")
@floating
def activations(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(11, **WIDE))
    yield sample(make(3, 5, **WIDE).t())
    yield sample(make(3, 6, **WIDE)[:, 1::2])
    yield sample(make())
    yield sample(make(0))


@samples("nn.functional.celu", "celu", "nn.functional.elu")
@floating
def with_a_scale(dtype, seed):
    yield from activations(dtype, seed)
    make = Maker(dtype, seed)
    yield sample(make(7), 0.7)
    yield sample(make.transposed(2, 3), alpha=1.4)


@samples("nn.functional.leaky_relu")
@floating
def with_a_slope(dtype, seed):
    yield from activations(dtype, seed)
    make = Maker(dtype, seed)
    yield sample(make(7), 0.3)
    yield sample(make(2, 3), negative_slope=0.2)


@samples("nn.functional.hardshrink", "nn.functional.softshrink")
@floating
def with_a_threshold(dtype, seed):
    yield from activations(dtype, seed)
    make = Maker(dtype, seed)
    yield sample(make(7), 0.3)
    yield sample(make(2, 3), lambd=1.1)


@samples("nn.functional.gelu")
@floating
def gelus(dtype, seed):
    yield from activations(dtype, seed)
    make = Maker(dtype, seed)
    yield sample(make(7, **WIDE), approximate="tanh")
    yield sample(make.transposed(2, 3), approximate="tanh")


@samples("nn.functional.hardtanh")
@floating
def with_two_bounds(dtype, seed):
    yield from activations(dtype, seed)
    make = Maker(dtype, seed)
    yield sample(make(7), -0.3, 0.8)
    yield sample(make(2, 3), max_val=0.2)


@samples("nn.functional.threshold", "threshold")
@floating
def thresholds(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(7), 0.15, 2.0)
    yield sample(make.transposed(2, 3), -0.3, 0.0)
    yield sample(make.strided(2, 3), threshold=0.5, value=-1.0)
    yield sample(make(), 0.5, 1.0)
    yield sample(make(0), 0.0, 1.0)


@samples("nn.functional.glu")
@floating
def gated(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(6))
    yield sample(make(2, 4))
    yield sample(make.transposed(4, 3), 0)
    yield sample(make.strided(2, 2), dim=-2)
    yield sample(make(0, 2))


@samples("nn.functional.prelu", "prelu")
@floating
def with_learned_slopes(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5), make.positive(1))
    yield sample(make(2, 3), make.positive(3))
    yield sample(make.transposed(2, 3), make.positive(1))
    yield sample(make(2, 3, 2), make.positive(3))
    yield sample(make(), make.positive(1))
    yield sample(make(0, 3), make.positive(3))


# Losses: the target stays clear of the input and of the knees at a distance from it.


@samples("nn.functional.l1_loss", "nn.functional.mse_loss")
@samples("nn.functional.smooth_l1_loss", "nn.functional.huber_loss")
@floating
def distances(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5), apart(make, 5))
    yield sample(make(2, 3), apart(make, 3, 2).t(), reduction="sum")
    yield sample(make.strided(2, 3), apart(make, 2, 3), reduction="none")
    yield sample(make(), apart(make))
    yield sample(make(0), make(0), reduction="sum")


@samples("nn.functional.l1_loss", "nn.functional.mse_loss")
@floating
def weighted_distances(dtype, seed):
    yield from distances(dtype, seed)
    make = Maker(dtype, seed)
    for reduction in ("mean", "none"):
        yield sample(make(2, 3), apart(make, 2, 3), weight=make.positive(2, 3), reduction=reduction)


@samples("nn.functional.smooth_l1_loss")
@floating
def smooth_distances(dtype, seed):
    yield from distances(dtype, seed)
    make = Maker(dtype, seed)
    yield sample(make(5), apart(make, 5), beta=0.4)
    yield sample(make(2, 3), apart(make, 2, 3), reduction="none", beta=0.0)


@samples("nn.functional.huber_loss")
@floating
def huber_distances(dtype, seed):
    yield from distances(dtype, seed)
    make = Maker(dtype, seed)
    yield sample(make(5), apart(make, 5), delta=0.4)
    yield sample(make(2, 3), apart(make, 2, 3), "sum", 1.7)


@samples("nn.functional.binary_cross_entropy")
@floating
def chances(dtype, seed):
    make = Maker(dtype, seed)

    def chance(*shape):
        return make(*shape, low=0.1, high=0.9)

    yield sample(chance(5), chance(5))
    yield sample(chance(3, 2).t(), chance(2, 3), reduction="sum")
    yield sample(chance(2, 3), chance(2, 3), make.positive(2, 3), reduction="none")
    yield sample(chance(2, 3), chance(2, 3), weight=make.positive(3))
    yield sample(chance(), chance())


@samples("nn.functional.binary_cross_entropy_with_logits")
@floating
def chances_of_logits(dtype, seed):
    make = Maker(dtype, seed)

    def chance(*shape):
        return make(*shape, low=0.1, high=0.9)

    yield sample(make(5), chance(5))
    yield sample(make.transposed(2, 3), chance(2, 3), reduction="sum")
    yield sample(make(2, 3), chance(2, 3), make.positive(2, 3), reduction="none")
    yield sample(make.strided(2, 3), chance(2, 3), pos_weight=make.positive(3))
    yield sample(make(2, 2), chance(2, 2), make.positive(2), pos_weight=make.positive(2))
    yield sample(make(), chance())


@samples("nn.functional.kl_div")
@floating
def divergences(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3), make.positive(2, 3), reduction="batchmean")
    yield sample(make.transposed(2, 3), make.positive(2, 3), reduction="sum")
    yield sample(make.strided(2, 3), make(2, 3), reduction="none", log_target=True)
    yield sample(make(2, 2), make(2, 2), reduction="batchmean", log_target=True)
    yield sample(make(0), make(0), reduction="sum")


@samples("nn.functional.cross_entropy")
@floating
def class_losses(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3, 4), make.index(4, 3))
    yield sample(make.transposed(3, 4), make.index(4, 3), reduction="sum")
    yield sample(make(3, 4), make.index(4, 3), weight=make.positive(4))
    yield sample(make(3, 4), make.index(4, 3), make.positive(4), label_smoothing=0.2)
    yield sample(make(3, 4), make.index(4, 3), ignore_index=2, reduction="sum")
    yield sample(make(2, 4, 3), make.index(4, 2, 3), reduction="none")
    yield sample(make(2, 3), make.positive(2, 3), make.positive(3))
    yield sample(make(2, 3), make.positive(2, 3), reduction="none", label_smoothing=0.1)
    yield sample(make(4), make.index(4))


# Normalisations


@samples("layer_norm")
@floating
def layer_norms(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3), (3,))
    yield sample(make(2, 3), (3,), make(3), make(3))
    yield sample(make.transposed(4, 3), (3,), make(3), None, 0.1)
    yield sample(make(2, 3, 4), (3, 4), make(3, 4), make(3, 4))
    yield sample(make(0, 3), (3,), make(3), make(3))


@samples("native_layer_norm")
@floating
def native_layer_norms(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3), (3,), None, None, 1e-5)
    yield sample(make(2, 3), (3,), make(3), make(3), 1e-5)
    yield sample(make.transposed(4, 3), (3,), make(3), None, 0.1)
    yield sample(make(2, 3, 2), (3, 2), make(3, 2), make(3, 2), 1e-3)


@samples("nn.functional.rms_norm", "rms_norm")
@floating
def rms_norms(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3), (3,), eps=1e-5)
    yield sample(make(2, 3), (3,), make(3))
    yield sample(make.transposed(4, 3), (3,), make(3), 0.1)
    yield sample(make(2, 3, 2), (3, 2), make(3, 2), 1e-3)
    yield sample(make(0, 3), (3,), make(3))
