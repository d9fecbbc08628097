"""Layers in channels_last, of halves too: as on the CPU, and in the same layout."""

import pytest

import rushlight as torch
import rushlight.nn.functional as F

CONVOLUTIONS = {
    "plain": ((2, 8, 9, 7), (4, 8, 3, 3), {}),
    "strided": ((2, 8, 9, 7), (4, 8, 3, 3), {"stride": 2, "padding": 1}),
    "grouped": ((2, 8, 6, 6), (4, 4, 3, 3), {"groups": 2, "dilation": 2, "padding": 2}),
    "single": ((2, 8, 5, 5), (16, 8, 1, 1), {}),
    "odd": ((1, 3, 8, 8), (5, 3, 5, 5), {"padding": 2}),
    "volume": ((1, 4, 5, 6, 7), (4, 4, 3, 3, 3), {"padding": 1}),
}
FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}
TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-4, torch.bfloat16: 3e-2, torch.float16: 5e-3}


@pytest.fixture(autouse=True)
def exact():
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before


def randn(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def agree(found, wanted, dtype):
    tolerance = TOLERANCE[dtype]
    for one, other in zip(found, wanted, strict=True):
        scale = 1 + other.abs().max().item()
        torch.testing.assert_close(
            one.cpu().double(), other, rtol=tolerance, atol=tolerance * scale
        )


def outcome(f, inputs, weigh):
    """The result and the gradients of f's weighted sum."""
    inputs = [x.detach().requires_grad_() for x in inputs]
    y = f(*inputs)
    grads = torch.autograd.grad(y, inputs, weigh(y))
    return y, grads


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize("name", list(CONVOLUTIONS))
@pytest.mark.parametrize("transposed", [False, True])
def test_convolutions_in_channels_last(name, transposed, dtype):
    shape, kernel, options = CONVOLUTIONS[name]
    dims = len(shape) - 2
    if transposed:
        shape = (shape[0], kernel[0], *shape[2:])
    form = FORMATS[len(shape)]
    f = getattr(F, f"conv_transpose{dims}d" if transposed else f"conv{dims}d")
    channels = kernel[1] * options.get("groups", 1) if transposed else kernel[0]
    host = [randn(0, *shape).to(dtype), randn(1, *kernel).to(dtype), randn(2, channels).to(dtype)]

    def weigh(y):
        return torch.linspace(-1, 1, y.numel()).reshape(y.shape).to(y.device, y.dtype)

    wanted, grads = outcome(lambda *a: f(*a, **options), [x.double() for x in host], weigh)
    there = [x.cuda() for x in host]
    there[:2] = [x.to(memory_format=form) for x in there[:2]]
    y, found = outcome(lambda *a: f(*a, **options), there, weigh)
    assert y.dtype == dtype
    assert y.is_contiguous(memory_format=form)
    assert found[0].is_contiguous(memory_format=form)
    agree([y.detach(), *found], [wanted.detach(), *grads], dtype)


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize(
    "shape", [(3, 8, 5, 5), (2, 3, 4, 4), (1, 100, 9, 3), (64, 16), (2, 1, 3, 3)]
)
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_in_channels_last(shape, dtype, training):
    x = (randn(3, *shape) * 2 + 5).to(dtype)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    weight, bias = (randn(seed, shape[1]).to(wide) for seed in (4, 5))

    def weigh(y):
        return torch.linspace(-1, 1, y.numel()).reshape(y.shape).to(y.device, y.dtype)

    def run(device, cast, form):
        x_ = cast(x).to(device)
        x_ = x_.to(memory_format=form) if len(shape) == 4 else x_
        inputs = [x_, *(cast(p).to(device) for p in (weight, bias))]
        mean, var = (torch.full_like(inputs[1], value) for value in (4.0, 3.0))
        y, grads = outcome(
            lambda x, w, b: F.batch_norm(x, mean, var, w, b, training=training), inputs, weigh
        )
        return y, [y.detach(), *grads, mean, var]

    _, wanted = run("cpu", lambda t: t.double(), torch.contiguous_format)
    y, found = run("cuda", lambda t: t, torch.channels_last)
    if len(shape) == 4:
        assert y.is_contiguous(memory_format=torch.channels_last)
    agree(found, wanted, dtype)
