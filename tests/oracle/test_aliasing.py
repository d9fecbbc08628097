"""A result shares memory with an argument where PyTorch's does, and is a view where it is one.

Every sample of every op is run in every layout: a result that is an argument, or a part of one, in
one library alone would be a write that reaches too far, or one that does not reach.
"""

import warnings

import pytest
import torch

import rushlight
from oracle.layouts import LAYOUTS, Case, find, packs_sequences
from registry import ENTRIES, path, samples_of

NAMES = {path(e): e for e in reversed(ENTRIES) if e["family"] not in ("random", "creation")}
# A copy here, a lazy view with a bit there; refused here of a leaf whose elements share memory.
CHOSEN = ("conj", "as_strided")
# Computed by other ops, the last of which takes a view of what the one before it made.
COMPOSED = (
    "einsum", "gru", "kron", "lstm", "lstsq", "lu_solve", "matrix_norm", "norm", "rnn_relu",
    "rnn_tanh", "scaled_dot_product_attention", "solve", "solve_ex",
)  # fmt: skip


def aliases(case, library, function):
    """Of each result: whether it is an argument, has the memory of one, is a view of anything."""
    results, arguments = case.call(library, function)
    given = [a for a in arguments if isinstance(a, library.Tensor)]
    places = {a.untyped_storage().data_ptr() for a in given if a.numel()}
    return [
        (
            any(r is a for a in given),
            r.numel() > 0 and r.untyped_storage().data_ptr() in places,
            r._is_view(),
        )
        for r in results
        if isinstance(r, library.Tensor)
    ]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(NAMES))
def test_ops(name):
    ours, theirs = find(rushlight, name), find(torch, name)
    short = name.split(".")[-1]
    if ours is None or theirs is None or short in CHOSEN:
        return
    for sample in samples_of(NAMES[name], rushlight.float64, 1):
        for layout in LAYOUTS if not packs_sequences(name, sample) else ():
            case = Case(sample, layout)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    wanted = aliases(case, torch, theirs)
            except Exception:
                continue
            got = aliases(case, rushlight, ours)
            for mine, other in zip(got, wanted, strict=True):
                assert mine[:2] == other[:2], (name, layout, got, wanted)
                # What is a view of something hidden there may be a tensor of its own here.
                assert other[2] or not mine[2] or short in COMPOSED, (name, layout, got, wanted)
