"""Graphs: a chain of small ops, a custom Function, and indexing one element at a time."""

from collections.abc import Iterable
from typing import Any

from harness import Bench, Case, Row, at_most, main

CHAIN = 100
READS = 1000

# The growth of resident memory and the time of a loop over x[i], in a process of its own.
INDEXING = """
import importlib, json, sys, time
from harness import peak_memory, resident_memory
torch = importlib.import_module(sys.argv[1])
x = torch.randn(int(sys.argv[2]), requires_grad=True)
(x[0] + x[1]).backward()
before, start = resident_memory(), time.perf_counter()
s = 0.0
for i in range(len(x)):
    s = s + x[i]
s.backward()
print(json.dumps([time.perf_counter() - start, peak_memory() - before]))
"""


def chain(torch: Any) -> dict[str, Any]:
    x, w = torch.randn(10, requires_grad=True), torch.rand(10) + 0.5
    g = torch.ones(10)

    def work() -> None:
        y = x
        for _ in range(CHAIN):
            y = y * w
        y.backward(g)
        x.grad = None

    return {"work": work}


def custom(torch: Any) -> dict[str, Any]:
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 2 * x * g

    x, g = torch.randn(10, requires_grad=True), torch.ones(10)

    def work() -> None:
        Square.apply(x).backward(g)
        x.grad = None

    return {"work": work}


def indexing(torch: Any) -> dict[str, Any]:
    x = torch.randn(READS, requires_grad=True)

    def work() -> None:
        s = 0.0
        for i in range(READS):
            s = s + x[i]
        s.backward()
        x.grad = None

    return {"work": work}


CASES = [
    Case("chain of 100 muls, fwd + bwd, per op", chain, bar=15, per=CHAIN),
    Case("custom Function, apply + backward", custom, bar=3),
    Case("sum of x[i], i < 1000, fwd + bwd", indexing, bar=5),
]


def growth(bench: Bench) -> Iterable[Row]:
    """Ten times the elements must not cost a hundred times the time or memory."""
    for what, place, floor in (("time", 0, 1e-3), ("memory", 1, 2**20)):
        name = f"sum of x[i]: {what}, 40000 against 4000"  # so many that free memory is no part
        if bench.wants(name):
            ratios = []
            for library in bench.names:
                sizes = [
                    min(bench.child(INDEXING, library, str(n))[place] for _ in range(3))
                    for n in (4000, 40000)
                ]
                ratios.append(max(sizes[1], floor) / max(sizes[0], floor))
            yield at_most(name, ratios[0], 15, "x", *ratios[1:])


def rows(bench: Bench) -> Iterable[Row]:
    yield from bench.compare_all(CASES)
    yield from growth(bench)


if __name__ == "__main__":
    main(rows, "autograd: graphs of small ops")
