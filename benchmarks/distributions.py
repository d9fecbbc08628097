"""Distributions on few numbers: what their checks and their Python cost beside the arithmetic."""

from collections.abc import Iterable
from typing import Any

from harness import Bench, Case, Row, main


def few(torch: Any) -> dict[str, Any]:
    D = torch.distributions
    loc, scale = torch.zeros(10), torch.ones(10)
    normal = D.Normal(0, 1)
    leaf = torch.zeros(10, requires_grad=True)

    def step() -> None:
        D.Normal(leaf, scale).log_prob(loc).sum().backward()
        leaf.grad = None

    return {
        "D": D,
        "x": torch.randn(10),
        "loc": loc,
        "scale": scale,
        "normal": normal,
        "gamma": D.Gamma(scale * 2, scale),
        "category": D.Categorical(torch.ones(10, 4)),
        "chosen": torch.zeros(10, dtype=torch.int64),
        "step": step,
    }


def many(torch: Any) -> dict[str, Any]:
    shape = torch.full((100_000,), 2.5)
    return {"torch": torch, "shape": shape, "chance": shape / 5, "count": shape * 40}


CASES = [
    Case("Normal(0, 1).log_prob(x), 10 floats", few, "D.Normal(0, 1).log_prob(x)", bar=8.0),
    Case("log_prob(x) of a Normal that is there", few, "normal.log_prob(x)", bar=8.0),
    Case("Normal(loc, scale) of 10", few, "D.Normal(loc, scale)"),
    Case("Normal(...).rsample() of 10", few, "D.Normal(loc, scale).rsample()"),
    Case("Normal(...).log_prob, forward + backward", few, "step()"),
    Case("Gamma(...).log_prob of 10", few, "gamma.log_prob(scale)"),
    Case("Categorical(...).log_prob of 10", few, "category.log_prob(chosen)"),
    Case("kl_divergence of two Normals", few, "D.kl_divergence(normal, normal)"),
    Case("100,000 gamma numbers", many, "torch._standard_gamma(shape)"),
    Case("100,000 Poisson numbers", many, "torch.poisson(shape)"),
    Case("100,000 binomial numbers", many, "torch.binomial(count, chance)"),
]


def rows(bench: Bench) -> Iterable[Row]:
    return bench.compare_all(CASES)


if __name__ == "__main__":
    main(rows, "distributions: checks, densities, samples")
