"""Storages that know their elements' type: what ``tensor.storage()`` gave before UntypedStorage."""

from __future__ import annotations

import warnings
from typing import Any

from rushlight import _C
from rushlight._C import Tensor
from rushlight.storage import UntypedStorage, _Storage


class TypedStorage(_Storage):
    """The memory behind a tensor, as elements of its dtype. Deprecated in favour of UntypedStorage.

    >>> import rushlight as torch
    >>> storage = torch.storage.TypedStorage([1, 2], dtype=torch.int64)
    >>> storage.tolist(), storage.nbytes()
    ([1, 2], 16)
    """

    dtype: Any

    def __init__(
        self,
        source: Any = 0,
        *,
        wrap_storage: UntypedStorage | None = None,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        self.dtype = dtype or getattr(type(self), "dtype", None) or _C.get_default_dtype()
        if wrap_storage is None and isinstance(source, int):
            wrap_storage = UntypedStorage(source * self.dtype.itemsize)
        elif wrap_storage is None:
            wrap_storage = _C._tensor(source, self.dtype, device, False).untyped_storage()
        self._untyped_storage = wrap_storage

    @property
    def _elements(self) -> Tensor:  # type: ignore[override]
        return self._untyped_storage._as_elements(self.dtype)

    def _with(self, elements: Tensor) -> TypedStorage:
        return TypedStorage(wrap_storage=elements.untyped_storage(), dtype=elements.dtype)

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        return self._untyped_storage

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._untyped_storage.data_ptr()

    def nbytes(self) -> int:
        """The size in bytes."""
        return self._untyped_storage.nbytes()

    def element_size(self) -> int:
        """The size of an element in bytes."""
        return self.dtype.itemsize

    def size(self) -> int:
        """The number of elements."""
        return self.nbytes() // self.dtype.itemsize

    __len__ = size

    def tolist(self) -> list[Any]:
        """The elements as numbers."""
        values: list[Any] = self._elements.tolist()
        return values

    def __getitem__(self, index: int | slice) -> Any:
        part = self._elements[index]
        return part.tolist() if isinstance(index, slice) else part.item()

    def __setitem__(self, index: int | slice, value: Any) -> None:
        self._elements[index] = value

    def fill_(self, value: Any) -> TypedStorage:
        """Sets every element."""
        self._elements.fill_(value)
        return self

    def copy_(self, source: TypedStorage, non_blocking: bool = False) -> TypedStorage:
        """Takes over the elements of another storage of the same size."""
        self._elements.copy_(source._elements)
        return self

    def clone(self) -> TypedStorage:
        """A copy."""
        return type(self)(wrap_storage=self._untyped_storage.clone(), dtype=self.dtype)

    def resize_(self, size: int) -> TypedStorage:
        """Changes the number of elements."""
        self._untyped_storage.resize_(size * self.dtype.itemsize)
        return self

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of the class for this dtype; given another dtype, the converted elements."""
        if dtype is None:
            return f"torch.{self.pickle_storage_type()}"
        return self if dtype is self.dtype else self._with(self._elements.to(dtype))

    def pickle_storage_type(self) -> str:
        """The class that files name for this dtype, such as ``FloatStorage``."""
        from rushlight._serialization.storages import STORAGE_NAMES

        return STORAGE_NAMES[self.dtype]

    def is_shared(self) -> bool:
        """Whether other processes can see the memory."""
        return self._untyped_storage.is_shared()

    def share_memory_(self) -> TypedStorage:
        """Moves the memory, with all tensors on it, where other processes see it too."""
        self._untyped_storage.share_memory_()
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedStorage) and self._untyped_storage == other._untyped_storage

    def __hash__(self) -> int:
        return hash(self._untyped_storage)

    def __reduce__(self) -> Any:
        return _rebuild, (self._elements.clone(),)

    def __repr__(self) -> str:
        return f"<TypedStorage of {self.size()} elements of {self.dtype} at {self.data_ptr():#x}>"


def _rebuild(elements: Tensor) -> TypedStorage:
    return TypedStorage(wrap_storage=elements.untyped_storage(), dtype=elements.dtype)


def of_tensor(tensor: Tensor) -> TypedStorage:
    """What ``tensor.storage()`` returns, with PyTorch's warning."""
    warnings.warn(
        "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be "
        "the only storage class. To access UntypedStorage directly, use tensor.untyped_storage() "
        "instead of tensor.storage()",
        UserWarning,
        stacklevel=3,
    )
    return TypedStorage(wrap_storage=tensor.untyped_storage(), dtype=tensor.dtype)
