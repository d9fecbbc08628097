"""Matrix products: the machine's arithmetic."""

from collections.abc import Iterable
from typing import Any

from harness import Bench, Case, Row, main


def operands(torch: Any, size: int) -> dict[str, Any]:
    return {"a": torch.randn(size, size), "b": torch.randn(size, size)}


def cases() -> Iterable[Case]:
    for size, bar in ((128, None), (256, 1.0), (512, None), (1024, 1.0), (2048, 1.0)):
        names = lambda t, n=size: operands(t, n)  # noqa: E731
        for code in ("a @ b", "a.t() @ b", "a @ b.t()"):  # the last two are what gradients take
            yield Case(f"{code}, {size}", names, code, bar=bar, flops=2.0 * size**3)


def rows(bench: Bench) -> Iterable[Row]:
    return bench.compare_all(cases())


if __name__ == "__main__":
    main(rows, "gemm: matrix products")
