"""Which layers of a model are spread, and how."""

from __future__ import annotations

import contextlib
from fnmatch import fnmatchcase

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rushlight.distributed.tensor.parallel.style import ParallelStyle
    from rushlight.nn.modules.module import Module


def parallelize_module(
    module: Module,
    device_mesh: Any = None,
    parallelize_plan: ParallelStyle | dict[str, ParallelStyle] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Module:
    """Spreads a module over a mesh of one dimension: by one style, or by one for each name.

    Names are paths such as ``layers.0.fc1``; ``*`` stands for any part of a path.

    >>> import rushlight as torch
    >>> torch.distributed.init_process_group(rank=0, world_size=1)
    >>> mesh = torch.distributed.init_device_mesh("cpu", (1,))
    >>> from rushlight.distributed.tensor.parallel import ColwiseParallel, parallelize_module
    >>> layer = parallelize_module(torch.nn.Linear(2, 3), mesh, ColwiseParallel())
    >>> layer(torch.ones(1, 2)).shape
    torch.Size([1, 3])
    >>> torch.distributed.destroy_process_group()
    """
    if parallelize_plan is None:
        return module
    if device_mesh.ndim != 1:
        raise ValueError(
            f"parallelize_module: expected a mesh of one dimension, got {device_mesh.ndim}: pass "
            "one of them, such as mesh['tp']"
        )
    if not isinstance(parallelize_plan, dict):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, device_mesh)
    for pattern, style in parallelize_plan.items():
        found = [m for name, m in module.named_modules() if _matches(name, pattern)]
        if not found:
            raise ValueError(
                f"parallelize_module: no module of {type(module).__name__} is named {pattern!r}"
            )
        style.src_data_rank = src_data_rank
        for each in found:
            style._apply(each, device_mesh)
    return module


def _matches(name: str, pattern: str) -> bool:
    parts, wanted = name.split("."), pattern.split(".")
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


@contextlib.contextmanager
def loss_parallel() -> Iterator[None]:
    """For losses of logits that are spread over the classes, which are gathered for the loss.

    >>> from rushlight.distributed.tensor.parallel import loss_parallel
    >>> with loss_parallel():
    ...     pass
    """
    yield
