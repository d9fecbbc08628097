"""The objects that a checkpoint may ask for. Every argument is checked before it is used."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from pickle import UnpicklingError
from typing import Any

from rushlight import _C
from rushlight import _layout as _layout_names
from rushlight._layout import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    layout,
    preserve_format,
    strided,
)
from rushlight._serialization.storages import (
    DTYPES,
    STORAGE_DTYPES,
    LoadedStorage,
    StorageType,
)
from rushlight.nn.parameter import Parameter

_LIMIT = 2**63
_DIMS = 64
_FACTORIES = (dict, list, set, int, float, str, tuple, bool, OrderedDict, Counter, type(None))


class Builder:
    """A function named by the file: called with the file's arguments, it checks them itself."""

    def __init__(self, name: str, build: Callable[..., Any]) -> None:
        self.name = name
        self.build = build

    def __call__(self, *args: Any) -> Any:
        return self.build(*args)


def _is_int(value: Any) -> bool:
    return type(value) is int and -_LIMIT <= value < _LIMIT


def _ints(what: str, values: Any) -> tuple[int, ...]:
    if not isinstance(values, (tuple, list)) or not all(map(_is_int, values)):
        raise UnpicklingError(f"{what} of a tensor must be a tuple of integers, got {values!r:.80}")
    if len(values) > _DIMS:
        raise UnpicklingError(f"a tensor has at most {_DIMS} dimensions, got {len(values)}")
    return tuple(values)


def _flag(value: Any) -> bool:
    if type(value) not in (bool, int):
        raise UnpicklingError(f"requires_grad must be a bool, got {value!r:.80}")
    return bool(value)


def _view(storage: Any, dtype: Any, offset: Any, size: Any, stride: Any) -> _C.Tensor:
    """A tensor on a storage; it never reaches beyond the storage's bytes."""
    if not isinstance(storage, LoadedStorage) or not isinstance(dtype, _C.dtype):
        raise UnpicklingError(f"a tensor needs a storage and a dtype, got {storage!r:.80}")
    size, stride = _ints("the size", size), _ints("the stride", stride)
    if not _is_int(offset) or len(size) != len(stride) or min((offset, *size, *stride)) < 0:
        raise UnpicklingError(
            f"no tensor has size {size}, stride {stride} and offset {offset}: the file is corrupt"
        )
    numel, capacity, last, extent = 1, storage.nbytes() // dtype.itemsize, offset, 1
    for n, step in zip(size, stride, strict=True):
        numel *= n
        extent *= max(n, 1)
        last += max(n - 1, 0) * step
    if offset > capacity or extent >= _LIMIT or (numel and last >= capacity):
        raise UnpicklingError(
            f"a tensor of size {size}, stride {stride} and offset {offset} lies outside its "
            f"storage of {capacity} elements: the file is corrupt"
        )
    return _C._reinterpret(storage._bytes, dtype, size, stride, offset)


def _tensor(storage: Any, offset: Any, size: Any, stride: Any) -> _C.Tensor:
    return _view(storage, getattr(storage, "dtype", None), offset, size, stride)


def _tensor_v2(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    hooks: Any = None,
    metadata: Any = None,
) -> _C.Tensor:
    if metadata:
        raise UnpicklingError(
            f"tensors with the metadata {metadata!r:.80} (lazy conjugation or negation) can't be "
            "read; save tensor.resolve_conj().resolve_neg()"
        )
    return _tensor(storage, offset, size, stride).requires_grad_(_flag(requires_grad))


def _meta(dtype: Any, size: Any, stride: Any, requires_grad: Any) -> _C.Tensor:
    if not isinstance(dtype, _C.dtype):
        raise UnpicklingError(f"a meta tensor has a dtype, got {dtype!r:.80}")
    sizes, strides = _ints("the sizes", size), _ints("the strides", stride)
    tensor: _C.Tensor = _C._namespaces[""]["empty_strided"](
        sizes, strides, dtype=dtype, device="meta"
    )
    return tensor.requires_grad_(_flag(requires_grad))


