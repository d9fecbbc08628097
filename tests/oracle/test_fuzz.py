"""A short run of tools/fuzz: random programs crash nothing and give PyTorch's numbers."""

import os
import pathlib
import subprocess
import sys

TESTS = pathlib.Path(__file__).parents[1]


def test_a_few_hundred_programs():
    command = [
        sys.executable,
        "-m",
        "oracle.fuzz",
        "--programs",
        "300",
        "--facts",
        "value",
        "dtype",
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=TESTS, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
