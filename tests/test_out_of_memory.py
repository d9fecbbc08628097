"""After memory ran out: a clean error, and the next step works. Freeing never asks for memory."""

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or "libasan" in os.environ.get("LD_PRELOAD", ""),
    reason="limits the address space, of which AddressSanitizer needs more",
)

HEAD = """
import resource, sys
import rushlight as torch
import rushlight.nn.functional as F

def used():
    return int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()

def limit(megabytes):
    resource.setrlimit(resource.RLIMIT_AS, (used() + (megabytes << 20), resource.RLIM_INFINITY))

def lift():
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)

def refused(f):
    try:
        f()
    except (RuntimeError, MemoryError):
        return
    raise AssertionError("there was memory enough")
"""


def run(code):
    text = HEAD + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_a_million_small_tensors():
    """All the memory goes to small objects; then all of them are freed while there is none."""
    run("""
        limit(60)
        keep = []
        def fill():
            while True:
                keep.append(torch.ones(3))
        refused(fill)
        del keep[:]
        assert torch.ones(3).sum().item() == 3
        lift()
        """)


def test_large_blocks():
    run("""
        limit(100)
        keep = []
        refused(lambda: [keep.append(torch.ones(1 << 18)) for _ in range(1000)])
        half = keep[::2]
        del keep[:]
        refused(lambda: torch.ones(1 << 30))
        del half
        assert torch.ones(1 << 18).sum().item() == 1 << 18
        """)


def test_a_long_graph():
    """A graph that filled the memory is freed node by node."""
    run("""
        x = torch.ones(2, requires_grad=True)
        limit(60)
        keep = [x]
        def grow():
            while True:
                keep[0] = keep[0] * 1.5 + x
        refused(grow)
        del keep[:]
        y = (x * 2).sum()
        y.backward()
        assert x.grad.tolist() == [2, 2]
        """)


def test_a_backward_that_runs_out():
    run("""
        x = torch.ones(1 << 22, requires_grad=True)
        y = (x.sin().cos() * x).exp().sum()
        torch.empty_cache()
        limit(8)
        refused(lambda: y.backward())
        lift()
        x.grad = None
        y = (x * 2).sum()
        y.backward()
        assert x.grad[0].item() == 2
        """)


def test_products_after_memory_ran_out():
    """The first product of a program needs no more than others."""
    run("""
        limit(24)
        keep = []
        refused(lambda: [keep.append(torch.ones(1 << 16)) for _ in range(1000)])
        del keep[-8:]
        a = torch.ones(64, 64)
        assert (a @ a)[0, 0].item() == 64
        assert (a.double() @ a.double())[0, 0].item() == 64
        """)


def test_a_training_step_after_memory_ran_out():
    run("""
        model = torch.nn.Linear(8, 8)
        optimizer = torch.optim.AdamW(model.parameters())
        def step(rows):
            optimizer.zero_grad()
            F.cross_entropy(model(torch.ones(rows, 8)), torch.zeros(rows, dtype=int)).backward()
            optimizer.step()
        step(4)
        limit(64)
        refused(lambda: step(1 << 22))
        for _ in range(3):
            step(64)
        """)
