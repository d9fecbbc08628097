"""Pickles that name things as PyTorch's checkpoints do."""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict
from typing import Any, ClassVar

from rushlight import _C
from rushlight._layout import jagged, layout, memory_format, strided
from rushlight._serialization.storages import DTYPES, STORAGE_NAMES
from rushlight.nn.modules._hooks import HOOKS
from rushlight.nn.parameter import Parameter, is_lazy
from rushlight.storage import UntypedStorage

DEFAULT_PROTOCOL = 2


class Name:
    """A name in the torch namespace: written as such, never looked up."""

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name


class Call:
    """Written as a call of ``name`` with ``args``."""

    def __init__(self, name: Name, args: tuple[Any, ...]) -> None:
        self.name = name
        self.args = args


class StorageId:
    """Written as the persistent id of a storage."""

    def __init__(self, key: str, type_name: Name, numel: int, location: str) -> None:
        self.key = key
        self.type_name = type_name
        self.numel = numel
        self.location = location


_STORAGE_TYPES = {dtype: Name("torch", name) for dtype, name in STORAGE_NAMES.items()}
_UNTYPED = Name("torch.storage", "UntypedStorage")
_DTYPES = {dtype: Name("torch", name) for name, dtype in DTYPES.items()}
_SIZE = Name("torch", "Size")
_DEVICE = Name("torch", "device")
_TENSOR = Name("torch", "Tensor")
_PARAMETER = Name("torch.nn.parameter", "Parameter")
_LAYOUT = Name("torch.serialization", "_get_layout")
_ENCODE = Name("_codecs", "encode")
_ORDERED = Name("collections", "OrderedDict")
_REBUILD_V2 = Name("torch._utils", "_rebuild_tensor_v2")
_REBUILD_V3 = Name("torch._utils", "_rebuild_tensor_v3")
_REBUILD_META = Name("torch._utils", "_rebuild_meta_tensor_no_storage")
_REBUILD_PARAMETER = Name("torch._utils", "_rebuild_parameter")
_REBUILD_WITH_STATE = Name("torch._utils", "_rebuild_parameter_with_state")
_REBUILD_TYPE = Name("torch._tensor", "_rebuild_from_type_v2")
_REBUILD_SPARSE = Name("torch._utils", "_rebuild_sparse_tensor")


def _text(text: str) -> bytes:
    return pickle.BINUNICODE + len(text).to_bytes(4, "little") + text.encode("ascii")


_PythonPickler: Any = pickle._Pickler


