"""Checkpointing: memory and time of a train step, and what watching a graph costs.

The network is a residual MLP of 12 layers, 1024 wide. The peak of its activations is that of a
pass that asks for the input's gradient only: the gradients of weights are no activations.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any

from harness import Bench, Row, at_most, main

LAYERS, WIDTH, HIDDEN, BATCH = 12, 1024, 4096, 128

# The bars of each way, as shares of the plain run: the peak of activations, and time.
BARS = {
    "each layer": (0.25, 1.35),
    "each layer, budget 0.5": (0.6, 1.2),
    "one region, budget 0.5": (0.6, 1.2),
    "one region, budget 0.1": (0.25, 1.35),
}
WATCHED = {"identity saved_tensors_hooks": 1.3, "anomaly mode": 1.3}


def network(torch: Any) -> tuple[Callable[..., Any], list[tuple[Any, ...]], Any]:
    """A layer, the parameters of each, and an input."""
    F = torch.nn.functional

    def layer(x: Any, scale: Any, shift: Any, w: Any, b: Any, v: Any, c: Any) -> Any:
        h = F.layer_norm(x, (WIDTH,), scale, shift)
        return x + F.linear(F.gelu(F.linear(h, w, b)), v, c)

    torch.manual_seed(0)
    shapes = [(WIDTH,), (WIDTH,), (HIDDEN, WIDTH), (HIDDEN,), (WIDTH, HIDDEN), (WIDTH,)]
    parameters = [
        tuple((torch.randn(*s) * 0.02).requires_grad_() for s in shapes) for _ in range(LAYERS)
    ]
    return layer, parameters, torch.randn(BATCH, WIDTH, requires_grad=True)


def ways(torch: Any, checkpoint: Callable[..., Any], budgets: bool) -> dict[str, Any]:
    """Ways to run the network, by name; and its input."""
    layer, parameters, x = network(torch)

    def plain(x: Any) -> Any:
        for p in parameters:
            x = layer(x, *p)
        return x

    def each(**options: Any) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            for p in parameters:
                x = checkpoint(layer, x, *p, use_reentrant=False, **options)
            return x

        return run

    def whole(**options: Any) -> Callable[[Any], Any]:
        return lambda x: checkpoint(plain, x, use_reentrant=False, **options)

    found = {"input": x, "plain": plain, "each layer": each()}
    if budgets:
        found["each layer, budget 0.5"] = each(memory_budget=0.5)
        found["one region, budget 0.5"] = whole(memory_budget=0.5)
        found["one region, budget 0.1"] = whole(memory_budget=0.1)
    return found


def peak(torch: Any, run: Callable[[Any], Any], x: Any) -> int:
    before = torch.memory_stats()["allocated_bytes"]
    torch.reset_peak_memory_stats()
    torch.autograd.grad(run(x).square().mean(), x)
    return int(torch.memory_stats()["peak_allocated_bytes"]) - before


def times(work: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The quickest round of each, taken in turns."""
    best = dict.fromkeys(work, float("inf"))
    for _ in range(rounds):
        for name, step in work.items():
            start = time.perf_counter()
            step()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def step(run: Callable[[Any], Any], x: Any) -> Callable[[], Any]:
    return lambda: run(x).square().mean().backward()


def checkpoints(bench: Bench) -> Iterable[Row]:
    from rushlight.utils.checkpoint import checkpoint

    ours, theirs = bench.load()
    runs = ways(ours, checkpoint, budgets=True)
    x = runs.pop("input")
    peaks = {name: peak(ours, run, x) for name, run in runs.items()}
    for name, (bar, _) in BARS.items():
        yield at_most(f"peak, {name}", peaks[name] / peaks["plain"], bar, "x plain")
    rounds = max(3, bench.rounds // 3)
    spent = times({name: step(run, x) for name, run in runs.items()}, rounds)
    torch_spent = times_of_torch(theirs, rounds) if theirs is not None else {}
    for name, (_, bar) in BARS.items():
        torch_ratio = torch_spent[name] / torch_spent["plain"] if name in torch_spent else None
        yield at_most(f"time, {name}", spent[name] / spent["plain"], bar, "x plain", torch_ratio)


def times_of_torch(torch: Any, rounds: int) -> dict[str, float]:
    from torch.utils.checkpoint import checkpoint

    runs = ways(torch, checkpoint, budgets=False)
    x = runs.pop("input")
    return times({name: step(run, x) for name, run in runs.items()}, rounds)


def watched(torch: Any) -> dict[str, Callable[[], Any]]:
    """A small network's step: as it is, with hooks that do nothing, and in anomaly mode."""
    F = torch.nn.functional
    torch.manual_seed(0)
    weights = [(torch.randn(128, 128) * 0.1).requires_grad_() for _ in range(8)]
    x = torch.randn(64, 128)

    def plain() -> None:
        h = x
        for w in weights:
            h = F.gelu(F.linear(h, w))
        h.square().mean().backward()

    def hooked() -> None:
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach(), lambda t: t):
            plain()

    def anomaly() -> None:
        with torch.autograd.detect_anomaly():
            plain()

    return {"plain": plain, "identity saved_tensors_hooks": hooked, "anomaly mode": anomaly}


def watching(bench: Bench) -> Iterable[Row]:
    found = [
        times(watched(library), 15 * bench.rounds)
        for library in bench.load()
        if library is not None
    ]
    for name, bar in WATCHED.items():
        ours, *theirs = (spent[name] / spent["plain"] for spent in found)
        yield at_most(name, ours, bar, "x plain", *theirs)


def rows(bench: Bench) -> Iterable[Row]:
    if any(bench.wants(f"{what}, {name}") for name in BARS for what in ("peak", "time")):
        yield from (row for row in checkpoints(bench) if bench.wants(row.name))
    if any(map(bench.wants, WATCHED)):
        yield from (row for row in watching(bench) if bench.wants(row.name))


if __name__ == "__main__":
    main(rows, "checkpoint: memory against time, and the cost of watching")
