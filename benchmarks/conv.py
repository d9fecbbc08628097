"""Convolutions and pooling at the sizes of a LeNet and a small ResNet."""

from collections.abc import Iterable
from typing import Any

from harness import Bench, Case, Row, main

# batch, channels, side, output channels, kernel, stride, padding
CONVOLUTIONS = [
    (32, 1, 28, 6, 5, 1, 2),
    (32, 6, 14, 16, 5, 1, 0),
    (16, 3, 32, 16, 3, 1, 1),
    (16, 16, 32, 16, 3, 1, 1),
    (16, 16, 32, 32, 3, 2, 1),
    (16, 32, 16, 32, 3, 1, 1),
    (16, 32, 16, 64, 3, 2, 1),
    (16, 64, 8, 64, 3, 1, 1),
    (16, 16, 32, 32, 1, 2, 0),
]
POOLS = [(32, 6, 28, 2, 2), (32, 16, 10, 2, 2), (16, 64, 32, 2, 2), (16, 64, 32, 3, 2)]


def convolution(torch: Any, sizes: tuple[int, ...]) -> dict[str, Any]:
    batch, channels, side, out, kernel, stride, padding = sizes
    x = torch.randn(batch, channels, side, side)
    weight, bias = torch.randn(out, channels, kernel, kernel), torch.randn(out)
    conv = torch.nn.functional.conv2d
    g = torch.randn(conv(x, weight, bias, stride, padding).shape)
    parameters = [weight.requires_grad_(), bias.requires_grad_()]
    if channels > 3:  # the image itself needs no gradient
        parameters.append(x.requires_grad_())
    grad = torch.autograd.grad

    def forward() -> Any:
        with torch.no_grad():
            return conv(x, weight, bias, stride, padding)

    def both() -> Any:
        return grad(conv(x, weight, bias, stride, padding), parameters, g)

    return {"forward": forward, "both": both}


def pool(torch: Any, name: str, sizes: tuple[int, ...]) -> dict[str, Any]:
    batch, channels, side, kernel, stride = sizes
    x = torch.randn(batch, channels, side, side, requires_grad=True)
    f, grad = getattr(torch.nn.functional, name), torch.autograd.grad
    g = torch.randn(f(x, kernel, stride).shape)

    def forward() -> Any:
        with torch.no_grad():
            return f(x, kernel, stride)

    return {"forward": forward, "both": lambda: grad(f(x, kernel, stride), x, g)}


def cases() -> Iterable[Case]:
    for sizes in CONVOLUTIONS:
        batch, channels, side, out, kernel, stride, _ = sizes
        name = f"conv {kernel}x{kernel}/{stride}, {batch}x{channels}x{side}x{side} to {out}"
        names = lambda t, s=sizes: convolution(t, s)  # noqa: E731
        yield Case(name + ", forward", names, "forward()", 1.0)
        yield Case(name + ", both", names, "both()", 1.0)
    for kind in ("max_pool2d", "avg_pool2d"):
        for sizes in POOLS:
            batch, channels, side, kernel, stride = sizes
            name = f"{kind} {kernel}/{stride}, {batch}x{channels}x{side}x{side}"
            names = lambda t, k=kind, s=sizes: pool(t, k, s)  # noqa: E731
            yield Case(name + ", forward", names, "forward()", 1.0)
            yield Case(name + ", both", names, "both()", 1.0)


def rows(bench: Bench) -> Iterable[Row]:
    return bench.compare_all(cases())


if __name__ == "__main__":
    main(rows, "conv: convolutions and pooling")
