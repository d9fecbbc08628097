"""What distributions are built from: common shapes, logits and probabilities, lazy properties."""

from __future__ import annotations

from functools import update_wrapper
from typing import Any

import rushlight as torch
from rushlight import _C, Size, Tensor

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant = 0.57721566490153286060
EMPTY = Size()
NUMBER = (int, float)


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """Numbers and tensors as tensors of one shape; a number gets the type of the first tensor.

    >>> import rushlight as torch
    >>> from rushlight.distributions.utils import broadcast_all
    >>> broadcast_all(1, torch.tensor([2.0, 3.0]))
    (tensor([1., 1.]), tensor([2., 3.]))
    """
    like = None
    numbers = 0
    for value in values:
        kind = value.__class__
        if kind is float or kind is int:
            numbers += 1
        elif kind is Tensor or isinstance(value, Tensor):
            if like is None:
                like = value
        elif isinstance(value, NUMBER):
            numbers += 1
        elif not hasattr(kind, "__torch_function__"):
            raise ValueError(
                "Input arguments must all be instances of Number, torch.Tensor or objects "
                f"implementing __torch_function__: got {kind.__name__}"
            )
    if numbers:
        dtype = torch.get_default_dtype() if like is None else like.dtype
        device = None if like is None else like.device
        values = tuple(
            [_C._tensor(v, dtype, device, False) if isinstance(v, NUMBER) else v for v in values]
        )
        if numbers == len(values):
            return values
    shape = values[0].shape
    for value in values:
        if value.shape != shape:
            return tuple(torch.broadcast_tensors(*values))
    return values


def batch_shape_of(tensor: Any, *given: Any) -> Size:
    """The batch shape of a distribution whose parameters were given as these."""
    for value in given:
        if not isinstance(value, NUMBER):
            return tensor.shape
    return EMPTY


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    return torch.empty(shape, dtype=dtype, device=device).normal_()


def _sum_rightmost(value: Any, dim: int) -> Any:
    """The sum over the last ``dim`` dimensions."""
    if dim == 0:
        return value
    return value.reshape(value.shape[:-dim] + (-1,)).sum(-1)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities from log odds (binary) or unnormalised log probabilities.

    >>> import rushlight as torch
    >>> from rushlight.distributions.utils import logits_to_probs
    >>> logits_to_probs(torch.zeros(4)), logits_to_probs(torch.zeros(2), is_binary=True)
    (tensor([0.2500, 0.2500, 0.2500, 0.2500]), tensor([0.5000, 0.5000]))
    """
    return torch.sigmoid(logits) if is_binary else torch.softmax(logits, -1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities kept away from 0 and 1 by the type's epsilon, so that logarithms are finite.

    >>> import rushlight as torch
    >>> from rushlight.distributions.utils import clamp_probs
    >>> clamp_probs(torch.tensor([0.0, 0.5])).log()
    tensor([-15.9424,  -0.6931])
    """
    eps = torch.finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """The inverse of ``logits_to_probs``; probabilities are clamped first.

    >>> import rushlight as torch
    >>> from rushlight.distributions.utils import probs_to_logits
    >>> probs_to_logits(torch.tensor([0.5, 0.75]), is_binary=True)
    tensor([0.0000, 1.0986])
    """
    clamped = clamp_probs(probs)
    return clamped.log() - torch.log1p(-clamped) if is_binary else clamped.log()


class lazy_property:
    """A property that is computed once, with gradients, and then is an attribute of the object.

    >>> from rushlight.distributions.utils import lazy_property
    >>> class Circle:
    ...     @lazy_property
    ...     def area(self):
    ...         print("computing")
    ...         return 3.14
    >>> c = Circle()
    >>> c.area, c.area
    computing
    (3.14, 3.14)
    """

    def __init__(self, wrapped: Any) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, obj_type: Any = None) -> Any:
        if instance is None:
            return _lazy_property_and_property(self.wrapped)
        with torch.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class _lazy_property_and_property(lazy_property, property):
    """What a class shows: tools that look for properties find one."""

    def __init__(self, wrapped: Any) -> None:
        property.__init__(self, wrapped)


def _lower_mask(n: int, diag: int, device: Any) -> Tensor:
    order = torch.arange(n, device=device)
    return order <= order.view(-1, 1) + diag


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The lower triangle of matrices, row by row, as vectors.

    >>> import rushlight as torch
    >>> from rushlight.distributions.utils import tril_matrix_to_vec
    >>> tril_matrix_to_vec(torch.tensor([[1.0, 0.0], [2.0, 3.0]]))
    tensor([1., 2., 3.])
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    return mat[..., _lower_mask(n, diag, mat.device)]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Vectors as the lower triangle of square matrices, row by row; zeros above.

    >>> import rushlight as torch
    >>> from rushlight.distributions.utils import vec_to_tril_matrix
    >>> vec_to_tril_matrix(torch.tensor([1.0, 2.0, 3.0]))
    tensor([[1., 0.],
            [2., 3.]])
    """
    # n rows hold n (n + 1) / 2 + n diag elements, less the corner that a shifted triangle lacks.
    size = vec.shape[-1]
    slope = 1 + 2 * diag
    n = (-slope + (slope**2 + 8 * size + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if abs(round(n) - n) > torch.finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {size} which cannot be expressed as the lower "
            "triangular part of a square D x D matrix."
        )
    rows = round(n)
    mat = vec.new_zeros(vec.shape[:-1] + (rows, rows))
    mat[..., _lower_mask(rows, diag, vec.device)] = vec
    return mat
