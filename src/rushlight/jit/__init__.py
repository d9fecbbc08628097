"""TorchScript's names: scripting and tracing give back an equal callable for now.

``script(f)`` and ``trace(f, example_inputs)`` return ``f`` itself, a function or a module, so that
programs that script their models run unchanged.
"""

from __future__ import annotations

from typing import Any, Final as Final, NamedTuple

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = [
    "Attribute", "Error", "Final", "Future", "ScriptFunction",
    "ScriptModule", "ScriptWarning", "TracerWarning", "annotate",
    "enable_onednn_fusion", "export", "fork", "freeze", "ignore", "interface", "is_scripting",
    "is_tracing", "isinstance", "onednn_fusion_enabled", "optimize_for_inference",
    "optimized_execution", "script", "script_if_tracing", "script_method", "set_fusion_strategy",
    "strict_fusion", "trace", "trace_module", "unused", "wait",
]  # fmt: skip

_isinstance = isinstance
_fusion = False


class ScriptFunction:
    """The class of scripted functions, of which there are none: ``script(f)`` is ``f``.

    >>> import rushlight as torch
    >>> isinstance(torch.jit.script(lambda x: x), torch.jit.ScriptFunction)
    False
    """


class Error(RuntimeError):
    """An error of a scripted function."""


class ScriptWarning(Warning):
    """A warning about scripting."""


class TracerWarning(Warning):
    """A warning about tracing."""


class Attribute(NamedTuple):
    """A module's attribute with its type, for ``ScriptModule``.

    >>> import rushlight as torch
    >>> torch.jit.Attribute(3, int).value
    3
    """

    value: Any
    type: Any


class _Strict:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        pass


class strict_fusion(_Strict):
    """``with strict_fusion():`` without effect: nothing is fused by scripting.

    >>> import rushlight as torch
    >>> with torch.jit.strict_fusion():
    ...     torch.ones(2) + 1
    tensor([2., 2.])
    """


class optimized_execution(_Strict):
    """``with optimized_execution(on):`` without effect: functions run as they are.

    >>> import rushlight as torch
    >>> with torch.jit.optimized_execution(True):
    ...     torch.ones(2) + 1
    tensor([2., 2.])
    """

    def __init__(self, should_optimize: bool) -> None:
        self.should_optimize = should_optimize


def script(
    obj: Any,
    optimize: Any = None,
    _frames_up: int = 0,
    _rcb: Any = None,
    example_inputs: Any = None,
) -> Any:
    """The function, class or module itself.

    >>> import rushlight as torch
    >>> @torch.jit.script
    ... def double(x: torch.Tensor):
    ...     return 2 * x
    >>> double(torch.ones(2))
    tensor([2., 2.])
    """
    if not callable(obj) and not _isinstance(obj, (list, dict)):
        raise RuntimeError(f"script: expected a function, class or module, got {obj!r}")
    return obj


def trace(func: Any, example_inputs: Any = None, **options: Any) -> Any:
    """The function or module itself, after it has run once on the example inputs.

    >>> import rushlight as torch
    >>> torch.jit.trace(torch.sin, torch.zeros(1)) is torch.sin
    True
    """
    from rushlight import no_grad

    if example_inputs is None:
        example_inputs = options.get("example_kwarg_inputs")
    with no_grad():
        if _isinstance(example_inputs, dict):
            func(**example_inputs)
        elif _isinstance(example_inputs, (tuple, list)):
            func(*example_inputs)
        elif example_inputs is not None:
            func(example_inputs)
    return func


