"""The von Mises distribution."""

from __future__ import annotations

import math
from typing import Any

import rushlight as torch
from rushlight import Tensor
from rushlight.autograd import Function
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import EMPTY, broadcast_all, lazy_property

__all__ = ["VonMises"]

# Bessel functions I0 and I1 by Abramowitz and Stegun 9.8.1 to 9.8.4: of (x / 3.75)^2 for small
# arguments, of 3.75 / x with the exponential taken out for large ones.
_SMALL = (
    (1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.360768e-1, 0.45813e-2),
    (0.5, 0.87890594, 0.51498869, 0.15084934, 0.2658733e-1, 0.301532e-2, 0.32411e-3),
)
_LARGE = (
    (
        0.39894228, 0.1328592e-1, 0.225319e-2, -0.157565e-2, 0.916281e-2, -0.2057706e-1,
        0.2635537e-1, -0.1647633e-1, 0.392377e-2,
    ),
    (
        0.39894228, -0.3988024e-1, -0.362018e-2, 0.163801e-2, -0.1031555e-1, 0.2282967e-1,
        -0.2895312e-1, 0.1787654e-1, -0.420059e-2,
    ),
)  # fmt: skip


def _eval_poly(y: Any, coef: Any) -> Any:
    result = coef[-1]
    for c in reversed(coef[:-1]):
        result = c + y * result
    return result


def _log_modified_bessel_fn(x: Any, order: int = 0) -> Any:
    """log I0(x) or log I1(x) for positive x."""
    if order not in (0, 1):
        raise AssertionError(f"order must be 0 or 1, got {order}")
    small = _eval_poly((x / 3.75) ** 2, _SMALL[order])
    if order == 1:
        small = x.abs() * small
    large = x - 0.5 * x.log() + _eval_poly(3.75 / x, _LARGE[order]).log()
    return torch.where(x < 3.75, small.log(), large)


def _rejection_sample(loc: Any, concentration: Any, proposal_r: Any, x: Any) -> Any:
    """Best and Fisher (1979): rejection from a wrapped Cauchy distribution."""
    done = torch.zeros(x.shape, dtype=torch.bool, device=loc.device)
    while not done.all():
        u1, u2, u3 = torch.rand((3,) + x.shape, dtype=loc.dtype, device=loc.device).unbind()
        z = torch.cos(math.pi * u1)
        f = (1 + proposal_r * z) / (proposal_r + z)
        c = concentration * (proposal_r - f)
        accept = ((c * (2 - c) - u2) > 0) | ((c / u2).log() + 1 - c >= 0)
        if accept.any():
            x = torch.where(accept, (u3 - 0.5).sign() * f.acos(), x)
            done = done | accept
    return (x + math.pi + loc) % (2 * math.pi) - math.pi


def _nodes(dtype: Any, device: Any) -> tuple[Tensor, Tensor]:
    """Nodes and weights of the tanh-sinh rule on [0, 1]."""
    step = 1 / 16
    t = torch.arange(-50, 51, dtype=torch.float64, device=device) * step
    s = math.pi / 2 * torch.sinh(t)
    weight = step * math.pi / 4 * torch.cosh(t) / torch.cosh(s) ** 2
    return torch.sigmoid(2 * s).to(dtype), weight.to(dtype)


def _slope(kappa: Any, x: Any) -> Any:
    """How an angle around 0 moves with the concentration: -F_k / f at a fixed F.

    Both sides of the angle hold the same, up to the sign: the integral is taken over that in which
    the integrand does not change its sign. All of it can be differentiated again.
    """
    angle, kappa = torch.broadcast_tensors(x.abs(), kappa)
    mean = _mean_cosine(kappa)
    near = angle.cos() > mean
    node, weight = _nodes(x.dtype, x.device)
    start = torch.where(near, 0.0, angle).unsqueeze(-1)
    width = torch.where(near, angle, math.pi - angle).unsqueeze(-1)
    t = start + width * node
    # cos t - cos(angle), as a product that keeps its digits
    apart = -2 * torch.sin((t + angle.unsqueeze(-1)) / 2) * torch.sin((t - angle.unsqueeze(-1)) / 2)
    terms = torch.exp(kappa.unsqueeze(-1) * apart) * (t.cos() - mean.unsqueeze(-1))
    integral = (terms * weight).sum(-1) * width.squeeze(-1)
    return torch.where(near, -integral, integral) * x.sign()


def _mean_cosine(kappa: Any) -> Any:
    """The mean of the cosine, I1 / I0, to all digits and with all derivatives."""
    node, weight = _nodes(kappa.dtype, kappa.device)
    sine = torch.sin(math.pi / 2 * node)
    density = weight * torch.exp(-2 * kappa.unsqueeze(-1) * sine**2)
    return (density * (1 - 2 * sine**2)).sum(-1) / density.sum(-1)


class _Moving(Function):
    """An angle that was drawn, as a function of its concentration."""

    @staticmethod
    def forward(ctx: Any, kappa: Any, angle: Any) -> Any:
        out = angle.clone()
        ctx.save_for_backward(kappa, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        kappa, out = ctx.saved_tensors
        return grad * _slope(kappa, out), None


class VonMises(Distribution):
    """The von Mises distribution: a normal distribution on the circle.

    ``rsample`` has gradients by implicit reparameterisation; ``has_rsample`` is False as in
    PyTorch, so that libraries choose the same estimators.

    >>> import rushlight as torch
    >>> from rushlight.distributions import VonMises
    >>> d = VonMises(torch.tensor([1.0]), torch.tensor([1.0]))
    >>> d.log_prob(torch.tensor([1.0]))
    tensor([-1.0738])
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False
    _parameters = ("loc", "concentration")

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        along = self.concentration * torch.cos(value - self.loc)
        return along - math.log(2 * math.pi) - _log_modified_bessel_fn(self.concentration, order=0)

    @lazy_property
    def _loc(self) -> Tensor:
        return self.loc.to(torch.float64)

    @lazy_property
    def _concentration(self) -> Tensor:
        return self.concentration.to(torch.float64)

    @lazy_property
    def _proposal_r(self) -> Tensor:
        kappa = self._concentration
        tau = 1 + (1 + 4 * kappa**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        # The quotient loses its digits near 0, where a series takes its place.
        return torch.where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho**2) / (2 * rho))

    def sample(self, sample_shape: Any = EMPTY) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            x = torch.empty(shape, dtype=torch.float64, device=self.loc.device)
            drawn = _rejection_sample(self._loc, self._concentration, self._proposal_r, x)
            return drawn.to(self.loc.dtype)

    def rsample(self, sample_shape: Any = EMPTY) -> Tensor:
        drawn = self.sample(sample_shape)
        with torch.no_grad():
            turn = 2 * math.pi
            angle = (drawn - self.loc + math.pi) % turn - math.pi
            wrapped = drawn - (self.loc + angle)
        kappa = self.concentration.expand(angle.shape)
        return self.loc + _Moving.apply(kappa, angle) + wrapped

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        """1 less the length of the mean direction."""
        ratio = _log_modified_bessel_fn(self.concentration, order=1)
        return 1 - (ratio - _log_modified_bessel_fn(self.concentration, order=0)).exp()
