"""Automatic differentiation: ``backward``, ``grad`` and what surrounds them."""

from __future__ import annotations

import sys
from types import ModuleType

from rushlight import _C
from rushlight.autograd import function as function
from rushlight.autograd import grad_mode as grad_mode
from rushlight.autograd import graph as graph
from rushlight.autograd.anomaly_mode import detect_anomaly as detect_anomaly
from rushlight.autograd.anomaly_mode import set_anomaly_enabled as set_anomaly_enabled
from rushlight.autograd.anomaly_mode import set_detect_anomaly as set_detect_anomaly
from rushlight.autograd.function import Function as Function
from rushlight.autograd.function import NestedIOFunction as NestedIOFunction
from rushlight.autograd.grad_mode import enable_grad as enable_grad
from rushlight.autograd.grad_mode import enforce_grad_layout_policy as enforce_grad_layout_policy
from rushlight.autograd.grad_mode import inference_mode as inference_mode
from rushlight.autograd.grad_mode import no_grad as no_grad
from rushlight.autograd.grad_mode import set_grad_enabled as set_grad_enabled
from rushlight.autograd.grad_mode import set_multithreading_enabled as set_multithreading_enabled

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any


Variable = _C.Tensor


def _as_tuple(value: Any) -> tuple[Any, ...]:
    if isinstance(value, (_C.Tensor, graph.GradientEdge)):
        return (value,)
    return tuple(value)


def _given_grads(grads: Any, count: int) -> tuple[Any, ...]:
    if grads is None:
        return (None,) * count
    given = (grads,) if isinstance(grads, _C.Tensor) else tuple(grads)
    if len(given) != count:
        raise RuntimeError(f"got {count} tensors and {len(given)} gradients")
    return given


_spread: Any = None  # the class DTensor, once it is imported


def _run_backward(roots: Any, given: Any, keep: Any, create: bool, wanted: Any, adds: bool) -> Any:
    """The engine's pass; of tensors spread over processes, the parts have the history."""
    if _spread is None or not any(isinstance(t, _spread) for t in (*roots, *(wanted or ()))):
        return _C._run_backward(roots, given, keep, create, wanted, adds)
    wholes, grads = (
        tuple(t.full_tensor() if isinstance(t, _spread) else t for t in each)
        for each in (roots, given)
    )
    parts = wanted and tuple(t._local_tensor if isinstance(t, _spread) else t for t in wanted)
    results = _C._run_backward(wholes, grads, keep, create, parts, adds)
    if adds:
        return None
    return tuple(
        t._like(r) if isinstance(t, _spread) and r is not None else r
        for t, r in zip(wanted, results, strict=True)
    )


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Adds the gradients of ``tensors`` to the ``.grad`` of the leaves, or of ``inputs`` only.

    >>> import rushlight as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> torch.autograd.backward([x.sum(), (x * x).sum()])
    >>> x.grad
    tensor([3., 5.])
    """
    if grad_variables is not None:
        import warnings

        warnings.warn(
            "`grad_variables` is deprecated. Use `grad_tensors` instead.",
            FutureWarning,
            stacklevel=2,
        )
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to "
                "`backward()`. Please only use `grad_tensors`."
            )
        grad_tensors = grad_variables
    roots = _as_tuple(tensors)
    if inputs is not None:
        if type(inputs) is dict:
            inputs = tuple(inputs.values())
        elif not isinstance(inputs, (_C.Tensor, graph.GradientEdge, tuple, list)):
            raise TypeError(
                f"backward(): inputs must be tensors, a sequence of them or a dict, "
                f"got {type(inputs).__name__}"
            )
        inputs = _as_tuple(inputs)
        if not inputs:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    keep = create_graph if retain_graph is None else retain_graph
    given = _given_grads(grad_tensors, len(roots))
    _run_backward(roots, given, keep, create_graph, inputs, True)
    for tensor in inputs or ():  # later passes add to their gradients too
        if isinstance(tensor, _C.Tensor) and not tensor.is_leaf:
            tensor.retain_grad()


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[_C.Tensor, ...]:
    """The gradients of ``outputs`` with respect to ``inputs``, as a tuple.

    >>> import rushlight as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> torch.autograd.grad(x * x, x)
    (tensor(6.),)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
            "allow_unused=False."
        )
    names = None
    if type(inputs) is dict:
        names = tuple(inputs)
        inputs = tuple(inputs.values())
    roots = _as_tuple(outputs)
    wanted = _as_tuple(inputs)
    if not wanted:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    keep = create_graph if retain_graph is None else retain_graph
    unused_allowed = materialize_grads if allow_unused is None else allow_unused
    if is_grads_batched:
        results = _batched(roots, wanted, grad_outputs, keep, create_graph)
    else:
        given = _given_grads(grad_outputs, len(roots))
        results = _run_backward(roots, given, keep, create_graph, wanted, False)
    if not unused_allowed:
        for i, result in enumerate(results):
            if result is None:
                raise RuntimeError(
                    f"The differentiated Tensor at index {i} appears to not have been used in the "
                    "graph. Set allow_unused=True if this is the desired behavior."
                    + _why_unused(wanted[i], roots)
                )
    if materialize_grads:
        results = tuple(
            _zeros_like(t, create_graph) if r is None else r
            for r, t in zip(results, wanted, strict=True)
        )
    found: Any = dict(zip(names, results, strict=True)) if names is not None else results
    return found


