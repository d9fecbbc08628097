"""The same program under PyTorch's DDP with gloo and under ours: the same losses on every rank."""

import json
from pathlib import Path

import pytest

from processes import needs_mpi, run_script

PROGRAM = Path(__file__).resolve().parent / "ddp_program.py"


def losses(library, size):
    outputs = run_script(PROGRAM, size, library, env={"GLOO_SOCKET_IFNAME": "lo"})
    lines = [next(x for x in o.splitlines() if x.startswith("RESULT ")) for o in outputs]
    return [json.loads(line.removeprefix("RESULT ")) for line in lines]


@needs_mpi
@pytest.mark.parametrize("size", [2, 3])
def test_a_program_has_the_losses_that_it_has_under_pytorch(size):
    for ours, theirs in zip(losses("rushlight", size), losses("torch", size), strict=True):
        assert ours.keys() == theirs.keys()
        for name, expected in theirs.items():
            tolerance = 1e-3 if name == "half" else 1e-10
            assert ours[name] == pytest.approx(expected, rel=0, abs=tolerance), name
