"""Invertible maps between regions of space, with the logarithms of their Jacobians."""

from rushlight.distributions._elementwise_transforms import (
    AbsTransform as AbsTransform,
)
from rushlight.distributions._elementwise_transforms import (
    AffineTransform as AffineTransform,
)
from rushlight.distributions._elementwise_transforms import (
    CumulativeDistributionTransform as CumulativeDistributionTransform,
)
from rushlight.distributions._elementwise_transforms import (
    ExpTransform as ExpTransform,
)
from rushlight.distributions._elementwise_transforms import (
    PowerTransform as PowerTransform,
)
from rushlight.distributions._elementwise_transforms import (
    SigmoidTransform as SigmoidTransform,
)
from rushlight.distributions._elementwise_transforms import (
    SoftplusTransform as SoftplusTransform,
)
from rushlight.distributions._elementwise_transforms import (
    TanhTransform as TanhTransform,
)
from rushlight.distributions._elementwise_transforms import (
    _clipped_sigmoid as _clipped_sigmoid,
)
from rushlight.distributions._transform import (
    ComposeTransform as ComposeTransform,
)
from rushlight.distributions._transform import (
    IndependentTransform as IndependentTransform,
)
from rushlight.distributions._transform import (
    ReshapeTransform as ReshapeTransform,
)
from rushlight.distributions._transform import (
    Transform as Transform,
)
from rushlight.distributions._transform import (
    _InverseTransform as _InverseTransform,
)
from rushlight.distributions._transform import (
    identity_transform as identity_transform,
)
from rushlight.distributions._vector_transforms import (
    CatTransform as CatTransform,
)
from rushlight.distributions._vector_transforms import (
    CorrCholeskyTransform as CorrCholeskyTransform,
)
from rushlight.distributions._vector_transforms import (
    LowerCholeskyTransform as LowerCholeskyTransform,
)
from rushlight.distributions._vector_transforms import (
    PositiveDefiniteTransform as PositiveDefiniteTransform,
)
from rushlight.distributions._vector_transforms import (
    SoftmaxTransform as SoftmaxTransform,
)
from rushlight.distributions._vector_transforms import (
    StackTransform as StackTransform,
)
from rushlight.distributions._vector_transforms import (
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
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]
