"""Products with matrices of second derivatives that are never made."""

from __future__ import annotations

from rushlight.func._grad import grad, jvp, vjp

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def hvp(func: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
    """The product of the Hessian of `func`, whose result is one number, with the tangents.

    Forward over reverse mode: about the cost of two gradients, whatever the number of dimensions.
    The result has the structure of the primals.

    >>> import rushlight as torch
    >>> x, v = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.5])
    >>> torch.func.hvp(lambda x: (x**3).sum(), (x,), (v,))
    (tensor([6., 6.]),)
    """
    every = tuple(range(len(primals))) if isinstance(primals, tuple) else 0
    return jvp(grad(func, every), primals, tangents)[1]


def gauss_newton_product(
    model: Callable[..., Any],
    loss: Callable[..., Any],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
) -> Any:
    """The product of a Gauss-Newton matrix with the tangents: Jᵀ H J v.

    J is the Jacobian of `model` at the primals, H the Hessian of `loss`, one number made of the
    model's result. For a loss that is convex in it, the matrix is positive semidefinite, which the
    Hessian need not be. The result has the structure of the primals.

    >>> import rushlight as torch
    >>> w, v = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0])
    >>> model = lambda w: w * torch.tensor([1.0, 3.0])
    >>> torch.func.gauss_newton_product(model, lambda y: (y**2).sum(), (w,), (v,))
    (tensor([ 2., 18.]),)
    """
    output, moved = jvp(model, primals, tangents)
    _, pull = vjp(model, *primals)
    return pull(jvp(grad(loss), (output,), (moved,))[1])
