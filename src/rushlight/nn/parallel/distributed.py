"""A module trained by several processes: the name, which raises when used."""

from __future__ import annotations

from rushlight.nn.modules.module import Module

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """Wraps a module whose gradients are averaged over processes. Raises: there is one process.

    >>> import rushlight as torch
    >>> torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
    Traceback (most recent call last):
        ...
    ValueError: Default process group has not been initialized, ...
    """

    def __init__(self, module: Module, *args: Any, **kwargs: Any) -> None:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call "
            "init_process_group: DistributedDataParallel averages gradients over processes, and "
            "this build of rushlight runs in one; train the module itself"
        )


def _find_tensors(obj: Any) -> list[Any]:
    """The tensors within lists, tuples, dicts and data classes, which libraries look for."""
    from rushlight._C import Tensor
    from rushlight.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(obj) if isinstance(leaf, Tensor)]
