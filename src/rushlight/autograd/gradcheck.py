"""gradcheck and gradgradcheck: derivatives compared with finite differences."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import rushlight as torch
from rushlight._layout import jagged, strided

from . import _gradcheck_steps as steps
from ._gradcheck_steps import GradcheckError
from ._jacobian import Mismatch, Table, analytical, as_tuple, is_tensor, numerical, outputs_of

__all__ = [
    "GradcheckError",
    "get_analytical_jacobian",
    "get_numerical_jacobian",
    "get_numerical_jacobian_wrt_specific_input",
    "gradcheck",
    "gradgradcheck",
]


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compares the derivatives of `func` at `inputs` with central differences.

    Returns True when every entry of every Jacobian is within `atol + rtol * |difference|`.
    Otherwise raises `GradcheckError`, which names the worst entry, or returns False if
    `raise_exception` is False.

    Differences are taken in double precision. Where an input is narrower and `func` also takes
    float64, the differences are of `func` in float64, and the tolerances grow to what the narrow
    dtype can hold; where it does not, a warning says so and the step is fitted to the dtype.

    eps: the step. nondet_tol: how much two runs of backward may differ. check_undefined_grad:
    also run backward with gradients missing, and forward mode with tangents missing.
    check_grad_dtypes: gradients must have their input's dtype. check_batched_grad,
    check_batched_forward_grad: derivatives under vmap equal a loop. check_forward_ad,
    check_backward_ad: the modes to check. fast_mode: compare one random projection of each
    Jacobian, and all its entries only where that differs. masked: of
    sparse inputs the stored values vary; results that are sparse are compared in theirs.

    >>> import rushlight as torch
    >>> x = torch.tensor([0.5, 1.0], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradcheck(lambda x: x.sin() * x, x)
    True
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError(
            "Expected at least one of check_forward_ad or check_backward_ad to be True"
        )
    if check_batched_grad and not check_backward_ad:
        raise AssertionError(
            "Setting check_batched_grad=True requires check_backward_ad to be True"
        )
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError(
            "Setting check_batched_forward_grad=True requires check_forward_ad to be True"
        )
    if any(is_tensor(x) and x.layout not in (strided, jagged) for x in as_tuple(inputs)):
        from rushlight._sparse.checking import on_values

        func, inputs = on_values(func, inputs, bool(masked))
    check = steps.Check(func, as_tuple(inputs), eps, atol, rtol, nondet_tol)
    steps.check_inputs(check)
    try:
        check = steps.with_reference(check)
        outputs = check.outputs()
        places = [k for k, o in enumerate(outputs) if is_tensor(o) and o.requires_grad]
        if not places:
            steps.check_constant(check, outputs)
            return True
        compare = steps.compare_projections if fast_mode else steps.compare_tables
        compare(check, places, check_backward_ad, check_forward_ad)
        if check_forward_ad and check_undefined_grad:
            steps.check_undefined_forward(check, places)
        if check_batched_forward_grad:
            steps.check_batched_forward(check, places)
        if check_backward_ad:
            steps.check_determinism(check, places, check_grad_dtypes)
            if check_batched_grad:
                steps.check_batched(check, places)
            if check_undefined_grad:
                steps.check_undefined(check, places)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """`gradcheck` of the gradient of `func`, by its inputs and by `grad_outputs`.

    Where `grad_outputs` is None they are random; `gen_non_contig_grad_outputs` makes those
    non-contiguous. The other arguments are gradcheck's.

    >>> import rushlight as torch
    >>> x = torch.tensor([0.5, 1.0], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradgradcheck(lambda x: x.exp(), x)
    True
    """
    if any(is_tensor(x) and x.layout not in (strided, jagged) for x in as_tuple(inputs)):
        from rushlight._sparse.checking import on_values

        func, inputs = on_values(func, inputs, masked)
    given = as_tuple(inputs)
    if grad_outputs is None:
        outputs = [o for o in as_tuple(func(*given)) if is_tensor(o) and o.requires_grad]
        vectors = tuple(_random_leaf(o, gen_non_contig_grad_outputs) for o in outputs)
    else:
        vectors = as_tuple(grad_outputs)
    split = len(given)
    flags = [is_tensor(x) and x.requires_grad for x in given]

    def gradient(*arguments: Any) -> tuple[Any, ...]:
        # Forward mode hands over inputs that do not require grad.
        pairs = zip(arguments[:split], flags, strict=True)
        xs = [x.requires_grad_() if flag else x for x, flag in pairs]
        outputs = [o for o in as_tuple(func(*xs)) if is_tensor(o) and o.requires_grad]
        wanted = [x for x in xs if is_tensor(x) and x.requires_grad]
        grads = torch.autograd.grad(
            outputs, wanted, arguments[split:], create_graph=True, allow_unused=True
        )
        return tuple(g for g in grads if g is not None)

    return gradcheck(
        gradient,
        given + vectors,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )


def _random_leaf(like_this: Any, scattered: bool) -> Any:
    # Not near zero, where a wrong factor would not show; reproducible, and no draw is taken from
    # the user's generator.
    t = torch.rand(like_this.shape, dtype=torch.float64, generator=steps.generator(1)) + 0.1
    t = t.to(dtype=like_this.dtype, device=like_this.device)
    if scattered:
        t = torch.stack([t, t], -1)[..., 0]
    return t.detach().requires_grad_()


# -- Jacobians for their own sake -----------------------------------------------------------------


def get_numerical_jacobian_wrt_specific_input(
    fn: Callable[..., Any],
    input_idx: int,
    inputs: Any,
    outputs: Any,
    eps: float,
    input: Any = None,
    is_forward_ad: bool = False,
) -> tuple[Any, ...]:
    """The Jacobian of each output by one input, by differences: (entries in, entries out).

    That of a complex input is ∂/∂re + i ∂/∂im. `input` stands in for `inputs[input_idx]`.

    >>> import rushlight as torch
    >>> from rushlight.autograd.gradcheck import get_numerical_jacobian_wrt_specific_input
    >>> x = torch.tensor([1.0, 2.0], dtype=torch.float64)
    >>> (table,) = get_numerical_jacobian_wrt_specific_input(torch.square, 0, (x,), (x * x,), 1e-6)
    >>> table.round(decimals=4)
    tensor([[2., 0.],
            [0., 4.]], dtype=torch.float64)
    """
    given = list(as_tuple(inputs))
    if input is not None:
        given[input_idx] = input
    x, wanted = given[input_idx], as_tuple(outputs)
    if any(o.is_complex() for o in wanted) and x.is_complex():
        raise ValueError("Expected output to be non-complex, for a complex input")
    places = range(len(wanted))
    tables = numerical(fn, given, input_idx, places, eps)
    return tuple(_as_matrix(t, x, o) for t, o in zip(tables, wanted, strict=True))


def _as_matrix(table: Table, x: Any, output: Any) -> Any:
    """A table as a tensor with one row per entry of `x` and one column per entry of `output`."""
    if x.is_complex():
        pairs = zip(table[::2], table[1::2], strict=True)
        rows: list[Any] = [
            [complex(re, im) for re, im in zip(*pair, strict=True)] for pair in pairs
        ]
    elif output.is_complex():
        rows = [
            [complex(re, im) for re, im in zip(row[::2], row[1::2], strict=True)] for row in table
        ]
    else:
        rows = table
    dtype = output.dtype if output.is_complex() else x.dtype
    return torch.tensor(rows, dtype=dtype).reshape(x.numel(), output.numel())


def _deprecated(name: str, stacklevel: int = 3) -> None:
    warnings.warn(
        f"{name} was never meant to be public and will go: use autograd.functional.jacobian, or "
        "gradcheck",
        FutureWarning,
        stacklevel=stacklevel,
    )


def _require_real(name: str, grad_out: float, outputs: Sequence[Any]) -> None:
    if grad_out != 1.0:
        raise ValueError(
            f"Expected grad_out to be 1.0. {name} no longer supports values of grad_out != 1.0."
        )
    if any(o.is_complex() for o in outputs):
        raise ValueError(
            f"Expected output to be non-complex. {name} no longer supports functions that return "
            "complex outputs."
        )


def get_numerical_jacobian(
    fn: Callable[..., Any],
    inputs: Any,
    target: Any = None,
    eps: float = 1e-3,
    grad_out: float = 1.0,
) -> tuple[Any, ...]:
    """Deprecated. The Jacobian of `fn(inputs)` by each tensor of `target`, by differences."""
    name = "get_numerical_jacobian"
    _deprecated(name)
    given = as_tuple(inputs)
    wanted = given if target is None else as_tuple(target)

    def call(*xs: Any) -> Any:
        return fn(xs)

    outputs = outputs_of(call, given, [0])
    _require_real(name, grad_out, outputs)
    found: list[Any] = []
    for i, x in enumerate(given):
        if any(x is t for t in wanted) and is_tensor(x) and x.requires_grad:
            found += get_numerical_jacobian_wrt_specific_input(call, i, given, outputs, eps)
    return tuple(found)


def get_analytical_jacobian(
    inputs: Any, output: Any, nondet_tol: float = 0.0, grad_out: float = 1.0
) -> tuple[tuple[Any, ...], bool, bool, bool]:
    """Deprecated. The Jacobian of `output` by each input that requires grad, by reverse mode.

    Also: whether two runs agree, and whether the gradients' sizes and dtypes are right.
    """
    name = "get_analytical_jacobian"
    _deprecated(name)
    _require_real(name, grad_out, [output])
    xs = [x for x in as_tuple(inputs) if is_tensor(x) and x.requires_grad]
    tables, again = analytical(output, xs), analytical(output, xs)
    reentrant = not any(Mismatch(a, b, nondet_tol, 0.0) for a, b in zip(tables, again, strict=True))
    vector = torch.ones_like(output)
    grads = torch.autograd.grad(output, xs, vector, retain_graph=True, allow_unused=True)
    known = [(x, g) for x, g in zip(xs, grads, strict=True) if g is not None]
    sizes = all(g.shape == x.shape for x, g in known)
    dtypes = all(g.dtype == x.dtype for x, g in known)
    matrices = tuple(_as_matrix(t, x, output) for t, x in zip(tables, xs, strict=True))
    return matrices, reentrant, sizes, dtypes
