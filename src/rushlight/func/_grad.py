"""Derivatives of functions: grad, vjp, jvp, linearize.

A transform differentiates with respect to tensors of its own, which stand for its arguments. They
are joined to the arguments' history, so that an outer transform sees through an inner one; nothing
else is needed for nesting.
"""

from __future__ import annotations

import functools

from rushlight import _C
from rushlight.autograd import forward_ad
from rushlight.autograd.grad_mode import _transform
from rushlight.utils._pytree import tree_flatten, tree_map, tree_unflatten

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_ops = _C._namespaces[""]


def stand_in(tensor: Any, what: str) -> Any:
    """Another tensor with the values, the history and the tangents of an argument."""
    if not isinstance(tensor, _C.Tensor):
        raise ValueError(f"{what}: expected Tensors as inputs, got {type(tensor).__name__}")
    own = _ops["_alias"](tensor)
    return own if own.requires_grad else own.requires_grad_()


def strip(outputs: Sequence[Any], inputs: Sequence[Any], outside: bool) -> list[Any]:
    """Results as the caller sees them: without a history that ends in the stand-ins alone."""
    ends = tuple(inputs)
    _C._retire(ends)
    return [
        t if not _recorded(t) or (outside and _C._leads_beyond(t, ends)) else t.detach()
        for t in outputs
    ]


def _recorded(tensor: Any) -> bool:
    return isinstance(tensor, _C.Tensor) and tensor.requires_grad


def pull_back(
    outputs: Sequence[Any],
    inputs: Sequence[Any],
    cotangents: Sequence[Any] | None,
    outside: bool,
    keep: bool = False,
) -> list[Any]:
    """The gradients, zero where nothing flows; recorded when someone outside may need that."""
    live = [i for i, t in enumerate(outputs) if t.requires_grad]
    zeros = _ops["zeros_like"]
    if not live:
        return [zeros(x) for x in inputs]
    roots, ends = tuple([outputs[i] for i in live]), tuple(inputs)
    given = (None,) * len(live) if cotangents is None else tuple([cotangents[i] for i in live])
    record = outside and (
        any(_C._leads_beyond(t, ends) for t in roots)
        or any(g.requires_grad for g in given if g is not None)
    )
    found = _C._run_backward(roots, given, keep or record, record, ends, False)
    return [zeros(x) if g is None else g for g, x in zip(found, inputs, strict=True)]


def pick(args: tuple[Any, ...], argnums: Any, what: str) -> list[Any]:
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if not numbers:
        raise RuntimeError(f"{what}: argnums is empty")
    for n in numbers:
        if not isinstance(n, int):
            raise TypeError(f"{what}: argnums must be int or a tuple of ints, got {argnums!r}")
        if not -len(args) <= n < len(args):
            raise RuntimeError(
                f"{what}: Got argnum={n}, but only {len(args)} positional inputs are present"
            )
    wrapped = [n % len(args) for n in numbers]
    if len(set(wrapped)) != len(wrapped):
        raise RuntimeError(f"{what}: argnums elements must be unique, got {argnums!r}")
    return wrapped


_ONE = tree_flatten([None])[1]


class Lifted:
    """The arguments of a call with stand-ins for those that are differentiated."""

    def __init__(self, args: tuple[Any, ...], argnums: Any, what: str) -> None:
        self.single = isinstance(argnums, int)
        if self.single and 0 <= argnums < len(args) and type(args[argnums]) is _C.Tensor:
            self.inputs, self.spec = [stand_in(args[argnums], what)], _ONE
            self.args = list(args)
            self.args[argnums] = self.inputs[0]
            return
        numbers = pick(args, argnums, what) if args or argnums != () else []
        chosen = [args[n] for n in numbers]
        leaves, self.spec = tree_flatten(chosen)
        self.inputs = [stand_in(leaf, what) for leaf in leaves]
        lifted = tree_unflatten(self.inputs, self.spec)
        self.args = list(args)
        for n, value in zip(numbers, lifted, strict=True):
            self.args[n] = value

    def shaped(self, leaves: Sequence[Any]) -> Any:
        tree = tree_unflatten(leaves, self.spec)
        return tree[0] if self.single else tuple(tree)


