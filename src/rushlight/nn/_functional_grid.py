"""Reading images at any place."""

from __future__ import annotations

from itertools import product

from rushlight import _C
from rushlight._C import Tensor
from rushlight._precision import in_full
from rushlight._redirect import foreign, redirect

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor

__all__ = ["affine_grid", "grid_sample"]

_ops = _C._namespaces[""]


def _warn(name: str) -> None:
    import warnings

    warnings.warn(
        f"Default {name} behavior has changed to align_corners=False since 1.3.0. Please specify "
        "align_corners=True if the old behavior is desired.",
        stacklevel=3,
    )


def affine_grid(theta: Tensor, size: Any, align_corners: bool | None = None) -> Tensor:
    """The grid with which :func:`grid_sample` moves images by affine maps.

    >>> import rushlight as torch
    >>> identity = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> grid = torch.nn.functional.affine_grid(identity, (1, 1, 2, 2), align_corners=True)
    >>> grid[0, 0].tolist()
    [[-1.0, -1.0], [1.0, -1.0]]
    """
    if type(theta) is not Tensor and foreign(theta):
        return redirect(affine_grid, locals())
    if align_corners is None:
        _warn("affine_grid")
        align_corners = False
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    n = len(size) - 2
    if n not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {tuple(size)}"
        )
    if tuple(theta.shape[1:]) != (n, n + 1) or theta.dim() != 3:
        raise ValueError(
            f"Expected a batch of {n}D affine matrices of shape Nx{n}x{n + 1} for size "
            f"{tuple(size)}. Got {tuple(theta.shape)}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {tuple(size)}")
    axes = []
    for length in size[2:]:
        options = {"dtype": theta.dtype, "device": theta.device}
        steps = _ops["linspace"](-1, 1, length, **options)
        if length == 1:
            steps = _ops["zeros"](1, **options)
        axes.append(steps if align_corners else steps * ((length - 1) / length))
    places = list(reversed(_ops["meshgrid"](*axes, indexing="ij")))
    base = _ops["stack"]([*places, _ops["ones_like"](places[0])], -1).reshape(-1, n + 1)
    return (base @ theta.transpose(1, 2)).reshape(theta.size(0), *size[2:], n)


def _reflected(x: Tensor, low: float, span: float) -> Tensor:
    """Coordinates folded back into [low, low + span] as often as needed."""
    if span == 0:
        return _ops["zeros_like"](x)
    x = (x - low).abs()
    rest = x.fmod(span)
    even = (x.detach() / span).floor() % 2 == 0
    return _ops["where"](even, rest, span - rest) + low


def _held(x: Tensor, length: int) -> Tensor:
    """Coordinates held inside an image; those at the edge or outside take no gradient."""
    inside = (x.detach() > 0) & (x.detach() < length - 1)
    return _ops["where"](inside, x, x.detach().clamp(0, length - 1))


def _padded(x: Tensor, length: int, padding_mode: str, align_corners: bool) -> Tensor:
    if padding_mode == "reflection":
        low, span = (0.0, length - 1.0) if align_corners else (-0.5, float(length))
        x = _reflected(x, low, span)
    return x if padding_mode == "zeros" else _held(x, length)


def _read(input: Tensor, at: list[Tensor]) -> Tensor:
    """The pixels of (batch, channels, ...) at whole coordinates, zero outside."""
    lengths = input.shape[2:]
    inside, index = None, None
    for place, length in zip(at, lengths, strict=True):
        ok = (place >= 0) & (place <= length - 1)
        inside = ok if inside is None else inside & ok
        whole = _ops["where"](ok, place, 0.0).long()
        index = whole if index is None else index * length + whole
    assert inside is not None
    assert index is not None
    shape = (input.size(0), input.size(1), *index.shape[1:])
    flat = index.reshape(index.size(0), 1, -1).expand(-1, input.size(1), -1)
    values = input.flatten(2).gather(2, flat).view(shape)
    return _ops["where"](inside.unsqueeze(1), values, 0.0)


