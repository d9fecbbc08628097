"""Sample inputs of margin losses and distances; `samples` imports this module."""

import rushlight as torch
from samples import SAMPLES, Maker, floating, sample, samples


def signs(make, *shape):
    return torch.where(make.mask(*shape), 1, -1)


@samples("nn.functional.cosine_embedding_loss")
@floating
def cosine_embeddings(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3, 2), make(3, 2), signs(make, 3))
    yield sample(make.transposed(3, 2), make(3, 2), signs(make, 3), 0.13, reduction="none")
    yield sample(make(2), make(2), torch.tensor(-1), margin=-0.4, reduction="sum")
    yield sample(make(0, 2), make(0, 2), signs(make, 0), reduction="sum")


@samples("nn.functional.hinge_embedding_loss", "nn.functional.soft_margin_loss")
@floating
def hinges(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5), signs(make, 5))
    yield sample(make.transposed(2, 3), signs(make, 2, 3), reduction="sum")
    yield sample(make.strided(2, 3), signs(make, 2, 3), reduction="none")
    yield sample(make(0), signs(make, 0), reduction="sum")


@samples("nn.functional.margin_ranking_loss")
@floating
def rankings(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(4), make(4, high=2.9), signs(make, 4))
    yield sample(make.transposed(2, 3), make(2, 3), signs(make, 2, 3), 0.31, reduction="none")
    yield sample(make(), make(high=2.9), torch.tensor(1), reduction="sum")


def three(make, *shape):
    """Tensors without an element in common."""
    return make(*shape), make(*shape, low=-1.2, high=2.1), make(*shape, low=-1.9, high=1.37)


@samples("nn.functional.triplet_margin_loss")
@floating
def triplets(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(*three(make, 3, 2))
    yield sample(*three(make, 2, 2), 0.7, 3, swap=True, reduction="sum")
    yield sample(*three(make, 2, 2), p=1, reduction="none")


@samples("nn.functional.triplet_margin_with_distance_loss")
@floating
def triplets_with_distance(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(*three(make, 3, 2))
    yield sample(*three(make, 2, 2), margin=0.7, swap=True, reduction="sum")
    yield sample(
        *three(make, 2, 2),
        distance_function=lambda a, b: ((a - b) ** 2).sum(-1),
        reduction="none",
    )


@samples("nn.functional.gaussian_nll_loss")
@floating
def gaussians(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3), make(2, 3), make.positive(2, 3))
    yield sample(make.transposed(2, 3), make(2, 3), make.positive(2), True, reduction="none")
    yield sample(make(2, 3), make(2, 3), make.positive(2, 1), reduction="sum")
    yield sample(make(2), make(2), 0.7)


@samples("nn.functional.poisson_nll_loss")
@floating
def counts(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5), make.positive(5))
    yield sample(make.positive(2, 3), make(2, 3, low=0.2, high=5.0), False, True, reduction="sum")
    yield sample(make.strided(2, 3), make.positive(2, 3), full=True, reduction="none")


@samples("nn.functional.multi_margin_loss")
@floating
def margins_of_classes(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3, 4), make.index(4, 3))
    yield sample(make.transposed(3, 4), make.index(4, 3), 2, 0.63, reduction="sum")
    yield sample(make(2, 3), make.index(3, 2), weight=make.positive(3), reduction="none")
    yield sample(make(4), torch.tensor(2))


@samples("nn.functional.multilabel_margin_loss")
@floating
def margins_of_labels(dtype, seed):
    make = Maker(dtype, seed)
    listed = torch.tensor([[0, 2, -1, 1], [1, -1, 0, 0]])
    yield sample(make(2, 4), listed)
    yield sample(make.transposed(2, 4), listed, reduction="none")
    yield sample(make(4), listed[0], reduction="sum")


@samples("nn.functional.multilabel_soft_margin_loss")
@floating
def soft_margins_of_labels(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3), make.positive(2, 3))
    yield sample(make.transposed(2, 3), make.positive(2, 3), make.positive(3), reduction="none")
    yield sample(make(3), make.positive(3), reduction="sum")


@samples("nn.functional.cosine_similarity", "cosine_similarity")
@floating
def cosines(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3), make(2, 3))
    yield sample(make.transposed(2, 3), make(3), 0)
    yield sample(make(2, 1, 2), make(3, 2), dim=-1, eps=1e-3)
    yield sample(make(0, 3), make(0, 3))


@samples("nn.functional.pairwise_distance", "pairwise_distance")
@floating
def pairs(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 3), make(2, 3))
    yield sample(make.transposed(2, 3), make(3), 1.0, keepdim=True)
    yield sample(make(3), make(3), p=3.0, eps=0.01)
    yield sample(make(0, 3), make(0, 3))


@samples("nn.functional.pdist", "pdist")
@floating
def distances_of_rows(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(3, 2))
    yield sample(make.transposed(3, 2), 1.0)
    yield sample(make.strided(2, 3), p=3.0)
    yield sample(make(1, 3))


@samples("cdist")
@floating
def distances_between_rows(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(2, 2), make(3, 2))
    yield sample(make.transposed(2, 3), make(2, 3), 1.0)
    yield sample(make(2, 2, 2), make(3, 2), p=3.0)
    yield sample(make(2, 2), make(3, 2), compute_mode="use_mm_for_euclid_dist")
    yield sample(make(0, 3), make(2, 3))


def numbered(name):
    """The samples of a loss in torch itself, where the reduction is a number."""
    of_functional = SAMPLES[f"nn.functional.{name}"]

    @samples(name)
    @floating
    def with_numbers(dtype, seed):
        for args, kwargs in of_functional(dtype, seed):
            how = ("none", "mean", "sum").index(kwargs.get("reduction", "mean"))
            yield sample(*args, **{**kwargs, "reduction": how})


NUMBERED = (
    "cosine_embedding_loss",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "triplet_margin_loss",
)
for name in NUMBERED:
    numbered(name)


@samples("poisson_nll_loss")
@floating
def plain_counts(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(5), make.positive(5), True, False, 1e-8, 1)
    yield sample(make.positive(2, 3), make(2, 3, low=0.2, high=5.0), False, True, 1e-8, 2)
    yield sample(make.strided(2, 3), make.positive(2, 3), True, True, 1e-8, 0)
