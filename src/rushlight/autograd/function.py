"""Operations with a backward of their own."""

from __future__ import annotations

import functools

from rushlight import _C
from rushlight.autograd.grad_mode import no_grad

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class BackwardCFunction(_C._FunctionBase):
    """The context of a Function: what ``forward`` and ``backward`` receive as ``ctx``.

    >>> import rushlight as torch
    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         print(isinstance(ctx, torch.autograd.function.FunctionCtx))
    ...         return 2 * x
    >>> y = Double.apply(torch.ones(1))
    True
    """

    _forward_cls: Any

    def apply(self, *grads: Any) -> Any:
        """What ``backward`` makes of gradients of the outputs."""
        return self._run_backward(*grads)

    def _run_backward(self, *grads: Any) -> Any:
        cls = self._forward_cls
        if cls.boxed_grads_call:
            grads = (list(grads),)
        if cls.vjp is not Function.vjp:
            if cls.backward is not Function.backward:
                raise RuntimeError(
                    "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. "
                    "You should only implement one of them."
                )
            return cls.vjp(self, *grads)
        return cls.backward(self, *grads)

    def _run_jvp(self, *tangents: Any) -> Any:
        cls = self._forward_cls
        if cls.jvp is Function.jvp:
            raise NotImplementedError(
                "You must implement the jvp function for custom autograd.Function to use it with "
                f"forward mode AD: {cls.__qualname__} has none. Add a staticmethod jvp(ctx, "
                "*tangents) that returns the tangents of the results, or detach() its arguments."
            )
        return cls.jvp(self, *tangents)

    def mark_shared_storage(self, *pairs: Any) -> None:
        """Does nothing: sharing is found out by itself."""

    def maybe_clear_saved_tensors(self) -> None:
        """Does nothing: saved tensors are released after backward."""


FunctionCtx = BackwardCFunction


class _ReadOnce(BackwardCFunction):
    """The context of a Function with ``clear_saved_tensors_on_access``."""

    @property
    def saved_tensors(self) -> Any:
        """What ``save_for_backward`` kept; reading lets go of it."""
        if "_seen" in self.__dict__:
            raise RuntimeError(
                "saved_tensors can only be accessed once when clear_saved_tensors_on_access=True "
                "is set on the autograd.Function. Either access saved_tensors only once, or set "
                "clear_saved_tensors_on_access=False."
            )
        tensors = super().saved_tensors
        self._clear_saved()
        self._seen = True
        return tensors


class FunctionMeta(type):
    """Gives every Function the class of its nodes, named ``<Name>Backward``.

    >>> import rushlight as torch
    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return 2 * x
    >>> Double.apply(torch.ones(1, requires_grad=True)).grad_fn.name()
    'DoubleBackward'
    """

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        once = getattr(cls, "clear_saved_tensors_on_access", False)
        context = _ReadOnce if once else BackwardCFunction
        cls._backward_cls = type(name + "Backward", (context,), {"_forward_cls": cls})
        base = bases[0] if bases else None
        inherited = base is not None and getattr(base, "_has_setup_context", False)
        cls._has_setup_context = ("setup_context" in namespace and base is not None) or inherited


