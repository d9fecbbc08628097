"""Learning rate schedules."""

from rushlight.optim._lr_base import EPOCH_DEPRECATION_WARNING as EPOCH_DEPRECATION_WARNING
from rushlight.optim._lr_base import LRScheduler as LRScheduler
from rushlight.optim._lr_base import _LRScheduler as _LRScheduler
from rushlight.optim._lr_combined import (
    ChainedScheduler as ChainedScheduler,
)
from rushlight.optim._lr_combined import (
    ReduceLROnPlateau as ReduceLROnPlateau,
)
from rushlight.optim._lr_combined import (
    SequentialLR as SequentialLR,
)
from rushlight.optim._lr_cycles import (
    CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts,
)
from rushlight.optim._lr_cycles import (
    CyclicLR as CyclicLR,
)
from rushlight.optim._lr_cycles import (
    OneCycleLR as OneCycleLR,
)
from rushlight.optim._lr_factors import (
    ConstantLR as ConstantLR,
)
from rushlight.optim._lr_factors import (
    CosineAnnealingLR as CosineAnnealingLR,
)
from rushlight.optim._lr_factors import (
    ExponentialLR as ExponentialLR,
)
from rushlight.optim._lr_factors import (
    LambdaLR as LambdaLR,
)
from rushlight.optim._lr_factors import (
    LinearLR as LinearLR,
)
from rushlight.optim._lr_factors import (
    MultiplicativeLR as MultiplicativeLR,
)
from rushlight.optim._lr_factors import (
    MultiStepLR as MultiStepLR,
)
from rushlight.optim._lr_factors import (
    PolynomialLR as PolynomialLR,
)
from rushlight.optim._lr_factors import (
    StepLR as StepLR,
)
