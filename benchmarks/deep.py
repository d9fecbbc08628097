"""5 million chained ops on a 256 KB stack: build the graph, run it backward, free it."""

import os
from collections.abc import Iterable

from harness import Bench, Row, main, yes

OPS = int(os.environ.get("DEEP_OPS", 5_000_000))

CHAIN = """
import gc, importlib, json, sys, time
from harness import peak_memory
torch = importlib.import_module(sys.argv[1])
ops = int(sys.argv[2])
x = torch.ones((), dtype=torch.float64, requires_grad=True)
marks = [time.perf_counter()]
y = x
for _ in range(ops // 2):
    y = y * 1.0
    y = y + 1.0
marks.append(time.perf_counter())
y.backward(retain_graph=True)
marks.append(time.perf_counter())
assert x.grad.item() == 1.0, x.grad
del y
marks.append(time.perf_counter())
# A second graph, freed without ever having run backward.
z = x
for _ in range(ops // 2):
    z = z * 1.0
    z = z + 1.0
del z
spent = [b - a for a, b in zip(marks, marks[1:])]
print(json.dumps([*spent, peak_memory()]))
"""


def rows(bench: Bench) -> Iterable[Row]:
    ours, theirs = (
        bench.child(CHAIN, library, str(OPS), limit="ulimit -s 256", check=False)
        for library in (bench.subject, "torch")
    )
    yield yes(f"{OPS:,} ops survive a 256 KB stack", ours is not None, theirs is not None)
    if ours is None:
        return
    for i, what in enumerate(("build", "backward", "free")):
        other = theirs[i] / OPS if theirs else None
        yield Row(f"{what}, per op", ours[i] / OPS, other, "s")
    yield Row("peak memory, per op", ours[3] / OPS, theirs and theirs[3] / OPS, "bytes")


if __name__ == "__main__":
    main(rows, "deep: long chains on a small stack")
