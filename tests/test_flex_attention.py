"""Attention with score functions and block masks, against attention written out."""

import math

import pytest

import rushlight as torch
from rushlight.nn.attention import flex_attention as flex


def leaf(*shape):
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


IDS = torch.arange(20) // 6


def causal(b, h, i, j):
    return i >= j


def documents(b, h, i, j):
    return (IDS[i] == IDS[j]) & (i >= j)


def rows_without_any(b, h, i, j):
    return (i > 5) & (j < 3) & (h == 0)


def never(b, h, i, j):
    return i < 0


def written_out(q, k, v, score_mod, mask_mod):
    places = [torch.arange(n) for n in (*q.shape[:3], k.shape[2])]
    b, h, i, j = (p.reshape([-1 if d == n else 1 for n in range(4)]) for d, p in enumerate(places))
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if score_mod is not None:
        scores = score_mod(scores, b, h, i, j)
    keep = torch.ones(scores.shape, dtype=torch.bool)
    if mask_mod is not None:
        keep = keep & mask_mod(b, h, i, j)
    weights = torch.where(keep, torch.where(keep, scores, 0).exp(), 0)
    total = weights.sum(-1, keepdim=True)
    return (weights / torch.where(total == 0, 1, total)) @ v


@pytest.mark.parametrize("block", [128, 8, (4, 16)])
@pytest.mark.parametrize("mask", [None, causal, documents, rows_without_any, never])
@pytest.mark.parametrize("changed", [False, True])
def test_values_and_gradients(mask, changed, block):
    q, k, v, bias = leaf(2, 2, 20, 4), leaf(2, 2, 20, 4), leaf(2, 2, 20, 3), leaf(2)
    score_mod = (lambda s, b, h, i, j: torch.tanh(s) + bias[h] * (i - j) * 0.1) if changed else None
    blocks = None if mask is None else flex.create_block_mask(mask, None, 2, 20, 20, None, block)
    inputs = (q, k, v, bias) if changed else (q, k, v)
    weights = torch.randn(2, 2, 20, 3, dtype=torch.float64)
    found = flex.flex_attention(q, k, v, score_mod, blocks)
    expected = written_out(q, k, v, score_mod, mask)
    torch.testing.assert_close(found, expected)
    grads = [
        torch.autograd.grad(out, inputs, weights, allow_unused=True, materialize_grads=True)
        for out in (found, expected)
    ]
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b)


def test_second_derivatives():
    q, k, v = leaf(1, 1, 5, 2), leaf(1, 1, 5, 2), leaf(1, 1, 5, 2)
    mask = flex.create_block_mask(causal, None, None, 5, 5, BLOCK_SIZE=2)
    run = lambda *args: flex.flex_attention(*args, lambda s, b, h, i, j: s * s, mask)
    assert torch.autograd.gradcheck(run, (q, k, v))
    assert torch.autograd.gradgradcheck(run, (q, k, v))


def test_sums_and_largest_scores():
    q = k = v = torch.zeros(1, 1, 3, 4)
    mask = flex.create_block_mask(causal, None, None, 3, 3)
    _, sums = flex.flex_attention(q, k, v, block_mask=mask, return_lse=True)
    torch.testing.assert_close(sums[0, 0], torch.log(torch.tensor([1.0, 2.0, 3.0])))
    request = flex.AuxRequest(lse=True, max_scores=True)
    _, aux = flex.flex_attention(q, k, v, return_aux=request)
    assert aux.max_scores.tolist() == [[[0, 0, 0]]]


def test_grouped_heads():
    q, k, v = torch.randn(2, 4, 5, 3), torch.randn(2, 2, 5, 3), torch.randn(2, 2, 5, 3)
    found = flex.flex_attention(q, k, v, enable_gqa=True)
    again = [t.repeat_interleave(2, 1) for t in (k, v)]
    torch.testing.assert_close(found, flex.flex_attention(q, *again))
    with pytest.raises(ValueError, match="enable_gqa=True"):
        flex.flex_attention(q, k, v)


