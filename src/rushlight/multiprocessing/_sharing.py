"""Tensors in memory that several processes see."""

from __future__ import annotations

import mmap
import os
import weakref
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any

from rushlight import _C
from rushlight.nn.parameter import Parameter

_descriptors: dict[int, int] = {}  # of storages in shared memory, by the storage's id


def shared_file(size: int) -> int:
    """The descriptor of a file in memory that has no name, so that it can't be left behind."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("rushlight", os.MFD_CLOEXEC)
    else:
        import tempfile

        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.truncate(descriptor, size)
    return descriptor


def is_shared(tensor: _C.Tensor) -> bool:
    """Whether other processes can see the tensor's memory."""
    return tensor._storage_id() in _descriptors


def share(tensor: _C.Tensor) -> _C.Tensor:
    """Moves the tensor's storage, with all tensors on it, to shared memory."""
    if not tensor.is_meta and not is_shared(tensor) and tensor._storage_bytes():
        descriptor = shared_file(tensor._storage_bytes())
        memory = mmap.mmap(descriptor, 0)
        _C._adopt_memory(tensor, memory)
        _remember(tensor, memory, descriptor)
    return tensor


def _remember(tensor: _C.Tensor, memory: mmap.mmap, descriptor: int) -> None:
    """Keeps the descriptor as long as the memory is used."""
    number = tensor._storage_id()
    _descriptors[number] = descriptor
    weakref.finalize(memory, _forget, number, descriptor).atexit = False


def _forget(number: int, descriptor: int) -> None:
    _descriptors.pop(number, None)
    os.close(descriptor)


def _attach(
    kind: Any, handle: Any, dtype: str, size: Any, stride: Any, offset: int, wants_grad: bool
) -> _C.Tensor:
    descriptor = handle.detach()
    memory = mmap.mmap(descriptor, 0)
    flat = _C._share_buffer(memory)
    _remember(flat, memory, descriptor)
    tensor = _C._reinterpret(flat, getattr(_C, dtype), size, stride, offset)
    if kind is not _C.Tensor:
        return _C.Tensor._make_subclass(kind, tensor, wants_grad)
    return tensor.requires_grad_(wants_grad)


def _reduce(tensor: _C.Tensor) -> Any:
    """Shared memory travels as its descriptor; other tensors as their values."""
    if tensor.grad_fn is not None:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd "
            "does not support crossing process boundaries. If you just want to transfer the data, "
            "call detach() on the tensor before serializing (e.g., putting it on the queue)."
        )
    if not is_shared(tensor):
        return tensor.__reduce_ex__(5)
    place = (tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.requires_grad)
    handle = DupFd(_descriptors[tensor._storage_id()])
    return _attach, (type(tensor), handle, tensor.dtype.name, *place)


def register() -> None:
    """Teaches multiprocessing's pickler about tensors."""
    ForkingPickler.register(_C.Tensor, _reduce)
    ForkingPickler.register(Parameter, _reduce)
