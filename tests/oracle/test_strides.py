"""Results lie in memory as PyTorch's do, whatever the layout of the arguments.

Every sample of every op is run with its tensors contiguous, permuted, in channels_last, expanded
and sliced, all of them or the first alone; so are programs on images, volumes and sequences. The
strides of results are compared, and those of the leaves' gradients.
"""

import numpy as np
import pytest
import torch

import rushlight
from oracle.harness import derived_here_alone, to_numpy
from oracle.image_programs import programs_of_rank
from oracle.layouts import LAYOUTS, Case, find, packs_sequences
from registry import ENTRIES, path, samples_of
from samples import Maker, Sample

# What stays different, and why.
CHOSEN = {
    # With PyTorch the layout depends on the backend that a size, a dtype and the number of threads
    # choose; here it follows the arguments.
    "conv3d": "backend",
    "conv_transpose3d": "backend",
    "convolution": "backend",
    # Flash attention is chosen by size as well.
    "scaled_dot_product_attention": "backend",
    # PyTorch gives rows; here the layout is kept.
    "logsigmoid": "kept",
    "mvlgamma": "kept",
    "rrelu": "kept",
    # Refused for a leaf whose elements share memory; otherwise the strides are arguments.
    "as_strided": "refused",
    # One fused step, which writes rows.
    "gru_cell": "rows",
    # b - a is recorded as an op of (a, b), and a is asked first.
    "rsub": "order",
    # Where a derivative is wanted they are made of products and sums, which give rows.
    "householder_product": "rows",
    "lu_solve": "rows",
    "orgqr": "rows",
    "ormqr": "rows",
    # The vectors of a batch lie there as the columns of one matrix; a copy lies there in columns.
    "solve": "rows",
    "solve_ex": "rows",
    "triangular_solve": "kept",
    # PyTorch's is a lazy view with a conjugate bit.
    "conj": "view",
}
NAMES = {path(e): e for e in reversed(ENTRIES) if e["family"] not in ("random", "creation")}
SIZES = [(2, 4, 6, 4), (1, 4, 4, 4), (2, 1, 4, 6), (2, 4, 1, 1), (2, 3, 4, 5, 4), (2, 3, 6)]


def compare(case, ours, theirs, name):
    wanted, wanted_grads = case.run(torch, theirs)
    if isinstance(wanted, Exception):
        return
    got, grads = case.run(rushlight, ours)
    if "expanded" in case.layout and "division by zero" in str(got):
        return  # a matrix of equal columns is singular, which PyTorch's rounding may hide
    assert got == wanted, (name, case.layout, got, wanted)
    if not isinstance(wanted_grads, Exception) and not derived_here_alone(name):
        assert grads == wanted_grads, (name, case.layout, grads, wanted_grads)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_ops(name):
    ours, theirs = find(rushlight, name), find(torch, name)
    if ours is None or theirs is None or name.split(".")[-1] in CHOSEN or name.startswith("fft."):
        return  # PyTorch's library for transforms leaves the last one's dimension innermost
    for dtype in (rushlight.float64, rushlight.float32):
        for sample in samples_of(NAMES[name], dtype, 1):
            if packs_sequences(name, sample):
                continue
            for layout in LAYOUTS:
                for first_only in (False, True):
                    case = Case(sample, layout, first_only)
                    if case.changed:
                        compare(case, ours, theirs, name)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_programs(size, layout):
    if LAYOUTS[layout](size) is None:
        return
    case = Case(Sample((Maker(rushlight.float32, 3)(*size),), {}), layout)
    for name, program in programs_of_rank(len(size)).items():
        words = name.split()
        chosen = words[0] in CHOSEN or (words[0].startswith("conv") and len(size) == 5)
        if not chosen:
            compare(
                case, lambda x, p=program: p(rushlight, x), lambda x, p=program: p(torch, x), name
            )


NOT_COMPARED = (
    "dropout",
    "rand_like",
    "gaussian",
    "bernoulli",
    "rrelu",
    "fractional",
    "conv in",
    "conj",
)
FREE = ("sort", "mode", "median", "kthvalue", "max", "min", "topk")  # of equal elements, any


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_values(layout):
    if LAYOUTS[layout](SIZES[0]) is None:
        return
    case = Case(Sample((Maker(rushlight.float64, 3)(*SIZES[0]),), {}), layout)
    for name, program in programs_of_rank(4).items():
        ties = "expanded" in layout and any(word in name for word in FREE)
        if ties or any(word in name for word in NOT_COMPARED):
            continue
        try:
            wanted, _ = case.call(torch, lambda x, p=program: p(torch, x))
        except Exception:
            continue
        got, _ = case.call(rushlight, lambda x, p=program: p(rushlight, x))
        for a, b in zip(got, wanted, strict=True):
            close = np.allclose(to_numpy(a), to_numpy(b), rtol=1e-5, atol=1e-7, equal_nan=True)
            assert close, (name, layout)