class TestBlockMask:
    def test_only_needed_blocks_are_listed(self):
        mask = flex.create_block_mask(causal, None, None, 8, 8, BLOCK_SIZE=4)
        assert mask.to_dense().tolist() == [[[[1, 0], [1, 1]]]]
        assert mask.kv_num_blocks.tolist() == [[[1, 1]]]
        assert mask.full_kv_num_blocks.tolist() == [[[0, 1]]]
        assert mask.sparsity() == 25.0
        assert mask.shape == (1, 1, 8, 8)

    def test_blocks_that_are_left_out_are_not_computed(self):
        seen = []

        def score_mod(score, b, h, i, j):
            seen.append(1)
            return score

        q = torch.randn(1, 1, 64, 4)
        band = flex.create_block_mask(
            lambda b, h, i, j: (i - j).abs() < 4, None, None, 64, 64, None, 8
        )
        sizes = [row[1].numel() for row in flex._rows(band, 1, 1, 64, 64, None)]
        assert max(sizes) == 24
        flex.flex_attention(q, q, q, score_mod, band)
        assert len(seen) == 8

    def test_hand_made_blocks_count(self):
        counts, order = torch.tensor([[[1, 1]]]), torch.tensor([[[[0, 1], [1, 0]]]])
        mask = flex.BlockMask.from_kv_blocks(counts, order, BLOCK_SIZE=2)
        v = torch.arange(4.0).reshape(1, 1, 4, 1)
        zeros = torch.zeros(1, 1, 4, 2)
        found = flex.flex_attention(zeros, zeros, v, block_mask=mask)
        assert found.flatten().tolist() == [0.5, 0.5, 2.5, 2.5]

    def test_indexing_adjusting_printing(self):
        mask = flex.create_block_mask(causal, 2, 3, 10, 10, BLOCK_SIZE=4)
        assert mask[1].shape == (1, 3, 10, 10)
        assert mask[0, 1].shape == (1, 1, 10, 10)
        assert mask._adjust(6, 6).to_dense().shape == (2, 3, 2, 2)
        assert "██" in str(mask)
        assert "mask_mod=causal" in repr(mask)

    def test_a_mask_that_is_too_short_is_refused(self):
        mask = flex.create_block_mask(causal, None, None, 4, 4)
        q = torch.zeros(1, 1, 5, 2)
        with pytest.raises(ValueError, match="smaller length"):
            flex.flex_attention(q, q, q, block_mask=mask)

    def test_combined_masks(self):
        both = flex.and_masks(causal, lambda b, h, i, j: i - j < 2)
        either = flex.or_masks(causal, lambda b, h, i, j: j == 2)
        assert flex.create_mask(both, None, None, 3, 3)[0, 0].int().tolist() == [
            [1, 0, 0], [1, 1, 0], [0, 1, 1]
        ]  # fmt: skip
        assert flex.create_mask(either, None, None, 3, 3)[0, 0].int().tolist() == [
            [1, 0, 1], [1, 1, 1], [1, 1, 1]
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("shapes", "error"),
    [
        (((2, 3, 4),) * 3, NotImplementedError),
        (((1, 1, 3, 4), (1, 1, 3, 5), (1, 1, 3, 4)), ValueError),
        (((2, 1, 3, 4), (3, 1, 3, 4), (3, 1, 3, 4)), ValueError),
        (((1, 1, 3, 4), (1, 1, 3, 4), (1, 1, 2, 4)), ValueError),
    ],
)
def test_wrong_shapes(shapes, error):
    with pytest.raises(error, match=r"\["):
        flex.flex_attention(*(torch.zeros(s) for s in shapes))


def test_a_score_function_gives_one_number():
    x = torch.zeros(1, 1, 3, 4)
    with pytest.raises(RuntimeError, match=r"one number for each score, .* shape \[2\]"):
        flex.flex_attention(x, x, x, lambda score, b, h, i, j: score.expand(2))
