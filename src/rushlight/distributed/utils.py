"""Small helpers that programs import from here."""

from __future__ import annotations

from rushlight import distributed as _dist
from rushlight._C import Tensor as _Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _apply_to_tensors(fn: Callable[[Any], Any], container: Any) -> Any:
    from rushlight.utils import _pytree

    return _pytree.tree_map(lambda t: fn(t) if isinstance(t, _Tensor) else t, container)


def _p_assert(cond: Any, s: str, raise_assertion_error: bool = True) -> None:
    if not cond:
        print(s)
        if raise_assertion_error:
            raise AssertionError(s)


def _sync_module_states(
    module: Any,
    process_group: Any,
    broadcast_bucket_size: int,
    src: int,
    params_and_buffers_to_ignore: Any = (),
    broadcast_buffers: bool = True,
) -> None:
    """Gives every process the numbers of rank ``src`` of the group."""
    named = [*module.named_parameters(), *(module.named_buffers() if broadcast_buffers else ())]
    for name, t in named:
        if name not in params_and_buffers_to_ignore:
            _dist.broadcast(t.detach(), group_src=src, group=process_group)
