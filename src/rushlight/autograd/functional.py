"""Derivatives of functions of tensors, as `torch.autograd.functional` has them.

Inputs and outputs are tensors or tuples of them. With `create_graph` the results can be
differentiated again; with `strict` an output or a derivative that does not depend on the inputs is
an error instead of zeros.
"""

from __future__ import annotations

from rushlight import _C, autograd

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

_ops = _C._namespaces[""]


def _tensors(given: Any, role: str, caller: str) -> tuple[bool, tuple[Any, ...]]:
    """Whether it was a tuple, and the tensors."""
    many = isinstance(given, tuple)
    all_of_it = given if many else (given,)
    for i, t in enumerate(all_of_it):
        if isinstance(t, _C.Tensor):
            continue
        if many:
            raise TypeError(
                f"The {role} given to {caller} must be either a Tensor or a tuple of Tensors but "
                f"the value at index {i} has type {type(t)}."
            )
        raise TypeError(
            f"The {role} given to {caller} must be either a Tensor or a tuple of Tensors but the "
            f"given {role} has type {type(t)}."
        )
    return many, all_of_it


def _own(inputs: Sequence[Any], create_graph: bool) -> tuple[Any, ...]:
    """Tensors to differentiate by: joined to the inputs' history only if that is wanted."""
    return tuple(
        _ops["_alias"](t) if create_graph and t.requires_grad else t.detach().requires_grad_()
        for t in inputs
    )


def _outputs(result: Any, caller: str) -> tuple[bool, tuple[Any, ...]]:
    return _tensors(result, "outputs of the user-provided function", caller)


def _require_grad(tensors: Sequence[Any], what: str) -> None:
    for i, t in enumerate(tensors):
        if t is None or not t.requires_grad:
            raise RuntimeError(what.format(i=i))


_INDEPENDENT_OUTPUT = (
    "Output {i} of the user-provided function does not require gradients. The outputs must be "
    "computed in a differentiable manner from the input when running in strict mode."
)
_INDEPENDENT_JACOBIAN = (
    "While computing the hessian, found that the jacobian of the user-provided function with "
    "respect to input {i} is independent of the input. This is not allowed in strict mode. You "
    "should ensure that your function is twice differentiable in a way that depends on the input."
)


def _direction(v: Any, like: Sequence[Any], role: str, caller: str) -> tuple[Any, ...]:
    """The vector of a product, checked against what it is multiplied with."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(
                f"The vector v can only be None if the {role} is a single Tensor with a single "
                "element."
            )
        return (_ops["ones_like"](like[0]),)
    _, vectors = _tensors(v, "v", caller)
    if len(vectors) != len(like):
        raise RuntimeError(
            f"v is a tuple of invalid length: should be {len(like)} but got {len(vectors)}."
        )
    for i, (a, b) in enumerate(zip(vectors, like, strict=True)):
        if a.shape != b.shape:
            where = f"Entry {i} in v" if len(like) > 1 else "v"
            raise RuntimeError(f"{where} has invalid size: should be {b.shape} but got {a.shape}.")
    return vectors


def _gradients(
    outputs: Sequence[Any], inputs: Sequence[Any], weights: Any, create_graph: bool
) -> tuple[Any, ...]:
    """None for inputs that nothing flows to."""
    live = [i for i, t in enumerate(outputs) if t is not None and t.requires_grad]
    if not live:
        return (None,) * len(inputs)
    return autograd.grad(
        [outputs[i] for i in live],
        inputs,
        None if weights is None else [weights[i] for i in live],
        create_graph=create_graph,
        retain_graph=True,
        allow_unused=True,
    )


def _finished(found: Sequence[Any], like: Sequence[Any], create_graph: bool) -> tuple[Any, ...]:
    return tuple(
        _ops["zeros_like"](t) if g is None else g if create_graph else g.detach()
        for g, t in zip(found, like, strict=True)
    )


def _shaped(many: bool, tensors: Sequence[Any]) -> Any:
    return tuple(tensors) if many else tensors[0]


def _scalar(outputs: Sequence[Any], many: bool, caller: str) -> Any:
    if many or outputs[0].numel() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {caller} should contain a single element"
        )
    return outputs[0].reshape(())


def vjp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The outputs of `func`, and the product of `v` with its Jacobian.

    >>> import rushlight as torch
    >>> torch.autograd.functional.vjp(torch.square, torch.tensor([1.0, 3.0]), torch.ones(2))
    (tensor([1., 9.]), tensor([2., 6.]))
    """
    with autograd.enable_grad():
        many_in, given = _tensors(inputs, "inputs", "vjp")
        own = _own(given, create_graph)
        many_out, outputs = _outputs(func(*own), "vjp")
        if strict:
            _require_grad(outputs, _INDEPENDENT_OUTPUT)
        weights = _only_output(outputs) if v is None else _direction(v, outputs, "output", "vjp")
        found = _gradients(outputs, own, weights, create_graph)
        if strict:
            _check_used(found, create_graph)
    shown = outputs if create_graph else [t.detach() for t in outputs]
    return _shaped(many_out, shown), _shaped(many_in, _finished(found, own, create_graph))