class Pickler(_PythonPickler):
    """Pickles an object; ``storages`` then holds the bytes that it refers to, by key.

    The pure Python pickler is the one whose way of writing a name can be changed.
    """

    dispatch: ClassVar[dict[Any, Any]] = dict(_PythonPickler.dispatch)

    def __init__(self, file: io.BytesIO, protocol: int, legacy: bool = False) -> None:
        super().__init__(file, protocol)
        self.storages: dict[str, _C.Tensor] = {}
        self.storage_dtypes: dict[str, Any] = {}
        self.lost_history: _C.Node | None = None
        self._keys: dict[int, str] = {}
        self._legacy = legacy

    def save(self, obj: Any, save_persistent_id: bool = True) -> Any:
        if isinstance(obj, _C.Tensor) and type(obj) not in self.dispatch and not is_lazy(obj):
            if id(obj) in self.memo:
                return super().save(obj, save_persistent_id)
            return self._save_tensor(obj)
        return super().save(obj, save_persistent_id)

    def reducer_override(self, obj: Any) -> Any:
        """Modules with the attributes that PyTorch expects to find in a file's."""
        if not isinstance(obj, _C.ModuleBase):
            return NotImplemented
        reduced: Any = obj.__reduce_ex__(self.proto)
        function, args, *rest = reduced
        state = rest[0] if rest else None
        if isinstance(state, dict):
            hooks: dict[str, Any] = {name: OrderedDict() for name in HOOKS}
            state = {**hooks, "_is_full_backward_hook": None, **state}
            if hasattr(type(obj), "_flat_weights"):
                state["_flat_weights"] = getattr(obj, "_flat_weights")  # noqa: B009
            rest[0] = state
        return function, args, *rest

    def _write_global(self, name: Name) -> None:
        if id(name) in self.memo:
            self.write(self.get(self.memo[id(name)][0]))
            return
        if self.proto >= 4:
            self.save(name.module)
            self.save(name.name)
            self.write(pickle.STACK_GLOBAL)
        else:
            self.write(pickle.GLOBAL + f"{name.module}\n{name.name}\n".encode("ascii"))
        self.memoize(name)

    def _write_call(self, name: Name, args: tuple[Any, ...], obj: Any = None) -> None:
        self._write_global(name)
        self.save(args)
        self.write(pickle.REDUCE)
        if obj is not None:
            self.memoize(obj)

    # -- tensors

    def _storage_id(self, tensor: _C.Tensor, dtype: Any) -> StorageId:
        number = tensor._storage_id()
        key = self._keys.get(number)
        if key is None:
            key = self._keys[number] = str(len(self._keys))
            self.storages[key] = _C._storage_tensor(tensor).cpu()
            self.storage_dtypes[key] = dtype
        size, location = self.storages[key].numel(), str(tensor.device)
        if dtype is None:
            return StorageId(key, _UNTYPED, size, location)
        return StorageId(key, _STORAGE_TYPES[dtype], size // dtype.itemsize, location)

    def _rebuild_arguments(self, tensor: _C.Tensor) -> tuple[Name, tuple[Any, ...]]:
        dtype = tensor.dtype
        if tensor.is_meta:
            shape = (tuple(tensor.shape), tensor.stride())
            return _REBUILD_META, (dtype, *shape, tensor.requires_grad)
        known = self.storage_dtypes.get(self._keys.get(tensor._storage_id(), ""), dtype)
        place = (tensor.storage_offset(), tuple(tensor.shape), tensor.stride())
        hooks: OrderedDict[Any, Any] = OrderedDict()
        flags = (tensor.requires_grad, hooks)
        if known is dtype and dtype in _STORAGE_TYPES:
            return _REBUILD_V2, (self._storage_id(tensor, dtype), *place, *flags)
        if self._legacy and dtype not in _STORAGE_TYPES:
            raise RuntimeError(
                f"save: the legacy format has no name for {dtype}; save without "
                "_use_new_zipfile_serialization=False"
            )
        if self._legacy:
            raise RuntimeError(
                "Cannot save multiple tensors or storages that view the same data as different "
                "types in the legacy format"
            )
        # One storage read as two dtypes: the second says its dtype itself. So do the dtypes that
        # no class of storages is named after.
        return _REBUILD_V3, (self._storage_id(tensor, None), *place, *flags, dtype)

    def _save_tensor(self, tensor: _C.Tensor) -> None:
        if tensor.grad_fn is not None:
            self.lost_history = tensor.grad_fn
        if tensor.layout not in (strided, jagged):
            return self._write_sparse(tensor)
        if hasattr(type(tensor), "_recipe"):  # nested and masked tensors say it themselves
            return self.save_reduce(*tensor.__reduce_ex__(self.proto), obj=tensor)
        kind, state = type(tensor), dict(tensor.__dict__)
        if isinstance(tensor, Parameter) and kind is Parameter:
            hooks: OrderedDict[Any, Any] = OrderedDict()
            args = (tensor.detach(), tensor.requires_grad, hooks)
            if state:
                self._write_call(_REBUILD_WITH_STATE, (*args, state), tensor)
            else:
                self._write_call(_REBUILD_PARAMETER, args, tensor)
            return
        name, arguments = self._rebuild_arguments(tensor)
        if kind is not _C.Tensor or state:
            shown: Any = _TENSOR if kind is _C.Tensor else kind
            self._write_call(_REBUILD_TYPE, (name, shown, arguments, state), tensor)
        elif name is _REBUILD_V2 and self.proto >= 2:
            self._write_plain_tensor(*arguments)
            self.memoize(tensor)
        else:
            self._write_call(name, arguments, tensor)

    def _write_sparse(self, tensor: Any) -> None:
        pattern, values = tensor._pattern, tensor._raw.detach()
        parts: tuple[Any, ...] = (*pattern.parts, values, _C.Size(pattern.size))
        if pattern.is_coo:
            parts = (*parts, pattern.coalesced)
        self._write_call(_REBUILD_SPARSE, (pattern.layout, parts), tensor)

    def _write_plain_tensor(
        self, storage: StorageId, offset: int, size: Any, stride: Any, wants_grad: bool, hooks: Any
    ) -> None:
        """The common case written out: what saving the parts one by one would come to."""
        write = self.write
        self._write_global(_REBUILD_V2)
        write(pickle.MARK + pickle.MARK + _text("storage"))
        self._write_global(storage.type_name)
        write(_text(storage.key) + _text(storage.location))
        self.save_long(storage.numel)
        write((pickle.NONE if self._legacy else b"") + pickle.TUPLE + pickle.BINPERSID)
        self.save_long(offset)
        for numbers in (size, stride):
            write(pickle.MARK)
            for number in numbers:
                self.save_long(number)
            write(pickle.TUPLE)
        write(pickle.NEWTRUE if wants_grad else pickle.NEWFALSE)
        self._write_global(_ORDERED)
        write(pickle.EMPTY_TUPLE + pickle.REDUCE + pickle.TUPLE + pickle.REDUCE)

    def _save_storage(self, storage: UntypedStorage) -> None:
        flat = storage._bytes
        if flat.numel() != flat._storage_bytes():
            flat = flat.clone()  # a part of a storage is saved as one of its own
        self.save(self._storage_id(flat, None))

    def _save_storage_id(self, item: StorageId) -> None:
        saved = ("storage", item.type_name, item.key, item.location, item.numel)
        self.save((*saved, None) if self._legacy else saved, save_persistent_id=False)
        self.write(pickle.BINPERSID)

    # -- the other types of the namespace

    def _save_size(self, size: _C.Size) -> None:
        self._write_call(_SIZE, (tuple(size),), size)

    def _save_device(self, device: _C.device) -> None:
        args = (device.type,) if device.index is None else (device.type, device.index)
        self._write_call(_DEVICE, args, device)

    def _save_dtype(self, dtype: _C.dtype) -> None:
        self._write_global(_DTYPES[dtype])

    def _save_layout(self, value: layout) -> None:
        self._write_call(_LAYOUT, (str(value),), value)

    def _save_memory_format(self, value: memory_format) -> None:
        self._write_global(_FORMATS.setdefault(str(value), Name(*str(value).split("."))))

    def _save_class(self, kind: type) -> None:
        if kind in _CLASSES:
            self._write_global(_CLASSES[kind])
        else:
            self.save_type(kind)

    def _save_bytes(self, data: bytes) -> None:
        if self.proto >= 3 or data:
            self.save_bytes(data)
        else:  # not as a call of bytes, which PyTorch's reader does not know
            self._write_call(_ENCODE, ("", "latin1"), data)

    dispatch[bytes] = _save_bytes
    dispatch[_C.Tensor] = _save_tensor
    dispatch[Parameter] = _save_tensor
    dispatch[UntypedStorage] = _save_storage
    dispatch[StorageId] = _save_storage_id
    dispatch[Name] = _write_global
    dispatch[_C.Size] = _save_size
    dispatch[_C.device] = _save_device
    dispatch[_C.dtype] = _save_dtype
    dispatch[layout] = _save_layout
    dispatch[memory_format] = _save_memory_format
    dispatch[type] = _save_class


_FORMATS: dict[str, Name] = {}
_CLASSES: dict[type, Name] = {
    _C.Tensor: _TENSOR,
    Parameter: _PARAMETER,
    _C.Size: _SIZE,
    _C.device: _DEVICE,
    _C.dtype: Name("torch", "dtype"),
}


def dump(obj: Any, protocol: int = DEFAULT_PROTOCOL, legacy: bool = False) -> tuple[bytes, Pickler]:
    """The pickle of an object and the pickler, which knows the storages."""
    buffer = io.BytesIO()
    pickler = Pickler(buffer, protocol, legacy)
    pickler.dump(obj)
    return buffer.getvalue(), pickler
