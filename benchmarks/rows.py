"""Reductions and normalisations over the rows of a (4096, 1024) matrix."""

from collections.abc import Iterable
from typing import Any

from harness import Bench, Case, Row, main


def operands(torch: Any) -> dict[str, Any]:
    F = torch.nn.functional
    x, w, b = torch.randn(4096, 1024), torch.ones(1024), torch.zeros(1024)
    return {
        "x": x,
        "softmax": lambda: torch.softmax(x, -1),
        "layer_norm": lambda: F.layer_norm(x, (1024,), w, b),
    }


def trained(torch: Any) -> dict[str, Any]:
    names = operands(torch)
    x = names["x"].requires_grad_()
    g = torch.ones(4096, 1024)

    def backward(f: Any) -> None:
        f().backward(g)
        x.grad = None

    return {**names, "backward": backward}


CASES = [
    Case("sum of all, (4096, 1024)", operands, "x.sum()", bar=1.0),
    Case("sum of rows, (4096, 1024)", operands, "x.sum(-1)", bar=1.0),
    Case("sum of columns, (4096, 1024)", operands, "x.sum(0)", bar=1.0),
    Case("softmax, (4096, 1024)", operands, "softmax()", bar=1.0),
    Case("layer_norm, (4096, 1024)", operands, "layer_norm()", bar=1.0),
    Case("softmax, forward + backward", trained, "backward(softmax)"),
    Case("layer_norm, forward + backward", trained, "backward(layer_norm)"),
]


def rows(bench: Bench) -> Iterable[Row]:
    return bench.compare_all(CASES)


if __name__ == "__main__":
    main(rows, "rows: reductions and normalisations")
