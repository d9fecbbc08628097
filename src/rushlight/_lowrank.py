"""A few singular values or eigenpairs of large matrices."""

from __future__ import annotations

import rushlight as torch
from rushlight._C import Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["lobpcg", "pca_lowrank", "svd_lowrank"]


def _basis(a: Tensor, q: int, niter: int, m: Tensor | None) -> Tensor:
    """Orthonormal columns that span most of what ``a - m`` maps to (Halko et al., 2009)."""

    def times(x: Tensor, adjoint: bool = False) -> Tensor:
        y = (a.mH if adjoint else a) @ x
        return y if m is None else y - (m.mH if adjoint else m) @ x

    x = times(torch.randn(a.shape[-1], q, dtype=a.dtype, device=a.device))
    basis: Tensor = torch.linalg.qr(x).Q
    for _ in range(niter):
        basis = torch.linalg.qr(times(basis, adjoint=True)).Q
        basis = torch.linalg.qr(times(basis)).Q
    return basis


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """``(U, S, V)`` of the ``q`` largest singular values of ``A - M``, about, by random vectors.

    >>> import rushlight as torch
    >>> a = torch.outer(torch.ones(50), torch.arange(4.0))
    >>> u, s, v = torch.svd_lowrank(a, q=2)
    >>> torch.allclose(u @ torch.diag(s) @ v.mT, a, atol=1e-4)
    True
    """
    q, niter = 6 if q is None else q, 2 if niter is None else niter
    if M is not None:
        M = M.broadcast_to(A.shape)
    wide = A.shape[-2] < A.shape[-1]
    if wide:
        A, M = A.mH, None if M is None else M.mH
    basis = _basis(A, q, niter, M)
    inner = basis.mH @ A
    if M is not None:
        inner = inner - basis.mH @ M
    u, s, vh = torch.linalg.svd(inner, full_matrices=False)
    u, v = basis @ u, vh.mH
    return (v, s, u) if wide else (u, s, v)


def pca_lowrank(
    A: Tensor, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """``(U, S, V)`` of the principal components of rows: ``svd_lowrank`` of what is left when the
    mean row is subtracted.

    >>> import rushlight as torch
    >>> a = torch.tensor([[1.0, 0.0], [3.0, 0.0], [5.0, 0.0]])
    >>> u, s, v = torch.pca_lowrank(a, q=1)
    >>> v.abs()
    tensor([[1.],
            [0.]])
    """
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}"
        )
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if center:
        A = A - A.mean(-2, keepdim=True)
    return svd_lowrank(A, q, niter=niter)


