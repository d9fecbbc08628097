"""Functions that PyTorch removed: they say what stands in their place, as PyTorch's do."""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any, NoReturn

__all__ = ["eig", "lstsq", "matrix_rank", "solve", "symeig"]


def _fail(name: str, use: str) -> NoReturn:
    raise RuntimeError(
        f"torch.{name}: This function was deprecated since version 1.9 and is now removed. "
        f"Use {use}."
    )


def eig(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises: torch.linalg.eig, which gives complex tensors, stands in its place.

    >>> import rushlight as torch
    >>> torch.eig(torch.eye(2))
    Traceback (most recent call last):
        ...
    RuntimeError: torch.eig: ...
    """
    _fail("eig", "torch.linalg.eig(A), or torch.linalg.eigvals(A) for eigenvalues alone")


def symeig(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises: torch.linalg.eigh, which reads the lower triangle, stands in its place.

    >>> import rushlight as torch
    >>> torch.symeig(torch.eye(2))
    Traceback (most recent call last):
        ...
    RuntimeError: torch.symeig: ...
    """
    _fail("symeig", "torch.linalg.eigh(A, UPLO='U' if upper else 'L')")


def solve(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises: torch.linalg.solve, with its arguments in the other order, stands in its place.

    >>> import rushlight as torch
    >>> torch.solve(torch.ones(2, 1), torch.eye(2))
    Traceback (most recent call last):
        ...
    RuntimeError: torch.solve: ...
    """
    _fail("solve", "torch.linalg.solve(A, B) for torch.solve(B, A).solution")


def lstsq(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises: torch.linalg.lstsq, with its arguments in the other order, stands in its place.

    >>> import rushlight as torch
    >>> torch.lstsq(torch.ones(2, 1), torch.eye(2))
    Traceback (most recent call last):
        ...
    RuntimeError: torch.lstsq: ...
    """
    _fail("lstsq", "torch.linalg.lstsq(A, B).solution for torch.lstsq(B, A)")


def matrix_rank(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises: torch.linalg.matrix_rank stands in its place.

    >>> import rushlight as torch
    >>> torch.matrix_rank(torch.eye(2))
    Traceback (most recent call last):
        ...
    RuntimeError: torch.matrix_rank: ...
    """
    _fail("matrix_rank", "torch.linalg.matrix_rank(A, hermitian=symmetric)")
