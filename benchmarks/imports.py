"""What `import` costs: time, resident memory, other packages, and the size on disk."""

import importlib.util
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harness import Bench, Row, at_most, main, yes

IMPORT = """
import sys, time
start = time.perf_counter()
__import__(sys.argv[1])
spent = time.perf_counter() - start
import json
status = open("/proc/self/status").read()
resident = int(status.split("VmRSS:")[1].split()[0]) * 1024
print(json.dumps([spent, resident, "numpy" in sys.modules]))
"""


def folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError(f"{package} is not installed as a package")
    return Path(spec.submodule_search_locations[0])


def size(path: Path) -> int:
    return sum(f.stat().st_size for f in path.rglob("*") if f.is_file() and f.suffix != ".pyc")


def rows(bench: Bench) -> Iterable[Row]:
    # Both have their bytecode, as installed packages do, whatever the environment says of it.
    with tempfile.TemporaryDirectory() as folder_of_bytecode:
        os.environ["PYTHONPYCACHEPREFIX"] = folder_of_bytecode
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        yield from measured(bench)


def measured(bench: Bench) -> Iterable[Row]:
    runs: dict[str, list[Any]] = {name: [] for name in bench.names}
    for _ in range(max(3, bench.rounds // 2)):
        for name, kept in runs.items():
            kept.append(bench.child(IMPORT, name))
    seconds, resident = ([min(r[i] for r in kept) for kept in runs.values()] for i in (0, 1))
    alone = [not kept[0][2] for kept in runs.values()]
    yield at_most("import", seconds[0], 0.060, "s", *seconds[1:])
    yield at_most("resident after import", resident[0], 40 * 2**20, "B", *resident[1:])
    yield yes("import leaves NumPy alone", *alone)
    blas = size(folder("scipy_openblas32"))
    total = size(folder(bench.subject)) + blas
    others = [size(folder(name)) for name in bench.names[1:]]
    yield at_most("installed, with the BLAS", total, 40 * 2**20, "B", *others)
    extensions = [f.stat().st_size for f in folder(bench.subject).glob("_C*.so")]
    yield at_most("the extension", sum(extensions), 12 * 2**20, "B")


if __name__ == "__main__":
    main(rows, "imports: the cost of being there")
