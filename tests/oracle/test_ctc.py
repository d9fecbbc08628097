"""CTC: losses and gradients for targets of every form, and what is refused."""

import itertools

import numpy as np
import pytest
import torch as reference

import rushlight as torch

STEPS, BATCH, CLASSES = 12, 4, 5
TARGETS = np.array([[1, 2, 2, 3], [4, 1, 0, 0], [3, 3, 3, 1], [0, 0, 0, 0]])
COUNTS = [4, 2, 3, 0]
INPUTS = [12, 7, 9, 5]


def losses(
    t, targets, counts, inputs, reduction="mean", blank=0, leaf=True, zero=False, steps=STEPS
):
    values = np.random.default_rng(0).standard_normal((steps, BATCH, CLASSES))
    x = t.tensor(values, requires_grad=True)
    log_probs = x.log_softmax(2)
    if leaf:
        x = log_probs = log_probs.detach().requires_grad_()
    loss = t.nn.CTCLoss(blank, reduction, zero)(log_probs, t.tensor(targets), inputs(t), counts(t))
    weights = t.tensor(np.arange(1.0, 1 + BATCH)) if reduction == "none" else 1.0
    (loss * weights).sum().backward()
    return loss.detach().numpy(), x.grad.numpy()


def same(**options):
    for a, b in zip(losses(torch, **options), losses(reference, **options), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


FLAT = np.concatenate([row[:n] for row, n in zip(TARGETS, COUNTS, strict=True)])


@pytest.mark.parametrize(
    ("reduction", "flat", "as_tensor", "leaf"),
    list(itertools.product(["mean", "sum", "none"], [False, True], [False, True], [False, True])),
)
def test_forms(reduction, flat, as_tensor, leaf):
    def wrap(values):
        return (lambda t: t.tensor(values)) if as_tensor else (lambda t: tuple(values))

    same(
        targets=FLAT if flat else TARGETS, counts=wrap(COUNTS), inputs=wrap(INPUTS),
        reduction=reduction, leaf=leaf,
    )  # fmt: skip


def test_another_blank():
    same(targets=TARGETS, counts=lambda t: COUNTS, inputs=lambda t: [STEPS] * BATCH, blank=4)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_targets_that_do_not_fit(reduction):
    options = {"targets": TARGETS, "counts": lambda t: COUNTS, "inputs": lambda t: [12, 1, 2, 5]}
    same(**options, reduction=reduction, zero=True)
    ours, theirs = (losses(t, **options, reduction=reduction)[0] for t in (torch, reference))
    np.testing.assert_array_equal(np.isinf(ours), np.isinf(theirs))


def test_one_sequence_without_a_batch():
    for t in (torch, reference):
        x = t.tensor(np.random.default_rng(0).standard_normal((6, 3)), requires_grad=True)
        loss = t.nn.functional.ctc_loss(
            x.log_softmax(1), t.tensor([1, 2]), t.tensor(6), t.tensor(2), reduction="none"
        )
        loss.backward()
        if t is torch:
            ours = loss.detach().numpy(), x.grad.numpy()
    assert ours[0].shape == ()
    np.testing.assert_allclose(ours[0], loss.detach().numpy())
    np.testing.assert_allclose(ours[1], x.grad.numpy(), atol=1e-12)


def test_float32():
    for t in (torch, reference):
        x = t.tensor(np.random.default_rng(0).standard_normal((50, 2, 20)).astype(np.float32))
        targets = t.tensor(np.random.default_rng(1).integers(1, 20, (2, 10)))
        loss = t.nn.CTCLoss()(x.log_softmax(2), targets, [50, 50], [10, 10])
        assert loss.dtype == t.float32
        if t is torch:
            ours = loss.item()
    np.testing.assert_allclose(ours, loss.item(), rtol=1e-5)


def test_the_gradient_can_be_differentiated_again():
    x = torch.tensor(np.random.default_rng(0).standard_normal((5, 1, 3)), requires_grad=True)

    def loss(x):
        return torch.nn.functional.ctc_loss(x.log_softmax(2), torch.tensor([[1, 2]]), [5], [2])

    assert torch.autograd.gradgradcheck(loss, (x,))


BAD = [
    {"targets": TARGETS, "counts": lambda t: [4, 2, 3], "inputs": lambda t: INPUTS},
    {"targets": TARGETS, "counts": lambda t: COUNTS, "inputs": lambda t: [12, 7, 9]},
    {"targets": TARGETS, "counts": lambda t: COUNTS, "inputs": lambda t: [12, 7, 9, 20]},
    {"targets": TARGETS, "counts": lambda t: [9, 2, 3, 0], "inputs": lambda t: INPUTS},
    {"targets": TARGETS, "counts": lambda t: COUNTS, "inputs": lambda t: INPUTS, "blank": 9},
]


@pytest.mark.parametrize("options", BAD)
def test_same_errors(options):
    with pytest.raises(Exception) as theirs:
        losses(reference, **options)
    with pytest.raises(theirs.type):
        losses(torch, **options)
