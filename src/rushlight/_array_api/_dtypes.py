"""Data types: kinds, limits, promotion and casts."""

from __future__ import annotations

import rushlight as torch
from rushlight import _C
from rushlight._C import Tensor
from rushlight._C import dtype as Dtype

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = ["astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]

_NAMES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "float32", "float64", "complex64",
    "complex128",
)  # fmt: skip
# Those of the standard that have all of its operations and its promotion.
DTYPES: dict[str, Dtype] = {name: getattr(torch, name) for name in _NAMES}
_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]
_KINDS["floating"] = _KINDS["real floating"] + _KINDS["complex floating"]


def of_kind(kind: str) -> dict[str, Dtype]:
    """The dtypes of a kind, by name."""
    if kind not in _KINDS or kind == "floating":
        raise ValueError(f"kind must be one of {sorted(set(_KINDS) - {'floating'})}, got {kind!r}")
    return {name: DTYPES[name] for name in _KINDS[kind] if name in DTYPES}


def is_kind(dtype: Dtype, kind: str) -> bool:
    return dtype.name in _KINDS[kind]


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is another, of a kind, or either of several.

    >>> import rushlight as torch
    >>> xp = torch.ones(1).__array_namespace__()
    >>> xp.isdtype(xp.float32, "real floating"), xp.isdtype(xp.int8, ("bool", xp.int8))
    (True, True)
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    return dtype in of_kind(kind).values() if isinstance(kind, str) else dtype is kind


class finfo:
    """Limits of a floating dtype, or of that of an array; complex ones have those of their parts.

    >>> import rushlight as torch
    >>> torch.ones(1).__array_namespace__().finfo(torch.float64).bits
    64
    """

    __slots__ = ("bits", "dtype", "eps", "max", "min", "smallest_normal")

    def __init__(self, type: Any, /) -> None:
        given = type.dtype if isinstance(type, Tensor) else type
        known = torch.finfo(given)
        self.dtype: Dtype = given.to_real() if given.is_complex else given
        self.bits: int = known.bits
        self.eps: float = known.eps
        self.max: float = known.max
        self.min: float = known.min
        self.smallest_normal: float = known.smallest_normal

    def __repr__(self) -> str:
        return f"finfo(dtype={self.dtype}, eps={self.eps}, max={self.max})"


class iinfo:
    """Limits of an integer dtype, or of that of an array.

    >>> import rushlight as torch
    >>> torch.ones(1).__array_namespace__().iinfo(torch.int8).max
    127
    """

    __slots__ = ("bits", "dtype", "max", "min")

    def __init__(self, type: Any, /) -> None:
        self.dtype: Dtype = type.dtype if isinstance(type, Tensor) else type
        known = torch.iinfo(self.dtype)
        self.bits: int = known.bits
        self.max: int = int(known.max)
        self.min: int = int(known.min)

    def __repr__(self) -> str:
        return f"iinfo(dtype={self.dtype}, min={self.min}, max={self.max})"


def result_type(*arrays_and_dtypes: Any) -> Dtype:
    """The dtype that arrays, dtypes and numbers make together; arrays without dimensions count.

    >>> import rushlight as torch
    >>> torch.ones(1).__array_namespace__().result_type(torch.ones(2), torch.float64, 3)
    torch.float64
    """
    found: Any = None
    numbers = []
    for given in arrays_and_dtypes:
        dtype = given.dtype if isinstance(given, Tensor) else given
        if isinstance(dtype, Dtype):
            found = dtype if found is None else _C.promote_types(found, dtype)
        elif isinstance(given, (bool, int, float, complex)):
            numbers.append(given)
        else:
            raise TypeError(f"result_type: arrays, dtypes or numbers expected, got {given!r}")
    if found is None:
        raise ValueError("result_type: at least one array or dtype is needed")
    for number in numbers:
        found = _with_number(found, number)
    return found


def _with_number(dtype: Dtype, number: Any) -> Dtype:
    """The dtype that a number takes beside arrays of a dtype."""
    if isinstance(number, bool):
        return dtype
    if isinstance(number, int):
        return torch.int64 if dtype is torch.bool else dtype
    if isinstance(number, float):
        floating = is_kind(dtype, "floating") or dtype.is_floating_point
        return dtype if floating else torch.get_default_dtype()
    if dtype.is_complex:
        return dtype
    real = dtype if dtype.is_floating_point else torch.get_default_dtype()
    return real.to_complex()


def together(*values: Any) -> list[Tensor]:
    """Arrays and numbers as arrays of their common dtype."""
    arrays = [v for v in values if isinstance(v, Tensor)]
    if not arrays:
        raise TypeError(f"at least one array is needed, got {values!r}")
    dtype, device = result_type(*values), arrays[0].device

    def array(value: Any) -> Tensor:
        if isinstance(value, Tensor):
            return value.to(dtype)
        return torch.full((), value, dtype=dtype, device=device)

    return [array(v) for v in values]


def can_cast(from_: Any, to: Dtype, /) -> bool:
    """Whether a dtype, or that of an array, becomes another by promotion.

    >>> import rushlight as torch
    >>> torch.ones(1).__array_namespace__().can_cast(torch.int8, torch.int16)
    True
    """
    dtype = from_.dtype if isinstance(from_, Tensor) else from_
    return _C.promote_types(dtype, to) is to


def astype(x: Tensor, dtype: Dtype, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """The array with another dtype; without ``copy`` itself where nothing changes.

    >>> import rushlight as torch
    >>> torch.ones(1).__array_namespace__().astype(torch.tensor([1.7]), torch.int64)
    tensor([1])
    """
    if x.dtype.is_complex and not dtype.is_complex and dtype is not torch.bool:
        raise TypeError(f"astype: complex numbers do not become {dtype}: take their real part")
    return x.to(device=x.device if device is None else device, dtype=dtype, copy=copy)
