"""Losses that want a margin between right and wrong."""

from __future__ import annotations

from rushlight.nn import functional as F
from rushlight.nn.modules._losses import _Loss, _WeightedLoss

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight import Tensor


class _MarginLoss(_Loss):
    """A loss with a margin."""

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class HingeEmbeddingLoss(_MarginLoss):
    """The input where the target is 1, and ``max(0, margin - input)`` where it is -1.

    >>> import rushlight as torch
    >>> torch.nn.HingeEmbeddingLoss()(torch.tensor([0.5, 0.25]), torch.tensor([1, -1]))
    tensor(0.6250)
    """

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(margin, size_average, reduce, reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_MarginLoss):
    """One minus the cosine for pairs that belong together, else the cosine above the margin.

    >>> import rushlight as torch
    >>> a, b = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    >>> torch.nn.CosineEmbeddingLoss()(a, b, torch.tensor([1, -1]))
    tensor(0.)
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class MarginRankingLoss(_MarginLoss):
    """``max(0, -target * (input1 - input2) + margin)``.

    >>> import rushlight as torch
    >>> higher, lower = torch.tensor([2.0]), torch.tensor([1.5])
    >>> torch.nn.MarginRankingLoss(margin=1.0)(higher, lower, torch.ones(1))
    tensor(0.5000)
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class SoftMarginLoss(_Loss):
    """``log(1 + exp(-target * input))`` for targets 1 and -1.

    >>> import rushlight as torch
    >>> torch.nn.SoftMarginLoss()(torch.zeros(2), torch.tensor([1.0, -1.0]))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """A margin between every label of the target, up to the first -1, and every other class.

    >>> import rushlight as torch
    >>> torch.nn.MultiLabelMarginLoss()(torch.tensor([[0.0, 0.5, 1.0]]), torch.tensor([[2, -1, 0]]))
    tensor(0.1667)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The mean over classes of the cross entropy of each label.

    >>> import rushlight as torch
    >>> torch.nn.MultiLabelSoftMarginLoss()(torch.zeros(1, 3), torch.tensor([[1.0, 0.0, 1.0]]))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(
            input, target, weight=self.weight, reduction=self.reduction
        )


class MultiMarginLoss(_WeightedLoss):
    """A margin between the target class and every other.

    >>> import rushlight as torch
    >>> torch.nn.MultiMarginLoss()(torch.tensor([[0.0, 1.0]]), torch.tensor([0]))
    tensor(1.)
    """

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError(f"only p == 1 and p == 2 supported, got {p}")
        if weight is not None and weight.dim() != 1:
            raise ValueError(
                "MultiMarginLoss: expected weight to be None or 1D tensor, got "
                f"{weight.dim()}D instead"
            )
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(
            input,
            target,
            p=self.p,
            margin=self.margin,
            weight=self.weight,
            reduction=self.reduction,
        )


def _check_margin(loss: _Loss, margin: float) -> None:
    if margin <= 0:
        raise ValueError(
            f"{type(loss).__name__}: expected margin to be greater than 0, got {margin} instead"
        )


class TripletMarginLoss(_Loss):
    """The anchor should be nearer to the positive than to the negative, by a margin.

    >>> import rushlight as torch
    >>> anchor, near, far = torch.zeros(1, 2), torch.ones(1, 2), 2 * torch.ones(1, 2)
    >>> torch.nn.TripletMarginLoss(p=1)(anchor, near, far)
    tensor(0.)
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        _check_margin(self, margin)
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """The triplet loss with a distance of one's own.

    >>> import rushlight as torch
    >>> distance = torch.nn.PairwiseDistance(p=1)
    >>> loss = torch.nn.TripletMarginWithDistanceLoss(distance_function=distance)
    >>> loss(torch.zeros(1, 2), torch.ones(1, 2), torch.ones(1, 2))
    tensor(1.0000)
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        _check_margin(self, margin)
        if distance_function is None:
            from rushlight.nn.modules.distance import PairwiseDistance

            distance_function = PairwiseDistance()
        self.distance_function = distance_function
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )
