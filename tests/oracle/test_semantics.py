"""Short programs whose value, or class of exception, must be PyTorch's.

The programs are the blocks of snippets/*.txt. Each block is run on both libraries; the value of
its last expression is compared (tensors by dtype, shape, flags and numbers).
"""

import pathlib

import pytest

from oracle.harness import assert_same_outcome, read_snippets, snippet_program

FILES = sorted(pathlib.Path(__file__).with_name("snippets").glob("*.txt"))
CASES = [
    pytest.param(block, id=f"{path.stem}-{number}")
    for path in FILES
    for number, block in enumerate(read_snippets(path), 1)
]


@pytest.mark.parametrize("source", CASES)
def test_snippet(source):
    assert_same_outcome(snippet_program(source))