def _why_unused(tensor: Any, roots: tuple[Any, ...]) -> str:
    """What the tensor is, and where a history ended on the way to what was differentiated."""
    text = ""
    if isinstance(tensor, _C.Tensor):
        from rushlight.autograd._explain import explain

        text = f"\n  it is {explain(tensor)}"
    for number, root in enumerate(roots):
        if isinstance(root, _C.Tensor) and (cut := _C._cut(root)):
            text += f"\n  a part of output {number} was left out of the graph: {cut[2]}"
    return text


def _zeros_like(tensor: Any, requires_grad: bool) -> Any:
    if not isinstance(tensor, _C.Tensor):
        raise RuntimeError(
            "grad: materialize_grads cannot be used when the given input is a GradientEdge, for "
            "which there is no gradient here"
        )
    return _C._namespaces[""]["zeros_like"](tensor, requires_grad=requires_grad)


def _batched(
    roots: Any, wanted: Any, grad_outputs: Any, keep: bool, create_graph: bool
) -> tuple[Any, ...]:
    """One backward pass over all rows of ``grad_outputs`` at once."""
    from rushlight.func._vmap import Level

    given = (grad_outputs,) if isinstance(grad_outputs, _C.Tensor) else tuple(grad_outputs)
    count = next(len(g) for g in given if g is not None)
    with Level(count) as level:
        rows = tuple(None if g is None else level.hide(g, 0) for g in given)
        found = _C._run_backward(roots, rows, keep, create_graph, wanted, False)
        return tuple(None if g is None else level.show(g, 0) for g in found)


class strict(grad_mode._Mode):
    """A block in which what torch lets pass unseen raises.

    - A second backward pass over a graph that was freed raises even where no node of it had saved
      anything (``(a + a).sum()`` as well as ``(a * a).sum()``).
    - ``.data`` shares the version counter: writing through it to a saved tensor is noticed.
    - Memory that NumPy, DLPack or another buffer can reach is compared before it is used in
      backward: a change from outside raises.

    >>> import rushlight as torch
    >>> a = torch.ones(2, requires_grad=True)
    >>> with torch.autograd.strict():
    ...     b = (a * a).sum()
    ...     _ = a.data.add_(1)
    ...     try:
    ...         b.backward()
    ...     except RuntimeError as error:
    ...         print("modified by an inplace operation" in str(error))
    True
    """

    @staticmethod
    def _parts_of(mode: bool = True) -> Any:
        return (("strict", mode),)

    @property
    def mode(self) -> bool:
        """Whether the block is strict."""
        return self._value

    def clone(self) -> strict:
        """Another of its kind, in the same mode."""
        return strict(self.mode)


class structural_zeros(grad_mode._Mode):
    """A block in which backward passes leave out what was not selected.

    A gradient that is exactly 0, because ``where``, a mask or an index chose something else, stays
    0, also where the derivative that it meets is infinite or NaN. (Outside, 0 times infinity is
    NaN, as in PyTorch.) Operations on elements do so for each element, others where all of their
    gradient is 0. A NaN that arrives still goes on.

    >>> import rushlight as torch
    >>> x = torch.tensor([-1.0, 4.0], requires_grad=True)
    >>> with torch.autograd.structural_zeros():
    ...     torch.where(x > 0, x.sqrt(), x).sum().backward()
    >>> x.grad
    tensor([1.0000, 0.2500])
    """

    @staticmethod
    def _parts_of(mode: bool = True) -> Any:
        return (("structural_zeros", mode),)

    @property
    def mode(self) -> bool:
        """Whether zeros stay zeros inside."""
        return self._value

    def clone(self) -> structural_zeros:
        """Another of its kind, in the same mode."""
        return structural_zeros(self.mode)


def variable(*args: Any, **kwargs: Any) -> Any:
    """Raises: tensors need no wrapper.

    >>> import rushlight as torch
    >>> torch.autograd.variable([1.0])
    Traceback (most recent call last):
        ...
    RuntimeError: torch.autograd.variable(...) is deprecated, use torch.tensor(...) instead
    """
    raise RuntimeError("torch.autograd.variable(...) is deprecated, use torch.tensor(...) instead")


class _Package(ModuleType):
    """Keeps functions that share their name with a submodule: importing it would replace them."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "gradcheck" and isinstance(value, ModuleType):
            value = value.gradcheck
        if name == "variable" and isinstance(value, ModuleType):
            value = variable
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    """What few programs need is imported when it is first used."""
    if name in ("forward_ad", "functional", "profiler", "profiler_util"):
        from importlib import import_module

        return import_module(f"rushlight.autograd.{name}")
    if name in ("gradcheck", "gradgradcheck"):
        from importlib import import_module

        module = import_module("rushlight.autograd.gradcheck")
        globals()["gradgradcheck"] = module.gradgradcheck
        return getattr(module, name)
    if name in ("_disable_profiler", "_is_checkpoint_valid", "_profiler_enabled", "SavedTensor"):
        from rushlight.autograd import _names

        return getattr(_names, name)
    if name in ("trace_nan", "NonFiniteError"):
        from rushlight.autograd import nan_tracer

        return getattr(nan_tracer, name)
    raise AttributeError(f"module 'rushlight.autograd' has no attribute '{name}'")
