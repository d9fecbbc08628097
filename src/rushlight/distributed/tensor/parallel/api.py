"""Which layers of a model are spread, and how."""

from __future__ import annotations

import contextlib
import warnings
from fnmatch import fnmatchcase

from rushlight.distributed.tensor.parallel.style import ParallelStyle

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rushlight.nn.modules.module import Module


def parallelize_module(
    module: Module,
    device_mesh: Any = None,
    parallelize_plan: ParallelStyle | dict[str, ParallelStyle] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Module:
    """Spreads a module over a mesh of one dimension: by one style, or by one for each name.

    Names are paths such as ``layers.0.fc1``; ``*`` stands for any part of a path. One that
    nothing has is passed over with a warning.

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
        warnings.warn(
            "No parallelize_plan is provided and auto-parallel is not supported at the moment, so "
            "this parallelize_module call will do nothing.",
            stacklevel=2,
        )
        return module
    if device_mesh.ndim != 1:
        raise ValueError(
            f"parallelize_module: expected a mesh of one dimension, got {device_mesh.ndim}: pass "
            "one of them, such as mesh['tp']"
        )
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, device_mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError(
            "Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, "
            f"{type(parallelize_plan)} found!"
        )
    for path, style in parallelize_plan.items():
        _apply_by_path(module, device_mesh, path, style, src_data_rank)
    return module


def _apply_by_path(module: Module, mesh: Any, path: str, style: Any, rank: int | None) -> None:
    """Spreads what a path names, part by part; one that names nothing is passed over."""
    if path == "":
        parallelize_module(module, mesh, style, src_data_rank=rank)
        return
    first, _, rest = path.partition(".")
    found = [child for name, child in module.named_children() if fnmatchcase(name, first)]
    if not found:
        warnings.warn(
            f"Parallelize plan key '{path}' could not be resolved: no submodule matching token "
            f"'{first}' in module {module}, skipping this plan entry.",
            stacklevel=3,
        )
    for child in found:
        _apply_by_path(child, mesh, rest, style, rank)


@contextlib.contextmanager
def loss_parallel() -> Iterator[None]:
    """For losses of logits that are spread over the classes, which are gathered for the loss.

    >>> from rushlight.distributed.tensor.parallel import loss_parallel
    >>> with loss_parallel():
    ...     pass
    """
    yield
