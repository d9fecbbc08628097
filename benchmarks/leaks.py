"""Cycles between graphs and Python objects: freed by the collector, and memory stays flat."""

from collections.abc import Iterable

from cycles import PATTERNS
from harness import Bench, Row, at_most, main, yes

ITERATIONS = 10_000
SLACK = 4 * 2**20  # what an allocator may keep

CHILD = """
import gc, importlib, json, sys, weakref
import cycles
torch = importlib.import_module(sys.argv[1])
make, iterations = getattr(cycles, sys.argv[2]), int(sys.argv[3])

def resident():
    gc.collect()
    status = open("/proc/self/status").read()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024

gc.collect()
probe = weakref.ref(make(torch))
gc.collect()
freed = probe() is None
for _ in range(iterations // 5):
    make(torch)
before = resident()
for _ in range(iterations):
    make(torch)
print(json.dumps([freed, resident() - before]))
"""


def rows(bench: Bench) -> Iterable[Row]:
    for pattern in PATTERNS:
        name = pattern.__name__.replace("_", " ")
        if not bench.wants(name):
            continue
        freed, growth = bench.child(CHILD, bench.subject, pattern.__name__, str(ITERATIONS))
        theirs = bench.child(CHILD, "torch", pattern.__name__, str(ITERATIONS), check=False)
        yield yes(f"{name}: freed by one collect", freed, theirs and theirs[0])
        yield at_most(f"{name}: growth", growth, SLACK, "B", theirs and theirs[1])


if __name__ == "__main__":
    main(rows, "leaks: 10,000 cycles of each of 8 kinds")
