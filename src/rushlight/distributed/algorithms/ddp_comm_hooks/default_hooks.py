"""Averages of whole buckets, in full or in half precision."""

from __future__ import annotations

import rushlight
from rushlight import distributed as dist

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = [
    "allreduce_hook", "bf16_compress_hook", "bf16_compress_wrapper", "fp16_compress_hook",
    "fp16_compress_wrapper",
]  # fmt: skip


def _average(group: Any, tensor: Any) -> Any:
    """A Future of the average over the processes; the tensor is written to."""
    tensor.div_(dist.get_world_size(group))
    work = dist.all_reduce(tensor, group=group, async_op=True)
    return work.get_future().then(lambda future: tensor)


def allreduce_hook(process_group: Any, bucket: Any) -> Any:
    """What DDP does without a hook: the average of the buckets.

    >>> import rushlight as torch
    >>> torch.distributed.init_process_group(rank=0, world_size=1)
    >>> from rushlight.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
    >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1, bias=False))
    >>> model.register_comm_hook(None, allreduce_hook)
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> model.module.weight.grad
    tensor([[1., 1.]])
    >>> torch.distributed.destroy_process_group()
    """
    return _average(process_group, bucket.buffer())


def _compressed(process_group: Any, bucket: Any, dtype: Any) -> Any:
    buffer = bucket.buffer()
    half = buffer.to(dtype)
    return _average(process_group, half).then(lambda future: buffer.copy_(future.value()))


def fp16_compress_hook(process_group: Any, bucket: Any) -> Any:
    """Sends gradients as float16: half the bytes, three digits.

    >>> import rushlight as torch
    >>> torch.distributed.init_process_group(rank=0, world_size=1)
    >>> from rushlight.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
    >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1, bias=False))
    >>> model.register_comm_hook(None, fp16_compress_hook)
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> model.module.weight.grad
    tensor([[1., 1.]])
    >>> torch.distributed.destroy_process_group()
    """
    return _compressed(process_group, bucket, rushlight.float16)


def bf16_compress_hook(process_group: Any, bucket: Any) -> Any:
    """Sends gradients as bfloat16: half the bytes, two digits, the range of float32.

    >>> import rushlight as torch
    >>> torch.distributed.init_process_group(rank=0, world_size=1)
    >>> from rushlight.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
    >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1, bias=False))
    >>> model.register_comm_hook(None, bf16_compress_hook)
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> model.module.weight.grad
    tensor([[1., 1.]])
    >>> torch.distributed.destroy_process_group()
    """
    return _compressed(process_group, bucket, rushlight.bfloat16)


def _wrapper(hook: Callable[[Any, Any], Any], dtype: Any) -> Callable[[Any, Any], Any]:
    def compressed(state: Any, bucket: Any) -> Any:
        buffer = bucket.buffer()
        return hook(state, _Cast(bucket, dtype)).then(
            lambda future: buffer.copy_(future.value().reshape(-1))
        )

    return compressed


def fp16_compress_wrapper(hook: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The hook, given gradients in float16.

    >>> import rushlight as torch
    >>> torch.distributed.init_process_group(rank=0, world_size=1)
    >>> from rushlight.distributed.algorithms.ddp_comm_hooks import default_hooks
    >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1, bias=False))
    >>> hook = default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook)
    >>> model.register_comm_hook(None, hook)
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> model.module.weight.grad
    tensor([[1., 1.]])
    >>> torch.distributed.destroy_process_group()
    """
    return _wrapper(hook, rushlight.float16)


def bf16_compress_wrapper(hook: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The hook, given gradients in bfloat16.

    >>> import rushlight as torch
    >>> torch.distributed.init_process_group(rank=0, world_size=1)
    >>> from rushlight.distributed.algorithms.ddp_comm_hooks import default_hooks
    >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1, bias=False))
    >>> hook = default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook)
    >>> model.register_comm_hook(None, hook)
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> model.module.weight.grad
    tensor([[1., 1.]])
    >>> torch.distributed.destroy_process_group()
    """
    return _wrapper(hook, rushlight.bfloat16)


class _Cast:
    """A bucket whose numbers are of another dtype."""

    def __init__(self, bucket: Any, dtype: Any) -> None:
        self._bucket = bucket
        self._buffer = bucket.buffer().to(dtype)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bucket, name)

    def buffer(self) -> Any:
        return self._buffer

    def set_buffer(self, buffer: Any) -> None:
        self._buffer.copy_(buffer)

    def gradients(self) -> list[Any]:
        shapes = [g.shape for g in self._bucket.gradients()]
        parts = self._buffer.split([s.numel() for s in shapes])
        return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]