class _Search:
    """One run of LOBPCG (Knyazev, 2001) on a matrix; trackers are given this object."""

    def __init__(
        self, a: Tensor, b: Tensor | None, x: Tensor, inverse: Tensor | None, largest: bool,
        niter: int, tol: float,
    ) -> None:  # fmt: skip
        self.A, self.B, self.X, self.iK = a, b, x, inverse
        self.bparams = {"largest": largest}
        self.iparams = {"m": a.shape[-1], "k": x.shape[-1], "niter": niter}
        self.fparams = {"tol": tol}
        self.ivars = {"istep": 0, "converged_count": 0}
        self.E = self.R = x
        self.tvars: dict[str, Tensor] = {}
        self.a_norm, self.b_norm = a.norm(), 1.0 if b is None else b.norm()

    def ritz(self, space: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The best pairs in the span of the columns, which may depend on each other."""
        weighed = space if self.B is None else self.B @ space
        sizes, turn = torch.linalg.eigh(space.mH @ weighed)
        keep = sizes > sizes[-1] * torch.finfo(space.dtype).eps * 10 * space.shape[-1]
        turn = turn[:, keep] / sizes[keep].sqrt()
        space = space @ turn
        values, vectors = torch.linalg.eigh(space.mH @ (self.A @ space))
        if self.bparams["largest"]:
            values, vectors = values.flip(-1), vectors.flip(-1)
        return values[:k], space @ vectors[:, :k]

    def run(self, tracker: Callable[[Any], Any] | None) -> tuple[Tensor, Tensor]:
        k, niter = self.iparams["k"], self.iparams["niter"]
        self.E, self.X = self.ritz(self.X, k)
        moved: Tensor | None = None
        while True:
            weighed = self.X if self.B is None else self.B @ self.X
            self.R = self.A @ self.X - weighed * self.E
            scale = self.X.norm(dim=0) * (self.a_norm + self.E.abs() * self.b_norm)
            error = self.R.norm(dim=0) / scale
            self.ivars["converged_count"] = int((error < self.fparams["tol"]).sum())
            self.tvars = {"rerr": error}
            if tracker is not None:
                tracker(self)
            done = self.ivars["converged_count"] == k
            if done or 0 <= niter <= self.ivars["istep"]:
                return self.E, self.X
            step = self.R if self.iK is None else self.iK @ self.R
            step = step / step.norm(dim=0).clamp_min(torch.finfo(step.dtype).tiny)
            parts = [self.X, step] if moved is None else [self.X, step, moved]
            before = self.X
            self.E, self.X = self.ritz(torch.cat(parts, -1), k)
            moved = self.X - before @ (weighed.mH @ self.X)
            moved = moved / moved.norm(dim=0).clamp_min(torch.finfo(step.dtype).tiny)
            self.ivars["istep"] += 1


def _differentiable(a: Tensor, values: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
    """The same pairs with a history: perturbation theory, to the first order."""
    with torch.no_grad():
        all_values, all_vectors = torch.linalg.eigh(a.detach())
    symmetric = (a + a.mH) / 2
    exact = (vectors.mH @ (symmetric @ vectors)).diagonal().real
    left = symmetric @ vectors - vectors * values
    gaps = all_values.unsqueeze(-1) - values
    near = gaps.abs() <= 1e-6 * all_values.abs().max()
    inverse = torch.where(near, 0.0, 1.0 / torch.where(near, 1.0, gaps))
    change = all_vectors @ (inverse * (all_vectors.mH @ left))
    change = change - change.detach()
    return values + (exact - exact.detach()), vectors - change


def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Callable[[Any], Any] | None = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Tensor, Tensor]:
    """The ``k`` largest (or smallest) eigenvalues of symmetric matrices and their vectors, by
    iterations; with ``B``, of the pencil ``A @ x = e * B @ x``. ``iK`` is an approximate inverse of
    ``A``. Both methods, "basic" and "ortho", find orthonormal bases in the same way here.

    >>> import rushlight as torch
    >>> values, vectors = torch.lobpcg(torch.diag(torch.arange(1.0, 10.0)), k=2)
    >>> values.round()
    tensor([9., 8.])
    """
    if A.dim() < 2 or A.shape[-1] != A.shape[-2]:
        raise ValueError(f"lobpcg: A must be square matrices, got shape {tuple(A.shape)}")
    if method not in (None, "basic", "ortho"):
        raise ValueError(f"lobpcg: method must be 'basic' or 'ortho', got {method!r}")
    m = A.shape[-1]
    k = (1 if X is None else X.shape[-1]) if k is None else k
    n = (k if X is None else X.shape[-1]) if n is None else n
    if m < 3 * n:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than "
            f"3 x the number of requested eigenpairs (={n})"
        )
    if B is not None and torch.is_grad_enabled() and (A.requires_grad or B.requires_grad):
        raise ValueError("lobpcg.backward: derivative with respect to B is not implemented")
    for name, t in (("A", A), ("B", B), ("iK", iK), ("X", X)):
        if t is not None and not bool(torch.isfinite(t.detach()).all()):
            raise torch._C._LinAlgError(
                f"lobpcg: the iterations can not converge because {name} contains non-finite values"
            )
    tol = torch.finfo(A.dtype).eps ** 0.5 if tol is None else tol
    niter, largest = -1 if niter is None else niter, True if largest is None else largest
    start = torch.randn(*A.shape[:-1], n, dtype=A.dtype, device=A.device) if X is None else X
    pairs = []
    with torch.no_grad():
        flat = A.detach().reshape(-1, m, m)

        def part(t: Tensor, i: int) -> Tensor:
            all_of_them = t.detach().expand(*A.shape[:-2], *t.shape[-2:])
            return all_of_them.reshape(-1, *t.shape[-2:])[i]

        for i in range(flat.shape[0]):
            b, inverse = (None if t is None else part(t, i) for t in (B, iK))
            search = _Search(flat[i], b, part(start, i), inverse, largest, niter, tol)
            pairs.append(search.run(tracker))
        values = torch.stack([e[:k] for e, _ in pairs]).reshape(*A.shape[:-2], k)
        vectors = torch.stack([x[:, :k] for _, x in pairs]).reshape(*A.shape[:-1], k)
    if A.requires_grad and torch.is_grad_enabled():
        found = [
            _differentiable(a, e, x)
            for a, e, x in zip(
                A.reshape(-1, m, m), values.reshape(-1, k), vectors.reshape(-1, m, k), strict=True
            )
        ]
        values = torch.stack([e for e, _ in found]).reshape(*A.shape[:-2], k)
        vectors = torch.stack([x for _, x in found]).reshape(*A.shape[:-1], k)
    return values, vectors
