"""Every operator of PyTorch's own list (OpInfo), on the samples of its tests: value, gradient,
gradient of the gradient and tangent are PyTorch's, in double precision; so are the values of
integers and of truths. What is not so is said here, with its reason."""

import contextlib
import itertools
import warnings
from unittest import mock

import pytest
import torch

import rushlight
from oracle import opinfo

TYPES = (torch.float64, torch.complex128, torch.int64, torch.bool)
SAMPLES = {torch.float64: 12, torch.complex128: 12, torch.int64: 6, torch.bool: 6}
LARGE = {"grid_sampler_3d": 4}  # fewer of those that take seconds
# Of these nothing is compared.
ABSENT = {
    **dict.fromkeys(
        [o.name for o in opinfo.op_db if o.name.startswith("jiterator_")],
        "kernels from CUDA text: there is torch.compile",
    ),
    "torch._scaled_mm": "products of quantised numbers",
    "torch._scaled_mm_v2": "products of quantised numbers",
    "torch.ops.aten._flash_attention_forward": "for CUDA only",
    "torch.ops.aten._efficient_attention_forward": "for CUDA only",
    "nn.functional.batch_norm-without_cudnn": "for CUDA only",
    "chalf": "its results are complex32, which NumPy does not have",
}
# Elements that nobody wrote: shapes and dtypes are compared.
UNWRITTEN = {
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
}  # fmt: skip
# Where PyTorch's derivative is wrong. Ours is held to differences of values instead.
WRONG = {
    ("as_strided_scatter", "gradient"): "that of what is replaced is not zero",
    ("cholesky_inverse", "tangent"): "it has five digits",
    ("linalg.lstsq", "gradient"): "it leaves out that of the singular values",
    ("linalg.lstsq", "second"): "it leaves out that of the singular values",
    ("logcumsumexp", "tangent"): "it has five digits; of complex numbers it is NaN",
    ("native_layer_norm", "gradient"): "it leaves out that of the mean and of the deviation",
    ("native_layer_norm", "second"): "it leaves out that of the mean and of the deviation",
    **dict.fromkeys(
        [
            ("nn.functional.linear_cross_entropy-chunked", "second"),
            ("nn.functional.linear_cross_entropy-chunked_none", "second"),
        ],
        "it is zero: the gradient is kept as a constant",
    ),
}
# Where PyTorch's is NaN and ours is not: compared elsewhere.
NAN = {
    ("linalg.norm-subgradients_at_zero", "second"): "at zero, where all but one order has a kink",
    ("masked.logaddexp", "second"): "where both elements are masked out",
}
# What PyTorch has no derivative of. The laws of tests/test_ops_orders.py have it.
REFUSED = {
    ("native_layer_norm", "second"): "without weight or bias",
    ("nn.functional.ctc_loss", "second"): "it is not implemented",
    ("nn.functional.scaled_dot_product_attention", "second"): "it is not implemented",
}
# Digits that PyTorch's values have; tests/test_special.py holds ours to more.
TOLERANCE = {
    "special.bessel_j0": 2e-5, "special.bessel_j1": 1e-6, "special.bessel_y0": 2e-5,
    "special.bessel_y1": 2e-5,
}  # fmt: skip
# Values of integers or truths that may differ.
INTEGERS = {
    "topk": "equal elements come in any order",
    "sort": "equal elements come in any order",
    "argsort": "equal elements come in any order",
    "masked.logsumexp": "PyTorch cuts the logarithms to integers",
}


@pytest.fixture(autouse=True, scope="module")
def small_work():
    """One thread, so that writes to one place have one order, and seeds for the CPU alone:
    PyTorch's samples seed often, and for each device that is not there it formats a traceback."""
    before = torch.get_num_threads(), rushlight.get_num_threads()
    torch.set_num_threads(1)
    rushlight.set_num_threads(1)
    with mock.patch.object(torch, "manual_seed", torch.default_generator.manual_seed):
        yield
    torch.set_num_threads(before[0])
    rushlight.set_num_threads(before[1])


@pytest.mark.parametrize("op", opinfo.op_db, ids=opinfo.label)
def test_equals_pytorchs(op):
    name = opinfo.label(op)
    if name in ABSENT:
        with contextlib.suppress(AttributeError, TypeError):
            assert not list(itertools.islice(compared(op), 1)), "it can be compared"
        return
    stages = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for stage in compared(op):
            stages.add(stage)
    assert "value" in stages, "no sample"
    stated = {k[1] for table in (WRONG, NAN, REFUSED) for k in table if k[0] == name}
    assert stated <= {s.partition(" ")[0] for s in stages if s.endswith(" differs")}, "no exception"


def compared(op):
    """The stages that were compared: "gradient", or "gradient differs" where that is stated."""
    name = opinfo.label(op)
    for dtype in [t for t in TYPES if t in op.dtypes] or op.dtypes:
        if dtype in (torch.int64, torch.bool) and name in INTEGERS:
            continue
        for case in opinfo.cases(op, dtype, LARGE.get(name, SAMPLES.get(dtype, 12))):
            for stage, actual, expected in case.stages():
                key = name, stage
                if isinstance(expected, Exception):
                    if key not in REFUSED:
                        raise expected
                    yield f"{stage} differs"
                elif op.name in UNWRITTEN:
                    assert [(a.dtype, a.shape) for a in actual] == [
                        (b.dtype, b.shape) for b in expected
                    ]
                    yield stage
                else:
                    yield from judged(case, key, actual, expected)


def judged(case, key, actual, expected):
    name, stage = key
    try:
        opinfo.same(actual, expected, TOLERANCE.get(name, 1e-8))
    except AssertionError:
        if key in WRONG:
            opinfo.same(*case.slopes(stage), 1e-5)
        elif key in NAN:
            opinfo.same(actual, expected, 1e-8, finite=True)
        else:
            raise
        yield f"{stage} differs"
    else:
        yield stage
