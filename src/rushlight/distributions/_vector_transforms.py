"""Transforms of vectors and matrices, and transforms side by side."""

from __future__ import annotations

import math
from typing import Any

import rushlight as torch
from rushlight.distributions import constraints
from rushlight.distributions._elementwise_transforms import _clipped_sigmoid
from rushlight.distributions._transform import Transform
from rushlight.distributions.utils import (
    _sum_rightmost,
    lazy_property,
    tril_matrix_to_vec,
    vec_to_tril_matrix,
)
from rushlight.nn.functional import logsigmoid, pad, softplus


def _need_a_dimension(shape: Any) -> Any:
    if len(shape) < 1:
        raise ValueError("Too few dimensions on input: a vector is needed, got a number")
    return shape


class SoftmaxTransform(Transform):
    """Vectors to the simplex: exp(x), normalised. Not bijective: the sum of x is lost.

    >>> import rushlight as torch
    >>> from rushlight.distributions import SoftmaxTransform
    >>> SoftmaxTransform()(torch.tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftmaxTransform)

    def _call(self, x: Any) -> Any:
        weights = (x - x.max(-1, True)[0]).exp()
        return weights / weights.sum(-1, True)

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        return _need_a_dimension(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return _need_a_dimension(shape)


class StickBreakingTransform(Transform):
    """Vectors to the simplex of one more dimension: each x takes a share of what is left.

    >>> import rushlight as torch
    >>> from rushlight.distributions import StickBreakingTransform
    >>> StickBreakingTransform()(torch.zeros(3))
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StickBreakingTransform)

    @staticmethod
    def _log_left(x: Any) -> Any:
        """log n, ..., log 1: by these 0 becomes equal shares."""
        n = x.shape[-1]
        return (n + 1 - x.new_ones(n).cumsum(-1)).log()

    def _call(self, x: Any) -> Any:
        share = _clipped_sigmoid(x - self._log_left(x))
        left = (1 - share).cumprod(-1)
        return pad(share, [0, 1], value=1) * pad(left, [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        head = y[..., :-1]
        left = (1 - head.cumsum(-1)).clamp(min=torch.finfo(y.dtype).tiny)
        return head.log() - left.log() + self._log_left(head)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        x = x - self._log_left(x)
        return (-x + logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        shape = _need_a_dimension(shape)
        return shape[:-1] + (shape[-1] + 1,)

    def inverse_shape(self, shape: Any) -> Any:
        shape = _need_a_dimension(shape)
        return shape[:-1] + (shape[-1] - 1,)


class CorrCholeskyTransform(Transform):
    """Vectors of D (D - 1) / 2 to Cholesky factors of D by D correlation matrices.

    Each row of the lower triangle breaks a stick: tanh(x) is the signed root of the share it takes
    of what the row's unit length has left.

    >>> import rushlight as torch
    >>> from rushlight.distributions import CorrCholeskyTransform
    >>> y = CorrCholeskyTransform()(torch.tensor([0.5, -1.0, 2.0]))
    >>> y.shape, (y * y).sum(-1)
    (torch.Size([3, 3]), tensor([1., 1., 1.]))
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Any) -> Any:
        eps = torch.finfo(x.dtype).eps
        root = vec_to_tril_matrix(torch.tanh(x).clamp(-1 + eps, 1 - eps), diag=-1)
        left = (1 - root**2).sqrt().cumprod(-1)
        root = root + torch.eye(root.shape[-1], dtype=root.dtype, device=root.device)
        return root * pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        left = pad((1 - (y * y).cumsum(-1))[..., :-1], [1, 0], value=1)
        t = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (t.log1p() - t.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Any, y: Any, intermediates: Any = None) -> Any:
        # d tanh, and the lengths that are left along each row.
        left = tril_matrix_to_vec(1 - (y * y).cumsum(-1), diag=-2)
        sticks = 0.5 * left.log().sum(-1)
        return sticks - 2 * (x + softplus(-2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        n = _need_a_dimension(shape)[-1]
        d = round((0.25 + 2 * n) ** 0.5 + 0.5)
        if d * (d - 1) // 2 != n:
            raise ValueError(f"Input is not a flattened lower-diagonal number: {n}")
        return shape[:-1] + (d, d)

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 2:
            raise ValueError(f"Too few dimensions on input: a matrix is needed, got {len(shape)}")
        if shape[-2] != shape[-1]:
            raise ValueError(f"Input is not square: {tuple(shape[-2:])}")
        d = shape[-1]
        return shape[:-2] + (d * (d - 1) // 2,)


class LowerCholeskyTransform(Transform):
    """Square matrices to lower triangular ones with a positive diagonal.

    >>> import rushlight as torch
    >>> from rushlight.distributions import LowerCholeskyTransform
    >>> LowerCholeskyTransform()(torch.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LowerCholeskyTransform)

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """Square matrices to positive definite ones.

    >>> import rushlight as torch
    >>> from rushlight.distributions import PositiveDefiniteTransform
    >>> PositiveDefiniteTransform()(torch.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PositiveDefiniteTransform)

    def _call(self, x: Any) -> Any:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Any) -> Any:
        return LowerCholeskyTransform().inv(torch.linalg.cholesky(y))


class _Parts(Transform):
    """Transforms of parts along a dimension."""

    transforms: Any
    dim: int

    def __init__(self, tseq: Any, dim: int, cache_size: int) -> None:
        for t in tseq:
            if not isinstance(t, Transform):
                raise AssertionError(f"All elements of tseq must be Transform instances: {t!r}")
        if cache_size:
            tseq = [t.with_cache(cache_size) for t in tseq]
        super().__init__(cache_size=cache_size)
        self.transforms = list(tseq)
        self.dim = dim

    @property
    def bijective(self) -> bool:
        """Whether all of them are."""
        return all(t.bijective for t in self.transforms)

    def _require(self, value: Any) -> None:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(
                f"dim {self.dim} is out of range for a value with {value.dim()} dimensions"
            )


class CatTransform(_Parts):
    """Transforms of parts of the given lengths along a dimension, as ``torch.cat`` joins them.

    >>> import rushlight as torch
    >>> from rushlight.distributions import CatTransform, ExpTransform, identity_transform
    >>> t = CatTransform([ExpTransform(), identity_transform], dim=0, lengths=[1, 2])
    >>> t(torch.tensor([0.0, 5.0, 6.0]))
    tensor([1., 5., 6.])
    """

    def __init__(self, tseq: Any, dim: int = 0, lengths: Any = None, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(
                f"lengths must have length {len(self.transforms)}, got {len(self.lengths)}"
            )

    @lazy_property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @lazy_property
    def length(self) -> int:
        """The size of the dimension."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _split(self, value: Any) -> Any:
        self._require(value)
        if value.size(self.dim) != self.length:
            raise AssertionError(
                f"size {value.size(self.dim)} along dim {self.dim} must equal the sum of the "
                f"lengths, {self.length}"
            )
        return value.split(self.lengths, self.dim)

    def _call(self, x: Any) -> Any:
        parts = [t(part) for t, part in zip(self.transforms, self._split(x), strict=True)]
        return torch.cat(parts, self.dim)

    def _inverse(self, y: Any) -> Any:
        parts = [t.inv(part) for t, part in zip(self.transforms, self._split(y), strict=True)]
        return torch.cat(parts, self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        terms = []
        for t, part, image in zip(self.transforms, self._split(x), self._split(y), strict=True):
            term = t.log_abs_det_jacobian(part, image)
            terms.append(_sum_rightmost(term, self.event_dim - t.event_dim))
        dim = self.dim - x.dim() if self.dim >= 0 else self.dim
        dim += self.event_dim
        return torch.cat(terms, dim) if dim < 0 else sum(terms)

    @constraints.dependent_property
    def domain(self):
        """The domains side by side."""
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self):
        """The codomains side by side."""
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_Parts):
    """A transform for each slice along a dimension, as ``torch.stack`` joins them.

    >>> import rushlight as torch
    >>> from rushlight.distributions import ExpTransform, StackTransform, identity_transform
    >>> t = StackTransform([ExpTransform(), identity_transform], dim=1)
    >>> t(torch.tensor([[0.0, 3.0], [1.0, 4.0]]))
    tensor([[1.0000, 3.0000],
            [2.7183, 4.0000]])
    """

    def __init__(self, tseq: Any, dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return StackTransform(self.transforms, self.dim, cache_size)

    def _slice(self, z: Any) -> list[Any]:
        self._require(z)
        if z.size(self.dim) != len(self.transforms):
            raise AssertionError(
                f"size {z.size(self.dim)} along dim {self.dim} must equal the number of "
                f"transforms, {len(self.transforms)}"
            )
        return [z.select(self.dim, i) for i in range(z.size(self.dim))]

    def _call(self, x: Any) -> Any:
        slices = [t(part) for t, part in zip(self.transforms, self._slice(x), strict=True)]
        return torch.stack(slices, self.dim)

    def _inverse(self, y: Any) -> Any:
        slices = [t.inv(part) for t, part in zip(self.transforms, self._slice(y), strict=True)]
        return torch.stack(slices, self.dim)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        pairs = zip(self.transforms, self._slice(x), self._slice(y), strict=True)
        return torch.stack([t.log_abs_det_jacobian(a, b) for t, a, b in pairs], self.dim)

    @constraints.dependent_property
    def domain(self):
        """The domains side by side."""
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self):
        """The codomains side by side."""
        return constraints.stack([t.codomain for t in self.transforms], self.dim)
