"""One call of a module that has hooks."""

from __future__ import annotations

import warnings

from rushlight import _C
from rushlight._C import Tensor
from rushlight.autograd.function import Function
from rushlight.nn.modules import _hooks
from rushlight.nn.modules._hooks import WrappedHook, is_tensor_tuple

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

    from rushlight.nn.modules.module import Module


class HookedCall:
    """Runs pre-hooks, ``forward``, hooks, and places hooks for the backward pass."""

    def __init__(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.module, self.args, self.kwargs = module, args, kwargs
        self.result: Any = None
        self.called: set[int] = set()

    def run(self) -> Any:
        try:
            return self.attempt()
        except Exception:
            self.call_the_rest()
            raise

    def attempt(self) -> Any:
        module = self.module
        pre = module._get_backward_pre_hooks()
        full, old = module._get_backward_hooks()
        self.run_pre_hooks()
        passage = BackwardPassage(module, full, pre) if full or pre else None
        if passage is None:
            self.result = module.forward(*self.args, **self.kwargs)
        else:
            self.args, self.result = passage.run(self.args, self.kwargs)
        self.run_forward_hooks()
        if passage is not None:
            self.result = passage.leave(self.result)
        if old:
            self.place_old_hooks(old)
        return self.result

    def run_pre_hooks(self) -> None:
        module = self.module
        own = module._forward_pre_hooks
        for key, hook in (*_hooks._global_forward_pre_hooks.items(), *own.items()):
            if key not in module._forward_pre_hooks_with_kwargs:
                args = hook(module, self.args)
                if args is not None:
                    self.args = args if isinstance(args, tuple) else (args,)
                continue
            both = hook(module, self.args, self.kwargs)
            if both is None:
                continue
            if not (isinstance(both, tuple) and len(both) == 2):
                raise RuntimeError(
                    "forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                    f"but got {both}."
                )
            self.args, self.kwargs = both

    def call(self, key: int, hook: Any) -> None:
        """One forward hook; what it returns is the new result."""
        module = self.module
        with_kwargs = (
            key in module._forward_hooks_with_kwargs
            or key in _hooks._global_forward_hooks_with_kwargs
        )
        given = (self.args, self.kwargs) if with_kwargs else (self.args,)
        result = hook(module, *given, self.result)
        if result is not None:
            self.result = result

    def forward_hooks(self) -> tuple[tuple[int, Any], ...]:
        own = self.module._forward_hooks
        return (*_hooks._global_forward_hooks.items(), *own.items())

    def run_forward_hooks(self) -> None:
        for key, hook in self.forward_hooks():
            self.called.add(key)
            self.call(key, hook)

    def call_the_rest(self) -> None:
        """Hooks that want to be called even when forward raises."""
        module = self.module
        for key, hook in self.forward_hooks():
            of_all = key in _hooks._global_forward_hooks_always_called
            if key in self.called or not (of_all or key in module._forward_hooks_always_called):
                continue
            try:
                self.call(key, hook)
            except Exception as error:
                kind = "global module" if of_all else "module"
                warnings.warn(
                    f"{kind} forward hook with ``always_call=True`` raised an exception that was "
                    f"silenced as another error was raised in forward: {error}",
                    stacklevel=4,
                )

    def place_old_hooks(self, hooks: list[Any]) -> None:
        var = self.result
        while not isinstance(var, Tensor):
            if isinstance(var, dict):
                var = next(v for v in var.values() if isinstance(v, Tensor))
            else:
                var = var[0]
        grad_fn = var.grad_fn
        if grad_fn is None:
            return
        for hook in hooks:
            grad_fn.register_hook(WrappedHook(hook, self.module))
        _warn_of_old_hook(self.args, self.result, grad_fn)


def _warn_of_old_hook(inputs: Any, result: Any, grad_fn: Any) -> None:
    """Says which gradients a hook of the old kind will miss."""
    results = result if isinstance(result, tuple) else (result,)
    makers = (
        {r.grad_fn for r in results if r.grad_fn is not None} if is_tensor_tuple(results) else set()
    )
    if not is_tensor_tuple(results):
        what = (
            "on a Module that does not return a single Tensor or a tuple of Tensors is deprecated "
            "and will be removed in future versions. This hook will be missing some of the "
            "grad_output."
        )
    elif not is_tensor_tuple(inputs):
        what = (
            "on a Module that does not take as input a single Tensor or a tuple of Tensors is "
            "deprecated and will be removed in future versions. This hook will be missing some of "
            "the grad_input."
        )
    elif len(makers) > 1:
        what = (
            "when outputs are generated by different autograd Nodes is deprecated and will be "
            "removed in future versions. This hook will be missing some grad_output."
        )
    elif {i.grad_fn for i in inputs if i.grad_fn is not None} != {
        n for n, _ in grad_fn.next_functions
    }:
        what = (
            "when the forward contains multiple autograd Nodes is deprecated and will be removed "
            "in future versions. This hook will be missing some grad_input."
        )
    else:
        return
    warnings.warn(
        f"Using a non-full backward hook {what} Please use register_full_backward_hook to get the "
        "documented behavior.",
        FutureWarning,
        stacklevel=6,
    )


class BackwardHookFunction(Function):
    """Lets several gradients pass together; the tensors that come out share the memory."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> Any:
        ctx._pass_through()
        ctx.mark_non_differentiable(*(t for t in tensors if not t.requires_grad))
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        return grads


class BackwardPassage:
    """Sees the gradients that enter and leave a module in the backward pass.

    The tensors that go into the module and come out of it pass through a node each way. They are
    views of the caller's: an operation in place inside or after the module writes to these.
    """

    def __init__(self, module: Module, hooks: list[Any], pre_hooks: list[Any]) -> None:
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
        self.grad_outputs: tuple[Any, ...] | None = None
        self.input_places: list[int] | None = None
        self.output_places: list[int] | None = None
        self.input_count = self.output_count = 0

    def pass_through(self, values: tuple[Any, ...]) -> tuple[Any, list[int] | None, Any]:
        """The values with their tensors behind a common node, where they are, and the node."""
        places = [i for i, v in enumerate(values) if isinstance(v, Tensor)]
        tensors = [values[i] for i in places]
        if not (_C.is_grad_enabled() and any(t.requires_grad for t in tensors)):
            return values, None, None
        passed = BackwardHookFunction.apply(*tensors)
        node = next(t.grad_fn for t in passed if t.grad_fn is not None)
        changed = list(values)
        for i, t in zip(places, passed, strict=True):
            changed[i] = t
        kind = type(values)
        return (kind(changed) if kind is tuple else kind(*changed)), places, node

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """What forward got, and what it gave."""
        self.input_count = len(args)
        inputs, self.input_places, node = self.pass_through(args)
        if self.input_places is None:
            return args, self.module.forward(*args, **kwargs)
        node.register_hook(self.after_inputs)
        return inputs, self.module.forward(*inputs, **kwargs)

    def leave(self, result: Any) -> Any:
        values = result if isinstance(result, tuple) else (result,)
        if not isinstance(result, (Tensor, tuple)):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of "
                f"Tensors but received {type(result)}",
                stacklevel=5,
            )
        self.output_count = len(values)
        values, self.output_places, node = self.pass_through(values)
        if node is not None:
            node.register_hook(self.after_outputs)
        return values if isinstance(result, tuple) else values[0]

    @staticmethod
    def spread(places: list[int], grads: Any, count: int) -> tuple[Any, ...]:
        """The gradients at their places among `count` arguments."""
        at = dict(zip(places, grads, strict=True))
        return tuple(at.get(i) for i in range(count))

    def after_outputs(self, _: Any, grads: Any) -> Any:
        assert self.output_places is not None
        given = self.spread(self.output_places, grads, self.output_count)
        for hook in self.pre_hooks:
            changed = hook(self.module, given)
            if changed is None:
                continue
            if not isinstance(changed, tuple):
                changed = (changed,)
            if len(changed) != len(given):
                raise RuntimeError(
                    "Backward pre hook returned an invalid number of grad_output, got "
                    f"{len(changed)}, but expected {len(given)}"
                )
            given = changed
        self.grad_outputs = given
        if self.input_places is None:
            self.fire_without_inputs(given)
        return tuple(given[i] for i in self.output_places)

    def fire_without_inputs(self, given: tuple[Any, ...]) -> None:
        self.grad_outputs = None
        if not self.hooks:
            return
        warnings.warn(
            "Full backward hook is firing when gradients are computed with respect to module "
            "outputs since no inputs require gradients.",
            stacklevel=4,
        )
        for hook in self.hooks:
            grads = hook(self.module, (None,) * self.input_count, given)
            if grads is not None and not (
                isinstance(grads, tuple) and all(g is None for g in grads)
            ):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always "
                    "return None or None for all gradients."
                )

    def after_inputs(self, grads: Any, _: Any) -> Any:
        if self.grad_outputs is None:  # the gradient did not come through the module's output
            return None
        assert self.input_places is not None
        result = self.spread(self.input_places, grads, self.input_count)
        for hook in self.hooks:
            changed = hook(self.module, result, self.grad_outputs)
            if changed is None:
                continue
            if not isinstance(changed, tuple):
                changed = (changed,)
            if len(changed) != len(result):
                raise RuntimeError(
                    "Backward hook returned an invalid number of grad_input, got "
                    f"{len(changed)}, but expected {len(result)}"
                )
            result = changed
        self.grad_outputs = None
        return tuple(result[i] for i in self.input_places)
