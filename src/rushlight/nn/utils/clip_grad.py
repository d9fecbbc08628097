"""Keeping gradients small."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor
from rushlight.autograd.grad_mode import no_grad

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_",
    "get_total_norm",
]  # fmt: skip

_ops = _C._namespaces[""]


def _as_list(tensors: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _grads_to_clip(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [p.grad for p in _as_list(parameters) if p.grad is not None]


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all elements of several tensors.

    >>> import rushlight as torch
    >>> torch.nn.utils.get_total_norm([torch.tensor([3.0]), torch.tensor([4.0])]).item()
    5.0
    """
    tensors, norm_type = _as_list(tensors), float(norm_type)
    with no_grad():
        total = _C._grads_norm(tensors, norm_type)
        if total is None:
            vector_norm = _C._namespaces["linalg"]["vector_norm"]
            norms = [vector_norm(t, norm_type) for t in tensors]
            here = [n.to(norms[0].device) for n in norms]
            total = vector_norm(_ops["stack"](here), norm_type)
    if error_if_nonfinite and not bool(total.isfinite()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, "
            "so it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    total_norm: Tensor,
    foreach: bool | None = None,
) -> None:
    """Scales gradients so that a norm of ``total_norm`` becomes at most ``max_norm``.

    >>> import rushlight as torch
    >>> w = torch.zeros(2, requires_grad=True)
    >>> (w * torch.tensor([3.0, 4.0])).sum().backward()
    >>> total = torch.nn.utils.get_total_norm([w.grad])
    >>> torch.nn.utils.clip_grads_with_norm_([w], max_norm=1.0, total_norm=total)
    >>> w.grad
    tensor([0.6000, 0.8000])
    """
    grads = _grads_to_clip(parameters)
    if not grads:
        return
    with no_grad():
        factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
        if not _C._scale_grads(grads, factor):
            factors = {grad.device: factor.to(grad.device) for grad in grads}
            for grad in grads:
                grad.mul_(factors[grad.device])


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scales gradients so that the norm of them all is at most ``max_norm``; gives the norm.

    >>> import rushlight as torch
    >>> p = torch.zeros(2, requires_grad=True)
    >>> p.grad = torch.tensor([3.0, 4.0])
    >>> torch.nn.utils.clip_grad_norm_(p, max_norm=1.0).item()
    5.0
    >>> [round(g, 4) for g in p.grad.tolist()]
    [0.6, 0.8]
    """
    given = parameters
    parameters = _as_list(parameters)
    if not parameters and hasattr(given, "__next__"):
        import warnings

        warnings.warn(
            "`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2
        )
    grads = [p.grad for p in parameters if p.grad is not None]
    total = get_total_norm(grads, norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Deprecated: use :func:`clip_grad_norm_`."""
    import warnings

    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
        "`torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Holds every element of the gradients between ``-clip_value`` and ``clip_value``.

    >>> import rushlight as torch
    >>> w = torch.zeros(2, requires_grad=True)
    >>> (w * torch.tensor([3.0, -0.5])).sum().backward()
    >>> torch.nn.utils.clip_grad_value_([w], 1.0)
    >>> w.grad
    tensor([ 1.0000, -0.5000])
    """
    clip_value = float(clip_value)
    with no_grad():
        for grad in _grads_to_clip(parameters):
            grad.clamp_(min=-clip_value, max=clip_value)
