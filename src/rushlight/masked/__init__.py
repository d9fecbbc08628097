"""Masked reductions, and tensors some of whose elements are unspecified.

>>> import rushlight as torch
>>> x, mask = torch.tensor([1.0, 2.0, 6.0]), torch.tensor([True, False, True])
>>> torch.masked.mean(x, mask=mask)
tensor(3.5000)
"""

from rushlight._masked.functions import (
    _input_mask as _input_mask,
    _output_mask as _output_mask,
    amax as amax,
    amin as amin,
    argmax as argmax,
    argmin as argmin,
    cumprod as cumprod,
    cumsum as cumsum,
    log_softmax as log_softmax,
    logaddexp as logaddexp,
    logsumexp as logsumexp,
    mean as mean,
    median as median,
    norm as norm,
    normalize as normalize,
    prod as prod,
    softmax as softmax,
    softmin as softmin,
    std as std,
    sum as sum,
    var as var,
)
from rushlight._masked.tensor import (
    MaskedTensor as MaskedTensor,
    as_masked_tensor as as_masked_tensor,
    is_masked_tensor as is_masked_tensor,
    masked_tensor as masked_tensor,
)

__all__ = [
    "MaskedTensor", "amax", "amin", "argmax", "argmin", "as_masked_tensor", "cumprod", "cumsum",
    "is_masked_tensor", "log_softmax", "logaddexp", "logsumexp", "masked_tensor", "mean", "median",
    "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var",
]  # fmt: skip