def trace_module(mod: Any, inputs: dict[str, Any], **options: Any) -> Any:
    """The module itself, after its methods have run once on their example inputs.

    >>> import rushlight as torch
    >>> module = torch.jit.trace_module(torch.nn.ReLU(), {"forward": torch.ones(2)})
    >>> module(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    for name, example in inputs.items():
        trace(getattr(mod, name), example)
    return mod


def freeze(mod: Any, preserved_attrs: Iterable[str] | None = None, **options: Any) -> Any:
    """The module itself, which must be in evaluation mode.

    >>> import rushlight as torch
    >>> layer = torch.nn.Linear(2, 2).eval()
    >>> torch.jit.freeze(layer) is layer
    True
    """
    if mod.training:
        raise RuntimeError(
            "freeze: Freezing is currently only implemented for modules in eval mode. "
            "Please call .eval() on your module before freezing."
        )
    return mod


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """The module itself.

    >>> import rushlight as torch
    >>> layer = torch.nn.Linear(2, 2).eval()
    >>> torch.jit.optimize_for_inference(layer) is layer
    True
    """
    return mod


def script_method(fn: Any) -> Any:
    """The method itself.

    >>> import rushlight as torch
    >>> class Twice(torch.nn.Module):
    ...     @torch.jit.script_method
    ...     def forward(self, x):
    ...         return 2 * x
    >>> Twice()(torch.ones(2))
    tensor([2., 2.])
    """
    return fn


script_if_tracing = _script_if_tracing = export = interface = script_method


def ignore(drop: Any = False, **options: Any) -> Any:
    """Keeps a method out of scripting: the method itself; a decorator with or without ().

    >>> import rushlight as torch
    >>> @torch.jit.ignore
    ... def log(x):
    ...     return f"mean {x.mean():.1f}"
    >>> log(torch.ones(2))
    'mean 1.0'
    """
    return drop if callable(drop) else lambda function: function


def unused(fn: Any) -> Any:
    """Keeps a method out of scripting: the method itself.

    >>> import rushlight as torch
    >>> @torch.jit.unused
    ... def double(x):
    ...     return 2 * x
    >>> double(torch.ones(2))
    tensor([2., 2.])
    """
    return fn


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value.

    >>> import rushlight as torch
    >>> torch.jit.annotate(int, 3)
    3
    """
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """``isinstance``, also of generic types by their origin.

    >>> import rushlight as torch
    >>> torch.jit.isinstance([1, 2], list[int]), torch.jit.isinstance(1, str)
    (True, False)
    """
    from typing import get_origin

    kinds = target_type if _isinstance(target_type, tuple) else (target_type,)
    return _isinstance(obj, tuple(get_origin(kind) or kind for kind in kinds))


def is_scripting() -> bool:
    """False: functions run as they are.

    >>> import rushlight as torch
    >>> torch.jit.is_scripting()
    False
    """
    return False


def is_tracing() -> bool:
    """False: functions run as they are.

    >>> import rushlight as torch
    >>> torch.jit.is_tracing()
    False
    """
    return False


def enable_onednn_fusion(enabled: bool) -> None:
    """Remembered, without effect.

    >>> import rushlight as torch
    >>> torch.jit.enable_onednn_fusion(True)
    >>> torch.jit.onednn_fusion_enabled()
    True
    >>> torch.jit.enable_onednn_fusion(False)
    """
    global _fusion
    _fusion = bool(enabled)


def onednn_fusion_enabled() -> bool:
    """What ``enable_onednn_fusion`` set.

    >>> import rushlight as torch
    >>> torch.jit.onednn_fusion_enabled()
    False
    """
    return _fusion


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Remembered by nobody; returns the former strategy, an empty one.

    >>> import rushlight as torch
    >>> torch.jit.set_fusion_strategy([("STATIC", 2)])
    []
    """
    return []


class Future:
    """The result of ``fork``: a call that is complete already.

    >>> import rushlight as torch
    >>> future = torch.jit.fork(torch.neg, torch.ones(1))
    >>> future.done(), future.wait()
    (True, tensor([-1.]))
    """

    def __init__(self, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self._error: BaseException | None = None
        try:
            self._result = function(*args, **kwargs)
        except Exception as error:
            self._error = error

    def done(self) -> bool:
        """True: the call is complete."""
        return True

    def wait(self) -> Any:
        """The result, or the error raised again."""
        if self._error is not None:
            raise self._error
        return self._result

    value = wait


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
    """Calls ``func`` at once; ``wait`` gives its result.

    >>> import rushlight as torch
    >>> future = torch.jit.fork(torch.add, torch.ones(2), 1)
    >>> torch.jit.wait(future)
    tensor([2., 2.])
    """
    return Future(func, args, kwargs)


def wait(future: Future) -> Any:
    """The result of ``fork``.

    >>> import rushlight as torch
    >>> torch.jit.wait(torch.jit.fork(torch.sqrt, torch.tensor(4.0)))
    tensor(2.)
    """
    return future.wait()


def _overload_method(func: Any) -> Any:
    return func  # a method that states one of several signatures; the last definition counts


_overload = _overload_method

_SCRIPT_CLASSES = ("ScriptModule", "RecursiveScriptModule", "TopLevelTracedModule")


def __getattr__(name: str) -> Any:
    if name not in _SCRIPT_CLASSES:
        from rushlight._missing import MissingAttribute

        raise MissingAttribute("rushlight.jit", name)
    from rushlight.jit import _script_modules

    return getattr(_script_modules, name)
