"""Ops that programs define: their kernels, derivatives and rules, and how a call is run."""

from __future__ import annotations

import threading

import rushlight as torch
from rushlight import _C
from rushlight._C import Tensor
from rushlight._operators.binding import check
from rushlight.utils._pytree import tree_flatten, tree_leaves, tree_map_only

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight._operators.overloads import OpOverload
    from rushlight._operators.schema import FunctionSchema

# Dispatch keys under which a kernel may stand for the CPU, the nearest first.
_CPU = ("CPU", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")


class Record:
    """All that is known of one op."""

    def __init__(self, schema: FunctionSchema) -> None:
        self.schema = schema
        self.overload: OpOverload | None = None
        self.kernels: dict[str, Callable[..., Any]] = {}
        self.fake: Callable[..., Any] | None = None
        self.backward: Callable[..., Any] | None = None
        self.setup_context: Callable[..., Any] | None = None
        self.vmap_rule: Callable[..., Any] | None = None
        self.casts: dict[str, Any] = {}
        self.dispatch_rules: dict[type, Callable[..., Any]] = {}
        self.checks_aliases = False
        self._function: Any = None

    @property
    def name(self) -> str:
        return str(self.schema.name)

    def has_kernel(self, key: str) -> bool:
        return key in self.kernels or (key == "Meta" and self.fake is not None)

    def changed(self) -> None:
        """A rule was added: what was built of the others is built anew."""
        self._function = None

    # --- calls ---------------------------------------------------------------------------------

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the op as a program calls it."""
        check(self.schema, args, kwargs)
        from rushlight._operators import dispatch

        answer = dispatch.intercept(self, args, kwargs)
        if answer is not NotImplemented:
            return answer
        return self.run(args, kwargs)

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs the op below all modes: casts, derivatives and batches are its own."""
        if self.casts and _C._is_autocast() and "cpu" in self.casts:
            args, kwargs = tree_map_only(
                _is_floating, lambda t: t.to(self.casts["cpu"]), (args, kwargs)
            )
        implicit = self.kernels.get("CompositeImplicitAutograd") or self.kernels.get("Autograd")
        if implicit is not None and "Autograd" in self.kernels:
            return implicit(*args, **kwargs)
        if implicit is not None and not any(key in self.kernels for key in _CPU):
            return implicit(*args, **kwargs)
        leaves = tree_leaves((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        wanted = _C.is_grad_enabled() and any(t.requires_grad for t in tensors)
        batched = _C._vmap_depth() > 0
        if self.schema.is_mutable:
            return self._run_mutable(args, kwargs, wanted)
        if wanted or batched:
            return self._run_recorded(args, kwargs)
        return self._compute(args, kwargs, tensors)

    def _complete(self, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments in the signature's order, with its defaults."""
        named = check(self.schema, args, kwargs)
        every = [(a, named.get(a.name, a.default_value)) for a in self.schema.arguments]
        positional = tuple(value for a, value in every if not a.kwarg_only)
        return positional, {a.name: value for a, value in every if a.kwarg_only}

    def _kernel(self, tensors: list[Tensor]) -> Callable[..., Any]:
        if any(t.is_meta for t in tensors):
            found = self.fake or self.kernels.get("Meta")
            if found is None:
                raise RuntimeError(
                    f"There was no fake impl registered for {self.name}. This is necessary for "
                    "tensors on the meta device. Please use register_fake to add a fake impl."
                )
            return _faked(found)
        for key in _CPU:
            if key in self.kernels:
                return self.kernels[key]
        implicit = self.kernels.get("CompositeImplicitAutograd")
        if implicit is not None:
            return implicit
        has = ", ".join(self.kernels) or "none"
        raise NotImplementedError(
            f"Could not run '{self.name}' with arguments from the 'CPU' backend: it has kernels "
            f"for {has}; add one with register_kernel('cpu') or Library.impl(..., 'CPU')"
        )

    def _compute(self, args: Any, kwargs: Any, tensors: list[Tensor]) -> Any:
        kernel = self._kernel(tensors)
        with torch.no_grad():
            result = kernel(*args, **kwargs)
        if self.checks_aliases:
            self._check_aliases(result, tensors)
        return result

    def _check_aliases(self, result: Any, tensors: list[Tensor]) -> None:
        seen = list(tensors)
        for leaf in tree_leaves(result):
            if not isinstance(leaf, Tensor):
                continue
            if any(leaf is t or (leaf.numel() and leaf._is_same_storage(t)) for t in seen):
                raise RuntimeError(
                    f"{self.name}: The output of this custom operator (1) must not also be an "
                    "input to this custom operator and (2) may not alias any inputs to this custom "
                    "operator or other returns. Return a clone() of it instead."
                )
            seen.append(leaf)

    def _run_mutable(self, args: Any, kwargs: Any, wanted: bool) -> Any:
        named = check(self.schema, args, kwargs)
        written = [t for n in self.schema.written() for t in tree_leaves(named.get(n))]
        written = [t for t in written if isinstance(t, Tensor)]
        if wanted and any(t.requires_grad for t in written):
            raise RuntimeError(
                f"{self.name}: an argument that it writes to requires grad, and ops with "
                "mutates_args have no derivative; write to a detach()ed tensor"
            )
        versions = [t._version for t in written]
        others = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        if wanted and self.schema.returns:
            result = self._run_recorded(args, kwargs)
        else:
            result = self._compute(args, kwargs, others)
        # A kernel may write by other ways than ops, through NumPy for one.
        for t, before in zip(written, versions, strict=True):
            if t._version == before and not t.is_inference():
                torch.autograd.graph.increment_version(t)
        return result

    # --- derivatives and batches -----------------------------------------------------------------

    def _run_recorded(self, args: Any, kwargs: Any) -> Any:
        """Through a Function, whose backward and vmap are the op's rules."""
        if self._function is None:
            self._function = _function_of(self)
        leaves, spec = tree_flatten(self._complete(args, kwargs))
        box: list[Any] = []
        flat = self._function.apply(spec, box, *leaves)
        return box[0].unflatten(list(flat) if isinstance(flat, tuple) else [flat])


def _is_floating(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


_context = threading.local()


def _faked(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        before = getattr(_context, "current", None)
        _context.current = FakeImplCtx()
        try:
            return function(*args, **kwargs)
        finally:
            _context.current = before

    return run


class FakeImplCtx:
    """What ``get_ctx`` returns while a fake impl runs."""

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> int:
        """Raises: a size that depends on the data is not known without them."""
        raise RuntimeError(
            "new_dynamic_size: this op's result has a size that depends on the data; tensors on "
            "the meta device have none"
        )

    create_unbacked_symint = new_dynamic_size


def get_ctx() -> FakeImplCtx:
    """The context of the fake impl that runs."""
    current: FakeImplCtx | None = getattr(_context, "current", None)
    if current is None:
        raise RuntimeError("get_ctx() can only be called inside of a fake impl")
    return current


def _function_of(record: Record) -> Any:
    """A Function of (spec, box, *leaves); the box gets the shape of the results."""
    from rushlight.autograd.function import Function

    def compute(spec: Any, box: list[Any], *leaves: Any) -> Any:
        args, kwargs = spec.unflatten(leaves)
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        result = record._compute(args, kwargs, tensors)
        flat, shape = tree_flatten(result)
        box[:] = [shape, result]
        return tuple(flat)

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        spec, box, *leaves = inputs
        ctx._spec, ctx._result_spec = spec, box[0]
        if record.setup_context is None:
            return
        args, kwargs = spec.unflatten(leaves)
        result = box[0].unflatten(output if isinstance(output, tuple) else (output,))
        inner = _Context(ctx, spec)
        if any(a.kwarg_only for a in record.schema.arguments):
            record.setup_context(inner, args, kwargs, result)
        else:
            record.setup_context(inner, args, result)

    def backward(ctx: Any, *grads: Any) -> Any:
        if record.backward is None:
            raise RuntimeError(
                f"Trying to backward through {record.overload} but no autograd formula was "
                "registered. Please use register_autograd to add one."
            )
        given = ctx._result_spec.unflatten(list(grads))
        given = given if isinstance(given, tuple) else (given,)
        found = record.backward(_Context(ctx, ctx._spec), *given)
        found = found if isinstance(found, tuple) else (found,)
        args_spec = ctx._spec.children_specs[0]
        if len(found) != args_spec.num_children:
            raise RuntimeError(
                f"{record.name}: the backward gave {len(found)} gradients for "
                f"{args_spec.num_children} arguments"
            )
        flat: list[Any] = []
        for grad, spec in zip(found, args_spec.children_specs, strict=True):
            flat += [None] * spec.num_leaves if grad is None else spec.flatten_up_to(grad)
        rest = ctx._spec.num_leaves - len(flat)
        return (None, None, *flat, *([None] * rest))

    def vmap(info: Any, in_dims: tuple[Any, ...], spec: Any, box: list[Any], *leaves: Any) -> Any:
        args, kwargs = spec.unflatten(leaves)
        dims, _ = spec.unflatten(list(in_dims[2:]))
        if record.vmap_rule is not None:
            result, out_dims = record.vmap_rule(info, dims, *args, **kwargs)
        else:
            result, out_dims = _each_sample(record, info, in_dims[2:], spec, leaves)
        flat, shape = tree_flatten(result)
        box[:] = [shape, result]
        if isinstance(out_dims, int) or out_dims is None:
            places = [out_dims] * len(flat)
        else:
            places = tree_leaves(out_dims)
        return tuple(flat), tuple(places)

    members = {
        "forward": staticmethod(compute),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(backward),
        "vmap": staticmethod(vmap),
    }
    return type(record.name.replace("::", "_"), (Function,), members)


def _each_sample(record: Record, info: Any, in_dims: Any, spec: Any, leaves: Any) -> Any:
    """Without a rule: one call for each sample, the results side by side."""
    results = []
    for n in range(info.batch_size):
        sample = [
            leaf if dim is None else leaf.select(dim, n)
            for leaf, dim in zip(leaves, in_dims, strict=True)
        ]
        args, kwargs = spec.unflatten(sample)
        results.append(record.run(args, kwargs))
    if not results:
        raise RuntimeError(f"vmap: {record.name} needs a sample to know its result's shape")
    columns = [tree_leaves(result) for result in results]
    shape = tree_flatten(results[0])[1]
    joined = [torch.stack(list(parts)) for parts in zip(*columns, strict=True)]
    return shape.unflatten(joined), 0


class _Context:
    """The context that an op's own functions see: gradients needed are asked by argument."""

    def __init__(self, ctx: Any, spec: Any) -> None:
        object.__setattr__(self, "_ctx", ctx)
        object.__setattr__(self, "_args", spec.children_specs[0])

    @property
    def needs_input_grad(self) -> tuple[Any, ...]:
        flat = list(self._ctx.needs_input_grad[2:])
        found = []
        for spec in self._args.children_specs:
            part = [flat.pop(0) for _ in range(spec.num_leaves)]
            found.append(part[0] if spec.is_leaf() else spec.unflatten(part))
        return tuple(found)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._ctx, name, value)
