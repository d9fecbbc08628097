"""Unmodified libraries give the numbers that they give with PyTorch, where they are installed."""

import importlib.util
from pathlib import Path

import pytest

from oracle.test_run_programs import differences, run

FOLDER = Path(__file__).parent.parent / "programs" / "libraries"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.py"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_prints_the_same(name):
    if importlib.util.find_spec(name.split("_")[0]) is None:
        pytest.skip(f"{name.split('_')[0]} is not installed")
    path = str(FOLDER / f"{name}.py")
    ours, theirs = run("-m", "rushlight", "run", path), run(path)
    assert differences(ours, theirs, 1e-4) == []
