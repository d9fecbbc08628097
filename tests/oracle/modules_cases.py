"""Every module and loss of nn, with arguments and inputs to compare on."""

import numpy as np


class Case:
    """A module of both libraries: how to make it and what to call it with."""

    def __init__(self, name, args, inputs, kwargs=None, train=True):
        self.name, self.args, self.inputs = name, args, inputs
        self.kwargs, self.train = kwargs or {}, train

    def __repr__(self):
        options = [repr(a) for a in self.args] + [f"{k}={v!r}" for k, v in self.kwargs.items()]
        return f"{self.name}({', '.join(options)})" + ("" if self.train else ".eval()")


class Ints:
    """Whole numbers below `high` as an input."""

    def __init__(self, high, *shape, low=0):
        self.values = np.random.default_rng(len(shape) + high).integers(low, high, shape)


class Unit:
    """Numbers between 0 and 1 as an input that takes a gradient."""

    def __init__(self, *shape):
        self.values = np.random.default_rng(len(shape)).random(shape) * 0.9 + 0.05


class Floats:
    """Given numbers as an input that takes no gradient, or as an argument."""

    def __repr__(self):
        return "weights"

    def __init__(self, values):
        self.values = np.asarray(values, dtype=np.float64)


def signs(*shape):
    return Floats(np.where(np.random.default_rng(5).random(shape) < 0.5, -1.0, 1.0))


def positive(*shape):
    return Floats(np.random.default_rng(6).random(shape) * 0.9 + 0.05)


def case(name, *args, inputs, train=True, **kwargs):
    CASES.append(Case(name, args, inputs, kwargs, train))


CASES = []

# Linear maps and containers of them.
case("Identity", inputs=[(3, 4)])
case("Linear", 4, 3, inputs=[(5, 4)])
case("Linear", 4, 3, bias=False, inputs=[(2, 5, 4)])
case("Bilinear", 4, 3, 2, inputs=[(5, 4), (5, 3)])
case("Bilinear", 4, 3, 2, bias=False, inputs=[(5, 4), (5, 3)])
case("Flatten", inputs=[(2, 3, 4)])
case("Unflatten", 1, (2, 3), inputs=[(4, 6)])

# Activations.
for _name in (
    "ReLU", "ReLU6", "SELU", "SiLU", "Mish", "Hardsigmoid", "Hardswish", "Sigmoid", "Tanh",
    "LogSigmoid", "Softsign", "Tanhshrink", "GELU", "Hardshrink", "Softshrink", "Softplus", "ELU",
    "CELU", "LeakyReLU", "Hardtanh", "PReLU",
):  # fmt: skip
    case(_name, inputs=[(3, 4)])
case("GELU", "tanh", inputs=[(3, 4)])
case("GLU", inputs=[(3, 4)])
case("GLU", 0, inputs=[(4, 3)])
case("ELU", 0.7, inputs=[(3, 4)])
case("CELU", 0.7, inputs=[(3, 4)])
case("LeakyReLU", 0.3, inputs=[(3, 4)])
case("Softplus", 2.0, 1.0, inputs=[(3, 4)])
case("Threshold", 0.1, 20.0, inputs=[(3, 4)])
case("PReLU", 3, 0.1, inputs=[(2, 3, 4)])
case("RReLU", inputs=[(3, 4)], train=False)
case("Softmax", 1, inputs=[(3, 4)])
case("Softmin", 0, inputs=[(3, 4)])
case("LogSoftmax", -1, inputs=[(3, 4)])
case("Softmax2d", inputs=[(2, 3, 4, 4)])
case("ReLU", True, inputs=[])
case("Hardtanh", -2.0, 2.0, inputs=[(3, 4)])

# Dropout does nothing outside of training.
for _name in ("Dropout", "AlphaDropout", "FeatureAlphaDropout"):
    case(_name, 0.3, inputs=[(3, 4)], train=False)
