"""Storages: the memory behind tensors."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from typing import Any

__all__ = ["UntypedStorage", "from_file"]


def _of_bytes(items: Sequence[int]) -> Tensor:
    kind = type(items).__name__
    if not hasattr(items, "__len__"):
        raise TypeError(f"torch.UntypedStorage(): expected a size or a list of ints, got {kind}")
    for item in items:
        if not isinstance(item, int):
            raise RuntimeError(
                "torch.UntypedStorage(): tried to construct a storage from a sequence "
                f"({kind}), but one of the items was of type {type(item).__name__} instead of int"
            )
    flat = _C._namespaces[""]["empty"](len(items), dtype=_C.uint8)
    for at, item in enumerate(items):
        flat[at] = item % 256
    return flat


# What storages are converted by, and the dtype of the result.
_CONVERSIONS = {
    "bfloat16": _C.bfloat16, "bool": _C.bool, "byte": _C.uint8, "char": _C.int8,
    "complex_double": _C.complex128, "complex_float": _C.complex64, "double": _C.float64,
    "float": _C.float32, "half": _C.float16, "int": _C.int32, "long": _C.int64, "short": _C.int16,
    "float8_e4m3fn": _C.float8_e4m3fn, "float8_e4m3fnuz": _C.float8_e4m3fnuz,
    "float8_e5m2": _C.float8_e5m2, "float8_e5m2fnuz": _C.float8_e5m2fnuz,
}  # fmt: skip


class _Storage:
    """What storages of bytes and of elements have in common."""

    is_sparse = False
    _elements: Tensor

    def _with(self, elements: Tensor) -> Any:
        raise NotImplementedError

    @property
    def device(self) -> _C.device:
        """Where the memory lies."""
        return self._elements.device

    @property
    def is_cuda(self) -> bool:
        """Whether the memory is a GPU's."""
        return self._elements.is_cuda

    def get_device(self) -> int:
        """The number of the GPU, or -1."""
        return self._elements.get_device()

    def to(self, *, device: Any, non_blocking: bool = False) -> Any:
        """The storage itself, or a copy on another device.

        >>> import rushlight as torch
        >>> storage = torch.zeros(2).untyped_storage()
        >>> storage.to(device="cpu") is storage
        True
        """
        elements = self._elements
        moved = elements.to(device)
        return self if moved is elements else self._with(moved)

    def cpu(self) -> Any:
        """The storage itself, or a copy in main memory."""
        return self.to(device="cpu")

    def cuda(self, device: Any = None, non_blocking: bool = False) -> Any:
        """The storage itself, or a copy on a GPU."""
        return self.to(device="cuda" if device is None else device)

    def is_pinned(self, device: Any = "cuda") -> bool:
        """Whether the memory is locked for copies to a GPU."""
        return self._elements.is_pinned()

    def pin_memory(self, device: Any = "cuda") -> Any:
        """The storage itself, or a copy in memory that is locked for copies to a GPU."""
        return self if self.is_pinned() else self._with(self._elements.pin_memory())

    def __iter__(self) -> Any:
        return iter(self._elements.tolist())

    def __copy__(self) -> Any:
        return self._with(self._elements.clone())


def _conversion(name: str, dtype: _C.dtype) -> Any:
    def convert(self: Any) -> Any:
        from rushlight._typed_storage import TypedStorage

        made = self._elements.to(dtype, copy=True)
        return TypedStorage(wrap_storage=made.untyped_storage(), dtype=dtype)

    convert.__name__, convert.__qualname__ = name, f"_Storage.{name}"
    convert.__doc__ = f"The elements converted to {dtype}, as a new storage."
    return convert


_CONVERT = {dtype: _conversion(name, dtype) for name, dtype in _CONVERSIONS.items()}
for _convert in _CONVERT.values():
    setattr(_Storage, _convert.__name__, _convert)


