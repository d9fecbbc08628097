"""The loss of connectionist temporal classification."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor
from rushlight._redirect import foreign, redirect

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = ["ctc_loss"]

_ops = _C._namespaces[""]
_nn = _C._namespaces["nn.functional"]
_NEVER = -1e30  # the logarithm of a probability of zero, without infinities in gradients


def _lengths(name: str, given: Any, batch: int, most: int) -> Tensor:
    lengths = given if isinstance(given, Tensor) else _C._tensor(given, _C.int64, None, False)
    if lengths.is_floating_point() or lengths.is_complex():
        raise RuntimeError(f"ctc_loss: {name} must be integral, got {lengths.dtype}")
    lengths = lengths.reshape(-1).long()
    if lengths.numel() != batch:
        raise RuntimeError(
            f"{name} must be of size batch_size: ctc_loss got {lengths.numel()} lengths for a "
            f"batch of {batch}"
        )
    if lengths.is_meta:
        return lengths
    if batch and int(lengths.min()) < 0:
        raise RuntimeError(
            f"Expected {name} to have non-negative values, but got value {int(lengths.min())}: "
            "ctc_loss"
        )
    if batch and int(lengths.max()) > most:
        raise RuntimeError(
            f"Expected {name} to have value at most {most}, but got value {int(lengths.max())}: "
            "ctc_loss"
        )
    return lengths


def _padded(targets: Tensor, lengths: Any, batch: int) -> tuple[Tensor, Tensor]:
    """Targets with a row for each sequence, and their lengths."""
    if targets.dim() == 2:
        if targets.size(0) != batch:
            raise RuntimeError(
                f"Expected tensor to have size {batch} at dimension 0, but got size "
                f"{targets.size(0)} for targets: ctc_loss"
            )
        return targets.long(), _lengths("target_lengths", lengths, batch, targets.size(1))
    if targets.dim() != 1:
        raise RuntimeError(f"targets must be 1-D or 2-D, got {targets.dim()}-D: ctc_loss")
    counts = _lengths("target_lengths", lengths, batch, targets.numel())
    if int(counts.sum()) > targets.numel():
        raise RuntimeError(
            f"Expected tensor to have size {int(counts.sum())} at dimension 0, but got size "
            f"{targets.numel()} for targets: ctc_loss"
        )
    longest = int(counts.max()) if batch else 0
    at = _ops["arange"](longest, device=counts.device)
    inside = at < counts.unsqueeze(1)
    places = (counts.cumsum(0) - counts).unsqueeze(1) + at
    rows = targets.long()[places.clamp(max=max(targets.numel() - 1, 0))]
    return _ops["where"](inside, rows, 0), counts


def _check(log_probs: Tensor, targets: Tensor, blank: int) -> None:
    if not log_probs.is_floating_point():
        raise RuntimeError(f'"ctc_loss_cpu" not implemented for {log_probs.dtype}')
    if targets.is_floating_point() or targets.is_complex():
        raise RuntimeError(f"ctc_loss: targets must be integral, got {targets.dtype}")
    if log_probs.dim() not in (2, 3):
        raise RuntimeError(
            f"ctc_loss: log_probs must have 2 or 3 dimensions, got {log_probs.dim()}"
        )
    classes = log_probs.size(-1)
    if not 0 <= blank < classes:
        raise RuntimeError(
            f"blank must be in label range: ctc_loss got {blank} for {classes} classes"
        )


def _log_likelihood(
    log_probs: Tensor, targets: Tensor, inputs: Tensor, counts: Tensor, blank: int
) -> Tensor:
    """The log probability of each target, over all its alignments: the forward recursion."""
    steps, batch, _ = log_probs.shape
    width = 2 * targets.size(1) + 1
    labels = _ops["full"]((batch, width), blank, dtype=_C.int64, device=targets.device)
    labels[:, 1::2] = targets
    emitted = log_probs.gather(2, labels.expand(steps, -1, -1)).unbind(0)
    at = _ops["arange"](width, device=targets.device)
    two_before = _nn["pad"](labels, (2, 0), value=-1)[:, :-2]
    may_skip = (at % 2 == 1) & (at > 1) & (labels != two_before)
    penalty = _ops["where"](may_skip, 0.0, _NEVER).to(log_probs.dtype)
    begins = (at == 0) | ((at == 1) & (counts.unsqueeze(1) > 0))
    if not steps:
        return _ops["where"](counts == 0, 0.0, _NEVER).to(log_probs.dtype)
    alpha = _ops["where"](begins, emitted[0], _NEVER)
    shortest = int(inputs.min()) if batch else 0
    for t in range(1, steps):
        before = _nn["pad"](alpha, (2, 0), value=_NEVER)
        paths = _ops["logaddexp"](alpha, before[:, 1:-1])
        moved = _ops["logaddexp"](paths, before[:, :-2] + penalty) + emitted[t]
        alpha = moved if t < shortest else _ops["where"]((inputs > t).unsqueeze(1), moved, alpha)
    ends = (2 * counts).unsqueeze(1)
    last = alpha.gather(1, ends).squeeze(1)
    label = alpha.gather(1, (ends - 1).clamp(min=0)).squeeze(1)
    total = _ops["where"](counts > 0, _ops["logaddexp"](last, label), last)
    nothing = _ops["where"](counts == 0, 0.0, _NEVER).to(total.dtype)
    return _ops["where"](inputs > 0, total, nothing)


def _reduced(losses: Tensor, reduction: str, batched: bool) -> Tensor:
    if reduction == "mean":
        return losses.mean()
    if reduction == "sum":
        return losses.sum()
    return losses if batched else losses.squeeze(0)


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Minus the log probability of labels, over all their alignments with (time, batch, classes).

    ``log_probs`` are logarithms of probabilities that sum to one, and gradients are those of such:
    the same as through ``log_softmax``.

    >>> import rushlight as torch
    >>> log_probs = torch.zeros(2, 1, 2).log_softmax(2)
    >>> loss = torch.nn.functional.ctc_loss(log_probs, torch.tensor([[1]]), [2], [1])
    >>> round(loss.exp().item(), 4)  # three of the four paths give the label
    1.3333
    """
    if type(log_probs) is not Tensor and foreign(log_probs):
        return redirect(ctc_loss, locals())
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if any(_C._batch_levels(t) for t in (targets, input_lengths, target_lengths)):
        from rushlight.func._function import by_sample

        given = (log_probs, targets, input_lengths, target_lengths)
        return by_sample(ctc_loss, (*given, blank, reduction, zero_infinity))
    _check(log_probs, targets, blank)
    batched = log_probs.dim() == 3
    probs = log_probs if batched else log_probs.unsqueeze(1)
    steps, batch, classes = probs.shape
    if probs.is_meta:  # no labels to walk along; the loss depends on all probabilities
        for name, lengths in (("target", target_lengths), ("input", input_lengths)):
            _lengths(f"{name}_lengths", lengths, batch, 1 << 62)
        return _reduced(probs.sum((0, 2)), reduction, batched)
    rows = targets.unsqueeze(0) if not batched and targets.dim() == 1 else targets
    labels, counts = _padded(rows, target_lengths, batch)
    if labels.numel() and not 0 <= int(labels.min()) <= int(labels.max()) < classes:
        raise RuntimeError(
            f"ctc_loss: targets must lie between 0 and {classes - 1}, got values from "
            f"{int(labels.min())} to {int(labels.max())}"
        )
    inputs = _lengths("input_lengths", input_lengths, batch, steps)
    likelihood = _log_likelihood(probs, labels, inputs, counts, blank)
    impossible = likelihood < _NEVER / 2
    losses = _ops["where"](impossible, 0.0 if zero_infinity else float("inf"), -likelihood)
    if _C.is_grad_enabled() and log_probs.requires_grad:
        # Of value zero: its derivative is what normalisation adds to that of the likelihood.
        running = (_ops["arange"](steps, device=probs.device).unsqueeze(1) < inputs) & ~impossible
        mass = (probs.exp().sum(2) * running).sum(0)
        losses = losses + (mass - mass.detach())
    if reduction == "mean":
        losses = losses / counts.clamp(min=1)
    return _reduced(losses, reduction, batched)