case("Dropout1d", 0.3, inputs=[(2, 3, 4)], train=False)
case("Dropout2d", 0.3, inputs=[(2, 3, 4, 4)], train=False)
case("Dropout3d", 0.3, inputs=[(2, 3, 2, 4, 4)], train=False)

# Tables.
case("Embedding", 7, 3, inputs=[Ints(7, 2, 5)])
case("Embedding", 7, 3, padding_idx=2, inputs=[Ints(7, 2, 5)])
case("Embedding", 7, 3, scale_grad_by_freq=True, inputs=[Ints(4, 2, 5)])
for _mode in ("sum", "mean", "max"):
    case("EmbeddingBag", 7, 3, mode=_mode, inputs=[Ints(7, 4, 5)])
    case(
        "EmbeddingBag", 7, 3, mode=_mode, padding_idx=1,
        inputs=[Ints(7, 9), Floats([0, 2, 2, 6])],
    )  # fmt: skip
case("EmbeddingBag", 7, 3, mode="sum", inputs=[Ints(7, 4, 5), None, (4, 5)])
case(
    "EmbeddingBag", 7, 3, mode="mean", include_last_offset=True,
    inputs=[Ints(7, 9), Floats([0, 2, 9])],
)  # fmt: skip

# Normalisation.
case("LayerNorm", 4, inputs=[(3, 4)])
case("LayerNorm", (3, 4), elementwise_affine=False, inputs=[(2, 3, 4)])
case("LayerNorm", 4, bias=False, inputs=[(3, 4)])
case("RMSNorm", 4, inputs=[(3, 4)])
case("RMSNorm", (3, 4), eps=1e-3, elementwise_affine=False, inputs=[(2, 3, 4)])
case("GroupNorm", 2, 4, inputs=[(3, 4, 5)])
case("GroupNorm", 2, 4, affine=False, inputs=[(3, 4, 5)])
case("GroupNorm", 2, 4, bias=False, inputs=[(3, 4, 5)])
case("LocalResponseNorm", 2, inputs=[(2, 4, 5, 5)])
case("LocalResponseNorm", 3, 0.1, 0.5, 2.0, inputs=[(2, 4, 5)])
case("CrossMapLRN2d", 3, 0.1, inputs=[])
for _dims, _shape in ((1, (4, 3)), (1, (4, 3, 5)), (2, (4, 3, 5, 2)), (3, (4, 3, 2, 2, 2))):
    case(f"BatchNorm{_dims}d", 3, inputs=[_shape])
    case(f"BatchNorm{_dims}d", 3, inputs=[_shape], train=False)
    case(f"BatchNorm{_dims}d", 3, momentum=None, affine=False, inputs=[_shape])
    case(f"BatchNorm{_dims}d", 3, track_running_stats=False, inputs=[_shape], train=False)
case("BatchNorm2d", 3, bias=False, inputs=[(4, 3, 5, 2)])
case("SyncBatchNorm", 3, inputs=[(4, 3, 5)], train=False)
for _dims, _shape in ((1, (4, 3, 5)), (2, (4, 3, 5, 2)), (3, (4, 3, 2, 2, 2))):
    case(f"InstanceNorm{_dims}d", 3, inputs=[_shape])
    case(f"InstanceNorm{_dims}d", 3, inputs=[_shape[1:]])
    case(f"InstanceNorm{_dims}d", 3, affine=True, track_running_stats=True, inputs=[_shape])
    case(
        f"InstanceNorm{_dims}d", 3, affine=True, track_running_stats=True, inputs=[_shape],
        train=False,
    )  # fmt: skip