def _tensor_v3(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> _C.Tensor:
    tensor = _view(storage, dtype, offset, size, stride)
    return tensor.requires_grad_(_flag(requires_grad))


def _parameter(data: Any, requires_grad: Any = True, hooks: Any = None) -> Parameter:
    if not isinstance(data, _C.Tensor):
        raise UnpicklingError(f"a Parameter is made of a tensor, got {type(data).__name__}")
    return Parameter(data, _flag(requires_grad))


def _parameter_with_state(data: Any, requires_grad: Any, hooks: Any, state: Any) -> Parameter:
    return set_attributes(_parameter(data, requires_grad), state)


def _from_type(function: Any, kind: Any, args: Any, state: Any) -> Any:
    """A tensor with attributes, or of a subclass that the user allowed."""
    if not isinstance(function, Builder) or not isinstance(args, tuple):
        raise UnpicklingError(f"{function!r:.80} does not build tensors")
    tensor = function(*args)
    if not isinstance(tensor, _C.Tensor) or not (
        isinstance(kind, type) and issubclass(kind, _C.Tensor)
    ):
        raise UnpicklingError(f"{kind!r:.80} is not a class of tensors")
    if type(tensor) is not kind:
        wants_grad = tensor.requires_grad
        tensor = _C.Tensor._make_subclass(kind, tensor.detach(), wants_grad)
    return set_attributes(tensor, state)


def set_attributes(target: Any, state: Any) -> Any:
    """Gives a tensor or an OrderedDict attributes of its own; none may hide a method."""
    if isinstance(state, tuple) and len(state) == 2 and not state[1]:
        state = state[0]
    if not state:
        return target
    if not isinstance(state, dict):
        raise UnpicklingError(f"the attributes of an object must be a dict, got {state!r:.80}")
    for name, value in state.items():
        if type(name) is not str or hasattr(type(target), name):
            raise UnpicklingError(
                f"a file can't set {name!r:.80} on a {type(target).__name__}: that is no plain "
                "attribute"
            )
        target.__dict__[name] = value
    return target


def _size(values: Any = ()) -> Any:
    return _C.Size(_ints("the size", values))


def _device(kind: Any, index: Any = None) -> Any:
    if type(kind) is not str or not (index is None or _is_int(index)):
        raise UnpicklingError(f"no device is named {kind!r:.80}, {index!r:.80}")
    return _C.device(kind) if index is None else _C.device(kind, index)


def _layout(name: Any) -> layout:
    found = getattr(_layout_names, name[6:], None) if type(name) is str else None
    if not isinstance(found, layout) or str(found) != name:
        raise UnpicklingError(f"rushlight has no tensors of layout {name!r:.80}")
    return found


def _sparse(kind: Any, parts: Any) -> Any:
    """A sparse tensor, all that its indices must be checked."""
    from rushlight._sparse.construct import sparse_compressed_tensor, sparse_coo_tensor

    plain = isinstance(kind, layout) and isinstance(parts, tuple) and len(parts) in (3, 4)
    tensors = parts[: 2 if kind is _layout_names.sparse_coo else 3] if plain else ()
    if not tensors or not all(type(t) is _C.Tensor for t in tensors):
        raise UnpicklingError(
            "a sparse tensor is made of a layout and tensors of indices and values"
        )
    size = _ints("the size", tuple(parts[len(tensors)]))
    try:
        if kind is _layout_names.sparse_coo:
            ordered = _flag(parts[3]) if len(parts) == 4 else None
            where, values = tensors
            return sparse_coo_tensor(
                where, values, size, check_invariants=True, is_coalesced=ordered or None
            )
        begins, others, values = tensors
        return sparse_compressed_tensor(
            begins, others, values, size, layout=kind, check_invariants=True
        )
    except (RuntimeError, IndexError) as error:
        raise UnpicklingError(f"the parts of a sparse tensor do not fit: {error}") from None


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    """How pickles of protocol 2 write bytes."""
    if type(text) is not str or encoding not in ("latin1", "utf-8", "ascii"):
        raise UnpicklingError("_codecs.encode takes a string and latin1, utf-8 or ascii")
    return text.encode(encoding)


def _bytearray(data: Any = b"", encoding: Any = None) -> bytearray:
    if type(data) is str and encoding is not None:
        data = _encode(data, encoding)
    if type(data) not in (bytes, bytearray):
        raise UnpicklingError(f"a bytearray is made of bytes, got {type(data).__name__}")
    return bytearray(data)


def _bytes(*args: Any) -> bytes:
    """How pickles of protocol 2 write no bytes at all."""
    if args:
        raise UnpicklingError("bytes() in a file takes no arguments")
    return b""


def _complex(real: Any, imag: Any) -> complex:
    if type(real) not in (int, float) or type(imag) not in (int, float):
        raise UnpicklingError("a complex number is made of two numbers")
    return complex(real, imag)


def _range(*bounds: Any) -> Any:
    return range(*_ints("the bounds", bounds))


def _slice(*bounds: Any) -> slice:
    if not 1 <= len(bounds) <= 3 or not all(b is None or _is_int(b) for b in bounds):
        raise UnpicklingError("a slice is made of integers")
    return slice(*bounds)


def _items(values: Any) -> list[Any]:
    if type(values) not in (list, tuple):
        raise UnpicklingError(f"expected a list of items, got {type(values).__name__}")
    for value in values:
        check_key(value)
    return list(values)


def _set(values: Any = ()) -> set[Any]:
    return set(_items(values))


def _frozenset(values: Any = ()) -> frozenset[Any]:
    return frozenset(_items(values))


def _pairs(values: Any) -> list[tuple[Any, Any]]:
    pairs = list(values.items()) if type(values) is dict else values
    if type(pairs) not in (list, tuple):
        raise UnpicklingError(f"expected a list of pairs, got {type(values).__name__}")
    for pair in pairs:
        if type(pair) not in (list, tuple) or len(pair) != 2:
            raise UnpicklingError("expected a list of pairs")
        check_key(pair[0])
    return [tuple(pair) for pair in pairs]


def _ordered(values: Any = ()) -> OrderedDict[Any, Any]:
    return OrderedDict(_pairs(values))


def _counter(values: Any = ()) -> Counter[Any]:
    return Counter(dict(_pairs(values)))


def _defaultdict(factory: Any = None, values: Any = ()) -> defaultdict[Any, Any]:
    if factory is not None and factory not in _FACTORIES:
        raise UnpicklingError(f"a defaultdict can't call {factory!r:.80}: not a plain container")
    return defaultdict(factory, _pairs(values))


_KEYS = {
    str, int, float, bool, complex, bytes, type(None), _C.dtype, _C.device, _C.Size, _C.Tensor,
    Parameter, range, frozenset, type(strided),
}  # fmt: skip


def check_key(key: Any) -> None:
    """Refuses keys whose hash could take forever or overflow the stack: deeply nested tuples."""
    if type(key) in _KEYS:
        return
    left = [key]
    for _ in range(1000):
        if not left:
            return
        item = left.pop()
        if type(item) is tuple:
            left.extend(item[:1001])
        elif type(item) not in _KEYS and type(item) in PLAIN_TYPES:
            raise UnpicklingError(f"a {type(item).__name__} can't be a key of a dict or set")
    raise UnpicklingError("a key of a dict is a tuple of more than a thousand parts")


# Types that the machine builds by itself and that no key may contain.
PLAIN_TYPES = {list, dict, set, bytearray, OrderedDict, Counter, defaultdict, slice, LoadedStorage}

# Classes: pushed as themselves; calling one runs the builder instead of the class.
CLASSES: dict[str, Any] = {
    "collections.OrderedDict": OrderedDict,
    "collections.Counter": Counter,
    "collections.defaultdict": defaultdict,
    "builtins.set": set,
    "builtins.frozenset": frozenset,
    "builtins.bytearray": bytearray,
    "builtins.bytes": bytes,
    "builtins.complex": complex,
    "builtins.range": range,
    "builtins.slice": slice,
    "builtins.dict": dict,
    "builtins.list": list,
    "builtins.tuple": tuple,
    "builtins.int": int,
    "builtins.float": float,
    "builtins.str": str,
    "builtins.bool": bool,
    "torch.Size": _C.Size,
    "torch.device": _C.device,
    "torch.dtype": _C.dtype,
    "torch.Tensor": _C.Tensor,
    "torch.nn.parameter.Parameter": Parameter,
}

CALLS: dict[Any, Callable[..., Any]] = {
    OrderedDict: _ordered,
    Counter: _counter,
    defaultdict: _defaultdict,
    set: _set,
    frozenset: _frozenset,
    bytearray: _bytearray,
    bytes: _bytes,
    complex: _complex,
    range: _range,
    slice: _slice,
    _C.Size: _size,
    _C.device: _device,
    Parameter: _parameter,
}

_BUILDERS: dict[str, Callable[..., Any]] = {
    "_codecs.encode": _encode,
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor_v2,
    "torch._utils._rebuild_tensor_v3": _tensor_v3,
    "torch._utils._rebuild_meta_tensor_no_storage": _meta,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_parameter_with_state": _parameter_with_state,
    "torch._utils._rebuild_sparse_tensor": _sparse,
    "torch._tensor._rebuild_from_type_v2": _from_type,
    "torch.serialization._get_layout": _layout,
}

VALUES: dict[str, Any] = {
    **{f"torch.{name}": dtype for name, dtype in DTYPES.items()},
    **{f"torch.{name}": StorageType(name) for name in STORAGE_DTYPES},
    "torch.storage.UntypedStorage": StorageType("UntypedStorage"),
    "torch.UntypedStorage": StorageType("UntypedStorage"),
    "torch.contiguous_format": contiguous_format,
    "torch.channels_last": channels_last,
    "torch.channels_last_3d": channels_last_3d,
    "torch.preserve_format": preserve_format,
    **{name: Builder(name, build) for name, build in _BUILDERS.items()},
}
