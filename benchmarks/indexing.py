"""Adding 10^6 numbers at places that an index names."""

from collections.abc import Iterable
from typing import Any

from harness import Bench, Case, Row, main

COUNT, SIDE = 1_000_000, 1000


def operands(torch: Any) -> dict[str, Any]:
    torch.manual_seed(0)
    return {
        "line": torch.zeros(COUNT // 10),
        "table": torch.zeros(SIDE, SIDE),
        "numbers": torch.randn(COUNT),
        "square": torch.randn(SIDE, SIDE),
        "places": torch.randint(0, COUNT // 10, (COUNT,)),
        "chosen": torch.randint(0, SIDE, (SIDE,)),
        "each": torch.randint(0, SIDE, (SIDE, SIDE)),
    }


STATEMENTS = {
    "index_add of 10^6 numbers": "line.index_add(0, places, numbers)",
    "index_add of 1000 rows of 1000": "table.index_add(0, chosen, square)",
    "index_add of 1000 columns of 1000": "table.index_add(1, chosen, square)",
    "scatter_add of 10^6 numbers": "line.scatter_add(0, places, numbers)",
    "scatter_add along rows, 1000 x 1000": "table.scatter_add(1, each, square)",
    "scatter_add along columns, 1000 x 1000": "table.scatter_add(0, each, square)",
}
CASES = [Case(name, operands, statement, bar=1.0) for name, statement in STATEMENTS.items()]


def rows(bench: Bench) -> Iterable[Row]:
    return bench.compare_all(CASES)


if __name__ == "__main__":
    main(rows, "indexing: sums at places")
