"""``checkpoint`` and ``checkpoint_sequential``: less memory in exchange for a second forward."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from rushlight import _C, is_grad_enabled
from rushlight.utils.checkpoint._region import Inputs, Region
from rushlight.utils.checkpoint._rng import States

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]

_CHECKS = ("default", "none", "values")

# What blocks say instead of an argument of every ``checkpoint`` called inside.
_overrides: dict[str, bool | None] = {}


class set_checkpoint_early_stop(_C._Scope):
    """Inside, recomputations stop early or run to the end, whatever ``checkpoint`` was told.

    >>> from rushlight.utils.checkpoint import set_checkpoint_early_stop
    >>> with set_checkpoint_early_stop(False):
    ...     pass  # functions checkpointed here run whole when they are recomputed
    """

    def __init__(self, enable: bool) -> None:
        self._set_parts(("items", ((_overrides, "early_stop", enable),)))


class set_checkpoint_debug_enabled(_C._Scope):
    """Inside, errors list every saved tensor (True) or those near the difference (False).

    >>> import rushlight as torch
    >>> from rushlight.utils.checkpoint import checkpoint, set_checkpoint_debug_enabled
    >>> with set_checkpoint_debug_enabled(True):
    ...     y = checkpoint(torch.sin, torch.ones(2, requires_grad=True), use_reentrant=False)
    >>> y.requires_grad
    True
    """

    def __init__(self, enabled: bool | None) -> None:
        self._set_parts(("items", ((_overrides, "debug", enabled),)))


def noop_context_fn() -> Contexts:
    """The default ``context_fn``: nothing around the forward pass, nothing around recomputation.

    >>> import rushlight as torch
    >>> from rushlight.utils.checkpoint import noop_context_fn
    >>> around_forward, around_recomputation = noop_context_fn()
    >>> with around_forward:
    ...     torch.ones(2)
    tensor([1., 1.])
    """
    return nullcontext(), nullcontext()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], Contexts] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    memory_budget: float | None = None,
    **kwargs: Any,
) -> Any:
    """Calls ``function`` without keeping what its backward needs; backward computes it again.

    >>> import rushlight as torch
    >>> from rushlight.utils.checkpoint import checkpoint
    >>> x = torch.tensor([0.0, 1.0], requires_grad=True)
    >>> y = checkpoint(lambda t: t.sin().exp(), x)
    >>> y.sum().backward()
    >>> x.grad
    tensor([1.0000, 1.2534])

    There is one implementation. ``use_reentrant`` is accepted and changes nothing: the function is
    recorded as though it were called directly, so that keyword arguments, ``autograd.grad``,
    several backward passes, higher derivatives and nesting work with either value.

    ``determinism_check`` says what a recomputed tensor must share with the one of the forward
    pass: its shape, dtype, device and version (``"default"``), also its bits (``"values"``), or
    nothing (``"none"``). The error shows what both runs saved around the first difference, with
    the user's lines; with ``debug`` it shows all.

    ``early_stop`` ends a recomputation as soon as the graph has what it needs.
    ``preserve_rng_state`` makes it draw the same random numbers: from the default generator and
    every other one, and from the global ones of ``random`` and NumPy.

    ``context_fn`` returns two context managers, for the forward pass and for recomputation; see
    ``create_selective_checkpoint_contexts``. ``memory_budget`` chooses instead of it, see
    ``docs/guide/checkpointing.md``: from 0 to 1, the share of the region's saved bytes that may be
    kept. The region keeps what is dearest to compute again.
    """
    if determinism_check not in _CHECKS:
        raise ValueError(
            f"determinism_check should be one of {list(_CHECKS)}, but got {determinism_check}"
        )
    if memory_budget is not None:
        if context_fn is not noop_context_fn:
            raise ValueError("checkpoint: give either context_fn or memory_budget, not both")
        context_fn = _budget_context_fn(memory_budget)
    forward_context, recompute_context = context_fn()
    if not is_grad_enabled():
        with forward_context:
            return function(*args, **kwargs)
    stop, verbose = _overrides.get("early_stop"), _overrides.get("debug")
    region = Region(
        function,
        Inputs(args, kwargs),
        recompute_context,
        States(function, args, kwargs) if preserve_rng_state else None,
        determinism_check,
        early_stop if stop is None else stop,
        debug if verbose is None else verbose,
    )
    return region.forward(args, kwargs, forward_context)


def _budget_context_fn(share: float) -> Callable[[], Contexts]:
    from rushlight.utils.checkpoint._budget import Budget

    if not 0 <= share <= 1:
        raise ValueError(f"checkpoint: memory_budget must be from 0 to 1, got {share}")
    return lambda: (Budget(share), nullcontext())


def checkpoint_sequential(
    functions: Iterable[Callable[[Any], Any]],
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Calls the functions one after the other, in segments that are checkpointed but for the last.

    >>> import rushlight as torch
    >>> from rushlight.utils.checkpoint import checkpoint_sequential
    >>> x = torch.ones(2, requires_grad=True)
    >>> checkpoint_sequential([torch.exp, torch.sin, torch.cos], 2, x).sum().backward()
    >>> x.grad
    tensor([0.9897, 0.9897])

    ``kwargs`` are options of ``checkpoint``.
    """
    unknown = [name for name in kwargs if name not in (checkpoint.__kwdefaults__ or {})]
    if unknown:
        raise ValueError("Unexpected keyword arguments: " + ",".join(unknown))
    steps = list(functions)
    if not 1 <= segments <= len(steps):
        raise ValueError(
            f"checkpoint_sequential: {len(steps)} functions can't be cut into {segments} segments"
        )
    size = len(steps) // segments

    def run(start: int, end: int) -> Callable[[Any], Any]:
        def segment(value: Any) -> Any:
            for step in steps[start:end]:
                value = step(value)
            return value

        return segment

    start = 0
    for start in range(size, size * segments, size):
        input = checkpoint(run(start - size, start), input, use_reentrant=use_reentrant, **kwargs)
    return run(start, len(steps))(input)
