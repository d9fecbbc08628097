"""Limits of the element types."""

from __future__ import annotations

from rushlight import _C

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any


_BITS = {  # name: (bits of the fraction, smallest exponent, largest exponent)
    "float64": (52, -1022, 1023),
    "float32": (23, -126, 127),
    "float16": (10, -14, 15),
    "bfloat16": (7, -126, 127),
    "complex32": (10, -14, 15),
    "complex64": (23, -126, 127),
    "complex128": (52, -1022, 1023),
}
_BYTES = {  # types of a byte: (eps, largest, smallest, smallest normal)
    "float8_e4m3fn": (2.0**-3, 448.0, -448.0, 2.0**-6),
    "float8_e4m3fnuz": (2.0**-3, 240.0, -240.0, 2.0**-7),
    "float8_e5m2": (2.0**-2, 57344.0, -57344.0, 2.0**-14),
    "float8_e5m2fnuz": (2.0**-3, 57344.0, -57344.0, 2.0**-15),
    "float8_e8m0fnu": (1.0, 2.0**127, 2.0**-127, 2.0**-127),
}
_RANGES = {
    "uint16": (0, 2**16 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
    "uint8": (0, 255),
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}


def _name(type: Any) -> str:
    """The name of a dtype, given as such or as a class of Python's numbers."""
    dtypes = {float: _C.float64, complex: _C.complex128, int: _C.int64, bool: _C.bool}
    dtype = type if isinstance(type, _C.dtype) else dtypes.get(type)
    if dtype is None and hasattr(type, "itemsize") and hasattr(type, "name"):
        return str(type.name)  # one that no tensor has
    if dtype is None:
        raise TypeError(f"expected a dtype, float, complex or int, got {type!r}")
    return dtype.name


class finfo:
    """The limits of a floating type.

    >>> import rushlight as torch
    >>> torch.finfo(torch.float32).eps
    1.1920928955078125e-07
    """

    def __init__(self, type: Any = None) -> None:
        name = _name(_C.get_default_dtype() if type is None else type)
        if name in _BYTES:
            self.dtype, self.bits, self.resolution = name, 8, 1.0
            self.eps, self.max, self.min, self.tiny = _BYTES[name]
            self.smallest_normal = self.tiny
            return
        if name not in _BITS:
            raise TypeError(
                f"torch.finfo() requires a floating point input type, got {name}. Use torch.iinfo"
            )
        fraction, low, high = _BITS[name]
        real = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
        self.dtype = real.get(name, name)
        self.bits = {"float16": 16, "bfloat16": 16, "float32": 32, "float64": 64}[self.dtype]
        self.eps = 2.0**-fraction
        self.max = (2.0 - self.eps) * 2.0**high
        self.min = -self.max
        self.tiny = self.smallest_normal = 2.0**low
        self.resolution = 10.0 ** -int(fraction * 0.30103)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, "
            f"dtype={self.dtype})"
        )


class iinfo:
    """The limits of an integer type.

    >>> import rushlight as torch
    >>> torch.iinfo(torch.int8)
    iinfo(min=-128, max=127, dtype=int8)
    >>> torch.iinfo(torch.int64).max
    9223372036854775807
    """

    def __init__(self, type: Any) -> None:
        name = _name(type)
        if name not in _RANGES:
            raise TypeError(
                f"torch.iinfo() requires an integer input type, got {name}. Use torch.finfo"
            )
        self.dtype = name
        self.min, self.max = _RANGES[name]
        self.bits = (self.max - self.min).bit_length()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
