"""Files of the safetensors format, with the names of ``safetensors.torch``.

Needs the ``safetensors`` package (the extra ``safetensors``).
"""

from __future__ import annotations

import os
from typing import Any

from rushlight import _C
from rushlight._serialization.atomic import replace_by
from rushlight._serialization.storages import default_restore_location

__all__ = ["load", "load_file", "load_model", "safe_open", "save", "save_file", "save_model"]

_CODES = {
    _C.float64: "F64", _C.float32: "F32", _C.float16: "F16", _C.bfloat16: "BF16", _C.int64: "I64",
    _C.int32: "I32", _C.int16: "I16", _C.int8: "I8", _C.uint8: "U8", _C.bool: "BOOL",
    _C.complex64: "C64", _C.uint16: "U16", _C.uint32: "U32", _C.uint64: "U64",
    _C.float8_e4m3fn: "F8_E4M3", _C.float8_e5m2: "F8_E5M2", _C.float8_e8m0fnu: "F8_E8M0",
    _C.float8_e4m3fnuz: "F8_E4M3FNUZ", _C.float8_e5m2fnuz: "F8_E5M2FNUZ",
}  # fmt: skip
_DTYPES = {code: dtype for dtype, code in _CODES.items()}


def _package() -> Any:
    try:
        import safetensors
    except ImportError as error:
        raise RuntimeError(
            "safetensors is not installed. Please install it with: pip install safetensors"
        ) from error
    return safetensors


def _check(tensors: Any) -> None:
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    owners: dict[int, str] = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, _C.Tensor):
            raise ValueError(
                f"Key `{name}` is invalid, expected torch.Tensor but received {type(tensor)}"
            )
        if tensor.dtype not in _CODES:
            raise ValueError(f"Key `{name}`: safetensors has no {tensor.dtype}")
        if not tensor.is_contiguous():
            raise ValueError(
                f"You are trying to save a non contiguous tensor: `{name}` which is not allowed. "
                "Call .contiguous() on it first"
            )
        other = owners.setdefault(tensor._storage_id(), name) if tensor.numel() else name
        if other != name:
            raise RuntimeError(
                f"Some tensors share memory, this will lead to duplicate memory on disk: `{other}` "
                f"and `{name}`. Save only one of them, or use save_model, which does that"
            )


def _specs(tensors: dict[str, _C.Tensor]) -> dict[str, Any]:
    package = _package()
    _check(tensors)
    return {
        name: package.TensorSpec(
            dtype=t.dtype.name, shape=list(t.shape), data_ptr=t.data_ptr(), data_len=t.nbytes
        )
        for name, t in tensors.items()
    }


