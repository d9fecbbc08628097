"""Predicts a training step on up to 10,000 ranks from measured compute times and a model of links.

    python benchmarks/simulate.py                  # a GPT on 1 … 10,000 ranks
    python benchmarks/simulate.py --check          # against measured runs of 2, 4 and 8 processes

The model of a link is latency plus bytes over bandwidth, of a node and of the network between
nodes. A collective is the ring of its algorithm (within a node, then between nodes). A step is
played event by event: layers compute in order, buckets are sent when they are full, one after
another, and the step ends with the last. On one machine with fewer cores than ranks, cores move
the data, too: bytes add to what is computed, and only the waits for each other overlap.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

# -- what is given --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Link:
    """Seconds for a message, and bytes each second, of one rank."""

    latency: float
    bandwidth: float

    def time(self, size: float) -> float:
        return self.latency + size / self.bandwidth


@dataclass(frozen=True)
class Cluster:
    """Ranks in nodes: links within a node, and between nodes (each rank's share)."""

    ranks: int
    per_node: int
    near: Link
    far: Link
    memory: float = 80e9  # bytes of a rank
    cores: int | None = None  # of one machine whose ranks share them, also to move data

    @property
    def nodes(self) -> int:
        return -(-self.ranks // self.per_node)

    @property
    def is_shared(self) -> bool:
        """Whether the ranks' own cores move the data: what they copy they do not compute."""
        return self.cores is not None

    def crowding(self) -> float:
        """How much slower each rank computes where there are more ranks than cores."""
        return 1.0 if self.cores is None else max(1.0, self.ranks / self.cores)


@dataclass(frozen=True)
class Layer:
    """One layer on one rank: seconds forward and backward, bytes of parameters and activations."""

    forward: float
    backward: float
    parameters: float
    activations: float = 0.0
    message: float = 0.0  # bytes that it passes to the next one


@dataclass(frozen=True)
class Plan:
    """How ranks share the work: their product is the number of ranks."""

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    sharded: bool = False  # FSDP instead of DDP
    bucket: float = 25 * 2**20
    micro_batches: int = 1
    state: float = 8.0  # bytes of optimizer state for each 4 bytes of parameters (Adam: 8)


@dataclass
class Prediction:
    step: float
    efficiency: float
    memory: float
    communication: float  # seconds on the links
    exposed: float  # of those, seconds in which nothing is computed
    parts: dict[str, float] = field(default_factory=dict)


# -- collectives ----------------------------------------------------------------------------------


def ring(size: float, ranks: int, link: Link, rounds: int) -> float:
    """``rounds`` trips around a ring of ``ranks``: 1 gathers or scatters, 2 reduces for all."""
    if ranks <= 1:
        return 0.0
    return rounds * (ranks - 1) * link.time(size / ranks)


def tree(size: float, ranks: int, link: Link, rounds: int) -> float:
    """The same by halving and doubling: fewer messages, the same bytes."""
    if ranks <= 1:
        return 0.0
    steps = math.ceil(math.log2(ranks))
    return rounds * (steps * link.latency + size * (ranks - 1) / ranks / link.bandwidth)


def direct(size: float, ranks: int, link: Link, rounds: int) -> float:
    """The same from each to each at once: one latency a round, the same bytes."""
    if ranks <= 1:
        return 0.0
    return rounds * link.time(size * (ranks - 1) / ranks)


def collective(size: float, ranks: int, cluster: Cluster, rounds: int) -> float:
    """Within nodes first, then between them on a node's part; the better of ring and tree.

    On a machine that ranks share it is direct, and the link's times are those of all of them.
    """
    if cluster.is_shared:
        return direct(size, ranks, cluster.near, rounds)
    inside = min(ranks, cluster.per_node)
    outside = -(-ranks // inside)
    near = min(f(size, inside, cluster.near, rounds) for f in (ring, tree))
    far = min(f(size / inside, outside, cluster.far, rounds) for f in (ring, tree))
    return near + far


def all_reduce(size: float, ranks: int, cluster: Cluster) -> float:
    return collective(size, ranks, cluster, 2)


# -- a step ---------------------------------------------------------------------------------------


def buckets(layers: Sequence[Layer], cap: float) -> list[tuple[int, float]]:
    """(the layer whose backward fills it, bytes) of each bucket, in the order of backward."""
    found, filled = [], 0.0
    for i in reversed(range(len(layers))):
        filled += layers[i].parameters
        if filled >= cap or (i == 0 and filled):
            found.append((i, filled))
            filled = 0.0
    return found


def cost(size: float, rounds: int, plan: Plan, cluster: Cluster) -> tuple[float, float]:
    """(seconds until a collective of the plan's data ranks has ended, seconds of the rank's core).

    Links work beside the ranks. On a machine that ranks share, bytes are the cores' work, and the
    rest is waiting for the others, in which a core is free for whoever has something to do.
    """
    whole = collective(size, plan.data, cluster, rounds)
    if not cluster.is_shared:
        return whole, 0.0
    waits = collective(0.0, plan.data, cluster, rounds)
    return waits, whole - waits


def data_parallel(layers: Sequence[Layer], plan: Plan, cluster: Cluster) -> tuple[float, float]:
    """(the end of the step, seconds of communication): all_reduce of buckets beside backward."""
    sizes = dict(buckets(layers, plan.bucket))
    now = sum(layer.forward for layer in layers)
    link, busy = 0.0, 0.0
    for i in reversed(range(len(layers))):
        now += layers[i].backward
        if i in sizes:
            takes, own = cost(sizes[i], 2, plan, cluster)
            now += own
            link = ended(link, now, takes, cluster)
            busy += takes + own
    return max(now, link), busy


def ended(link: float, now: float, takes: float, cluster: Cluster) -> float:
    """When a collective that starts now has ended: a link has one at a time, waits overlap."""
    return max(link, now + takes) if cluster.is_shared else max(link, now) + takes


def fully_sharded(layers: Sequence[Layer], plan: Plan, cluster: Cluster) -> tuple[float, float]:
    """Parameters gathered one layer ahead, forward and backward; gradients scattered after it."""
    costs = [cost(layer.parameters, 1, plan, cluster) for layer in layers]
    order = [*range(len(layers)), *reversed(range(len(layers)))]
    work = [layer.forward for layer in layers] + [layer.backward for layer in reversed(layers)]
    link = ready = busy = sum(costs[0])
    now = 0.0
    for step, i in enumerate(order):
        now = max(now, ready)
        if step + 1 < len(order):  # the next layer is gathered while this one computes
            takes, own = costs[order[step + 1]]
            now += own
            link = ready = ended(link, now, takes, cluster)
            busy += takes + own
        now += work[step]
        if step >= len(layers):
            takes, own = costs[i]
            now += own
            link = ended(link, now, takes, cluster)
            busy += takes + own
    return max(now, link), busy


def tensor_parallel(layers: Sequence[Layer], ways: int, cluster: Cluster) -> list[Layer]:
    """Layers cut into ``ways``: less work each, and two all_reduces a pass that nothing hides."""
    if ways == 1:
        return list(layers)
    shared = []
    for layer in layers:
        cost = 2 * all_reduce(layer.message, ways, cluster)
        shared.append(
            Layer(
                layer.forward / ways + cost,
                layer.backward / ways + cost,
                layer.parameters / ways,
                layer.activations / ways,
                layer.message,
            )
        )
    return shared


def pipelined(layers: Sequence[Layer], plan: Plan, cluster: Cluster) -> tuple[list[Layer], float]:
    """(the layers of the slowest stage for all micro-batches, seconds that it waits).

    1F1B: with p stages and m micro-batches each stage waits for p - 1 of them.
    """
    stages, m = plan.pipeline, plan.micro_batches
    if stages == 1:
        return list(layers), 0.0
    length = -(-len(layers) // stages)
    chunks = [layers[k : k + length] for k in range(0, len(layers), length)]
    slowest = max(chunks, key=lambda c: sum(x.forward + x.backward for x in c))
    passed = cluster.far.time(slowest[-1].message / m) * 2
    one = sum(x.forward + x.backward for x in slowest) / m + passed
    return list(slowest), (stages - 1) * one + passed * m


def memory(layers: Sequence[Layer], plan: Plan) -> float:
    """Bytes of a rank: parameters, gradients, optimizer states, activations."""
    parameters = sum(layer.parameters for layer in layers)
    largest = max(layer.parameters for layer in layers)
    activations = sum(layer.activations for layer in layers)
    if plan.pipeline > 1:  # 1F1B keeps as many micro-batches as there are stages
        activations *= min(1.0, plan.pipeline / plan.micro_batches)
    states = parameters * plan.state / 4
    if plan.sharded:
        return (2 * parameters + states) / plan.data + 2 * largest + activations
    return 2 * parameters + min(parameters, plan.bucket) + states + activations


def predict(layers: Sequence[Layer], plan: Plan, cluster: Cluster) -> Prediction:
    """A step of the plan on the cluster; ``layers`` are those of the whole model on one rank."""
    ranks = plan.data * plan.tensor * plan.pipeline
    if ranks != cluster.ranks:
        raise ValueError(f"predict: the plan is for {ranks} ranks, the cluster has {cluster.ranks}")
    slow = cluster.crowding()
    layers = [replace(x, forward=x.forward * slow, backward=x.backward * slow) for x in layers]
    alone = sum(x.forward + x.backward for x in layers)
    cut = tensor_parallel(layers, plan.tensor, cluster)
    stage, waits = pipelined(cut, plan, cluster)
    step, busy = (fully_sharded if plan.sharded else data_parallel)(stage, plan, cluster)
    step += waits
    computed = alone / (plan.tensor * plan.pipeline)
    return Prediction(
        step=step,
        efficiency=computed / step,
        memory=memory(stage, plan),
        communication=busy,
        exposed=step - computed,
    )


# -- a GPT on a cluster ---------------------------------------------------------------------------


def gpt(width: int, depth: int, tokens: int, rate: float) -> list[Layer]:
    """Layers of a GPT on a rank that computes ``rate`` operations each second, in bfloat16.

    Layers are checkpointed: a layer's input is kept, and backward computes the rest again.
    """
    parameters = 12 * width * width
    forward = 2 * parameters * tokens / rate
    message = 2.0 * tokens * width
    return [Layer(forward, 3 * forward, 2.0 * parameters, message, message)] * depth


def table(counts: Sequence[int]) -> None:
    # 8 accelerators of 400 TFLOP/s in a node: 300 GB/s within, 50 GB/s between nodes for each.
    layers = gpt(width=8192, depth=48, tokens=8192, rate=400e12)
    print("a GPT of 39 billion parameters, 8,192 tokens a rank; per rank 80 GB")
    columns = ("ranks", "plan", "step s", "efficiency", "memory GB", "links s", "exposed s")
    print("".join(f"{c:>12}" for c in columns))
    for ranks in counts:
        cluster = Cluster(ranks, 8, Link(5e-6, 300e9), Link(15e-6, 50e9))
        plans = {
            "DDP": Plan(data=ranks, state=16),
            "FSDP": Plan(data=ranks, sharded=True, state=16),
        }
        if ranks % 8 == 0:
            plans["TP8"] = Plan(data=ranks // 8, tensor=8, state=16)
            plans["TP8+FSDP"] = Plan(data=ranks // 8, tensor=8, sharded=True, state=16)
        if ranks % 64 == 0:
            plans["TP8+PP8"] = Plan(
                data=ranks // 64, tensor=8, pipeline=8, micro_batches=32, state=16
            )
        for name, plan in plans.items():
            # A model-parallel group works on the tokens of all of its ranks.
            share = plan.tensor * plan.pipeline
            work = [
                replace(
                    x,
                    forward=x.forward * share,
                    backward=x.backward * share,
                    activations=x.activations * share,
                    message=x.message * share,
                )
                for x in layers
            ]
            found = predict(work, plan, cluster)
            fits = "" if found.memory <= cluster.memory else "  does not fit"
            print(
                f"{ranks:>12}{name:>12}{found.step:>12.3f}{found.efficiency:>12.2f}"
                f"{found.memory / 1e9:>12.1f}{found.communication:>12.3f}"
                f"{found.exposed:>12.3f}{fits}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="compare with runs on this machine")
    parser.add_argument("--ranks", type=int, nargs="*", default=[1, 8, 64, 512, 2048, 9984])
    parser.add_argument("--json", metavar="FILE", help="with --check: also write the rows there")
    given = parser.parse_args()
    if not given.check:
        table(given.ranks)
        return
    from distributed_runs import check

    rows = check()
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
