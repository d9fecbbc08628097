"""The types of the package: a program that uses them runs, and type checkers accept it."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "tests" / "typed" / "program.py"


def run(*command):
    done = subprocess.run(
        [sys.executable, *map(str, command)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_program_runs():
    run(PROGRAM)


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_mypy_accepts_it():
    run("-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir=/dev/null", PROGRAM)


@pytest.mark.skipif(importlib.util.find_spec("pyright") is None, reason="pyright is not installed")
def test_pyright_accepts_it():
    run("-m", "pyright", "--project", "pyproject.toml")
