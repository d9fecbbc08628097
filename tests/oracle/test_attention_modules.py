"""Attention and transformers with masks of every kind: outputs, weights and gradients."""

import itertools
import warnings

import numpy as np
import pytest
import torch as reference

import rushlight as torch

LIBRARIES = (torch, reference)
LENGTH, SOURCE, BATCH, WIDTH, HEADS = 4, 5, 3, 8, 2


def arrays(values, library):
    if isinstance(values, library.Tensor):
        return [values.detach().numpy()]
    if isinstance(values, (tuple, list)):
        return [a for v in values for a in arrays(v, library)]
    return [] if values is None else [values]


def compare(make, call):
    """The same results and gradients from modules with the same weights."""
    results, state = [], None
    for library in reversed(LIBRARIES):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = make(library).to(library.float64)
            if state is None:
                state = {k: v.numpy() for k, v in module.state_dict().items()}
            module.load_state_dict({k: library.tensor(v) for k, v in state.items()})
            inputs, outputs = call(library, module)
        loss = sum((o * o).sum() for o in outputs if o is not None)
        loss.backward()
        grads = [x.grad for x in inputs] + [p.grad for p in module.parameters()]
        results.append(arrays([list(outputs), grads], library))
    theirs, ours = results
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)


def data(library, *shape, seed=0):
    values = np.random.default_rng(seed).standard_normal(shape)
    return library.tensor(values, requires_grad=True)


def mask(library, kind, *shape):
    if kind is None:
        return None
    hidden = np.random.default_rng(9).random(shape) < 0.3
    hidden[..., 0] = False
    if kind == "bool":
        return library.tensor(hidden)
    return library.tensor(np.where(hidden, -np.inf, 0.5))


@pytest.mark.parametrize(
    ("attn", "dims", "padding", "need"),
    list(
        itertools.product([None, "bool", "float"], [2, 3], [None, "bool", "float"], [True, False])
    ),
)
def test_masks(attn, dims, padding, need):
    def call(t, module):
        q, kv = data(t, LENGTH, BATCH, WIDTH), data(t, SOURCE, BATCH, WIDTH, seed=1)
        front = () if dims == 2 else (BATCH * HEADS,)
        return [q, kv], module(
            q, kv, kv,
            key_padding_mask=mask(t, padding, BATCH, SOURCE),
            attn_mask=mask(t, attn, *front, LENGTH, SOURCE),
            need_weights=need,
        )  # fmt: skip

    compare(lambda t: t.nn.MultiheadAttention(WIDTH, HEADS), call)


@pytest.mark.parametrize("need", [True, False])
@pytest.mark.parametrize("options", [{}, {"add_bias_kv": True}, {"add_zero_attn": True}])
def test_batch_first_and_single_weights(options, need):
    def call(t, module):
        x = data(t, BATCH, LENGTH, WIDTH)
        return [x], module(
            x, x, x,
            key_padding_mask=mask(t, "bool", BATCH, LENGTH),
            need_weights=need, average_attn_weights=False,
        )  # fmt: skip

    compare(lambda t: t.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, **options), call)


@pytest.mark.parametrize("need", [True, False])
def test_the_causal_hint(need):
    def call(t, module):
        x = data(t, LENGTH, BATCH, WIDTH)
        causal = t.nn.Transformer.generate_square_subsequent_mask(LENGTH, dtype=t.float64)
        return [x], module(x, x, x, attn_mask=causal, is_causal=True, need_weights=need)

    compare(lambda t: t.nn.MultiheadAttention(WIDTH, HEADS), call)


def test_unbatched_with_masks():
    def call(t, module):
        x = data(t, LENGTH, WIDTH)
        return [x], module(
            x, x, x,
            key_padding_mask=mask(t, "bool", LENGTH),
            attn_mask=mask(t, "bool", HEADS, LENGTH, LENGTH),
        )  # fmt: skip

    compare(lambda t: t.nn.MultiheadAttention(WIDTH, HEADS), call)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("causal", [None, True, "mask"])