# Convolutions.
case("Conv1d", 2, 4, 3, inputs=[(2, 2, 8)])
case("Conv1d", 2, 4, 3, stride=2, padding=1, dilation=2, groups=2, inputs=[(2, 2, 9)])
case("Conv1d", 2, 4, 4, padding="same", inputs=[(2, 2, 9)])
case("Conv1d", 2, 4, 4, padding="same", padding_mode="circular", inputs=[(2, 2, 9)])
case("Conv2d", 2, 4, 3, inputs=[(2, 2, 6, 7)])
case("Conv2d", 2, 4, (3, 2), stride=(2, 1), padding=(1, 0), bias=False, inputs=[(2, 2, 6, 7)])
case("Conv2d", 4, 4, 3, padding=1, groups=4, inputs=[(2, 4, 6, 7)])
case("Conv2d", 2, 3, 3, padding=1, padding_mode="reflect", inputs=[(2, 2, 6, 7)])
case("Conv2d", 2, 3, 3, padding=1, padding_mode="replicate", inputs=[(2, 6, 7)])
case("Conv2d", 2, 3, 3, padding="valid", inputs=[(2, 2, 6, 7)])
case("Conv3d", 2, 3, 2, inputs=[(2, 2, 4, 4, 4)])
case("ConvTranspose1d", 2, 4, 3, inputs=[(2, 2, 6)])
case("ConvTranspose1d", 2, 4, 3, stride=2, padding=1, output_padding=1, inputs=[(2, 2, 6)])
case("ConvTranspose2d", 4, 2, 3, inputs=[(2, 4, 5, 5)])
case("ConvTranspose2d", 4, 2, 3, stride=2, groups=2, dilation=2, inputs=[(2, 4, 5, 5)])
case("ConvTranspose3d", 2, 3, 2, bias=False, inputs=[(2, 2, 3, 3, 3)])
case("Unfold", (2, 3), padding=1, stride=2, inputs=[(2, 3, 6, 7)])
case("Fold", (5, 6), (2, 3), inputs=[(2, 12, 16)])

# Pooling.
for _dims, _shape in ((1, (2, 3, 9)), (2, (2, 3, 8, 9)), (3, (2, 3, 6, 6, 6))):
    case(f"MaxPool{_dims}d", 2, inputs=[_shape])
    case(f"MaxPool{_dims}d", 3, 2, 1, ceil_mode=True, inputs=[_shape])
    case(f"MaxPool{_dims}d", 2, dilation=2, stride=1, inputs=[_shape])
    case(f"MaxPool{_dims}d", 2, return_indices=True, inputs=[_shape])
    case(f"AvgPool{_dims}d", 2, inputs=[_shape])
    case(f"AvgPool{_dims}d", 3, 2, 1, count_include_pad=False, ceil_mode=True, inputs=[_shape])
    case(f"AdaptiveAvgPool{_dims}d", 3, inputs=[_shape])
    case(f"AdaptiveMaxPool{_dims}d", 3, inputs=[_shape])
    case(f"LPPool{_dims}d", 2, 2, inputs=[_shape])
case("AvgPool2d", 2, divisor_override=3, inputs=[(2, 3, 8, 9)])
case("AdaptiveAvgPool2d", (None, 4), inputs=[(2, 3, 8, 9)])
case("AdaptiveMaxPool2d", (2, 3), return_indices=True, inputs=[(2, 3, 8, 9)])
case("LPPool2d", 3, 2, stride=1, inputs=[(2, 3, 8, 9)])
case("MaxUnpool1d", 2, inputs=[(1, 1, 3), Floats([[[1, 2, 5]]])])
case("MaxUnpool2d", 2, inputs=[(1, 1, 2, 2), Floats([[[[0, 3], [9, 14]]]])])
case("MaxUnpool3d", 2, inputs=[(1, 1, 1, 1, 1), Floats([[[[[6]]]]])])

for _dims, _shape in ((2, (2, 3, 8, 9)), (3, (2, 3, 6, 7, 8))):
    _samples = {"_random_samples": Floats(np.random.default_rng(8).random((2, 3, _dims)))}
    _name = f"FractionalMaxPool{_dims}d"
    case(_name, 2, output_size=4, **_samples, inputs=[_shape])
    case(_name, 3, output_ratio=0.5, return_indices=True, **_samples, inputs=[_shape])
    case(_name, 2, output_size=(1, 2, 3)[-_dims:], **_samples, inputs=[_shape])