def save(tensors: dict[str, _C.Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file.

    >>> import rushlight as torch
    >>> from rushlight import safetensors
    >>> data = safetensors.save({"weight": torch.ones(2)})
    >>> safetensors.load(data)
    {'weight': tensor([1., 1.])}
    """
    return bytes(_package().serialize(_specs(tensors), metadata=metadata))


def save_file(
    tensors: dict[str, _C.Tensor],
    filename: str | os.PathLike[str],
    metadata: dict[str, str] | None = None,
) -> None:
    """Writes tensors to a safetensors file; the file appears when all of it is written.

    >>> import rushlight as torch
    >>> import tempfile
    >>> from rushlight import safetensors
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     safetensors.save_file({"weight": torch.ones(2)}, folder + "/weights")
    ...     safetensors.load_file(folder + "/weights")
    {'weight': tensor([1., 1.])}
    """
    specs = _specs(tensors)
    serialize = _package().serialize_file
    replace_by(filename, lambda name: serialize(specs, name, metadata=metadata))


def _view(buffer: Any, code: str, shape: Any) -> _C.Tensor:
    if code not in _DTYPES:
        raise RuntimeError(f"safetensors: rushlight has no dtype for '{code}'")
    dtype, flat = _DTYPES[code], _C._share_buffer(buffer) if len(buffer) else None
    shape = tuple(shape)
    if flat is None:
        return _C._namespaces[""]["empty"](shape, dtype=dtype)
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return _C._reinterpret(flat, dtype, shape, tuple(reversed(strides)))


def load(data: bytes) -> dict[str, _C.Tensor]:
    """The tensors of a safetensors file, from its bytes.

    >>> import rushlight as torch
    >>> from rushlight import safetensors
    >>> safetensors.load(safetensors.save({"weight": torch.ones(2)}))
    {'weight': tensor([1., 1.])}
    """
    found = _package().deserialize(data)
    return {name: _view(item["data"], item["dtype"], item["shape"]) for name, item in found}


def load_file(
    filename: str | os.PathLike[str], device: Any = "cpu", **ignored: Any
) -> dict[str, _C.Tensor]:
    """The tensors of a safetensors file.

    >>> import rushlight as torch
    >>> import tempfile
    >>> from rushlight import safetensors
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     safetensors.save_file({"weight": torch.ones(2)}, folder + "/weights")
    ...     safetensors.load_file(folder + "/weights")
    {'weight': tensor([1., 1.])}
    """
    with safe_open(filename, framework="pt", device=device) as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


class safe_open:
    """Opens a safetensors file; its tensors are read one by one, as asked for.

    >>> import rushlight as torch
    >>> import tempfile
    >>> from rushlight import safetensors
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     safetensors.save_file({"bias": torch.zeros(1)}, folder + "/weights")
    ...     with safetensors.safe_open(folder + "/weights", framework="pt") as file:
    ...         print(file.get_tensor("bias"))
    tensor([0.])
    """

    def __init__(
        self, filename: str | os.PathLike[str], framework: str = "pt", device: Any = "cpu"
    ) -> None:
        if framework not in ("pt", "torch", "pytorch"):
            raise ValueError(f"safe_open: the framework here is 'pt', got {framework!r}")
        default_restore_location(None, str(device))
        package = _package()
        # The package checks the header and every offset in it; the bytes are read here, once.
        self._checked = package.safe_open(os.fspath(filename), framework="np")
        self._file = open(filename, "rb")  # noqa: SIM115
        self._entries, self._start = self._header()

    def _header(self) -> tuple[dict[str, Any], int]:
        import json

        length = int.from_bytes(self._file.read(8), "little")
        header = json.loads(self._file.read(length))
        header.pop("__metadata__", None)
        return header, 8 + length

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *error: Any) -> None:
        self._file.close()

    def keys(self) -> list[str]:
        """The names of the tensors."""
        return list(self._checked.keys())

    def offset_keys(self) -> list[str]:
        """The names of the tensors in the order of the file."""
        return sorted(self._entries, key=lambda name: self._entries[name]["data_offsets"][0])

    def metadata(self) -> dict[str, str] | None:
        """The texts that were saved beside the tensors."""
        found: dict[str, str] | None = self._checked.metadata()
        return found

    def get_tensor(self, name: str) -> _C.Tensor:
        """One tensor."""
        from rushlight._serialization.archive import fill
        from rushlight._serialization.storages import empty_storage

        if name not in self._entries:
            raise KeyError(f"File does not contain tensor {name}")
        entry = self._entries[name]
        start, end = entry["data_offsets"]
        flat = empty_storage(end - start)
        if end > start:
            self._file.seek(self._start + start)
            fill(self._file, memoryview(flat))
        return _view(flat, entry["dtype"], entry["shape"])

    def get_slice(self, name: str) -> _Slice:
        """A tensor of which an index reads what is wanted."""
        return _Slice(self, name)


class _Slice:
    def __init__(self, file: safe_open, name: str) -> None:
        self._file, self._name = file, name
        self._entry = file._entries[name]

    def get_shape(self) -> list[int]:
        """The shape of the whole."""
        return list(self._entry["shape"])

    def get_dtype(self) -> str:
        """The dtype, as the file says it."""
        return str(self._entry["dtype"])

    def __getitem__(self, index: Any) -> _C.Tensor:
        return self._file.get_tensor(self._name)[index].clone()


def save_model(
    model: Any,
    filename: str | os.PathLike[str],
    metadata: dict[str, str] | None = None,
    force_contiguous: bool = True,
) -> None:
    """Saves a module's state; of tensors that share memory one is written.

    >>> import rushlight as torch
    >>> import tempfile
    >>> from rushlight import safetensors
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     safetensors.save_model(torch.nn.Linear(2, 2), folder + "/model")
    ...     sorted(safetensors.load_file(folder + "/model"))
    ['bias', 'weight']
    """
    kept: dict[str, _C.Tensor] = {}
    names: dict[Any, str] = {}
    notes = dict(metadata or {})
    for name, tensor in model.state_dict().items():
        key = (tensor._storage_id(), tensor.storage_offset(), tuple(tensor.shape))
        if tensor.numel() and key in names:
            notes[name] = names[key]
            continue
        names[key] = name
        kept[name] = tensor.contiguous() if force_contiguous else tensor
    save_file(kept, filename, metadata=notes or None)


def load_model(
    model: Any, filename: str | os.PathLike[str], strict: bool = True, device: Any = "cpu"
) -> tuple[list[str], list[str]]:
    """Loads a module's state; returns the names that were missing and those not expected.

    >>> import rushlight as torch
    >>> import tempfile
    >>> from rushlight import safetensors
    >>> model, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     safetensors.save_model(model, folder + "/model")
    ...     _ = safetensors.load_model(other, folder + "/model")
    >>> torch.equal(model.weight, other.weight)
    True
    """
    state = load_file(filename, device)
    own = model.state_dict()
    groups: dict[Any, list[str]] = {}
    for name, tensor in own.items():
        groups.setdefault(
            (tensor._storage_id(), tensor.storage_offset(), tuple(tensor.shape)), []
        ).append(name)
    for names in groups.values():
        present = [name for name in names if name in state]
        if present:
            state.update((name, state[present[0]]) for name in names)
    missing = sorted(set(own) - set(state))
    unexpected = sorted(set(state) - set(own))
    if strict and (missing or unexpected):
        raise RuntimeError(
            f"Error(s) in loading state_dict for {type(model).__name__}: missing key(s): "
            f"{missing}, unexpected key(s): {unexpected}"
        )
    model.load_state_dict(state, strict=False)
    return missing, unexpected