class UntypedStorage(_Storage):
    """The memory behind a tensor, as bytes; or a number of new ones.

    >>> import rushlight as torch
    >>> t = torch.tensor([1, 2], dtype=torch.uint8)
    >>> t.untyped_storage().tolist()
    [1, 2]
    """

    _flat: Tensor
    _part = False  # made by slicing another one

    def __init__(self, source: Tensor | int | Sequence[int] = 0, *, device: Any = None) -> None:
        if isinstance(source, Tensor):
            self._flat = _C._storage_tensor(source)
        elif not isinstance(source, int):
            self._flat = _of_bytes(source)
        else:
            self._flat = _C._namespaces[""]["empty"](source, dtype=_C.uint8)

    @property
    def _bytes(self) -> Tensor:
        if not self._part and self._flat.numel() != self._flat._storage_bytes():  # resized
            self._flat = _C._storage_tensor(self._flat)
        return self._flat

    _elements = _bytes

    def _with(self, elements: Tensor) -> UntypedStorage:
        return self._of(elements)

    def _as_elements(self, dtype: _C.dtype) -> Tensor:
        """A flat tensor of all whole elements of this type."""
        flat = self._bytes
        return _C._reinterpret(flat, dtype, (flat.numel() // dtype.itemsize,), (1,))

    @classmethod
    def _of(cls, flat: Tensor) -> UntypedStorage:
        storage = cls.__new__(UntypedStorage)
        storage._flat = flat
        storage._part = flat.numel() != flat._storage_bytes()
        return storage

    @classmethod
    def from_file(
        cls, filename: str | os.PathLike[str], shared: bool = False, nbytes: int = 0
    ) -> UntypedStorage:
        """The bytes of a file, mapped; ``shared`` writes go to the file, which may grow."""
        import mmap
        import os

        access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
        flags = os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY
        descriptor = os.open(filename, flags, 0o666)
        try:
            size = os.fstat(descriptor).st_size
            if shared and size < nbytes:
                os.truncate(descriptor, nbytes)
            elif nbytes > size:
                raise RuntimeError(
                    f"from_file: {nbytes} bytes wanted, and '{os.fspath(filename)}' has {size}"
                )
            if not (nbytes or size):
                return cls._of(_C._namespaces[""]["empty"](0, dtype=_C.uint8))
            return cls._of(_C._share_buffer(mmap.mmap(descriptor, nbytes or size, access=access)))
        finally:
            os.close(descriptor)

    def data_ptr(self) -> int:
        """The address of the first byte."""
        return self._bytes.data_ptr()

    def nbytes(self) -> int:
        """The size in bytes."""
        return self._bytes.numel()

    size = __len__ = nbytes

    def element_size(self) -> int:
        """The size of an element: one byte."""
        return 1

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of the class; given a dtype, the bytes converted to it."""
        if dtype is None:
            from rushlight._missing import public

            return f"{public('rushlight.storage')}.UntypedStorage"
        return _CONVERT[dtype](self)

    def untyped(self) -> UntypedStorage:
        """The storage itself."""
        return self

    def resize_(self, size: int) -> UntypedStorage:
        """Changes the number of bytes; tensors keep their shapes, and what is cut off is lost.

        >>> import rushlight as torch
        >>> t = torch.tensor([1, 2], dtype=torch.uint8)
        >>> storage = t.untyped_storage().resize_(4)
        >>> storage.nbytes(), t
        (4, tensor([1, 2], dtype=torch.uint8))
        """
        if self._part:
            raise RuntimeError("Trying to resize storage that is not resizable: it is a slice")
        _C._resize_storage(self._flat, size)
        return self

    def clone(self) -> UntypedStorage:
        """A copy."""
        return self._of(self._bytes.clone())

    def copy_(self, source: UntypedStorage, non_blocking: bool = False) -> UntypedStorage:
        """Takes over the bytes of another storage of the same size."""
        self._bytes.copy_(source._bytes)
        return self

    def fill_(self, value: int) -> UntypedStorage:
        """Sets every byte."""
        self._bytes.fill_(value)
        return self

    def tolist(self) -> list[int]:
        """The bytes as numbers."""
        values: list[int] = self._bytes.tolist()
        return values

    def __getitem__(self, index: int | slice) -> Any:
        """A byte; of a slice, a storage on the same memory."""
        part = self._bytes[index]
        return self._of(part) if isinstance(index, slice) else part.item()

    def __setitem__(self, index: int | slice, value: int) -> None:
        self._bytes[index] = value

    def is_shared(self) -> bool:
        """Whether other processes can see the memory."""
        return self._bytes.is_shared()

    def share_memory_(self) -> UntypedStorage:
        """Moves the memory, with all tensors on it, where other processes see it too."""
        self._bytes.share_memory_()
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and self._bytes._is_same_storage(other._bytes)

    def __hash__(self) -> int:
        return hash(self._bytes._storage_id())

    def __repr__(self) -> str:
        return f"<UntypedStorage of {self.nbytes()} bytes at {self.data_ptr():#x}>"


def from_file(
    filename: str | os.PathLike[str],
    shared: bool | None = None,
    size: int = 0,
    *,
    dtype: Any = None,
    requires_grad: bool = False,
    **options: Any,
) -> Tensor:
    """``size`` elements of a file, mapped; what is written goes to the file if it is ``shared``.

    >>> import rushlight as torch, tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     x = torch.from_file(file.name, shared=True, size=2, dtype=torch.int16)
    ...     x[1] = 7
    ...     file.read()
    b'\\x00\\x00\\x07\\x00'
    """
    dtype = dtype or _C.get_default_dtype()
    try:
        storage = UntypedStorage.from_file(filename, bool(shared), size * dtype.itemsize)
    except OSError as error:
        mode = "read-write" if shared else "read-only"
        raise RuntimeError(
            f"unable to open file <{filename}> in {mode} mode: {error.strerror} ({error.errno})"
        ) from error
    return storage._as_elements(dtype)[:size].requires_grad_(requires_grad)


def __getattr__(name: str) -> Any:
    if name == "TypedStorage":
        from rushlight._typed_storage import TypedStorage

        return TypedStorage
    from rushlight._missing import MissingAttribute

    raise MissingAttribute("rushlight.storage", name)
