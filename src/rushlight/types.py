"""Types for annotations, under torch's names."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import IO, Any, TypeAlias

from rushlight._C import Size as Size
from rushlight._C import Tensor as Tensor
from rushlight._C import device, dtype
from rushlight._layout import layout
from rushlight.storage import UntypedStorage as Storage

__all__ = ["Device", "FileLike", "Number", "Storage"]

_device: TypeAlias = device
_dtype: TypeAlias = dtype
_layout: TypeAlias = layout
_int: TypeAlias = builtins.int
_float: TypeAlias = builtins.float
_bool: TypeAlias = builtins.bool
_complex: TypeAlias = builtins.complex
_size: TypeAlias = Size | list[builtins.int] | tuple[builtins.int, ...]
_symsize: TypeAlias = _size
_dispatchkey: TypeAlias = builtins.str
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_TensorOrTensorsOrGradEdge: TypeAlias = Any
_qscheme: TypeAlias = Any

Number: TypeAlias = builtins.int | builtins.float | builtins.bool
_Number = (builtins.int, builtins.float, builtins.bool)
IntLikeType: TypeAlias = builtins.int
FloatLikeType: TypeAlias = builtins.float
BoolLikeType: TypeAlias = builtins.bool
FileLike: TypeAlias = builtins.str | os.PathLike[builtins.str] | IO[bytes]
Device: TypeAlias = _device | builtins.str | builtins.int | None
