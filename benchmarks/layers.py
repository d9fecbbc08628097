"""Normalisation, attention and recurrent layers: one layer forward and backward."""

from collections.abc import Callable, Iterable
from typing import Any

from harness import Bench, Case, Row, main

IMAGES = ((16, 16, 32, 32), (16, 32, 16, 16), (16, 64, 8, 8))
# batch, heads, length, width of a head: a tiny GPT's, a char GPT's, and longer ones
HEADS = (((4, 4, 16, 8), 2.0), ((16, 4, 64, 32), 1.5), ((8, 8, 128, 64), 1.0))
# steps, batch, features, hidden size
SEQUENCES = (((16, 4, 16, 32), 4.0), ((32, 16, 64, 128), 1.0))

Work = Callable[[], Any]


def training(torch: Any, layer: Callable[..., Any], leaves: list[Any]) -> Work:
    """A pass through the layer and its gradients by the leaves."""
    gradient = torch.randn_like(layer())
    return lambda: torch.autograd.grad(layer(), leaves, gradient)


def normalisation(torch: Any, shape: tuple[int, ...], kind: str) -> Work:
    f, channels = torch.nn.functional, shape[1]
    x = torch.randn(shape).requires_grad_()
    weight, bias = (torch.randn(channels).requires_grad_() for _ in range(2))
    mean, var = torch.zeros(channels), torch.ones(channels)
    layers = {
        "batch_norm": lambda: f.batch_norm(x, mean, var, weight, bias, True),
        "batch_norm, eval": lambda: f.batch_norm(x, mean, var, weight, bias),
        "group_norm": lambda: f.group_norm(x, 8, weight, bias),
    }
    return training(torch, layers[kind], [x, weight, bias])


def attention(torch: Any, shape: tuple[int, ...], causal: bool) -> Work:
    batch, heads, length, width = shape
    tensors = [
        torch.randn(batch, length, heads, width).transpose(1, 2).requires_grad_() for _ in range(3)
    ]
    f = torch.nn.functional.scaled_dot_product_attention
    return training(torch, lambda: f(*tensors, is_causal=causal), tensors)


def recurrent(torch: Any, shape: tuple[int, ...], kind: str) -> Work:
    steps, batch, features, hidden = shape
    layer, x = getattr(torch.nn, kind)(features, hidden), torch.randn(steps, batch, features)
    return training(torch, lambda: layer(x)[0], list(layer.parameters()))


def case(name: str, make: Callable[..., Work], *arguments: Any, bar: float | None = None) -> Case:
    return Case(name, lambda torch: {"work": make(torch, *arguments)}, bar=bar)


def cases() -> Iterable[Case]:
    for shape in IMAGES:
        size = "x".join(map(str, shape))
        for kind in ("batch_norm", "batch_norm, eval", "group_norm"):
            yield case(f"{kind} {size}", normalisation, shape, kind, bar=1.0)
    for shape, bar in HEADS:
        size = "x".join(map(str, shape))
        yield case(f"attention {size}, causal", attention, shape, True, bar=bar)
        yield case(f"attention {size}", attention, shape, False)
    for shape, bar in SEQUENCES:
        size = "x".join(map(str, shape))
        for kind in ("LSTM", "GRU", "RNN"):
            yield case(f"{kind} {size}", recurrent, shape, kind, bar=bar)


def rows(bench: Bench) -> Iterable[Row]:
    return bench.compare_all(cases())


if __name__ == "__main__":
    main(rows, "layers: normalisation, attention, recurrence")
