"""Elementwise ops on 10 million floats: page faults and passes over memory."""

from collections.abc import Iterable
from typing import Any

from harness import Bench, Case, Row, main

SIZE = 10_000_000


def operands(torch: Any) -> dict[str, Any]:
    a, b = torch.randn(SIZE), torch.randn(SIZE)
    return {"a": a, "b": b, "exp": torch.exp, "gelu": torch.nn.functional.gelu}


CASES = [
    Case("add, 10^7 floats", operands, "a + b", bar=2.5),
    Case("exp, 10^7 floats", operands, "exp(a)", bar=2.5),
    Case("gelu, 10^7 floats", operands, "gelu(a)", bar=2.5),
]


def rows(bench: Bench) -> Iterable[Row]:
    return bench.compare_all(CASES)


if __name__ == "__main__":
    main(rows, "elementwise: one pass over 10^7 floats")