# Padding.
for _dims, _shape in ((1, (2, 3, 5)), (2, (2, 3, 5, 6)), (3, (2, 3, 4, 5, 6))):
    for _kind in ("Zero", "Reflection", "Replication", "Circular"):
        case(f"{_kind}Pad{_dims}d", 2, inputs=[_shape])
    case(f"ConstantPad{_dims}d", 1, 3.5, inputs=[_shape])
case("ZeroPad2d", (1, 2, 0, 3), inputs=[(2, 3, 5, 6)])

# Images.
case("Upsample", scale_factor=2, inputs=[(2, 3, 4, 5)])
case("Upsample", size=(6, 7), mode="bilinear", inputs=[(2, 3, 4, 5)])
case("Upsample", scale_factor=2, mode="bilinear", align_corners=True, inputs=[(2, 3, 4, 5)])
case("Upsample", scale_factor=2, mode="linear", inputs=[(2, 3, 5)])
case("Upsample", scale_factor=2, mode="bicubic", inputs=[(2, 3, 4, 5)])
case("Upsample", scale_factor=2, mode="trilinear", inputs=[(1, 2, 3, 3, 3)])
case("UpsamplingNearest2d", scale_factor=2, inputs=[(2, 3, 4, 5)])
case("UpsamplingBilinear2d", scale_factor=2, inputs=[(2, 3, 4, 5)])
case("PixelShuffle", 2, inputs=[(2, 8, 3, 4)])
case("PixelUnshuffle", 2, inputs=[(2, 2, 6, 4)])
case("ChannelShuffle", 2, inputs=[(2, 6, 3, 4)])
case("CosineSimilarity", inputs=[(4, 5), (4, 5)])
case("PairwiseDistance", inputs=[(4, 5), (4, 5)])
case("PairwiseDistance", 1.0, keepdim=True, inputs=[(4, 5), (4, 5)])

# Recurrent layers.
for _name in ("RNN", "GRU", "LSTM"):
    case(_name, 4, 3, inputs=[(5, 2, 4)])
    case(_name, 4, 3, inputs=[(5, 4)])
    case(
        _name, 4, 3, num_layers=2, bidirectional=True, batch_first=True, inputs=[(2, 5, 4)],
    )  # fmt: skip
    case(_name, 4, 3, bias=False, inputs=[(5, 2, 4)])
    case(f"{_name}Cell", 4, 3, inputs=[(2, 4)])
    case(f"{_name}Cell", 4, 3, bias=False, inputs=[(4,)])
case("RNN", 4, 3, nonlinearity="relu", inputs=[(5, 2, 4), (1, 2, 3)])
case("RNNCell", 4, 3, nonlinearity="relu", inputs=[(2, 4), (2, 3)])
case("LSTM", 4, 3, proj_size=2, num_layers=2, inputs=[(5, 2, 4)])

# Attention.
case("MultiheadAttention", 8, 2, inputs=[(5, 2, 8), (4, 2, 8), (4, 2, 8)])
case("MultiheadAttention", 8, 2, batch_first=True, inputs=[(2, 5, 8)] * 3)
case("MultiheadAttention", 8, 2, bias=False, add_zero_attn=True, inputs=[(5, 2, 8)] * 3)
case("MultiheadAttention", 8, 2, add_bias_kv=True, inputs=[(5, 2, 8)] * 3)
case("MultiheadAttention", 8, 2, kdim=5, vdim=6, inputs=[(5, 2, 8), (4, 2, 5), (4, 2, 6)])
case("MultiheadAttention", 8, 2, inputs=[(5, 8), (4, 8), (4, 8)])
for _norm_first in (False, True):
    case(
        "TransformerEncoderLayer", 8, 2, 16, 0.0, norm_first=_norm_first, inputs=[(5, 2, 8)],
    )  # fmt: skip
    case(
        "TransformerDecoderLayer", 8, 2, 16, 0.0, batch_first=True, norm_first=_norm_first,
        inputs=[(2, 5, 8), (2, 4, 8)],
    )  # fmt: skip
