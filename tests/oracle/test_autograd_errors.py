"""Wrong uses of autograd: the class of torch's exception, and the text that users search for.

The programs are the blocks of errors/autograd.txt; each ends with the text that stands in the
messages of both libraries. Where rushlight accepts a program on purpose, it is in the plain tests.
"""

import pathlib

import pytest

from oracle.harness import LIBRARIES, read_snippets, run, snippet_program

BLOCKS = read_snippets(pathlib.Path(__file__).with_name("errors") / "autograd.txt")


@pytest.mark.parametrize("block", BLOCKS, ids=[b.partition("\n")[0][2:] for b in BLOCKS])
def test_class_and_text(block):
    program, _, phrase = block.rpartition("\n=> ")
    ours, theirs = (run(snippet_program(program), library).error for library in LIBRARIES)
    assert theirs is not None, "torch accepts this program"
    assert phrase in str(theirs), f"torch says: {theirs}"
    assert ours is not None, "rushlight accepts this program"
    names = [c.__name__ for c in type(ours).__mro__]
    assert type(theirs).__name__ in names, f"rushlight raises {ours!r}, torch {theirs!r}"
    assert phrase in str(ours), f"rushlight says: {ours}"
