"""Processes of a group that wait for work: what the distributed benchmarks measure with.

A `Team` is N processes in one group, of one library with one thread each. Each runs the calls that
it is given, at the same time as the others, and tells how long they took; teams of two libraries
take turns, so that what else the machine does falls on neither alone.
"""

from __future__ import annotations

import importlib
import itertools
import os
import pickle
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import models
from harness import HERE


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


class Team:
    """N processes of a library; `run(name, *arguments)` calls a function of this module in each."""

    def __init__(self, library: str, size: int) -> None:
        self.size = size
        port = str(free_port())
        self.processes = []
        for rank in range(size):
            told = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "MASTER_PORT": port}
            env = {**os.environ, **{k: str(v) for k, v in told.items()}}
            env |= {"MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
            command = [sys.executable, str(HERE / "ranks.py"), library]
            self.processes.append(
                subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            )

    def run(self, name: str, *arguments: Any) -> list[Any]:
        """What each process returns."""
        for process in self.processes:
            assert process.stdin is not None
            _write(process.stdin, (name, arguments))
        return [_read(process.stdout) for process in self.processes]

    def end(self) -> None:
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in self.processes:
            process.wait()

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *error: Any) -> None:
        self.end()


def _write(stream: Any, value: Any) -> None:
    data = pickle.dumps(value)
    stream.write(struct.pack("<q", len(data)) + data)
    stream.flush()


def _read(stream: Any) -> Any:
    head = stream.read(8)
    if len(head) < 8:
        raise RuntimeError("a process of the team has ended; its error is above")
    return pickle.loads(stream.read(struct.unpack("<q", head)[0]))


# -- in the processes -----------------------------------------------------------------------------

MODELS = {
    "small MLP": lambda torch, wrap: models.mlp(torch, 64, 128, 10, 32, wrap),
    "MLP": lambda torch, wrap: models.mlp(torch, 784, 512, 10, 128, wrap),
    "char GPT": lambda torch, wrap: models.gpt(torch, 2, 64, 64, 8, 4, wrap=wrap),
}


ROWS = 3  # of many in a row, the best counts


class Member:
    """One process: its library and the steps that it has made."""

    def __init__(self, library: str) -> None:
        self.torch = importlib.import_module(library)
        self.dist = importlib.import_module(f"{library}.distributed")
        self.torch.set_num_threads(1)
        self.dist.init_process_group("gloo")
        self.steps: dict[tuple[str, str], Any] = {}
        self.own: Any = None  # a group of this process alone

    def step(self, model: str, how: str, rounds: int) -> float:
        """A step of a model, of many in a row: "alone" in each process, or under "ddp"."""
        if (model, how) not in self.steps:
            wrap = models.itself
            if how == "ddp":
                wrap = self.torch.nn.parallel.DistributedDataParallel
            elif how == "fsdp":
                wrap = importlib.import_module(
                    f"{self.torch.__name__}.distributed.fsdp"
                ).fully_shard
            self.steps[model, how] = MODELS[model](self.torch, wrap)
            for _ in range(3):
                self.steps[model, how]()
        return self._steady(self.steps[model, how], rounds)

    def _quickest(self, work: Any, rounds: int) -> float:
        self.dist.barrier()
        best = float("inf")
        for _ in range(rounds):
            start = time.perf_counter()
            work()
            best = min(best, time.perf_counter() - start)
        return best

    def _steady(self, work: Any, rounds: int) -> float:
        """The time of one of many in a row, of the best row.

        A single one can be short because this process was late and found the others waiting.
        """
        best = float("inf")
        for _ in range(ROWS):
            self.dist.barrier()
            start = time.perf_counter()
            for _ in range(rounds):
                work()
            best = min(best, (time.perf_counter() - start) / rounds)
        return best

    def steady_all_reduce(self, count: int, rounds: int) -> float:
        """The time of one of many all_reduces of that many floats."""
        t = self.torch.ones(count)
        return self._steady(lambda: self.dist.all_reduce(t), rounds)

    def all_reduce(self, count: int, rounds: int) -> float:
        """The quickest all_reduce of that many floats."""
        t = self.torch.ones(count)
        return self._quickest(lambda: self.dist.all_reduce(t), rounds)

    def all_gather(self, count: int, rounds: int) -> float:
        """The quickest all_gather of that many floats in all."""
        part = self.torch.ones(count // self.dist.get_world_size())
        out = self.torch.empty(part.numel() * self.dist.get_world_size())
        return self._quickest(lambda: self.dist.all_gather_into_tensor(out, part), rounds)

    def layers(self, sizes: Sequence[int], batch: int, rounds: int) -> list[tuple[float, ...]]:
        """(forward, backward, bytes) of each linear layer with a ReLU, alone in this process."""
        torch, found = self.torch, []
        for i in range(len(sizes) - 1):
            layer = torch.nn.Sequential(torch.nn.Linear(sizes[i], sizes[i + 1]), torch.nn.ReLU())
            x = torch.randn(batch, sizes[i], requires_grad=i > 0)
            grad = torch.ones(batch, sizes[i + 1])
            forward = self._steady(lambda layer=layer, x=x: layer(x), rounds)

            def both(layer: Any = layer, x: Any = x, grad: Any = grad) -> None:
                layer.zero_grad()
                layer(x).backward(grad)

            backward = max(self._steady(both, rounds) - forward, 0.0)
            size = sum(p.numel() * p.element_size() for p in layer.parameters())
            found.append((forward, backward, float(size)))
        return found

    def chain(
        self, sizes: Sequence[int], batch: int, how: str, cap: float, rounds: int, alone: bool
    ) -> float:
        """A forward and a backward pass of the linear layers, without an optimizer.

        `how` is "plain", "ddp" or "fsdp", `alone` whether the process is a group of its own.
        """
        torch, group = self.torch, self._group_of_one() if alone else self.dist.group.WORLD
        pairs = itertools.pairwise(sizes)
        blocks = [torch.nn.Sequential(torch.nn.Linear(a, b), torch.nn.ReLU()) for a, b in pairs]
        model = torch.nn.Sequential(*blocks)
        if how == "ddp":
            wrap = torch.nn.parallel.DistributedDataParallel
            model = wrap(model, bucket_cap_mb=cap, process_group=group)
        elif how == "fsdp":
            name = torch.__name__
            fsdp = importlib.import_module(f"{name}.distributed.fsdp")
            meshes = importlib.import_module(f"{name}.distributed.device_mesh")
            mesh = meshes.DeviceMesh.from_group(group, "cpu")
            for block in blocks:
                fsdp.fully_shard(block, mesh=mesh)
            fsdp.fully_shard(model, mesh=mesh)
        x, grad = torch.randn(batch, sizes[0]), torch.ones(batch, sizes[-1])

        def work() -> None:
            model.zero_grad()
            model(x).backward(grad)

        for _ in range(3):
            work()
        return self._steady(work, rounds)

    def _group_of_one(self) -> Any:
        if self.own is None:
            groups = [self.dist.new_group([r]) for r in range(self.dist.get_world_size())]
            self.own = groups[self.dist.get_rank()]
        return self.own


def main() -> None:
    replies, sys.stdout = sys.stdout.buffer, sys.stderr
    member = Member(sys.argv[1])
    while True:
        head = sys.stdin.buffer.read(8)
        if len(head) < 8:
            break
        name, arguments = pickle.loads(sys.stdin.buffer.read(struct.unpack("<q", head)[0]))
        _write(replies, getattr(member, name)(*arguments))
    member.dist.destroy_process_group()


if __name__ == "__main__":
    main()
