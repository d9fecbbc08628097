"""Transforms: gradients of each sample, Jacobians, Hessians, a gradient penalty, Taylor mode."""

import itertools
import time
from collections.abc import Callable, Iterable
from typing import Any

from harness import Bench, Case, Row, at_most, main

SAMPLES = 64
ORDER = 10


def numbers(torch: Any, *shape: int, seed: int = 0) -> Any:
    import numpy as np

    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return torch.tensor(values)


def weights(torch: Any, *widths: int) -> dict[str, Any]:
    layers = {}
    for i, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
        layers[f"w{i}"] = numbers(torch, outputs, inputs, seed=i) / inputs**0.5
        layers[f"b{i}"] = numbers(torch, outputs, seed=i + 10) / 10
    return layers


def mlp(torch: Any, layers: dict[str, Any], x: Any, activation: Any) -> Any:
    last = len(layers) // 2 - 1
    for i in range(last + 1):
        x = torch.nn.functional.linear(x, layers[f"w{i}"], layers[f"b{i}"])
        if i < last:
            x = activation(x)
    return x


def per_sample_gradients(torch: Any) -> dict[str, Any]:
    layers, x = weights(torch, 64, 128, 10), numbers(torch, SAMPLES, 64)
    y = torch.arange(SAMPLES) % 10

    def loss(layers: dict[str, Any], x: Any, y: Any) -> Any:
        return torch.nn.functional.cross_entropy(mlp(torch, layers, x, torch.relu), y)

    step = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))
    return {"work": lambda: step(layers, x, y)}


def rosenbrock(torch: Any, x: Any) -> Any:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def hessian(torch: Any) -> dict[str, Any]:
    x, f = numbers(torch, 20), torch.func.hessian(lambda x: rosenbrock(torch, x))
    return {"work": lambda: f(x)}


def hessian_of_network(torch: Any) -> dict[str, Any]:
    layers, x = weights(torch, 20, 32, 1), numbers(torch, 20)
    f = torch.func.hessian(lambda x: mlp(torch, layers, x, torch.tanh).sum())
    return {"work": lambda: f(x)}


def jacobian(name: str) -> Callable[[Any], dict[str, Any]]:
    def names(torch: Any) -> dict[str, Any]:
        x, w = numbers(torch, 50), numbers(torch, 50, 50, seed=1) / 7
        f = getattr(torch.func, name)(lambda x: torch.tanh(w @ x) * x.sin())
        return {"work": lambda: f(x)}

    return names


def gradient_penalty(torch: Any) -> dict[str, Any]:
    """The critic's step of a WGAN-GP: a gradient of a gradient's norm."""
    layers, x = weights(torch, 16, 64, 64, 1), numbers(torch, 32, 16)
    parameters = [p.requires_grad_() for p in layers.values()]

    def step() -> None:
        at = x.detach().requires_grad_()
        score = mlp(torch, layers, at, torch.tanh).sum()
        (slope,) = torch.autograd.grad(score, at, create_graph=True)
        loss = ((slope.pow(2).sum(1).sqrt() - 1) ** 2).mean() - score / 32
        torch.autograd.grad(loss, parameters)

    return {"work": step}


def gradient_penalty_by_func(torch: Any) -> dict[str, Any]:
    layers, x = weights(torch, 16, 64, 64, 1), numbers(torch, 32, 16)

    def critic(layers: dict[str, Any], x: Any) -> Any:
        return mlp(torch, layers, x, torch.tanh).sum()

    def loss(layers: dict[str, Any]) -> Any:
        slope = torch.func.vmap(torch.func.grad(critic, 1), (None, 0))(layers, x)
        return ((slope.pow(2).sum(1).sqrt() - 1) ** 2).mean()

    step = torch.func.grad(loss)
    return {"work": lambda: step(layers)}


CASES = [
    Case("vmap(grad), MLP 64-128-10, 64 samples", per_sample_gradients, bar=3),
    Case("hessian of 20 dimensions", hessian, bar=8),
    Case("hessian of a network of 20 inputs", hessian_of_network, bar=8),
    Case("jacrev of 50 dimensions", jacobian("jacrev"), bar=5),
    Case("jacfwd of 50 dimensions", jacobian("jacfwd"), bar=5),
    Case("gradient penalty, autograd.grad", gradient_penalty, bar=3),
    Case("gradient penalty, grad of vmap of grad", gradient_penalty_by_func, bar=3),
]


def quickest(work: Callable[[], Any], rounds: int) -> float:
    best = float("inf")
    for _ in range(rounds + 1):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def taylor_rows(bench: Bench) -> Iterable[Row]:
    """A derivative of order ten of a network along a line; PyTorch has no Taylor mode."""
    torch, _ = bench.load()
    layers, x = weights(torch, 4, 64, 64, 1), numbers(torch, 4)
    series = ([numbers(torch, 4, seed=1)] + [0.0] * (ORDER - 1),)

    def work() -> Any:
        return torch.func.jet(lambda x: mlp(torch, layers, x, torch.tanh).sum(), (x,), series)

    name = f"jet of order {ORDER}, tanh MLP 4-64-64-1"
    if bench.wants(name):
        yield at_most(name, quickest(work, bench.rounds), 0.05, "s")


def nested_rows(bench: Bench) -> Iterable[Row]:
    """Derivatives of a number by nesting grad: the cost grows with every order."""
    for order in (3, 5, 7):
        name = f"grad nested {order} times, tanh"

        def names(torch: Any, order: int = order) -> dict[str, Any]:
            f = lambda x: (x.tanh() * x).tanh()  # noqa: E731
            for _ in range(order):
                f = torch.func.grad(f)
            x = torch.tensor(0.3)
            return {"work": lambda: f(x)}

        if bench.wants(name):
            yield bench.compare(Case(name, names))


def rows(bench: Bench) -> Iterable[Row]:
    yield from bench.compare_all(CASES)
    yield from taylor_rows(bench)
    yield from nested_rows(bench)


if __name__ == "__main__":
    main(rows, "transforms")
