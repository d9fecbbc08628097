# ruff: noqa: F405
"""Special functions.

>>> import rushlight as torch
>>> torch.special.bessel_j0(torch.tensor([0.0, 1.0]))
tensor([1.0000, 0.7652])
"""

from rushlight._ops import (
    digamma as digamma,
)
from rushlight._ops import (
    erf as erf,
)
from rushlight._ops import (
    erfc as erfc,
)
from rushlight._ops import (
    erfinv as erfinv,
)
from rushlight._ops import (
    exp2 as exp2,
)
from rushlight._ops import (
    expm1 as expm1,
)
from rushlight._ops import (
    i0 as i0,
)
from rushlight._ops import (
    igamma as gammainc,
)
from rushlight._ops import (
    igammac as gammaincc,
)
from rushlight._ops import (
    lgamma as gammaln,
)
from rushlight._ops import (
    log1p as log1p,
)
from rushlight._ops import (
    logit as logit,
)
from rushlight._ops import (
    logsumexp as logsumexp,
)
from rushlight._ops import (
    mvlgamma as multigammaln,
)
from rushlight._ops import (
    polygamma as polygamma,
)
from rushlight._ops import (
    round as round,
)
from rushlight._ops import (
    sigmoid as expit,
)
from rushlight._ops import (
    sinc as sinc,
)
from rushlight._ops import (
    xlogy as xlogy,
)
from rushlight._ops_special import *  # noqa: F403
from rushlight._ops_special import i1 as modified_bessel_i1

modified_bessel_i0 = i0
psi = digamma

__all__ = [
    "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "chebyshev_polynomial_t",
    "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w", "digamma", "entr",
    "erf", "erfc", "erfcx", "erfinv", "exp2", "expit", "expm1", "gammainc", "gammaincc", "gammaln",
    "hermite_polynomial_h", "hermite_polynomial_he", "i0", "i0e", "i1", "i1e",
    "laguerre_polynomial_l", "legendre_polynomial_p", "log1p", "log_ndtr", "log_softmax", "logit",
    "logsumexp", "modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0",
    "modified_bessel_k1", "multigammaln", "ndtr", "ndtri", "polygamma", "psi", "round",
    "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w", "sinc", "softmax", "spherical_bessel_j0", "xlog1py", "xlogy",
    "zeta",
]  # fmt: skip
