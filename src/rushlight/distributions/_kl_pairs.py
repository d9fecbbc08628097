"""Divergences between different families.

KL(p, q) is the mean of -log q(x) over p, less the entropy of p. The first is a matter of a few
moments of p, so that one formula for each q serves every p that has them.
"""

from __future__ import annotations

import math
from typing import Any

import rushlight as torch
from rushlight.distributions.bernoulli import Bernoulli
from rushlight.distributions.beta import Beta
from rushlight.distributions.binomial import Binomial
from rushlight.distributions.continuous_bernoulli import ContinuousBernoulli
from rushlight.distributions.exponential import Exponential
from rushlight.distributions.gamma import Gamma
from rushlight.distributions.gumbel import Gumbel
from rushlight.distributions.kl import _infinite_where, _x_log_x, register_kl
from rushlight.distributions.laplace import Laplace
from rushlight.distributions.normal import Normal
from rushlight.distributions.pareto import Pareto
from rushlight.distributions.poisson import Poisson
from rushlight.distributions.uniform import Uniform
from rushlight.distributions.utils import euler_constant


def _shape_like(p: Any, q: Any) -> Any:
    """A tensor of p's type in the shape of both."""
    return p.mean + torch.zeros_like(q.mean)


def _kl_infinity(p: Any, q: Any) -> Any:
    """p has mass where q has none, whatever the parameters."""
    return torch.full_like(_shape_like(p, q), math.inf)


for _p, _qs in (
    (Beta, (Pareto,)),
    (ContinuousBernoulli, (Pareto,)),
    (Exponential, (Beta, ContinuousBernoulli, Pareto, Uniform)),
    (Gamma, (Beta, ContinuousBernoulli, Pareto, Uniform)),
    (Gumbel, (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Laplace, (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Normal, (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Pareto, (Beta, ContinuousBernoulli, Uniform)),
    (Poisson, (Bernoulli, Binomial)),
):
    for _q in _qs:
        register_kl(_p, _q)(_kl_infinity)


@register_kl(Bernoulli, Poisson)
def _kl_bernoulli_poisson(p: Any, q: Any) -> Any:
    return q.rate - p.probs * q.rate.log() - p.entropy()


@register_kl(Beta, ContinuousBernoulli)
@register_kl(Uniform, ContinuousBernoulli)
def _kl_any_continuous_bernoulli(p: Any, q: Any) -> Any:
    log_density = p.mean * q.logits + torch.log1p(-q.probs) + q._cont_bern_log_norm()
    return _outside_unit(p, -p.entropy() - log_density)


def _outside_unit(p: Any, result: Any) -> Any:
    """Infinite where a uniform distribution reaches beyond the unit interval."""
    if not isinstance(p, Uniform):
        return result
    return _infinite_where((p.low < 0) | (p.high > 1), result)


def _not_negative(p: Any, result: Any) -> Any:
    """Infinite where a uniform distribution reaches below 0."""
    return _infinite_where(p.low < 0, result) if isinstance(p, Uniform) else result


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _kl_unit_uniform(p: Any, q: Any) -> Any:
    return _infinite_where((q.low > 0) | (q.high < 1), (q.high - q.low).log() - p.entropy())


@register_kl(Beta, Exponential)
@register_kl(ContinuousBernoulli, Exponential)
@register_kl(Gamma, Exponential)
@register_kl(Pareto, Exponential)
@register_kl(Uniform, Exponential)
def _kl_any_exponential(p: Any, q: Any) -> Any:
    return _not_negative(p, q.rate * p.mean - q.rate.log() - p.entropy())


def _mean_log(p: Any) -> Any:
    """The mean of log x."""
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Exponential):
        return -euler_constant - p.rate.log()
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    return (_x_log_x(p.high) - _x_log_x(p.low)) / (p.high - p.low) - 1  # uniform


@register_kl(Beta, Gamma)
@register_kl(Exponential, Gamma)
@register_kl(Pareto, Gamma)
@register_kl(Uniform, Gamma)
def _kl_any_gamma(p: Any, q: Any) -> Any:
    normalizer = q.concentration.lgamma() - q.concentration * q.rate.log()
    log_density = (q.concentration - 1) * _mean_log(p) - q.rate * p.mean - normalizer
    return _not_negative(p, -p.entropy() - log_density)


@register_kl(Beta, Normal)
@register_kl(ContinuousBernoulli, Normal)
@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
@register_kl(Gumbel, Normal)
@register_kl(Laplace, Normal)
@register_kl(Pareto, Normal)
@register_kl(Uniform, Normal)
def _kl_any_normal(p: Any, q: Any) -> Any:
    square = q.scale.pow(2)
    spread = (p.variance + (p.mean - q.loc).pow(2)) / (2 * square)
    result = 0.5 * (2 * math.pi * square).log() + spread - p.entropy()
    return _infinite_where(p.alpha <= 2, result) if isinstance(p, Pareto) else result


def _mean_exp(p: Any, rate: Any) -> Any:
    """The mean of exp(-rate * x)."""
    if isinstance(p, Exponential):
        return p.rate / (p.rate + rate)
    if isinstance(p, Gamma):
        return (1 + rate / p.rate).pow(-p.concentration)
    if isinstance(p, Normal):
        return torch.exp(0.5 * (rate * p.scale).pow(2) - rate * p.loc)
    return (torch.exp(-rate * p.low) - torch.exp(-rate * p.high)) / (rate * (p.high - p.low))


@register_kl(Exponential, Gumbel)
@register_kl(Gamma, Gumbel)
@register_kl(Normal, Gumbel)
@register_kl(Uniform, Gumbel)
def _kl_any_gumbel(p: Any, q: Any) -> Any:
    rate = q.scale.reciprocal()
    away = (p.mean - q.loc) * rate
    rest = torch.exp(q.loc * rate) * _mean_exp(p, rate)
    return q.scale.log() + away + rest - p.entropy()


@register_kl(Normal, Laplace)
def _kl_normal_laplace(p: Any, q: Any) -> Any:
    apart = p.loc - q.loc
    z = apart / p.scale
    distance = math.sqrt(2 / math.pi) * p.scale * torch.exp(-0.5 * z.pow(2))
    distance = distance + apart * torch.erf(math.sqrt(0.5) * z)
    return torch.log(2 * q.scale) + distance / q.scale - p.entropy()


@register_kl(Uniform, Beta)
def _kl_uniform_beta(p: Any, q: Any) -> Any:
    width = p.high - p.low
    mean_log_rest = (_x_log_x(1 - p.low) - _x_log_x(1 - p.high)) / width - 1
    a, b = q.concentration1, q.concentration0
    normalizer = a.lgamma() + b.lgamma() - (a + b).lgamma()
    log_density = (a - 1) * _mean_log(p) + (b - 1) * mean_log_rest - normalizer
    return _outside_unit(p, -p.entropy() - log_density)


@register_kl(Uniform, Pareto)
def _kl_uniform_pareto(p: Any, q: Any) -> Any:
    log_density = q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * _mean_log(p)
    return _infinite_where(p.low < q.scale, -p.entropy() - log_density)
