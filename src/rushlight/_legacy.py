"""Constructors from before dtypes: ``Tensor(...)`` and ``FloatTensor(...)`` with its kin."""

from __future__ import annotations

from typing import Any, NoReturn

from rushlight import _C
from rushlight._tensor import _LEGACY

NAMES = tuple(f"{short}Tensor" for short in _LEGACY)
_ops = _C._namespaces[""]


def construct(
    cls: type, *args: Any, device: Any = None, requires_grad: bool = False, **kwargs: Any
) -> Any:
    """What ``cls(*args)`` makes for ``Tensor`` and subclasses that do not override ``__new__``."""
    if cls is _C.Tensor and kwargs:
        raise TypeError(f"Tensor() got an unexpected keyword argument '{next(iter(kwargs))}'")
    made = build("Tensor", _C.get_default_dtype(), args, device)
    if cls is _C.Tensor and not requires_grad:
        return made
    return _C.Tensor._make_subclass(cls, made, requires_grad)


def build(name: str, dtype: Any, args: tuple[Any, ...], device: Any = None) -> Any:
    """A tensor of these sizes, uninitialised, or of this data."""
    if not args:
        return _ops["empty"]((0,), dtype=dtype, device=device)
    if all(isinstance(a, int) and not isinstance(a, bool) for a in args):
        return _ops["empty"](args, dtype=dtype, device=device)
    if len(args) == 1 and isinstance(args[0], _C.Size):
        return _ops["empty"](args[0], dtype=dtype, device=device)
    if len(args) == 1 and isinstance(args[0], _C.Tensor):
        if name != "Tensor" and args[0].dtype is not dtype:
            raise TypeError(f"{name}(): expected a tensor of {dtype}, got {args[0].dtype}")
        return args[0].as_subclass(_C.Tensor) if name == "Tensor" else args[0].detach()
    if len(args) == 1 and not isinstance(args[0], (float, str, complex)):
        return _C._tensor(args[0], dtype, device, False)
    names = ", ".join(type(a).__name__ for a in args)
    raise TypeError(f"{name}() received an invalid combination of arguments - got ({names})")


class tensortype(type):
    """The type of ``FloatTensor`` and its kin: classes by dtype, that tensors seem to belong to."""

    dtype: Any

    def __call__(cls, *args: Any, device: Any = None) -> Any:
        return build(cls.__name__, cls.dtype, args, device)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _C.Tensor) and instance.dtype is cls.dtype

    def __repr__(cls) -> str:
        return f"<class '{cls.__module__}.{cls.__name__}'>"


_types: dict[str, Any] = {}


def legacy_type(name: str) -> Any:
    """``FloatTensor`` and its kin by name; None where there is no such class.

    >>> import rushlight as torch
    >>> torch.LongTensor([1, 2]), isinstance(torch.zeros(2), torch.FloatTensor)
    (tensor([1, 2]), True)
    """
    short = name.removesuffix("Tensor")
    if short not in _LEGACY or not name.endswith("Tensor"):
        return None
    if name not in _types:
        members = {"dtype": _LEGACY[short], "__module__": "torch", "is_cuda": False}
        members["__doc__"] = f"Tensors of {_LEGACY[short]}."
        _types[name] = tensortype(name, (), members)
    return _types[name]


def legacy_storage(name: str) -> Any:
    """``FloatStorage`` and its kin, and ``TypedStorage``, by name; None where there is none.

    >>> import rushlight as torch
    >>> torch.FloatStorage([1, 2]).tolist()
    [1.0, 2.0]
    """
    short = name.removesuffix("Storage")
    if short not in _LEGACY and name != "TypedStorage":
        return None
    from rushlight._typed_storage import TypedStorage

    if name != "TypedStorage" and name not in _types:
        members = {"dtype": _LEGACY[short], "__module__": "torch"}
        members["__doc__"] = f"Deprecated. Storages of {_LEGACY[short]}."
        _types[name] = type(name, (TypedStorage,), members)
    return _types.get(name, TypedStorage)


def dtype_of(kind: Any) -> Any:
    """The dtype that a legacy class or its name stands for."""
    if isinstance(kind, _C.dtype):
        return kind
    if isinstance(kind, tensortype):
        return kind.dtype
    if isinstance(kind, str):
        if kind.startswith("torch.cuda."):
            absent_type(kind.rpartition(".")[2])()
        found = legacy_type(kind.removeprefix("torch."))
        if found is not None:
            return found.dtype
        raise ValueError(f"invalid type: '{kind}'")
    if kind is _C.Tensor:
        return _C.get_default_dtype()
    raise TypeError(f"expected a dtype or a class like torch.FloatTensor, got {kind!r}")


def absent_type(name: str) -> Any:
    """``torch.cuda.FloatTensor`` and its kin: nothing belongs to them, making one raises."""
    from rushlight._missing import MissingAttribute

    base = legacy_type(name)
    if base is None:
        raise MissingAttribute("rushlight.cuda", name)

    def new(cls: type, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            f"type torch.cuda.{name} not available. Torch not compiled with CUDA enabled: "
            "rushlight computes on the CPU only"
        )

    return type(name, (), {"__new__": new, "__module__": "torch.cuda", "dtype": base.dtype})