@pytest.mark.parametrize("padding", [None, "bool"])
def test_encoder_stacks(batch_first, causal, padding):
    def make(t):
        layer = t.nn.TransformerEncoderLayer(WIDTH, HEADS, 16, 0.0, batch_first=batch_first)
        return t.nn.TransformerEncoder(layer, 2, t.nn.LayerNorm(WIDTH))

    def call(t, module):
        shape = (BATCH, LENGTH) if batch_first else (LENGTH, BATCH)
        x = data(t, *shape, WIDTH)
        square = t.nn.Transformer.generate_square_subsequent_mask(LENGTH, dtype=t.float64)
        out = module(
            x,
            mask=square if causal else None,
            src_key_padding_mask=mask(t, padding and "float", BATCH, LENGTH),
            is_causal=True if causal is True else None,
        )
        return [x], [out]

    compare(make, call)


@pytest.mark.parametrize("norm_first", [True, False])
def test_whole_transformer_with_masks(norm_first):
    def make(t):
        return t.nn.Transformer(
            WIDTH, HEADS, 1, 2, 16, 0.0, "gelu", batch_first=True, norm_first=norm_first
        )

    def call(t, module):
        src, tgt = data(t, BATCH, SOURCE, WIDTH), data(t, BATCH, LENGTH, WIDTH, seed=1)
        out = module(
            src,
            tgt,
            tgt_mask=module.generate_square_subsequent_mask(LENGTH, dtype=t.float64),
            memory_mask=mask(t, "float", LENGTH, SOURCE),
            src_key_padding_mask=mask(t, "float", BATCH, SOURCE),
            memory_key_padding_mask=mask(t, "float", BATCH, SOURCE),
        )
        return [src, tgt], [out]

    compare(make, call)


def heads(t, **options):
    return t.nn.MultiheadAttention(WIDTH, HEADS, **options)


BAD = [
    lambda t: heads(t)(t.ones(1), t.ones(1), t.ones(1)),
    lambda t: heads(t)(t.ones(2, 1, WIDTH), t.ones(2, WIDTH), t.ones(2, WIDTH)),
    lambda t: heads(t)(t.ones(2, 1, 5), t.ones(2, 1, 5), t.ones(2, 1, 5)),
    lambda t: heads(t)(*[t.ones(2, 1, WIDTH)] * 3, attn_mask=t.ones(3, 3)),
    lambda t: heads(t)(*[t.ones(2, 1, WIDTH)] * 3, attn_mask=t.ones(2, 2, dtype=t.int64)),
    lambda t: heads(t)(*[t.ones(2, 1, WIDTH)] * 3, key_padding_mask=t.ones(2)),
    lambda t: heads(t)(*[t.ones(2, 1, WIDTH)] * 3, is_causal=True),
    lambda t: heads(t)(t.ones(2, 1, WIDTH), t.ones(3, 1, WIDTH), t.ones(2, 1, WIDTH)),
    lambda t: heads(t)(t.ones(2, 4, WIDTH), *[t.ones(3, 1, WIDTH)] * 2),
    lambda t: heads(t, batch_first=True)(t.ones(1, 2, WIDTH), *[t.ones(4, 3, WIDTH)] * 2),
    lambda t: heads(t, kdim=2, vdim=3)(t.ones(2, 4, WIDTH), t.ones(3, 1, 2), t.ones(3, 1, 3)),
    lambda t: t.nn.TransformerDecoderLayer(8, 2, 8)(t.ones(2, 4, 8), t.ones(3, 1, 8)),
    lambda t: t.nn.MultiheadAttention(5, 2),
    lambda t: t.nn.MultiheadAttention(0, 2),
    lambda t: t.nn.TransformerEncoderLayer(8, 2, activation="sine"),
    lambda t: t.nn.Transformer(8, 2, 1, 1, 8)(t.ones(2, 1, 8), t.ones(2, 2, 8)),
    lambda t: t.nn.Transformer(8, 2, 1, 1, 8)(t.ones(2, 1, 5), t.ones(2, 1, 5)),
]


@pytest.mark.parametrize("call", BAD)
def test_same_errors(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception) as theirs:
            call(reference)
        with pytest.raises(theirs.type):
            call(torch)
