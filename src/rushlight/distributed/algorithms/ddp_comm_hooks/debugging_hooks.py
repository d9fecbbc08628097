"""A hook that sends nothing, to see what communication costs."""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = ["noop_hook"]


def noop_hook(_: Any, bucket: Any) -> Any:
    """Each process keeps its own gradients.

    >>> import rushlight as torch
    >>> torch.distributed.init_process_group(rank=0, world_size=1)
    >>> from rushlight.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
    >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1, bias=False))
    >>> model.register_comm_hook(None, noop_hook)
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> model.module.weight.grad
    tensor([[1., 1.]])
    >>> torch.distributed.destroy_process_group()
    """
    from rushlight.futures import Future

    future: Future[Any] = Future()
    future.set_result(bucket.buffer())
    return future
