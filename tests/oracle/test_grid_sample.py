"""Images read at places of a grid: values and gradients of every mode."""

import itertools

import numpy as np
import pytest
import torch as reference

import rushlight as torch

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")


def run(t, shape, grid_shape, **options):
    rng = np.random.default_rng(0)
    x = t.tensor(rng.standard_normal(shape), requires_grad=True)
    grid = t.tensor(rng.uniform(-2.3, 2.3, grid_shape), requires_grad=True)
    out = t.nn.functional.grid_sample(x, grid, **options)
    (out * t.tensor(rng.random(tuple(out.shape)))).sum().backward()
    moved = np.zeros(grid_shape) if grid.grad is None else grid.grad.numpy()
    return out.detach().numpy(), x.grad.numpy(), moved


@pytest.mark.parametrize(
    ("mode", "padding", "align"), list(itertools.product(MODES, PADDINGS, [True, False]))
)
@pytest.mark.parametrize("dims", [2, 3])
def test_modes(mode, padding, align, dims):
    if mode == "bicubic" and dims == 3:
        with pytest.raises(RuntimeError, match="bicubic"):
            run(torch, (1, 1, 2, 2, 2), (1, 1, 1, 1, 3), mode=mode, align_corners=align)
        return
    shapes = (2, 3, 4, 5) if dims == 2 else (2, 3, 3, 4, 5)
    grid = (2, 3, 4, 2) if dims == 2 else (2, 2, 3, 4, 3)
    options = {"mode": mode, "padding_mode": padding, "align_corners": align}
    ours, theirs = (run(t, shapes, grid, **options) for t in (torch, reference))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)


@pytest.mark.filterwarnings("ignore:Since version 1.3.0")
@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("size", [(2, 1, 3, 4), (2, 1, 2, 3, 4), (2, 1, 1, 3)])
def test_affine_grids(size, align):
    n, results = len(size) - 2, []
    for t in (torch, reference):
        theta = t.tensor(
            np.random.default_rng(0).standard_normal((2, n, n + 1)), requires_grad=True
        )
        grid = t.nn.functional.affine_grid(theta, size, align_corners=align)
        (grid * grid).sum().backward()
        results.append((grid.detach().numpy(), theta.grad.numpy()))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)


def test_grids_with_nan_and_infinity():
    x = torch.ones(1, 1, 2, 2)
    grid = torch.tensor([[[[float("nan"), 0.0], [float("inf"), 0.0], [1e30, 0.0]]]])
    for mode, padding in itertools.product(MODES, PADDINGS):
        out = torch.nn.functional.grid_sample(x, grid, mode, padding, align_corners=False)
        assert out.shape == (1, 1, 1, 3)


BAD = [
    lambda t: t.nn.functional.grid_sample(t.ones(1, 1, 2, 2), t.ones(1, 1, 1, 2), "x"),
    lambda t: t.nn.functional.grid_sample(t.ones(1, 1, 2, 2), t.ones(1, 1, 1, 2), padding_mode="x"),
    lambda t: t.nn.functional.grid_sample(t.ones(1, 2, 2), t.ones(1, 1, 2), align_corners=True),
    lambda t: t.nn.functional.grid_sample(
        t.ones(1, 1, 2, 2), t.ones(2, 1, 1, 2), align_corners=True
    ),
    lambda t: t.nn.functional.grid_sample(
        t.ones(1, 1, 2, 2), t.ones(1, 1, 1, 3), align_corners=True
    ),
    lambda t: t.nn.functional.grid_sample(
        t.ones(1, 1, 0, 2), t.ones(1, 1, 1, 2), align_corners=True
    ),
    lambda t: t.nn.functional.affine_grid(t.ones(1, 2, 3), (1, 1, 2), align_corners=True),
    lambda t: t.nn.functional.affine_grid(t.ones(1, 3, 3), (1, 1, 2, 2), align_corners=True),
    lambda t: t.nn.functional.affine_grid(t.ones(1, 2, 3), (1, 1, 0, 2), align_corners=True),
]


@pytest.mark.parametrize("call", BAD)
def test_same_errors(call):
    with pytest.raises(Exception) as theirs:
        call(reference)
    with pytest.raises(theirs.type):
        call(torch)