def _linear(input: Tensor, at: list[Tensor]) -> Tensor:
    floors = [x.detach().floor() for x in at]
    total = None
    for corner in product((0, 1), repeat=len(at)):
        weight = None
        for x, floor, side in zip(at, floors, corner, strict=True):
            share = x - floor if side else floor + 1 - x
            weight = share if weight is None else weight * share
        assert weight is not None
        pixels = _read(input, [f + side for f, side in zip(floors, corner, strict=True)])
        part = pixels * weight.unsqueeze(1)
        total = part if total is None else total + part
    assert total is not None
    return total


def _cubic_weights(t: Tensor) -> list[Tensor]:
    """What the four pixels around a place count, with the constant -0.75."""
    a = -0.75

    def near(x: Tensor) -> Tensor:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Tensor) -> Tensor:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _cubic(input: Tensor, at: list[Tensor], padding_mode: str, align_corners: bool) -> Tensor:
    floors = [x.detach().floor() for x in at]
    weights = [_cubic_weights(x - f) for x, f in zip(at, floors, strict=True)]
    total = None
    for i, j in product(range(4), repeat=2):
        places = [
            _padded(floor + (k - 1), length, padding_mode, align_corners)
            for floor, k, length in zip(floors, (i, j), input.shape[2:], strict=True)
        ]
        part = _read(input, places) * (weights[0][i] * weights[1][j]).unsqueeze(1)
        total = part if total is None else total + part
    assert total is not None
    return total


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Images read at the places of a grid, whose coordinates go from -1 to 1, the last one first.

    >>> import rushlight as torch
    >>> image = torch.tensor([[[[1.0, 3.0]]]])
    >>> middle = torch.zeros(1, 1, 1, 2)
    >>> torch.nn.functional.grid_sample(image, middle, align_corners=False).item()
    2.0
    """
    if type(input) is not Tensor and foreign(input):
        return redirect(grid_sample, locals())
    for what, given, allowed in (
        ("mode", mode, ("bilinear", "nearest", "bicubic")),
        ("padding_mode", padding_mode, ("zeros", "border", "reflection")),
    ):
        if given not in allowed:
            names = ", ".join(f"'{name}'" for name in allowed)
            raise ValueError(
                f"nn.functional.grid_sample(): expected {what} to be one of {names}, but got: "
                f"'{given}'"
            )
    if align_corners is None:
        _warn("grid_sample")
        align_corners = False
    n = input.dim() - 2
    if n not in (2, 3) or grid.dim() != n + 2:
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but "
            f"got input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if grid.size(0) != input.size(0) or grid.size(-1) != n:
        raise RuntimeError(
            "grid_sampler(): expected grid and input to have same batch size, and grid to have "
            f"size {n} in last dimension, but got input with sizes {list(input.shape)} and grid "
            f"with sizes {list(grid.shape)}"
        )
    if min(input.shape[2:]) == 0:
        raise RuntimeError(
            "grid_sampler(): expected input to have non-empty spatial dimensions, but input has "
            f"sizes {list(input.shape)}"
        )
    if mode == "bicubic" and n == 3:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    input, grid = in_full(input), in_full(grid)
    at = []
    for place, length in zip(reversed(grid.unbind(-1)), input.shape[2:], strict=True):
        if align_corners:
            at.append((place + 1) / 2 * (length - 1))
        else:
            at.append(((place + 1) * length - 1) / 2)
    if mode == "bicubic":
        return _cubic(input, at, padding_mode, align_corners)
    at = [
        _padded(x, length, padding_mode, align_corners)
        for x, length in zip(at, input.shape[2:], strict=True)
    ]
    if mode == "nearest":
        # Nothing changes with the grid, which still belongs to the history.
        return _ops["_bound"](_read(input, [x.detach().round() for x in at]), [grid])
    return _linear(input, at)
