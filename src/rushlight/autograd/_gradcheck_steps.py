"""The steps of gradcheck: what it demands of inputs, Jacobians and backward passes."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import rushlight as torch

from ._jacobian import (
    Mismatch,
    Table,
    analytical,
    as_tuple,
    coordinates,
    forward_mode,
    is_differentiable,
    is_tensor,
    like,
    numerical,
    numerical_along,
    place_name,
    pushed,
    pushed_all,
)

_PRINTED = 100  # tables of more entries are left out of messages


class GradcheckError(RuntimeError):
    """A derivative that gradcheck found to be wrong."""


@dataclass(frozen=True)
class Check:
    """A function with its inputs, and how closely its derivatives must agree."""

    func: Callable[..., Any]
    inputs: tuple[Any, ...]
    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    # What differences are taken of: wider inputs than those under test, where `func` takes them.
    reference: tuple[Any, ...] = ()

    @property
    def wanted(self) -> list[int]:
        """Places of the inputs to differentiate by."""
        return [i for i, x in enumerate(self.inputs) if is_tensor(x) and x.requires_grad]

    def outputs(self) -> tuple[Any, ...]:
        return as_tuple(self.func(*self.inputs))


def generator(seed: int) -> Any:
    generator = torch.Generator()
    generator.manual_seed(seed)
    return generator


# -- the inputs -----------------------------------------------------------------------------------


def check_inputs(check: Check) -> None:
    if not check.wanted:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, "
            "but none of them have requires_grad=True."
        )
    for i in check.wanted:
        x = check.inputs[i]
        overlaps = any(s == 0 and n > 1 for s, n in zip(x.stride(), x.shape, strict=True))
        if overlaps and x.numel() > 0:
            raise RuntimeError(
                f"The {i}th input has a dimension with stride 0: its entries share memory, so one "
                "of them cannot be moved alone. gradcheck only supports inputs that are "
                "non-overlapping: pass input.contiguous()."
            )


def _is_narrow(x: Any) -> bool:
    return is_differentiable(x) and torch.finfo(x.dtype).eps > 1e-12


def _widened(x: Any) -> Any:
    if not _is_narrow(x):
        return x
    wide = x.detach().to(torch.complex128 if x.is_complex() else torch.float64)
    return wide.requires_grad_(x.requires_grad)


def with_reference(check: Check) -> Check:
    """Adds the inputs to take differences of, and fits the tolerances to narrow dtypes."""
    narrow = [i for i in check.wanted if _is_narrow(check.inputs[i])]
    if not narrow:
        return replace(check, reference=check.inputs)
    resolution = max(torch.finfo(check.inputs[i].dtype).eps for i in narrow)
    wide = tuple(_widened(x) for x in check.inputs)
    if _takes(check, wide):
        return replace(check, reference=wide, rtol=max(check.rtol, resolution))
    warnings.warn(
        f"Input #{narrow[0]} requires gradient and is not a double precision floating point or "
        "complex, and the function does not take double precision either: differences are taken "
        f"in {check.inputs[narrow[0]].dtype}, which finds coarse errors only.",
        stacklevel=4,
    )
    coarse = 4 * resolution ** (2 / 3)
    return replace(
        check,
        reference=check.inputs,
        rtol=max(check.rtol, coarse),
        atol=max(check.atol, coarse),
    )


def _takes(check: Check, wide: tuple[Any, ...]) -> bool:
    """Whether the function maps wide inputs to wide outputs."""
    expected = check.outputs()
    try:
        outputs = as_tuple(check.func(*wide))
    except Exception:
        return False
    return len(outputs) == len(expected) and all(
        not is_differentiable(e) or (o.shape == e.shape and not _is_narrow(o))
        for o, e in zip(outputs, expected, strict=True)
    )


def check_constant(check: Check, outputs: tuple[Any, ...]) -> None:
    """Outputs without a history must not move with the inputs."""
    places = [k for k, o in enumerate(outputs) if is_differentiable(o)]
    for i in check.wanted:
        tables = numerical(check.func, check.reference, i, places, check.eps)
        for k, table in zip(places, tables, strict=True):
            zeros = [[0.0] * len(row) for row in table]
            mismatch = Mismatch(zeros, table, check.atol, 0.0)
            if mismatch:
                j, c = mismatch.place
                raise GradcheckError(
                    "Numerical gradient for function expected to be zero: output "
                    f"{k} does not require grad, but {place_name(f'output {k}', outputs[k], c)} "
                    f"moves with {place_name(f'input {i}', check.inputs[i], j)} at a rate of "
                    f"{mismatch.wanted:.6g}"
                )


# -- whole Jacobians ------------------------------------------------------------------------------


def compare_tables(check: Check, places: list[int], reverse: bool, forward: bool) -> None:
    wanted = check.wanted
    differences = {i: numerical(check.func, check.reference, i, places, check.eps) for i in wanted}
    outputs = check.outputs()
    xs = [check.inputs[i] for i in wanted]
    if reverse:
        for place, k in enumerate(places):
            for i, table in zip(wanted, analytical(outputs[k], xs), strict=True):
                _require_equal(check, outputs, k, i, table, differences[i][place], "")
    if forward:
        for i in wanted:
            for place, table in enumerate(forward_mode(check.func, check.inputs, i, places)):
                _require_equal(
                    check, outputs, places[place], i, table, differences[i][place], "forward"
                )


def _require_equal(
    check: Check,
    outputs: tuple[Any, ...],
    k: int,
    i: int,
    found: Table,
    wanted: Table,
    mode: str,
) -> None:
    atol = check.atol
    if check.reference is not check.inputs:
        # A narrow sum is exact to a part of its largest term, not of its own size.
        largest = max((abs(n) for row in wanted for n in row), default=0.0)
        atol = max(atol, torch.finfo(check.inputs[i].dtype).eps * largest / 8)
    mismatch = Mismatch(found, wanted, atol, check.rtol)
    if not mismatch:
        return
    j, c = mismatch.place
    how = "Jacobian computed with forward mode mismatch" if mode else "Jacobian mismatch"
    text = (
        f"{how} for output {k} with respect to input {i}: "
        f"{mismatch.count} of {mismatch.total} entries differ; the worst is the derivative of "
        f"{place_name('output', outputs[k], c)} by {place_name('input', check.inputs[i], j)}: "
        f"analytical {mismatch.found:.9g}, numerical {mismatch.wanted:.9g}, "
        f"relative error {mismatch.relative:.2e}, "
        f"absolute error {abs(mismatch.found - mismatch.wanted):.2e} (allowed "
        f"{mismatch.allowed:.2e})"
    )
    if mismatch.total <= _PRINTED:
        text += f"\nnumerical:{_shown(wanted)}\nanalytical:{_shown(found)}\n"
    raise GradcheckError(text)


def _shown(table: Table) -> Any:
    return torch.tensor(table, dtype=torch.float64)


# -- projections of Jacobians ---------------------------------------------------------------------


def _unit_direction(t: Any, seed: int) -> Any:
    wide = torch.complex128 if t.is_complex() else torch.float64
    direction = torch.randn(t.shape, dtype=wide, generator=generator(seed))
    norm = sum(c * c for c in coordinates(direction)) ** 0.5
    return (direction / (norm or 1.0)).to(dtype=t.dtype, device=t.device)


def _dot(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def compare_projections(check: Check, places: list[int], reverse: bool, forward: bool) -> None:
    """Compares u·(J v) for one random u and v; a failure is looked up entry by entry."""
    for i in check.wanted:
        direction = _unit_direction(check.reference[i], 2 * i)
        along = numerical_along(check.func, check.reference, i, direction, places, check.eps)
        tangent = direction.to(check.inputs[i].dtype)
        moved = pushed(check.func, check.inputs, i, tangent, places) if forward else []
        outputs = check.outputs()
        for place, k in enumerate(places):
            weights = _unit_direction(outputs[k], 2 * k + 1)
            wanted = _dot(coordinates(weights), along[place])
            found: list[float] = []
            if reverse:
                x = check.inputs[i]
                (g,) = torch.autograd.grad(
                    outputs[k], [x], weights, retain_graph=True, allow_unused=True
                )
                known = coordinates(torch.zeros_like(x) if g is None else like(x, g))
                found.append(_dot(known, coordinates(direction)))
            if forward:
                found.append(_dot(coordinates(weights), coordinates(moved[place])))
            for value in found:
                # The errors of many entries may add up to more than one entry may have.
                if not abs(value - wanted) <= check.atol + check.rtol * abs(wanted):
                    return compare_tables(check, places, reverse, forward)


# -- more checks of the backward ------------------------------------------------------------------


def check_determinism(check: Check, places: list[int], dtypes: bool) -> None:
    outputs = check.outputs()
    xs = [check.inputs[i] for i in check.wanted]
    for k in places:
        runs = []
        vector = _unit_direction(outputs[k], 3)
        for _ in range(2):
            grads = torch.autograd.grad(
                outputs[k], xs, vector, retain_graph=True, allow_unused=True
            )
            runs.append(grads)
        for i, x, one, two in zip(check.wanted, xs, *runs, strict=True):
            if one is None or two is None:
                continue
            if dtypes and one.dtype != x.dtype:
                raise GradcheckError(
                    f"Gradient has dtype mismatch: input {i} is {x.dtype}, its gradient {one.dtype}"
                )
            pairs = zip(coordinates(one), coordinates(two), strict=True)
            apart = max((abs(a - b) for a, b in pairs), default=0.0)
            if apart > check.nondet_tol:
                raise GradcheckError(
                    "Backward is not reentrant, i.e., running backward with same input and "
                    "grad_output multiple times gives different values: for output "
                    f"{k} and input {i} two runs differ by {apart:.3g}. The tolerance for "
                    f"nondeterminism was {check.nondet_tol}; nondet_tol= raises it."
                )


@functools.cache
def _undefine() -> Any:
    """A function that passes tensors on and gives no gradient back."""

    class Undefine(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return None

    return Undefine.apply


def check_undefined(check: Check, places: list[int]) -> None:
    """A backward that gets no gradient, or zeros, must give no gradient, or zeros."""
    undefine = _undefine()
    groups = [set(places)] if len(places) == 1 else [set(places), *({k} for k in places)]
    xs = [check.inputs[i] for i in check.wanted]
    for missing in groups:
        everything = check.outputs()
        outputs = [undefine(everything[k]) if k in missing else everything[k] for k in places]
        zeros = [torch.zeros_like(o) for o in outputs]
        try:
            grads = torch.autograd.grad(outputs, xs, zeros, allow_unused=True)
        except RuntimeError as error:
            raise GradcheckError(
                "Expected backward function to handle undefined output grads, but with the "
                f"gradient of output {', '.join(map(str, sorted(missing)))} undefined it raised: "
                f"{error}"
            ) from error
        for i, g in zip(check.wanted, grads, strict=True):
            if g is not None and any(c != 0 for c in coordinates(g)):
                raise GradcheckError(
                    "Expected all input grads to be undefined or zero when all output grads are "
                    f"undefined or zero, but that of input {i} is not (undefined: output "
                    f"{', '.join(map(str, sorted(missing)))})."
                )


def check_undefined_forward(check: Check, places: list[int]) -> None:
    """No tangent must mean the same as a tangent of zeros."""
    directions = {i: _unit_direction(check.inputs[i], 2 * i) for i in check.wanted}
    for i in check.wanted:
        zeros = {**directions, i: torch.zeros_like(check.inputs[i], requires_grad=False)}
        without = {k: v for k, v in directions.items() if k != i}
        pair = [pushed_all(check.func, check.inputs, t, places) for t in (zeros, without)]
        for k, one, other in zip(places, *pair, strict=True):
            if Mismatch([coordinates(other)], [coordinates(one)], check.atol, check.rtol):
                raise GradcheckError(
                    f"Mismatch in tangent values for output {k}: it is not the same with a tangent "
                    f"of zeros for input {i} and with none"
                )


def _two_directions(t: Any) -> Any:
    return torch.stack([_unit_direction(t, 5), _unit_direction(t, 6)])


def check_batched(check: Check, places: list[int]) -> None:
    outputs = check.outputs()
    xs = [check.inputs[i] for i in check.wanted]
    for k in places:
        vectors = _two_directions(outputs[k])
        keep = {"retain_graph": True, "allow_unused": True}
        singly = [torch.autograd.grad(outputs[k], xs, v, **keep) for v in vectors]
        try:
            batched = torch.autograd.grad(outputs[k], xs, vectors, is_grads_batched=True, **keep)
        except NotImplementedError as error:
            raise NotImplementedError(
                "gradcheck: check_batched_grad=True needs autograd.grad(is_grads_batched=True), "
                "which this version does not have"
            ) from error
        except RuntimeError as error:
            raise GradcheckError(
                f"While computing batched gradients of output {k}, got: {error}"
            ) from error
        for i, one, two, both in zip(check.wanted, *singly, batched, strict=True):
            if both is not None:
                _require_batch(check, f"gradients of output {k} by input {i}", [one, two], both)


def check_batched_forward(check: Check, places: list[int]) -> None:
    transforms: Any = getattr(torch, "func", None)
    if not (hasattr(transforms, "vmap") and hasattr(transforms, "jvp")):
        raise NotImplementedError(
            "gradcheck: check_batched_forward_grad=True needs rushlight.func.vmap and jvp, "
            "which this version does not have"
        )
    for i in check.wanted:
        given = [x.detach() if is_tensor(x) else x for x in check.inputs]
        before, x, after = given[:i], given[i], given[i + 1 :]

        def alone(x: Any, before: Any = before, after: Any = after) -> tuple[Any, ...]:
            outputs = as_tuple(check.func(*before, x, *after))
            return tuple(outputs[k] for k in places)

        def push(tangent: Any, alone: Any = alone, x: Any = x) -> Any:
            return transforms.jvp(alone, (x,), (tangent,))[1]

        tangents = _two_directions(x)
        singly = [push(t) for t in tangents]
        try:
            batched = transforms.vmap(push)(tangents)
        except RuntimeError as error:
            raise GradcheckError(
                f"While computing batched forward gradients by input {i}, got: {error}"
            ) from error
        for k, one, two, both in zip(places, *singly, batched, strict=True):
            _require_batch(check, f"forward gradients of output {k} by input {i}", [one, two], both)


def _require_batch(check: Check, what: str, singly: Sequence[Any], batched: Any) -> None:
    for one, other in zip(singly, batched, strict=True):
        zeros = torch.zeros_like(other) if one is None else one
        mismatch = Mismatch([coordinates(other)], [coordinates(zeros)], check.atol, check.rtol)
        if mismatch:
            raise GradcheckError(
                f"Batched {what} differ from those computed one by one: "
                f"{mismatch.found:.9g} in the batch, {mismatch.wanted:.9g} alone"
            )