def grad_and_value(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives the gradient of `func`, whose result is one number, and the result.

    >>> import rushlight as torch
    >>> torch.func.grad_and_value(torch.square)(torch.tensor(3.0))
    (tensor(6.), tensor(9.))
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        outside = _C.is_grad_enabled()
        with _transform():
            lifted = Lifted(args, argnums, "grad")
            result = func(*lifted.args, **kwargs)
            output, aux = split_aux(result, has_aux, "grad_and_value(f)(*args)")
            if not isinstance(output, _C.Tensor):
                raise RuntimeError(
                    "grad_and_value(f)(*args): Expected f(*args) to return a tensor, "
                    f"got {type(output).__name__}"
                )
            if output.dim() != 0:
                raise RuntimeError(
                    "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got "
                    f"tensor with {output.dim()} dims. Maybe you wanted to use the vjp or jacrev "
                    "APIs instead?"
                )
            gradients = pull_back([output], lifted.inputs, None, outside)
        value = strip([output], lifted.inputs, outside)[0]
        gradient = lifted.shaped(gradients)
        if not has_aux:
            return gradient, value
        leaves, spec = tree_flatten(aux)
        return gradient, (value, tree_unflatten(strip(leaves, lifted.inputs, outside), spec))

    return wrapper


def split_aux(result: Any, has_aux: bool, what: str) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(
            f"{what}: output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    return result


def grad(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives the gradient of `func`, whose result is one number.

    >>> import rushlight as torch
    >>> from rushlight.func import grad
    >>> grad(grad(torch.sin))(torch.tensor(1.0)) == -torch.sin(torch.tensor(1.0))
    tensor(True)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapper


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The result of `func`, and a function from cotangents of it to those of the arguments.

    >>> import rushlight as torch
    >>> y, pull = torch.func.vjp(torch.sin, torch.zeros(2))
    >>> pull(torch.tensor([1.0, 5.0]))
    (tensor([1., 5.]),)
    """
    outside = _C.is_grad_enabled()
    with _transform():
        lifted = Lifted(primals, tuple(range(len(primals))), "vjp(f, *primals)")
        output, aux = split_aux(func(*lifted.args), has_aux, "vjp(f, *primals)")
    outputs, spec = tree_flatten(output)
    for t in outputs:
        if not isinstance(t, _C.Tensor):
            raise RuntimeError(
                "vjp(f, *primals): Expected f(*primals) to return only tensors, "
                f"got {type(t).__name__}"
            )

    def pull(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        given, given_spec = tree_flatten(cotangents)
        if given_spec != spec:
            raise RuntimeError(
                f"Expected pytree structure of cotangents to be the same as pytree structure of "
                f"outputs to the function. cotangents: {given_spec}, primal output: {spec}"
            )
        recording = _C.is_grad_enabled() if create_graph is None else create_graph
        found = pull_back(outputs, lifted.inputs, given, recording, retain_graph)
        return lifted.shaped(found)

    shown = tree_unflatten(strip(outputs, lifted.inputs, outside), spec)
    if not has_aux:
        return shown, pull
    leaves, aux_spec = tree_flatten(aux)
    return shown, pull, tree_unflatten(strip(leaves, lifted.inputs, outside), aux_spec)


def jvp(
    func: Callable[..., Any],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """The result of `func`, and how it changes when the arguments change by the tangents.

    >>> import rushlight as torch
    >>> torch.func.jvp(torch.sin, (torch.zeros(2),), (torch.tensor([1.0, 5.0]),))
    (tensor([0., 0.]), tensor([1., 5.]))
    """
    for name, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, tuple):
            raise RuntimeError(
                f"jvp(f, primals, tangents): Expected {name} to be a tuple. "
                f"E.g. it should be valid to call f(*primals)."
            )
    flat, spec = tree_flatten(primals)
    directions, other = tree_flatten(tangents)
    if spec != other:
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same python "
            f"structure. For example, if primals is a tuple of 3 tensors, tangents also must be. "
            f"Got primals with structure {spec} and tangents with structure {other}"
        )
    if not flat:
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals to contain at least one Tensor."
        )
    values, moved, value_spec, aux = push_forward(
        lambda duals: func(*tree_unflatten(duals, spec)), flat, directions, strict, has_aux
    )
    pair = (tree_unflatten(values, value_spec), tree_unflatten(moved, value_spec))
    return (*pair, aux) if has_aux else pair


def push_forward(
    call: Callable[[list[Any]], Any],
    flat: Sequence[Any],
    directions: Sequence[Any],
    strict: bool = False,
    has_aux: bool = False,
) -> tuple[list[Any], list[Any], Any, Any]:
    """The values and tangents of `call` of dual tensors, their structure, and what is beside."""
    with _transform(_C.is_grad_enabled()), forward_ad.dual_level() as level:
        duals = [
            forward_ad.make_dual(p, t, level=level) for p, t in zip(flat, directions, strict=True)
        ]
        output, aux = split_aux(call(duals), has_aux, "jvp(f, primals, tangents)")
        outputs, spec = tree_flatten(output)
        values, moved = [], []
        for t in outputs:
            if not isinstance(t, _C.Tensor):
                raise RuntimeError(
                    "jvp(f, primals, tangents): Expected f(*args) to return only tensors, "
                    f"got unsupported type {type(t).__name__}"
                )
            value, tangent = _C._unpack_dual(t, level)
            if tangent is None:
                if strict:
                    raise RuntimeError(
                        "jvp(f, primals, tangents, strict=True): The output of f is independent "
                        "of the inputs. This is not allowed with strict=True."
                    )
                tangent = _ops["zeros_like"](value)
            values.append(value)
            moved.append(tangent)
        if has_aux:
            aux = tree_map(_primal, aux)
    return values, moved, spec, aux


def _primal(value: Any) -> Any:
    return forward_ad.unpack_dual(value).primal if isinstance(value, _C.Tensor) else value


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The result of `func`, and its derivative there as a function of tangents.

    The function is run once; the derivative is the transpose of its vjp, which is linear.

    >>> import rushlight as torch
    >>> y, push = torch.func.linearize(torch.sin, torch.zeros(2))
    >>> push(torch.tensor([1.0, 5.0]))
    tensor([1., 5.])
    """
    outside = _C.is_grad_enabled()
    with _transform():
        lifted = Lifted(primals, tuple(range(len(primals))), "linearize(f, *primals)")
        outputs, spec = tree_flatten(func(*lifted.args))
        for t in outputs:
            if not isinstance(t, _C.Tensor):
                raise RuntimeError(
                    "linearize(f, *primals): Expected f(*primals) to return only tensors, "
                    f"got {type(t).__name__}"
                )
        dual = [_ops["zeros_like"](t.detach()).requires_grad_() for t in outputs]
        pulled = pull_back(outputs, lifted.inputs, dual, True, True)

    def push(*tangents: Any) -> Any:
        flat, given = tree_flatten(list(tangents))
        if given != lifted.spec:
            raise RuntimeError(
                "linearize(f, *primals): the tangents must have the structure of the primals"
            )
        for t, x in zip(flat, lifted.inputs, strict=True):
            if t.shape != x.shape or t.dtype != x.dtype:
                raise RuntimeError(
                    f"linearize: a tangent of shape {tuple(t.shape)} and dtype {t.dtype} for a "
                    f"primal of shape {tuple(x.shape)} and dtype {x.dtype}"
                )
        ends = [*lifted.inputs, *dual]
        recorded = _C.is_grad_enabled() and (
            any(_C._leads_beyond(p, tuple(ends)) for p in pulled if p.requires_grad)
            or any(t.requires_grad for t in flat)
        )
        moved = pull_back(pulled, dual, flat, recorded, True)
        return tree_unflatten(moved if recorded else strip(moved, ends, False), spec)

    return tree_unflatten(strip(outputs, lifted.inputs, outside), spec), push
