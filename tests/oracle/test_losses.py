"""Losses and distances against PyTorch: values, gradients, errors."""

import warnings

import numpy as np
import pytest

from oracle.derivatives import RANDOM, assert_same_derivatives, normal
from oracle.harness import assert_same_outcome, from_numpy

REDUCTIONS = ["mean", "sum", "none"]
every_reduction = pytest.mark.parametrize("reduction", REDUCTIONS)


def signs(*shape):
    return np.where(RANDOM.random(shape) > 0.5, 1, -1)


def check(name, *arrays, second=True, **options):
    def run(library, *tensors):
        return getattr(library.nn.functional, name)(*tensors, **options)

    assert_same_derivatives(run, *arrays, second=second)


@every_reduction
def test_pairs(reduction):
    options = {"reduction": reduction}
    check("cosine_embedding_loss", normal(5, 4), normal(5, 4), signs(5), margin=0.2, **options)
    check("cosine_embedding_loss", normal(4), normal(4), np.array(1), **options)
    check("hinge_embedding_loss", normal(5, 4), signs(5, 4), margin=0.7, **options)
    check("margin_ranking_loss", normal(6), normal(6), signs(6), margin=0.3, **options)
    check("soft_margin_loss", normal(5, 4), signs(5, 4), second=False, **options)


@every_reduction
@pytest.mark.parametrize("swap", [False, True])
def test_triplets(reduction, swap):
    arrays = [normal(5, 4) for _ in range(3)]
    options = {"reduction": reduction, "swap": swap}
    for p in (1, 2, 3):
        check("triplet_margin_loss", *arrays, margin=0.8, p=p, **options)
    check("triplet_margin_with_distance_loss", *arrays, **options)

    def manhattan(library, a, b, c):
        f = library.nn.functional.triplet_margin_with_distance_loss
        return f(a, b, c, distance_function=lambda x, y: (x - y).abs().sum(-1), **options)

    assert_same_derivatives(manhattan, *arrays)


@every_reduction
@pytest.mark.parametrize("full", [False, True])
def test_distributions(reduction, full):
    options = {"reduction": reduction, "full": full}
    for shape in [(4, 3), (4,), (4, 1)]:
        check("gaussian_nll_loss", normal(4, 3), normal(4, 3), normal(*shape) ** 2 + 0.1, **options)
    check("gaussian_nll_loss", normal(4, 3), normal(4, 3), normal(4, 3) ** 2, eps=0.5, **options)
    counts = np.arange(12.0).reshape(4, 3)
    for log_input in (False, True):

        def poisson(library, x, log_input=log_input):
            x, target = x * x + 0.1, from_numpy(library, counts)
            f = library.nn.functional.poisson_nll_loss
            return f(x, target, log_input=log_input, **options)

        assert_same_derivatives(poisson, normal(4, 3))


@every_reduction
def test_divergence(reduction):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for log_target in (False, True):
            check(
                "kl_div",
                normal(4, 3),
                normal(4, 3) ** 2 + 0.1,
                reduction=reduction,
                log_target=log_target,
            )


@every_reduction
def test_margins_of_classes(reduction):
    target = RANDOM.integers(0, 4, 5)
    weight = normal(4) ** 2
    for p in (1, 2):

        def margins(library, x, p=p):
            f, t = library.nn.functional.multi_margin_loss, from_numpy(library, target)
            w = from_numpy(library, weight)
            return f(x, t, p, 0.8, reduction=reduction), f(x, t, p, weight=w, reduction=reduction)

        assert_same_derivatives(margins, normal(5, 4), second=False)
    check("multi_margin_loss", normal(4), np.array(2), second=False, reduction=reduction)
    listed = np.array([[0, 1, -1, 0], [2, -1, 0, 0], [3, 2, 1, 0], [-1, 1, 1, 1]])
    options = {"second": False, "reduction": reduction}
    check("multilabel_margin_loss", normal(4, 4), listed, **options)
    check("multilabel_margin_loss", normal(4), listed[0], **options)
    chances = RANDOM.random((5, 4))
    check("multilabel_soft_margin_loss", normal(5, 4), chances, reduction=reduction)
    check("multilabel_soft_margin_loss", normal(5, 4), chances, normal(4), reduction=reduction)


