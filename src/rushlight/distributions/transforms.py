"""Invertible maps between regions of space, with the logarithms of their Jacobians."""

from rushlight.distributions._elementwise_transforms import (
    AbsTransform as AbsTransform,
    AffineTransform as AffineTransform,
    CumulativeDistributionTransform as CumulativeDistributionTransform,
    ExpTransform as ExpTransform,
    PowerTransform as PowerTransform,
    SigmoidTransform as SigmoidTransform,
    SoftplusTransform as SoftplusTransform,
    TanhTransform as TanhTransform,
    _clipped_sigmoid as _clipped_sigmoid,
)
from rushlight.distributions._transform import (
    ComposeTransform as ComposeTransform,
    IndependentTransform as IndependentTransform,
    ReshapeTransform as ReshapeTransform,
    Transform as Transform,
    _InverseTransform as _InverseTransform,
    identity_transform as identity_transform,
)
from rushlight.distributions._vector_transforms import (
    CatTransform as CatTransform,
    CorrCholeskyTransform as CorrCholeskyTransform,
    LowerCholeskyTransform as LowerCholeskyTransform,
    PositiveDefiniteTransform as PositiveDefiniteTransform,
    SoftmaxTransform as SoftmaxTransform,
    StackTransform as StackTransform,
    StickBreakingTransform as StickBreakingTransform,
)

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftplusTransform",
    "TanhTransform",
    "SoftmaxTransform",
    "StackTransform",
    "StickBreakingTransform",
    "Transform",
    "identity_transform",
]
