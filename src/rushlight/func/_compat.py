"""Names of torch.func that do little here: functions are transformed as they stand."""

from __future__ import annotations

import functools

from rushlight import _C

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight.nn import Module

_ops = _C._namespaces[""]


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """The same function: transforms see through writes in place and views as they are.

    >>> import rushlight as torch
    >>> torch.func.functionalize(lambda x: x.clone().add_(1))(torch.zeros(2))
    tensor([1., 1.])
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. "
            "Valid options are: remove='mutations', remove='mutations_and_views'."
        )

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return wrapper


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Lets the batch norms of a module use the batch alone: running averages cannot be per sample.

    >>> import rushlight as torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    >>> torch.func.replace_all_batch_norm_modules_(net)[1].running_mean is None
    True
    """
    from rushlight.nn.modules.batchnorm import _BatchNorm

    for module in root.modules():
        if isinstance(module, _BatchNorm) and module.track_running_stats:
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                setattr(module, name, None)
            module.track_running_stats = False
    return root


def debug_unwrap(tensor: Any, *, recurse: bool = True) -> Any:
    """What a tensor inside a transform holds: all samples, for looking at only.

    With `recurse`, all levels of vmap are shown, the outermost as the first dimension; otherwise
    the innermost one.

    >>> import rushlight as torch
    >>> seen = []
    >>> _ = torch.vmap(lambda x: seen.append(torch.func.debug_unwrap(x)) or x)(torch.ones(3, 2))
    >>> seen[0].shape
    torch.Size([3, 2])
    """
    if not isinstance(tensor, _C.Tensor):
        raise TypeError(f"debug_unwrap: expected a Tensor, got {type(tensor).__name__}")
    shown = tensor.detach()
    for level, size in reversed(_C._batch_sizes(shown)):
        shown = _ops["_remove_batch_dim"](shown, level, size, 0)
        if not recurse:
            break
    return shown