def test_similarity_and_distance():
    check("cosine_similarity", normal(3, 4), normal(3, 4))
    check("cosine_similarity", normal(3, 1, 4), normal(5, 4), dim=-1)
    check("cosine_similarity", 1e-9 * normal(3, 4), normal(3, 4), second=False)
    for p in (1, 2, 3.5):
        check("pairwise_distance", normal(3, 4), normal(3, 4), p=p)
        check("pairwise_distance", normal(4), normal(3, 4), p=p, keepdim=True)
        check("pdist", normal(5, 3), p=p, second=False)
    check("pdist", normal(1, 3), second=False)


@pytest.mark.parametrize("p", [0, 1, 2, 2.5, float("inf")])
def test_cdist(p):
    for left, right in [((4, 3), (5, 3)), ((2, 4, 3), (5, 3)), ((0, 3), (5, 3)), ((30, 2), (4, 2))]:
        assert_same_derivatives(
            lambda t, x, y: t.cdist(x, y, p), normal(*left), normal(*right), second=False
        )


def test_cdist_of_equal_rows_has_a_finite_gradient():
    rows = np.repeat(normal(1, 3), 30, axis=0)

    def run(library, x):
        return library.cdist(x, library.ones_like(x)), library.cdist(x, x * 1.0)

    assert_same_derivatives(run, rows, second=False, atol=1e-6)


BAD = """
F.cosine_embedding_loss(r(3, 4), r(3, 4), t(1))
F.cosine_embedding_loss(r(3, 4), r(3, 5), t([1, 1, 1]))
F.cosine_embedding_loss(r(3, 4, 2), r(3, 4, 2), t([1, 1, 1]))
F.triplet_margin_loss(r(3, 4), r(3, 4), r(4))
F.triplet_margin_loss(r(3, 4), r(3, 4), r(3, 4), margin=-1)
F.triplet_margin_with_distance_loss(r(3, 4), r(3, 4), r(3, 4), margin=-1)
F.triplet_margin_with_distance_loss(r(3, 4), r(3, 4), r(4))
F.gaussian_nll_loss(r(3, 4), r(3, 4), t([-1.0, 2.0, 3.0]))
F.gaussian_nll_loss(r(3, 4), r(3, 4), t([1.0, 2.0]))
F.gaussian_nll_loss(r(3, 4), r(3, 4), -1.0)
F.gaussian_nll_loss(r(3, 4), r(3, 4), r(3, 4) ** 2, reduction="x")
F.poisson_nll_loss(r(3, 4), r(3, 4), reduction="x")
F.margin_ranking_loss(r(3), r(3), r(3, 1))
F.soft_margin_loss(r(3), r(4))
F.multi_margin_loss(r(3, 4), t([0, 1, 4]))
F.multi_margin_loss(r(3, 4), t([0, 1, -1]))
F.multi_margin_loss(r(3, 4), t([0, 1]))
F.multi_margin_loss(r(3, 4), t([0, 1, 1]), p=3)
F.multi_margin_loss(r(3, 4), t([0, 1, 1]), weight=r(4).requires_grad_())
F.multi_margin_loss(r(3, 4), t([0.0, 1, 1]))
F.multilabel_margin_loss(r(2, 4), t([[0, 1, -1, 0], [5, -1, 0, 0]]))
F.multilabel_margin_loss(r(2, 4), t([[0, 1, -1], [2, -1, 0]]))
F.cosine_similarity(t([[1, 2]]), t([[1, 2]]))
F.pdist(r(4))
F.pdist(r(4, 2), -1)
torch.cdist(r(2, 4, 2), r(3, 3))
torch.cdist(r(4), r(3, 3))
torch.cdist(r(4, 3), r(3, 3), p=-1)
torch.cdist(r(4, 3), r(3, 3), compute_mode="x")
torch.cdist(t([[1, 2]]), r(3, 2))
torch.cdist(r(4, 3).double(), r(3, 3))
F.cross_entropy(r(3, 4), t([0, 7, 1]))
F.cross_entropy(r(3, 4), t([0, -2, 1]))
F.cross_entropy(r(3, 4), t([0, 1]))
F.nll_loss(r(3, 4), t([0, 9, 1]))
F.cross_entropy(r(2, 3, 4, 4), t([[0, 1], [1, 2]]))
F.nll_loss(r(4), t([0, 1, 2]))
F.cross_entropy(r(4), t([0, 1]))
F.binary_cross_entropy(t([1.5]), t([1.0]))
""".strip().splitlines()