case("TransformerEncoderLayer", 8, 2, 16, 0.0, "gelu", bias=False, inputs=[(5, 2, 8)])
case("Transformer", 8, 2, 2, 2, 16, 0.0, inputs=[(5, 2, 8), (4, 2, 8)])

# Losses.
for _reduction in ("mean", "sum", "none"):
    _r = {"reduction": _reduction}
    case("L1Loss", **_r, inputs=[(3, 4), (3, 4)])
    case("MSELoss", **_r, inputs=[(3, 4), (3, 4)])
    case("SmoothL1Loss", beta=0.5, **_r, inputs=[(3, 4), (3, 4)])
    case("HuberLoss", delta=0.7, **_r, inputs=[(3, 4), (3, 4)])
    case("NLLLoss", **_r, inputs=[(3, 4), Ints(4, 3)])
    case("NLLLoss", ignore_index=1, **_r, inputs=[(3, 4, 2), Ints(4, 3, 2)])
    case("CrossEntropyLoss", **_r, inputs=[(3, 4), Ints(4, 3)])
    case("CrossEntropyLoss", label_smoothing=0.1, ignore_index=2, **_r, inputs=[(3, 4), Ints(4, 3)])
    case("CrossEntropyLoss", **_r, inputs=[(3, 4), positive(3, 4)])
    case("BCEWithLogitsLoss", **_r, inputs=[(3, 4), positive(3, 4)])
    case("KLDivLoss", **_r, inputs=[(3, 4), positive(3, 4)])
    case("KLDivLoss", log_target=True, **_r, inputs=[(3, 4), positive(3, 4)])
    case("PoissonNLLLoss", full=True, **_r, inputs=[(3, 4), Floats([[0, 1, 2, 3]] * 3)])
    case("GaussianNLLLoss", full=True, **_r, inputs=[(3, 4), (3, 4), positive(3, 4)])
    case("HingeEmbeddingLoss", 0.5, **_r, inputs=[(3, 4), signs(3, 4)])
    case("CosineEmbeddingLoss", 0.1, **_r, inputs=[(3, 4), (3, 4), signs(3)])
    case("MarginRankingLoss", 0.1, **_r, inputs=[(3,), (3,), signs(3)])
    case("SoftMarginLoss", **_r, inputs=[(3, 4), signs(3, 4)])
    case("MultiMarginLoss", 2, 0.7, **_r, inputs=[(3, 4), Ints(4, 3)])
    case("MultiLabelMarginLoss", **_r, inputs=[(2, 4), Ints(4, 2, 4, low=-1)])
    case("MultiLabelSoftMarginLoss", **_r, inputs=[(3, 4), positive(3, 4)])
    case("TripletMarginLoss", 0.5, swap=True, **_r, inputs=[(3, 4)] * 3)
    case("TripletMarginWithDistanceLoss", **_r, inputs=[(3, 4)] * 3)
    case("LinearCrossEntropyLoss", 4, 5, bias=True, **_r, inputs=[(3, 4), Ints(5, 3)])
    case("BCELoss", **_r, inputs=[Unit(3, 4), positive(3, 4)])
    case("BCELoss", weight=positive(4), **_r, inputs=[Unit(3, 4), positive(3, 4)])
    case("NLLLoss", weight=positive(4), **_r, inputs=[(3, 4), Ints(4, 3)])
    case(
        "CrossEntropyLoss", weight=positive(4), label_smoothing=0.2, **_r,
        inputs=[(3, 4, 2), Ints(4, 3, 2)],
    )  # fmt: skip
    case(
        "BCEWithLogitsLoss", weight=positive(4), pos_weight=positive(4), **_r,
        inputs=[(3, 4), positive(3, 4)],
    )  # fmt: skip
    case("MultiMarginLoss", weight=positive(4), **_r, inputs=[(3, 4), Ints(4, 3)])
    case("MultiLabelSoftMarginLoss", weight=positive(4), **_r, inputs=[(3, 4), positive(3, 4)])
case("AdaptiveLogSoftmaxWithLoss", 8, 10, [3, 6], inputs=[(5, 8), Ints(10, 5)])
