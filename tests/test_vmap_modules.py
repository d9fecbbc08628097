"""Modules under vmap: values, gradients, second derivatives and gradients of parameters."""

import pytest

import rushlight as torch
from rushlight.func import functional_call, grad, jvp, vmap
from support import check, randn

nn, SAMPLES = torch.nn, 3


def floats(*shape, seed=0):
    return randn(SAMPLES, *shape, seed=seed)


def classes(*shape):
    return (floats(*shape, seed=5).abs() * 3).long() % 4


def signs(*shape):
    return floats(*shape, seed=6).sign()


PAIR = (floats(2, 4), floats(2, 4, seed=1))
IMAGE = (floats(2, 2, 4, 4),)
ROWS = (floats(2, 4),)
SEQUENCE = (floats(5, 2, 3),)
TOKENS = (floats(3, 2, 4),)
# name: (module, arguments with the samples in front)
MODULES = {
    "Linear": (lambda: nn.Linear(4, 3), ROWS),
    "Bilinear": (lambda: nn.Bilinear(4, 4, 2), PAIR),
    "Conv1d": (lambda: nn.Conv1d(2, 3, 3), (floats(1, 2, 6),)),
    "Conv2d": (lambda: nn.Conv2d(2, 4, 3, groups=2, padding=1), IMAGE),
    "Conv2d of one image": (lambda: nn.Conv2d(2, 4, 3, stride=2), (floats(2, 5, 5),)),
    "Conv2d, circular": (lambda: nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular"), IMAGE),
    "Conv3d": (lambda: nn.Conv3d(1, 2, 2), (floats(1, 1, 3, 3, 3),)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(2, 3, 2, stride=2), IMAGE),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(3, track_running_stats=False), (floats(5, 3),)),
    "BatchNorm2d, evaluating": (lambda: nn.BatchNorm2d(2).eval(), IMAGE),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), (floats(2, 4, 3),)),
    "InstanceNorm1d": (lambda: nn.InstanceNorm1d(3), (floats(2, 3, 5),)),
    "LayerNorm": (lambda: nn.LayerNorm(4), ROWS),
    "RMSNorm": (lambda: nn.RMSNorm(4), ROWS),
    "LocalResponseNorm": (lambda: nn.LocalResponseNorm(2), IMAGE),
    "MaxPool2d": (lambda: nn.MaxPool2d(2), IMAGE),
    "AvgPool2d": (lambda: nn.AvgPool2d(2), IMAGE),
    "AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d(3), IMAGE),
    "AdaptiveMaxPool1d": (lambda: nn.AdaptiveMaxPool1d(2), ROWS),
    "LSTM": (lambda: nn.LSTM(3, 4, 2, bidirectional=True), SEQUENCE),
    "GRU": (lambda: nn.GRU(3, 4), SEQUENCE),
    "RNN without a batch": (lambda: nn.RNN(3, 4, nonlinearity="relu"), (floats(5, 3),)),
    "LSTMCell": (lambda: nn.LSTMCell(3, 4), (floats(2, 3),)),
    "GRUCell": (lambda: nn.GRUCell(3, 4), (floats(3),)),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(4, 2), TOKENS * 3),
    "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), TOKENS),
    "TransformerDecoderLayer": (
        lambda: nn.TransformerDecoderLayer(4, 2, 8, dropout=0.0),
        TOKENS * 2,
    ),
    "Softmax": (lambda: nn.Softmax(0), ROWS),
    "PReLU": (nn.PReLU, ROWS),
    "GLU": (nn.GLU, ROWS),
    "Hardswish": (nn.Hardswish, ROWS),
    "Upsample": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), IMAGE),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), (floats(1, 4, 3, 3),)),
    "Fold": (lambda: nn.Fold((4, 4), 2, stride=2), (floats(1, 8, 4),)),
    "Unfold": (lambda: nn.Unfold(2), IMAGE),
    "ReflectionPad2d": (lambda: nn.ReflectionPad2d(1), IMAGE),
    "CircularPad1d": (lambda: nn.CircularPad1d(2), ROWS),
    "CosineSimilarity": (nn.CosineSimilarity, PAIR),
    "PairwiseDistance": (nn.PairwiseDistance, PAIR),
    "SmoothL1Loss": (nn.SmoothL1Loss, PAIR),
    "BCEWithLogitsLoss": (nn.BCEWithLogitsLoss, (PAIR[0], PAIR[1].sigmoid())),
    "GaussianNLLLoss": (nn.GaussianNLLLoss, (*PAIR, floats(2, 4, seed=2).exp())),
    "PoissonNLLLoss": (nn.PoissonNLLLoss, (PAIR[0], PAIR[1].exp())),
    "TripletMarginLoss": (nn.TripletMarginLoss, (*PAIR, floats(2, 4, seed=2))),
    "CosineEmbeddingLoss": (nn.CosineEmbeddingLoss, (*PAIR, signs(2))),
    "HingeEmbeddingLoss": (nn.HingeEmbeddingLoss, (floats(4), signs(4))),
    "CrossEntropyLoss": (lambda: nn.CrossEntropyLoss(label_smoothing=0.1), (*ROWS, classes(2))),
    "CrossEntropyLoss of images": (nn.CrossEntropyLoss, (floats(2, 4, 3), classes(2, 3))),
    "NLLLoss": (lambda: nn.NLLLoss(reduction="none"), (*ROWS, classes(2))),
    "MultiMarginLoss": (nn.MultiMarginLoss, (*ROWS, classes(2))),
}
every = pytest.mark.parametrize("name", MODULES)


