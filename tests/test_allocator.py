"""Blocks of memory: what is freed is used again or goes back, and what is in use stays as it is."""

import gc
import itertools
import os
import random
from pathlib import Path

import pytest

import rushlight as torch

KIB, MIB = 1 << 10, 1 << 20
SIZES = [100, 4 * KIB, 60 * KIB, 64 * KIB, 65 * KIB, 300 * KIB, MIB, 2 * MIB - 1, 2 * MIB, 3 * MIB]


def block(size, value):
    return torch.full((size,), value, dtype=torch.uint8)


def resident():
    """Bytes of memory that the process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4 * KIB


@pytest.mark.parametrize("size", SIZES)
def test_a_freed_block_is_used_again(size):
    t = block(size, 1)
    address, before = t.data_ptr(), torch.memory_stats()["system_allocations"]
    del t
    t = block(size, 2)
    assert t.data_ptr() == address
    assert torch.memory_stats()["system_allocations"] == before
    assert t.min() == t.max() == 2


@pytest.mark.parametrize("size", SIZES)
def test_blocks_do_not_overlap(size):
    blocks = [block(size, i) for i in range(20)]
    places = sorted((t.data_ptr(), t.data_ptr() + size) for t in blocks)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(places))
    assert all(start % 64 == 0 for start, _ in places)
    assert all(t.min() == t.max() == i for i, t in enumerate(blocks))


def test_emptying_the_cache_leaves_what_is_in_use():
    draw = random.Random(0)
    kept = {}
    for step in range(3000):
        if kept and draw.random() < 0.5:
            value, t = kept.popitem() if draw.random() < 0.3 else (min(kept), kept.pop(min(kept)))
            assert t.min() == t.max() == value % 251
        else:
            kept[step] = block(draw.choice(SIZES), step % 251)
        if step % 97 == 0:
            torch.empty_cache()
            assert torch.memory_stats()["cached_bytes"] == 0
    for value, t in kept.items():
        assert t.min() == t.max() == value % 251


@pytest.mark.skipif(
    not Path("/proc/self/statm").exists() or "libasan" in os.environ.get("LD_PRELOAD", ""),
    reason="asks Linux; AddressSanitizer keeps what is freed",
)
@pytest.mark.parametrize("size", [100 * KIB, 700 * KIB, 5 * MIB])
@pytest.mark.parametrize("stays", [False, True], ids=["all are free", "one is in use"])
def test_what_is_free_goes_back_to_the_system(size, stays):
    gc.collect()
    torch.empty_cache()
    before = resident()
    blocks = [block(size, 1) for _ in range(100 * MIB // size)]
    full = resident() - before
    assert full > 90 * MIB
    one = blocks[len(blocks) // 2] if stays else None
    blocks.clear()
    torch.empty_cache()
    assert resident() - before < 25 * MIB
    blocks = [block(size, 2) for _ in range(100 * MIB // size)]
    assert all(t.min() == t.max() == 2 for t in blocks)
    assert one is None or one.min() == one.max() == 1
    assert resident() - before < full + 25 * MIB
