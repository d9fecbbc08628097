"""Steps of optimizers: over many tiny parameters and over a few large ones."""

from collections.abc import Callable, Iterable
from typing import Any

from harness import Bench, Case, Row, main

RULES = {
    "SGD": {"lr": 1e-4},
    "SGD momentum": {"lr": 1e-4, "momentum": 0.9},
    "Adam": {"lr": 1e-4},
    "AdamW": {"lr": 1e-4},
    "RMSprop": {"lr": 1e-4},
    "Adagrad": {"lr": 1e-4},
    "Adadelta": {"lr": 1e-4},
    "Adamax": {"lr": 1e-4},
    "NAdam": {"lr": 1e-4},
    "RAdam": {"lr": 1e-4},
    "Rprop": {"lr": 1e-4},
    "ASGD": {"lr": 1e-4},
}
FUSED = ("SGD", "SGD momentum", "Adam", "AdamW", "Adagrad")


def optimizer(rule: str, count: int, size: tuple[int, ...], **options: Any) -> Callable[..., Any]:
    def names(torch: Any) -> dict[str, Any]:
        params = [torch.nn.Parameter(torch.randn(*size)) for _ in range(count)]
        for p in params:
            p.grad = torch.randn(*size)
        made = getattr(torch.optim, rule.split()[0])(params, **RULES[rule], **options)
        made.step()
        return {"step": made.step, "zero_grad": made.zero_grad}

    return names


def clipping(count: int, size: tuple[int, ...]) -> Callable[..., Any]:
    def names(torch: Any) -> dict[str, Any]:
        params = [torch.nn.Parameter(torch.randn(*size)) for _ in range(count)]
        for p in params:
            p.grad = torch.randn(*size)
        clip = torch.nn.utils.clip_grad_norm_
        return {"clip": lambda: clip(params, 1e9)}

    return names


CASES = [
    *(
        Case(f"{rule}, 20 of 16 elements", optimizer(rule, 20, (4, 4)), "step()", bar=10.0)
        for rule in RULES
    ),
    *(
        Case(f"{rule}, 4 of 16 elements", optimizer(rule, 4, (4, 4)), "step()")
        for rule in ("SGD", "Adam", "AdamW")
    ),
    Case("zero_grad, 20 parameters", optimizer("SGD", 20, (4, 4)), "zero_grad()"),
    Case("clip_grad_norm_, 20 of 16 elements", clipping(20, (4, 4)), "clip()"),
    *(
        Case(
            f"{rule}, 4 of 10^6 (torch: fused)",
            optimizer(rule, 4, (1000, 1000), fused=True),
            "step()",
            bar=1.0,
        )
        for rule in FUSED
    ),
    *(
        Case(f"{rule}, 4 of 10^6", optimizer(rule, 4, (1000, 1000)), "step()", bar=1.0)
        for rule in RULES
    ),
    Case("clip_grad_norm_, 4 of 10^6", clipping(4, (1000, 1000)), "clip()"),
]


def rows(bench: Bench) -> Iterable[Row]:
    return bench.compare_all(CASES)


if __name__ == "__main__":
    main(rows, "optimizers: one step")
