"""The cost of one small forward op, without and with a graph."""

from collections.abc import Iterable
from typing import Any

from harness import Bench, Case, Row, main

STATEMENTS = {"add": "a + b", "mul": "a * b", "sin": "sin(a)", "mul by a number": "a * 1.01"}
BARS = {(): 8, (10,): 8, (1000,): 3}


def operands(torch: Any, shape: tuple[int, ...], graph: bool) -> dict[str, Any]:
    a = torch.randn(shape, requires_grad=graph)
    return {"a": a, "b": torch.randn(shape), "sin": torch.sin}


def cases() -> Iterable[Case]:
    for shape, bar in BARS.items():
        for op, statement in STATEMENTS.items():
            for graph in (False, True):
                name = (
                    f"{op}, size {shape[0] if shape else '()'}, {'graph' if graph else 'no graph'}"
                )
                yield Case(name, lambda t, s=shape, g=graph: operands(t, s, g), statement, bar=bar)


def rows(bench: Bench) -> Iterable[Row]:
    return bench.compare_all(cases())


if __name__ == "__main__":
    main(rows, "overhead: one forward op on small tensors")
