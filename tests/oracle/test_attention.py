"""Attention against PyTorch, whose step-by-step form has derivatives of every order."""

import numpy as np
import pytest
import torch

import rushlight
from oracle.derivatives import assert_same_derivatives, normal
from oracle.harness import LIBRARIES, assert_same_outcome, from_numpy, to_numpy

# batch, heads, queries, keys, width, width of the values
SHAPES = [
    (2, 2, 3, 5, 4, 4),
    (1, 1, 16, 16, 8, 8),
    (2, 3, 33, 17, 16, 16),
    (1, 2, 20, 300, 5, 9),
    (1, 1, 300, 270, 8, 16),
]


def attention(library, *tensors, **options):
    if library is rushlight:
        return rushlight.nn.functional.scaled_dot_product_attention(*tensors, **options)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return torch.nn.functional.scaled_dot_product_attention(*tensors, **options)


def inputs(shape):
    b, h, n, m, e, v = shape
    return normal(b, h, n, e), normal(b, h, m, e), normal(b, h, m, v)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_derivatives(shape, causal):
    def run(library, q, k, v):
        return attention(library, q, k, v, is_causal=causal, scale=0.3)

    assert_same_derivatives(run, *inputs(shape), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_masks(shape):
    b, h, n, m, _, _ = shape
    seen = normal(n, m) > -0.3
    seen[n // 2] = False  # this query sees nothing
    for mask in (seen, normal(b, 1, n, m), normal(b, h, 1, m) > 0.5, normal(1, m)):

        def run(library, *tensors, mask=mask):
            return attention(library, *tensors, attn_mask=from_numpy(library, mask))

        assert_same_derivatives(run, *inputs(shape), rtol=1e-7, atol=1e-8, second=n < 100)


def test_a_mask_that_takes_gradients():
    def run(library, q, k, v, mask):
        return attention(library, q, k, v, attn_mask=mask)

    assert_same_derivatives(run, *inputs((2, 2, 3, 5, 4, 4)), normal(2, 1, 1, 5))


def test_a_mask_and_causal():
    mask = normal(7, 7)

    def run(library, *tensors):
        if library is rushlight:
            return attention(library, *tensors, attn_mask=from_numpy(library, mask), is_causal=True)
        both = np.where(np.tri(7) > 0, mask, -np.inf)
        return attention(library, *tensors, attn_mask=from_numpy(library, both))

    assert_same_derivatives(run, *inputs((2, 2, 7, 7, 4, 4)))


def test_heads_that_share_keys():
    def run(library, q, k, v):
        return attention(library, q, k, v, enable_gqa=True)

    assert_same_derivatives(run, normal(2, 6, 5, 8), normal(2, 2, 7, 8), normal(2, 2, 7, 3))


def test_rows_of_heads():
    """The layout of a transformer: heads are slices of rows."""

    def run(library, x):
        parts = x.reshape(2, 9, 3, 4, 16).unbind(2)
        q, k, v = (t.transpose(1, 2) for t in parts)
        return attention(library, q, k, v, is_causal=True).transpose(1, 2).reshape(2, 9, 64)

    assert_same_derivatives(run, normal(2, 9, 192))


@pytest.mark.parametrize("lead", [(), (3,), (2, 1, 2)], ids=str)
def test_other_numbers_of_dimensions(lead):
    def run(library, q, k, v):
        return attention(library, q, k, v, is_causal=True)

    assert_same_derivatives(run, normal(*lead, 3, 4), normal(*lead, 5, 4), normal(*lead, 5, 2))


def test_batch_dimensions_broadcast():
    def run(library, q, k, v):
        return attention(library, q, k, v)

    assert_same_derivatives(run, normal(2, 3, 4, 5), normal(1, 3, 6, 5), normal(2, 1, 6, 5))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_narrow_dtypes(dtype):
    arrays = [normal(2, 4, 50, 32) for _ in range(3)]

    def run(library):
        ts = [from_numpy(library, a).to(getattr(library, dtype)).requires_grad_() for a in arrays]
        y = library.nn.functional.scaled_dot_product_attention(*ts, is_causal=True)
        y.float().square().sum().backward()
        return [y, *(t.grad for t in ts)]

    tolerance = 1e-5 if dtype == "float32" else 8e-2
    for a, b in zip(*(run(library) for library in LIBRARIES), strict=True):
        assert str(a.dtype) == str(b.dtype)
        np.testing.assert_allclose(to_numpy(a), to_numpy(b), rtol=tolerance, atol=tolerance)


def test_threads_do_not_change_a_bit():
    tensors = [from_numpy(rushlight, normal(3, 4, 70, 16)).float() for _ in range(3)]
    results, before = [], rushlight.get_num_threads()
    try:
        for count in (1, 2):
            rushlight.set_num_threads(count)
            leaves = [t.clone().requires_grad_() for t in tensors]
            y = rushlight.nn.functional.scaled_dot_product_attention(*leaves)
            y.square().sum().backward()
            results.append([to_numpy(t) for t in (y, *(x.grad for x in leaves))])
    finally:
        rushlight.set_num_threads(before)
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


def test_dropout_keeps_the_mean_and_zeroes_some():
    q, k, v = (from_numpy(rushlight, normal(2, 2, 40, 8)) for _ in range(3))
    f = rushlight.nn.functional.scaled_dot_product_attention
    rushlight.manual_seed(3)
    eye = rushlight.eye(40, dtype=v.dtype).expand(2, 2, 40, 40)
    weights, dropped = f(q, k, eye), f(q, k, eye, dropout_p=0.25)
    kept = dropped != 0
    assert 0.7 < kept.double().mean() < 0.8
    np.testing.assert_allclose(to_numpy(dropped[kept]), to_numpy(weights[kept] / 0.75))
    assert not f(q, k, v, dropout_p=1.0).any()


BAD = """
f(r(4), r(4), r(4))
f(r(2, 2, 3, 4), r(2, 2, 5, 3), r(2, 2, 5, 4))
f(r(2, 2, 3, 4), r(3, 2, 5, 4), r(3, 2, 5, 4))
f(r(2, 3, 3, 4), r(2, 2, 5, 4), r(2, 2, 5, 4), enable_gqa=True)
f(r(2, 2, 3, 4), r(2, 2, 5, 4), r(2, 2, 5, 4), attn_mask=torch.ones(3, 5).long())
f(r(2, 2, 3, 4), r(2, 2, 5, 4), r(2, 2, 5, 4), attn_mask=torch.ones(3, 5).double())
f(r(2, 2, 3, 4), r(2, 2, 5, 4), r(2, 2, 5, 4), attn_mask=torch.ones(3, 4))
f(r(2, 2, 3, 4), r(2, 2, 5, 4).double(), r(2, 2, 5, 4))
f(r(2, 2, 3, 4).long(), r(2, 2, 5, 4).long(), r(2, 2, 5, 4).long())
f(r(2, 2, 3, 4), r(2, 2, 5, 4), r(2, 2, 5, 4), dropout_p=1.5)
f(r(2, 2, 3, 4), r(2, 2, 5, 4), r(2, 2, 5, 4), None, 0.0, False, 0.5)
""".strip().splitlines()


@pytest.mark.parametrize("source", BAD)
def test_bad_input_raises_the_same_class(source):
    def program(library):
        names = {"torch": library, "f": library.nn.functional.scaled_dot_product_attention}
        names["r"] = lambda *s: library.randn(*s)
        return eval(source, names)

    assert_same_outcome(program)