@pytest.mark.parametrize("source", BAD)
def test_bad_input_raises_the_same_class(source):
    def program(library):
        names = {"torch": library, "F": library.nn.functional, "t": library.tensor}
        return eval(source, names | {"r": lambda *s: library.randn(*s)})

    assert_same_outcome(program)


def test_a_target_out_of_range_is_named():
    import rushlight

    f = rushlight.nn.functional
    with pytest.raises(IndexError, match=r"Target 7 is out of bounds.*target\[1\]"):
        f.cross_entropy(rushlight.randn(3, 4), rushlight.tensor([0, 7, 1]))
    with pytest.raises(RuntimeError, match=r"target out of range.*target\[2\] = 4"):
        f.multi_margin_loss(rushlight.randn(3, 4), rushlight.tensor([0, 1, 4]))


@every_reduction
def test_empty_batches(reduction):
    empty = np.zeros((0, 4))
    for name in ("hinge_embedding_loss", "soft_margin_loss", "multilabel_soft_margin_loss"):
        check(name, empty, empty.astype(int), reduction=reduction, second=False)
    check("multi_margin_loss", empty, np.zeros(0, int), second=False, reduction="none")
    check("triplet_margin_loss", empty, empty, empty, reduction=reduction)
    check("cosine_embedding_loss", empty, empty, np.zeros(0, int), reduction=reduction)


@every_reduction
def test_classes(reduction):
    scores, target = normal(4, 3, 5), RANDOM.integers(0, 3, (4, 5))
    target[0, 0] = 1
    weight = normal(3) ** 2 + 0.1
    soft = RANDOM.dirichlet(np.ones(3), (4, 5)).transpose(0, 2, 1)

    def losses(library, x):
        f, t, w = library.nn.functional, from_numpy(library, target), from_numpy(library, weight)
        probabilities = from_numpy(library, soft)
        options = {"reduction": reduction}
        return [
            f.cross_entropy(x, t, **options),
            f.cross_entropy(x, t, w, ignore_index=1, label_smoothing=0.1, **options),
            f.cross_entropy(x, probabilities, w, label_smoothing=0.2, **options),
            f.nll_loss(x.log_softmax(1), t, w, ignore_index=0, **options),
            f.binary_cross_entropy_with_logits(x, probabilities, pos_weight=w[:, None], **options),
            f.binary_cross_entropy(x.sigmoid(), probabilities, weight=w[:, None], **options),
        ]

    assert_same_derivatives(losses, scores, rtol=1e-7)


@every_reduction
def test_regression(reduction):
    weight = normal(4, 3) ** 2 + 0.1

    def losses(library, x, y):
        f, w = library.nn.functional, from_numpy(library, weight)
        options = {"reduction": reduction}
        return [
            f.smooth_l1_loss(x, y, beta=0.7, **options),
            f.huber_loss(x, y, delta=0.6, weight=w, **options),
            f.mse_loss(x, y, weight=w, **options),
            f.l1_loss(x, y, weight=w, **options),
        ]

    assert_same_derivatives(losses, normal(4, 3), normal(4, 3))
