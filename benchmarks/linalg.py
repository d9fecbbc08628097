"""Factorisations of matrices: many small ones, and single ones of some size."""

from collections.abc import Iterable
from typing import Any

from harness import Bench, Case, Row, main

SHAPES = {"8 x 8, batch 1000": (1000, 8, 8), "256": (256, 256), "1024": (1024, 1024)}
STATEMENTS = {
    "svd": "svd(a)",
    "eigh": "eigh(s)",
    "qr": "qr(a)",
    "solve": "solve(a, b)",
    "cholesky": "cholesky(s)",
    "inv": "inv(a)",
}


def operands(torch: Any, op: str, shape: tuple[int, ...]) -> dict[str, Any]:
    torch.manual_seed(0)
    a = torch.randn(*shape)
    s = a @ a.mT / shape[-1] + torch.eye(shape[-1])
    return {"a": a, "s": s, "b": torch.randn(*shape[:-1], 4), op: getattr(torch.linalg, op)}


def cases() -> Iterable[Case]:
    for size, shape in SHAPES.items():
        for op, statement in STATEMENTS.items():
            names = lambda t, op=op, shape=shape: operands(t, op, shape)  # noqa: E731
            yield Case(f"{op} {size}", names, statement, bar=0.8)


def rows(bench: Bench) -> Iterable[Row]:
    return bench.compare_all(cases())


if __name__ == "__main__":
    main(rows, "linalg: factorisations in float32")
