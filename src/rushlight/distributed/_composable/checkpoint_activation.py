"""Modules that compute their activations again in the backward pass."""

from __future__ import annotations

from rushlight.distributed._composable.contract import contract
from rushlight.utils.checkpoint import checkpoint as _checkpoint

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any


@contract()
def checkpoint(module: Any, **options: Any) -> Any:
    """The module itself, whose ``forward`` is checkpointed from now on."""
    if options.pop("use_reentrant", False):
        raise NotImplementedError("checkpoint: use_reentrant=True is not supported here")
    forward = module.forward

    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        return _checkpoint(forward, *args, use_reentrant=False, **options, **kwargs)

    module.forward = checkpointed
    return module