def made(name):
    torch.manual_seed(0)
    make, args = MODULES[name]
    return make().double(), args


def tensors(output):
    if isinstance(output, torch.Tensor):
        return (output,)
    return tuple(t for part in output if part is not None for t in tensors(part))


def rows(f, args):
    """f of each sample, the results in columns."""
    results = [f(*(a[i] for a in args)) for i in range(SAMPLES)]
    return [torch.stack(column) for column in zip(*results, strict=True)]


def compare(f, args):
    for found, right in zip(vmap(f)(*args), rows(f, args), strict=True):
        check(found, right, rtol=1e-8, atol=1e-10)


def total(output):
    return sum(t.sin().sum() for t in tensors(output))


def of_floats(module, args):
    """The module's total as a function of its floating point arguments."""
    moving = [i for i, a in enumerate(args) if a.is_floating_point()]

    def f(*values):
        given = dict(zip(moving, values, strict=True))
        return total(module(*(given.get(i, a) for i, a in enumerate(args))))

    return f, tuple(args[i] for i in moving)


@every
def test_values(name):
    module, args = made(name)
    compare(lambda *a: tensors(module(*a)), args)


@every
def test_gradients(name):
    module, args = made(name)

    def gradients(*sample):
        f, values = of_floats(module, sample)
        return grad(f, tuple(range(len(values))))(*values)

    compare(gradients, args)


@every
def test_second_derivatives(name):
    module, args = made(name)

    def products(*sample):
        f, values = of_floats(module, sample)
        gradient = grad(f, tuple(range(len(values))))
        return jvp(gradient, values, tuple(torch.ones_like(v) for v in values))[1]

    compare(products, args)


@pytest.mark.parametrize("name", [n for n, (make, _) in MODULES.items() if [*make().parameters()]])
def test_gradients_of_parameters(name):
    module, args = made(name)
    parameters = dict(module.named_parameters())
    slopes = grad(lambda p, *a: total(functional_call(module, p, a)))
    found = vmap(slopes, (None, *[0] * len(args)))(parameters, *args)
    right = rows(lambda *a: tuple(slopes(parameters, *a).values()), args)
    for key, expected in zip(parameters, right, strict=True):
        check(found[key], expected, rtol=1e-8, atol=1e-10)
