"""Ready parametrizations: weight norm, spectral norm, orthogonal matrices."""

from __future__ import annotations

import math

from rushlight import _C
from rushlight._C import Tensor
from rushlight.autograd.grad_mode import no_grad
from rushlight.nn import functional as F
from rushlight.nn._householder import geqrf, householder_product, orthonormal
from rushlight.nn.modules.module import Module
from rushlight.nn.utils.parametrize import register_parametrization
from rushlight.nn.utils.spectral_norm import default_dim
from rushlight.nn.utils.weight_norm import norm_except_dim

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

_ops = _C._namespaces[""]


def _weight_of(module: Any, name: str) -> Tensor:
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return weight


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / norm_except_dim(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Learns a weight as a direction and a length for each slice along ``dim``.

    >>> import rushlight as torch
    >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 2))
    >>> list(layer.state_dict())[1:]
    ['parametrizations.weight.original0', 'parametrizations.weight.original1']
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename_old_keys(state_dict: Any, prefix: str, *_: Any) -> None:
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                new = f"{prefix}parametrizations.{name}.original{i}"
                state_dict[new] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename_old_keys)
    return module


class _SpectralNorm(Module):
    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        dims = weight.dim()
        if not -dims <= dim < dims:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{dims}, {dims - 1}] but got "
                f"{dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % dims
        self.eps = eps
        if dims > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._matrix(weight)
            u = matrix.new_empty(matrix.size(0)).normal_(0, 1)
            v = matrix.new_empty(matrix.size(1)).normal_(0, 1)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
            self._power_method(matrix, 15)

    def _matrix(self, weight: Tensor) -> Tensor:
        return weight.movedim(self.dim, 0).flatten(1)

    @no_grad()
    def _power_method(self, matrix: Tensor, n_power_iterations: int) -> None:
        for _ in range(n_power_iterations):
            self._u.copy_(F.normalize(matrix.mv(self._v), dim=0, eps=self.eps))
            self._v.copy_(F.normalize(matrix.t().conj().mv(self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._power_method(matrix.detach(), self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # later iterations must not change what is saved
        return weight / _ops["vdot"](u, matrix.mv(v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Any,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Any:
    """Divides a weight by its largest singular value.

    >>> import rushlight as torch
    >>> layer = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(4, 3))
    >>> _ = layer(torch.ones(1, 4))
    >>> [name for name, _ in layer.named_parameters()]
    ['bias', 'parametrizations.weight.original']
    """
    dim = default_dim(module) if dim is None else dim
    norm = _SpectralNorm(_weight_of(module, name), n_power_iterations, dim, eps)
    return register_parametrization(module, name, norm)


def _matrix_exp(a: Tensor) -> Tensor:
    """The exponential of a matrix: a Taylor series of a small part of it, then squares."""
    largest = float(a.detach().abs().sum(-1).max()) if a.numel() else 0.0
    squares = max(0, math.ceil(math.log2(largest)) + 1) if largest > 0.5 else 0
    part = a / 2**squares
    result = term = _ops["eye"](a.size(-1), dtype=a.dtype).expand_as(a)
    for i in range(1, 18):
        term = term @ part / i
        result = result + term
    for _ in range(squares):
        result = result @ result
    return result


def _solve(a: Tensor, b: Tensor) -> Tensor:
    """The x of a x = b for an a whose symmetric part is positive: no pivots are needed."""
    n = a.size(-1)
    both = _ops["cat"]([a, b], -1)
    for i in range(n):
        row = both[..., i : i + 1, :] / both[..., i : i + 1, i : i + 1]
        factors = both[..., i : i + 1]
        at = (_ops["arange"](n) == i).unsqueeze(-1)
        both = _ops["where"](at, row, both - factors * row)
    return both[..., n:]


class _Orthogonal(Module):
    base: Any

    def __init__(
        self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True
    ) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def _mapped(self, x: Tensor) -> Tensor:
        """A matrix with orthonormal columns for any tall matrix."""
        n, k = x.size(-2), x.size(-1)
        if self.orthogonal_map == "householder":
            a = x.tril(diagonal=-1)
            tau = 2.0 / (1.0 + (a * a).sum(dim=-2))
            signs = x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
            return householder_product(a, tau) * signs
        x = x.tril()
        if n != k:
            x = _ops["cat"]([x, x.new_zeros(n, n - k).expand(*x.shape[:-2], -1, -1)], -1)
        skew = x - x.transpose(-2, -1).conj()
        if self.orthogonal_map == "matrix_exp":
            q = _matrix_exp(skew)
        else:
            unit = _ops["eye"](n, dtype=skew.dtype)
            q = _solve(unit - skew / 2, unit + skew / 2)
        return q[..., :k]

    def forward(self, x: Tensor) -> Tensor:
        wide = x.size(-2) < x.size(-1)
        q = self._mapped(x.transpose(-2, -1) if wide else x)
        if hasattr(self, "base"):
            q = self.base @ q
        return q.transpose(-2, -1) if wide else q

    @no_grad()
    def right_inverse(self, value: Tensor) -> Tensor:
        if value.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of "
                f"shape {value.shape}."
            )
        wide = value.size(-2) < value.size(-1)
        q = value.transpose(-2, -1) if wide else value
        if hasattr(self, "base"):
            self.base = self._completed(q)
            result = _ops["zeros_like"](value)
            result.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
            return result
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley "
                "parametrizations when use_trivialization=False."
            )
        a, tau = geqrf(q)
        diagonal = a.diagonal(dim1=-2, dim2=-1)
        diagonal.copy_(diagonal.sign() * _ops["where"](tau == 0.0, -1.0, 1.0))
        return a.transpose(-2, -1) if wide else a

    @staticmethod
    def _completed(q: Tensor) -> Tensor:
        """A square orthogonal matrix that begins with the columns of q, made orthonormal."""
        n, k = q.size(-2), q.size(-1)
        if n == k:
            product = q.transpose(-2, -1).conj() @ q
            unit = _ops["eye"](k, dtype=q.dtype)
            eps = 10.0 * n * (2.2e-16 if q.dtype == _C.float64 else 1.2e-7)
            if bool((product - unit).abs().max() <= eps):
                return q.clone()
            return orthonormal(q)
        more = _ops["randn"](*q.shape[:-2], n, n - k, dtype=q.dtype)
        return orthonormal(_ops["cat"]([q, more], -1))


def orthogonal(
    module: Any,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Any:
    """Keeps a weight orthogonal, or its rows or columns orthonormal, while it is trained.

    >>> import rushlight as torch
    >>> layer = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(3, 3))
    >>> product = layer.weight @ layer.weight.T
    >>> bool((product - torch.eye(3)).abs().max() < 1e-5)
    True
    """
    weight = _weight_of(module, name)
    if weight.dim() < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.dim()} dimensions."
        )
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
            f"Got: {orthogonal_map}"
        )
    mapping = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return register_parametrization(module, name, mapping, unsafe=True)
