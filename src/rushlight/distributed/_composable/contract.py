"""Functions that are applied to a module once, and keep a state with it."""

from __future__ import annotations

import functools

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_KEY = "__composable_state_key"


class _State:
    pass


def contract(state_cls: type = _State) -> Callable[[Callable[..., Any]], Any]:
    """Decorates such a function, which gets ``function.state(module)``."""

    def decorate(function: Callable[..., Any]) -> Any:
        @functools.wraps(function)
        def applied(module: Any, *args: Any, **kwargs: Any) -> Any:
            states = module.__dict__.setdefault(_KEY, {})
            if function in states:
                raise AssertionError(
                    "Each distinct composable distributed API can only be applied to a module "
                    f"once. {function.__name__} has already been applied to the following "
                    f"module:\n{module}"
                )
            states[function] = state_cls()
            result = function(module, *args, **kwargs)
            return module if result is None else result

        applied.state = (  # type: ignore[attr-defined]
            lambda module: module.__dict__.get(_KEY, {}).get(function)
        )
        return applied

    return decorate


def _get_registry(module: Any) -> dict[str, Any]:
    return {function.__name__: state for function, state in module.__dict__.get(_KEY, {}).items()}