def _only_output(outputs: Sequence[Any]) -> tuple[Any, ...]:
    if len(outputs) != 1 or outputs[0].numel() != 1:
        raise RuntimeError(
            "The vector v can only be None if the user-provided function returns a single Tensor "
            "with a single element."
        )
    return (_ops["ones_like"](outputs[0]),)


def _check_used(found: Sequence[Any], create_graph: bool) -> None:
    for i, g in enumerate(found):
        if g is None:
            raise RuntimeError(
                f"The output of the user-provided function is independent of input {i}. This is "
                "not allowed in strict mode."
            )
        if create_graph and not g.requires_grad:
            raise RuntimeError(
                f"The jacobian of the user-provided function with respect to input {i} is "
                "independent of the input. This is not allowed in strict mode when "
                "create_graph=True."
            )


_INPUT_ROLE = "input to the user-provided function"


def jvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The outputs of `func`, and the product of its Jacobian with `v`.

    >>> import rushlight as torch
    >>> torch.autograd.functional.jvp(torch.square, torch.tensor([1.0, 3.0]), torch.ones(2))
    (tensor([1., 9.]), tensor([2., 6.]))
    """
    with autograd.enable_grad():
        _, given = _tensors(inputs, "inputs", "jvp")
        vectors = _direction(v, given, _INPUT_ROLE, "jvp")
        own = _own(given, create_graph)
        many_out, outputs = _outputs(func(*own), "jvp")
        if strict:
            _require_grad(outputs, _INDEPENDENT_OUTPUT)
        # The product with the transpose is linear: its own transpose is the product.
        dual = tuple(_ops["zeros_like"](t).requires_grad_() for t in outputs)
        pulled = _gradients(outputs, own, dual, create_graph=True)
        if strict:
            _check_used(pulled, create_graph)
        moved = _gradients(pulled, dual, vectors, create_graph)
    shown = outputs if create_graph else [t.detach() for t in outputs]
    return _shaped(many_out, shown), _shaped(many_out, _finished(moved, outputs, create_graph))


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of `func`: for each output, for each input, a tensor of both shapes together.

    >>> import rushlight as torch
    >>> torch.autograd.functional.jacobian(torch.square, torch.tensor([1.0, 3.0]))
    tensor([[2., 0.],
            [0., 6.]])
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode", got '
            f"{strategy!r}. A function with more outputs than inputs is quicker in forward mode."
        )
    if strict and (vectorize or strategy == "forward-mode"):
        raise RuntimeError(
            "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not "
            "supported together. Please either set `strict=False` or `vectorize=False`."
        )
    many_in, given = _tensors(inputs, "inputs", "jacobian")
    if strategy == "forward-mode":
        return _forward_jacobian(func, many_in, given, create_graph)
    with autograd.enable_grad():
        own = _own(given, create_graph)
        many_out, outputs = _outputs(func(*own), "jacobian")
        if strict:
            _require_grad(outputs, _INDEPENDENT_OUTPUT)
        table = []
        for i, t in enumerate(outputs):
            row = _rows(t, own, create_graph)
            if strict:
                _check_rows(row, i, create_graph)
            table.append(
                tuple(
                    _zero_block(t, x)
                    if g is None
                    else (g if create_graph else g.detach()).reshape((*t.shape, *x.shape))
                    for g, x in zip(row, own, strict=True)
                )
            )
    return _shaped(many_out, [_shaped(many_in, row) for row in table])


def _zero_block(output: Any, x: Any) -> Any:
    return _ops["zeros"]((*output.shape, *x.shape), dtype=x.dtype, device=x.device)


def _rows(output: Any, inputs: Sequence[Any], create_graph: bool) -> tuple[Any, ...]:
    """One backward pass over all elements of one output at once."""
    if not output.requires_grad:
        return (None,) * len(inputs)
    n = output.numel()
    basis = _ops["eye"](n, dtype=output.dtype, device=output.device).view((n, *output.shape))
    return autograd.grad(
        output,
        inputs,
        basis,
        create_graph=create_graph,
        retain_graph=True,
        allow_unused=True,
        is_grads_batched=True,
    )


def _check_rows(row: Sequence[Any], output: int, create_graph: bool) -> None:
    for i, g in enumerate(row):
        if g is None:
            raise RuntimeError(
                f"Output {output} of the user-provided function is independent of input {i}. This "
                "is not allowed in strict mode."
            )
        if create_graph and not g.requires_grad:
            raise RuntimeError(
                "The jacobian of the user-provided function is independent of input "
                f"{i}. This is not allowed in strict mode when create_graph=True."
            )


def _forward_jacobian(
    func: Callable[..., Any], many_in: bool, given: tuple[Any, ...], create_graph: bool
) -> Any:
    from rushlight.func import jacfwd

    many_out = False

    def checked(*values: Any) -> Any:
        nonlocal many_out
        many_out, outputs = _outputs(func(*values), "jacobian")
        return outputs

    with autograd.enable_grad():
        own = given if create_graph else tuple(t.detach() for t in given)
        table = jacfwd(checked, tuple(range(len(own))))(*own)
        if not create_graph:
            table = tuple(tuple(block.detach() for block in row) for row in table)
    return _shaped(many_out, [_shaped(many_in, row) for row in table])


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of `func`, whose result is one number.

    >>> import rushlight as torch
    >>> torch.autograd.functional.hessian(lambda x: (x**3).sum(), torch.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    many_in, given = _tensors(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')

    def scalar(*values: Any) -> Any:
        many_out, outputs = _outputs(func(*values), "hessian")
        return _scalar(outputs, many_out, "hessian")

    def gradient(*values: Any) -> tuple[Any, ...]:
        value = scalar(*values)
        if strict:
            _require_grad((value,), _INDEPENDENT_OUTPUT)
        found = _gradients((value,), values, None, create_graph=True)
        if strict:
            _require_grad(found, _INDEPENDENT_JACOBIAN)
        return tuple(
            _ops["zeros_like"](x) if g is None else g for g, x in zip(found, values, strict=True)
        )

    if outer_jacobian_strategy == "forward-mode":
        from rushlight.func import grad

        inner = grad(scalar, tuple(range(len(given))))
        table = jacobian(inner, given, create_graph, strict, vectorize, "forward-mode")
    else:
        table = jacobian(gradient, given, create_graph, False, vectorize)
    return _shaped(many_in, [_shaped(many_in, row) for row in table])


def _hessian_product(
    func: Callable[..., Any], inputs: Any, v: Any, create_graph: bool, strict: bool, caller: str
) -> tuple[Any, Any]:
    """Two backward passes; the Hessian is symmetric, so that one product is the other."""
    with autograd.enable_grad():
        many_in, given = _tensors(inputs, "inputs", caller)
        vectors = _direction(v, given, _INPUT_ROLE, caller)
        own = _own(given, create_graph)
        many_out, outputs = _outputs(func(*own), caller)
        value = _scalar(outputs, many_out, caller)
        if strict:
            _require_grad((value,), _INDEPENDENT_OUTPUT)
        first = _gradients((value,), own, None, create_graph=True)
        if strict:
            _require_grad(first, _INDEPENDENT_JACOBIAN)
        found = _gradients(first, own, vectors, create_graph)
        if strict:
            _check_used(found, create_graph)
    shown = outputs[0] if create_graph else outputs[0].detach()
    return shown, _shaped(many_in, _finished(found, own, create_graph))


def vhp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The result of `func`, and the product of `v` with its Hessian.

    >>> import rushlight as torch
    >>> torch.autograd.functional.vhp(
    ...     lambda x: (x**3).sum(), torch.tensor([1.0, 2.0]), torch.ones(2)
    ... )
    (tensor(9.), tensor([ 6., 12.]))
    """
    return _hessian_product(func, inputs, v, create_graph, strict, "vhp")


def hvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The result of `func`, and the product of its Hessian with `v`.

    >>> import rushlight as torch
    >>> torch.autograd.functional.hvp(
    ...     lambda x: (x**3).sum(), torch.tensor([1.0, 2.0]), torch.ones(2)
    ... )
    (tensor(9.), tensor([ 6., 12.]))
    """
    return _hessian_product(func, inputs, v, create_graph, strict, "hvp")


def __getattr__(name: str) -> Any:
    """PyTorch's private helpers are loaded when a library asks for one."""
    if name.startswith("_") and not name.startswith("__"):
        from rushlight.autograd import _functional_names

        if name in vars(_functional_names):
            return getattr(_functional_names, name)
    from rushlight._missing import MissingAttribute

    raise MissingAttribute("rushlight.autograd.functional", name)
