"""PyTorch programs, unmodified: under `rushlight run` they print what they print under PyTorch.

Text must be equal, numbers to 1e-4 relative (float32 rounding, amplified by training) and half a
unit of the last printed digit. Products of bfloat16 are rounded at other places: 3e-2 there.
Gradients of gamma samples have three digits in PyTorch.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight

FOLDER = Path(__file__).parent.parent / "programs"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.py"))
TOLERANCE = {"mixed_precision": 3e-2, "variational_inference": 1e-3}
NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?|-?\d+e[-+]?\d+|\bnan\b|\binf\b")

# PyTorch is imported once; each program runs in a process forked from there.
UNDER_TORCH = """
import json, os, runpy, sys, tempfile, torch, torch._dynamo
outputs = {}
for path in sys.argv[1:]:
    with tempfile.TemporaryFile("w+") as out:
        child = os.fork()
        if child == 0:
            os.dup2(out.fileno(), 1)
            sys.argv = [path]
            try:
                runpy.run_path(path, run_name="__main__")
                sys.stdout.flush()
                os._exit(0)
            except BaseException:
                import traceback
                traceback.print_exc()
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0, path
        out.seek(0)
        outputs[path] = out.read()
json.dump(outputs, sys.stdout)
"""
ENVIRONMENT = os.environ | {
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": str(Path(rushlight.__file__).parent.parent),
    "PYTHONWARNINGS": "ignore",
}


def run(*command):
    done = subprocess.run(
        [sys.executable, *command], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def under_torch(request):
    chosen = {item.callspec.params["name"] for item in request.session.items if is_program(item)}
    paths = [str(FOLDER / f"{name}.py") for name in sorted(chosen)]
    return json.loads(run("-c", UNDER_TORCH, *paths))


def is_program(item):
    return getattr(item, "function", None) is test_prints_the_same


def close(ours, theirs, relative):
    a, b = float(ours), float(theirs)
    unit = 10.0 ** -len(theirs.split("e")[0].partition(".")[2])
    return a == b or (a != a and b != b) or abs(a - b) <= relative * abs(b) + 0.51 * unit


def differences(ours, theirs, relative):
    """The lines that differ beyond the tolerance."""
    a, b = ours.splitlines(), theirs.splitlines()
    found = [(x, y) for x, y in zip(a, b, strict=False) if not same_line(x, y, relative)]
    return found if len(a) == len(b) else [*found, (f"{len(a)} lines", f"{len(b)} lines")]


def same_line(ours, theirs, relative):
    if NUMBER.sub("#", ours) != NUMBER.sub("#", theirs):
        return False
    pairs = zip(NUMBER.findall(ours), NUMBER.findall(theirs), strict=True)
    return all(close(x, y, relative) for x, y in pairs)


@pytest.mark.parametrize("name", PROGRAMS)
def test_prints_the_same(name, under_torch):
    path = str(FOLDER / f"{name}.py")
    ours = run("-m", "rushlight", "run", path)
    assert NUMBER.search(ours)
    assert differences(ours, under_torch[path], TOLERANCE.get(name, 1e-4)) == []


def test_there_are_fifteen_of_them_and_they_know_only_torch():
    assert len(PROGRAMS) >= 15
    for name in PROGRAMS:
        text = (FOLDER / f"{name}.py").read_text()
        assert "import torch" in text
        assert "rushlight" not in text


def test_the_comparison_notices():
    assert differences("loss 0.5001 a", "loss 0.5002 a", 1e-4) == []
    assert differences("loss 0.5001 a", "loss 0.5004 a", 1e-4)
    assert differences("a 1.00", "b 1.00", 1e-4)
    assert differences("1.0", "1.0\n2.0", 1e-4)
    assert differences("x 3", "x 4", 1e-4)
