"""Private helpers of PyTorch's ``autograd.functional`` that libraries import."""

from __future__ import annotations

from rushlight import _C, autograd
from rushlight.autograd import functional

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_ops = _C._namespaces[""]


def _as_tuple(
    inp: Any, arg_name: str | None = None, fn_name: str | None = None
) -> tuple[bool, tuple[Any, ...]]:
    if arg_name is None and fn_name is None:
        return isinstance(inp, tuple), inp if isinstance(inp, tuple) else (inp,)
    return functional._tensors(inp, str(arg_name), str(fn_name))


def _tuple_postprocess(res: Any, to_unpack: bool | tuple[bool, bool]) -> Any:
    """Undoes ``_as_tuple``: twice, where there are two answers."""
    if isinstance(to_unpack, tuple):
        if not to_unpack[1]:
            res = tuple(each[0] for each in res)
        return res if to_unpack[0] else res[0]
    return res if to_unpack else res[0]


def _grad_preprocess(inputs: Sequence[Any], create_graph: bool, need_graph: bool) -> Any:
    def own(t: Any) -> Any:
        if not isinstance(t, _C.Tensor):
            return _grad_preprocess(t, create_graph, need_graph)
        if create_graph:
            return t.view_as(t) if t.requires_grad else t.detach().requires_grad_(need_graph)
        return t.detach().requires_grad_(need_graph)

    return tuple(map(own, inputs))


def _grad_postprocess(inputs: Any, create_graph: bool) -> Any:
    if isinstance(inputs, _C.Tensor):
        return inputs if create_graph else inputs.detach()
    return tuple(_grad_postprocess(t, create_graph) for t in inputs)


def _validate_v(v: Sequence[Any], other: Sequence[Any], is_other_tuple: bool) -> None:
    functional._direction(tuple(v), other, "input", "v")


def _check_requires_grad(inputs: Any, input_type: str, strict: bool) -> None:
    if not strict:
        return
    if input_type not in ("outputs", "grad_inputs", "jacobian", "hessian"):
        raise RuntimeError(f"_check_requires_grad: invalid input_type {input_type!r}")
    functional._require_grad(
        inputs,
        f"The {input_type} of the user-provided function are independent of its inputs at index "
        "{i}. This is not allowed in strict mode.",
    )


def _autograd_grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    create_graph: bool = False,
    retain_graph: bool | None = None,
    is_grads_batched: bool = False,
) -> tuple[Any, ...]:
    """``autograd.grad`` that gives None where nothing requires grad."""
    weights = grad_outputs or (None,) * len(outputs)
    live = [(t, g) for t, g in zip(outputs, weights, strict=True) if t is not None]
    live = [(t, g) for t, g in live if t.requires_grad]
    if not live:
        return (None,) * len(inputs)
    found: tuple[Any, ...] = autograd.grad(
        [t for t, _ in live],
        inputs,
        [g for _, g in live],
        allow_unused=True,
        create_graph=create_graph,
        retain_graph=retain_graph,
        is_grads_batched=is_grads_batched,
    )
    return found


def _fill_in_zeros(
    grads: Sequence[Any], refs: Sequence[Any], strict: bool, create_graph: bool, stage: str
) -> tuple[Any, ...]:
    if stage not in ("back", "back_trick", "double_back", "double_back_trick"):
        raise RuntimeError(f"_fill_in_zeros: invalid stage {stage!r}")
    if strict:
        functional._check_used(grads, create_graph)
    return tuple(
        _ops["zeros_like"](ref) if grad is None else grad
        for grad, ref in zip(grads, refs, strict=True)
    )
