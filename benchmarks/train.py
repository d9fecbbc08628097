"""Full train steps: time against PyTorch and JAX's jit, and peak resident memory.

The models are in models.py. Memory is that of a fresh process that trained for 20 steps; the
part that importing the library takes is shown apart.
"""

import importlib.util
from collections.abc import Iterable
from typing import Any

from harness import Bench, Case, Row, main
from models import STEPS

BARS = {
    "MLP 2-16-2, batch 4": 10,
    "MLP 64-128-10, batch 32": 5,
    "RNN by hand, 16 steps, hidden 32": 6,
    "tiny GPT, 2 layers, 32 wide, T 16, B 4": 5,
    "MLP 784-512-10, batch 128": 1.4,
    "char GPT, 4 layers, 128 wide, T 64, B 16": 1.3,
    "char GPT in bf16 autocast": 1.3,
    "LeNet, batch 32": 1.2,
    "ResNet, 3x32x32, batch 16": 1.0,
}
MEASURED_MEMORY = ("char GPT, 4 layers, 128 wide, T 64, B 16", "ResNet, 3x32x32, batch 16")
MEMORY_BAR = 0.9
AGAINST_JAX = {"MLP 2-16-2, batch 4": (2, 16, 2, 4), "MLP 64-128-10, batch 32": (64, 128, 10, 32)}

CHILD = """
import importlib, json, sys
from harness import peak_memory
from models import STEPS
library, name, threads = sys.argv[1:4]
torch = importlib.import_module(library)
importlib.import_module(library + ".optim")
torch.set_num_threads(int(threads))
start = peak_memory()
step = STEPS[name](torch)
for _ in range(20):
    step()
print(json.dumps([peak_memory(), start]))
"""


def memory_row(bench: Bench, name: str) -> Row:
    peaks = [bench.child(CHILD, library, name, str(bench.threads)) for library in bench.names]
    grown = " against ".join(f"{(peak - start) / 2**20:.0f}" for peak, start in peaks)
    ours, *others = (peak for peak, _ in peaks)
    theirs = others[0] if others else None
    bar, passed = f"<= {MEMORY_BAR:g}x", None if theirs is None else ours <= MEMORY_BAR * theirs
    note = f"after import: {grown} MiB"
    return Row(f"peak memory, {name}", ours, theirs, "B", bar, passed, note=note)


def jax_step(inputs: int, hidden: int, classes: int, batch: int) -> Any:
    """The step of models.mlp as one function compiled by JAX, the state kept outside."""
    import jax
    import jax.numpy as jnp

    keys = jax.random.split(jax.random.key(0), 4)
    shapes = [(inputs, hidden), (hidden,), (hidden, classes), (classes,)]
    parameters = [jax.random.normal(k, s) * 0.1 for k, s in zip(keys, shapes, strict=True)]
    velocity = [jnp.zeros_like(p) for p in parameters]
    x = jax.random.normal(keys[0], (batch, inputs))
    y = jax.random.randint(keys[1], (batch,), 0, classes)

    def loss(parameters: Any) -> Any:
        w1, b1, w2, b2 = parameters
        logits = jax.nn.log_softmax(jnp.maximum(x @ w1 + b1, 0) @ w2 + b2)
        return -jnp.take_along_axis(logits, y[:, None], 1).mean()

    @jax.jit
    def update(parameters: Any, velocity: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(parameters)
        velocity = [0.9 * v + g for v, g in zip(velocity, gradients, strict=True)]
        return [p - 1e-3 * v for p, v in zip(parameters, velocity, strict=True)], velocity, value

    state = [parameters, velocity]

    def step() -> Any:
        *state[:], value = update(*state)
        return value.block_until_ready()

    return step


class Jax:
    """Stands where PyTorch stands in the harness."""

    @staticmethod
    def set_num_threads(count: int) -> None:
        """XLA has a pool of its own."""


def jax_row(bench: Bench, name: str) -> Row:
    sizes = AGAINST_JAX[name]

    def names(library: Any) -> dict[str, Any]:
        return {"step": jax_step(*sizes) if library is Jax else STEPS[name](library)}

    ours = bench.load()[0]
    against = Bench(bench.subject, bench.rounds, bench.threads, "", {bench.subject: ours})
    against.libraries["torch"] = Jax
    row = against.compare(Case(f"{name}, against JAX's jit", names, "step()", 1.0))
    row.note = "the second figure is JAX's"
    return row


def rows(bench: Bench) -> Iterable[Row]:
    for name, make in STEPS.items():
        yield from bench.compare_all(
            [Case(name, lambda torch, make=make: {"step": make(torch)}, "step()", BARS[name])]
        )
    for name in MEASURED_MEMORY:
        if bench.wants(f"peak memory, {name}"):
            yield memory_row(bench, name)
    for name in AGAINST_JAX:
        if bench.wants(f"{name}, against JAX's jit") and importlib.util.find_spec("jax"):
            yield jax_row(bench, name)


if __name__ == "__main__":
    main(rows, "train: full steps")