class Function(metaclass=FunctionMeta):
    """Base class of custom differentiable operations; call them through ``apply``.

    >>> import rushlight as torch
    >>> class Exp(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         y = x.exp()
    ...         ctx.save_for_backward(y)
    ...         return y
    ...
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (y,) = ctx.saved_tensors
    ...         return grad * y
    >>> x = torch.zeros(2, requires_grad=True)
    >>> Exp.apply(x).sum().backward()
    >>> x.grad
    tensor([1., 1.])
    """

    generate_vmap_rule = False
    clear_saved_tensors_on_access = False
    boxed_grads_call = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        import warnings

        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all "
            "static, so you should invoke them on the class itself. Instantiating an autograd "
            "function will raise an error in a future version.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use "
            "new-style autograd function with static forward method: write @staticmethod forward "
            "and call MyFunction.apply(...)."
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Computes the result; override it, with ``ctx`` first or with ``setup_context``."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Stores on ``ctx`` what backward needs; goes with a ``forward`` without ``ctx``."""
        raise NotImplementedError("setup_context is not implemented.")

    if TYPE_CHECKING:  # any parameters may override these

        @staticmethod
        def backward(*args: Any, **kwargs: Any) -> Any: ...

        vjp = backward

        @staticmethod
        def jvp(*args: Any, **kwargs: Any) -> Any: ...

        @staticmethod
        def vmap(*args: Any, **kwargs: Any) -> Any: ...

    else:

        @staticmethod
        def backward(ctx: Any, *grad_outputs: Any) -> Any:
            """The gradients of forward's arguments, given those of its results; override it."""
            raise NotImplementedError(
                "You must implement either the backward or vjp method for your custom "
                "autograd.Function to use it with backward mode AD."
            )

        @staticmethod
        def vjp(ctx: Any, *grad_outputs: Any) -> Any:
            """Another name for ``backward``."""
            return Function.backward(ctx, *grad_outputs)

        @staticmethod
        def jvp(ctx: Any, *grad_inputs: Any) -> Any:
            """The tangents of the results, given those of the arguments; override it."""
            raise NotImplementedError(
                "You must implement the jvp function for custom autograd.Function to use it with "
                "forward mode AD."
            )

        @staticmethod
        def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
            """The rule for batched arguments; override it."""
            raise NotImplementedError(
                "To use autograd.Function with vmap, you must override the vmap staticmethod."
            )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Runs the operation and records it."""
        if kwargs or (cls._has_setup_context and getattr(cls.forward, "__defaults__", None)):
            args = _bind(cls, args, kwargs)
        return _C._function_apply(cls, *args)


def _bind(cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """All arguments of forward by position, the defaults included: setup_context sees them too."""
    import inspect

    signature = inspect.signature(cls.forward)  # type: ignore[attr-defined]
    for name in kwargs:
        parameter = signature.parameters.get(name)
        if parameter is not None and parameter.kind is parameter.KEYWORD_ONLY:
            raise TypeError(
                f"{cls.__name__}.apply() got a keyword-only argument of forward, '{name}'; "
                "backward returns one gradient per positional argument, so make it positional"
            )
    lead = () if cls._has_setup_context else (None,)  # type: ignore[attr-defined]
    bound = signature.bind(*lead, *args, **kwargs)
    bound.apply_defaults()
    return bound.args[len(lead) :]


_TWICE = "trying to differentiate twice a function that was marked with @once_differentiable"


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a backward that is not itself differentiable: a second derivative raises.

    >>> import rushlight as torch
    >>> from rushlight.autograd.function import once_differentiable
    >>> class Square(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     @once_differentiable
    ...     def backward(ctx, g):
    ...         return 2 * ctx.saved_tensors[0] * g
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> torch.autograd.grad(Square.apply(x), x)
    (tensor(6.),)
    """

    @functools.wraps(fn)
    def wrapper(ctx: Any, *args: Any) -> Any:
        recording = _C.is_grad_enabled()
        with no_grad():
            outputs = fn(ctx, *args)
        once = isinstance(ctx, _ReadOnce)
        saved = () if once else ctx.saved_tensors
        if any(map(_C._is_dual, (*args, *saved))):
            raise RuntimeError(_TWICE)
        if not recording:
            return outputs
        results = outputs if isinstance(outputs, tuple) else (outputs,)
        sources = [a for a in args if isinstance(a, _C.Tensor) and a.requires_grad]
        if once or saved or any(isinstance(v, _C.Tensor) for v in vars(ctx).values()):
            # What backward used was made from the inputs, whether it has a history or not.
            edges = (_C._edge_stand_in(ctx, i) for i in range(len(ctx.next_functions)))
            sources += [edge for edge in edges if edge is not None]
        if not sources:
            return outputs
        places = [i for i, r in enumerate(results) if isinstance(r, _C.Tensor)]
        poisoned = _Poison.apply(len(places), *(results[i] for i in places), *sources)
        replaced = list(results)
        for i, p in zip(places, poisoned, strict=True):
            replaced[i] = p
        return tuple(replaced) if isinstance(outputs, tuple) else replaced[0]

    return wrapper


class _Poison(Function):
    """Passes tensors on, tied to ``sources``, so that a second derivative meets the error."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Any) -> Any:
        return tuple(t.clone() for t in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(_TWICE)


class InplaceFunction(Function):
    """A Function that knows whether it works in place.

    >>> import rushlight as torch
    >>> class Clear(torch.autograd.function.InplaceFunction):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.mark_dirty(x)
    ...         return x.zero_()
    >>> Clear.apply(torch.ones(2))
    tensor([0., 0.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class NestedIOFunction(Function):
    """A name from the time of Functions with state; kept so that ``isinstance`` checks work.

    It cannot be applied, as in PyTorch: write a Function whose arguments are tensors.

    >>> import rushlight as torch
    >>> torch.autograd.function.NestedIOFunction.apply(torch.ones(1))
    Traceback (most recent call last):
        ...
    RuntimeError: NestedIOFunction: NestedIOFunction is a legacy class and cannot be applied; ...
    """

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Raises: see the class."""
        raise RuntimeError(
            f"{cls.__name__}: NestedIOFunction is a legacy class and cannot be applied; derive "
            "from autograd.Function and pass tensors as separate arguments"
        )
