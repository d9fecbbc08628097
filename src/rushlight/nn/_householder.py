"""Orthogonal matrices from reflections."""

from __future__ import annotations

from rushlight import _C

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from rushlight import Tensor

_ops = _C._namespaces[""]


def geqrf(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """A = QR: R in the upper triangle, the reflections that make Q below it, and their factors.

    Dimensions before the last two are a batch.
    """
    a = matrix.detach().clone()
    factors = []
    for i in range(min(a.size(-2), a.size(-1))):
        column = a[..., i:, i]
        first, rest = column[..., 0].clone(), column[..., 1:]
        flat = (rest == 0).all(-1)
        length = column.norm(dim=-1)
        turned = _ops["where"](first < 0, length, -length)
        turned = _ops["where"](flat, first, turned)
        safe = _ops["where"](flat, 1.0, turned)
        factor = _ops["where"](flat, 0.0, (turned - first) / safe)
        scale = _ops["where"](flat, 0.0, 1 / _ops["where"](flat, 1.0, first - turned))
        below = rest * scale.unsqueeze(-1)
        direction = _ops["cat"]([_ops["ones_like"](first).unsqueeze(-1), below], -1)
        columns = a[..., i:, i + 1 :]
        along = (direction.unsqueeze(-2) @ columns) * factor[..., None, None]
        columns -= direction.unsqueeze(-1) @ along
        a[..., i, i] = turned
        a[..., i + 1 :, i] = below
        factors.append(factor)
    return a, _ops["stack"](factors, -1)


def householder_product(a: Tensor, tau: Tensor) -> Tensor:
    """The first columns of the product of the reflections that ``geqrf`` gives."""
    n, k = a.size(-2), a.size(-1)
    q = _ops["eye"](n, k, dtype=a.dtype, device=a.device).expand(*a.shape[:-2], n, k)
    unit = _ops["eye"](n, dtype=a.dtype, device=a.device)
    for i in reversed(range(tau.size(-1))):
        below = _ops["where"](_ops["arange"](n, device=a.device) > i, a[..., i], 0.0)
        direction = (below + unit[i]).unsqueeze(-1)
        factor = tau[..., i, None, None]
        q = q - factor * (direction @ (direction.transpose(-2, -1) @ q))
    return q


def orthonormal(matrix: Tensor) -> Tensor:
    """The Q of A = QR whose R has a positive diagonal."""
    a, tau = geqrf(matrix)
    signs = a.diagonal(dim1=-2, dim2=-1).sgn()
    return householder_product(a, tau) * signs.unsqueeze(-2)
