"""How collectives combine values, in MPI's terms."""

from __future__ import annotations

import enum

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any


class RedOpType(enum.Enum):
    """The kinds of reduction."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


_RedOpType = RedOpType


class _Names(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, RedOpType) or type.__instancecheck__(cls, instance)


class ReduceOp(metaclass=_Names):
    """How a collective combines values.

    >>> import rushlight as torch
    >>> torch.distributed.ReduceOp.SUM.name
    'SUM'
    """

    RedOpType = RedOpType
    SUM = RedOpType.SUM
    AVG = RedOpType.AVG
    PRODUCT = RedOpType.PRODUCT
    MIN = RedOpType.MIN
    MAX = RedOpType.MAX
    BAND = RedOpType.BAND
    BOR = RedOpType.BOR
    BXOR = RedOpType.BXOR
    PREMUL_SUM = RedOpType.PREMUL_SUM

    def __init__(self, op: _RedOpType, factor: Any = None) -> None:
        self.op = op
        self.factor = factor

    @property
    def name(self) -> str:
        """The kind's name."""
        return self.op.name

    def __eq__(self, other: object) -> bool:
        return (other.op if isinstance(other, ReduceOp) and hasattr(other, "op") else other) is (
            self.op
        )

    def __hash__(self) -> int:
        return hash(self.op)

    def __repr__(self) -> str:
        return repr(self.op)


def _make_nccl_premul_sum(factor: Any) -> ReduceOp:
    """A sum of values times a factor."""
    return ReduceOp(RedOpType.PREMUL_SUM, factor)


class _ReduceOpNames:
    """The kinds, under the name that they had before ``ReduceOp``.

    >>> import rushlight as torch
    >>> torch.distributed.reduce_op.SUM.name
    'SUM'
    """

    SUM, PRODUCT = RedOpType.SUM, RedOpType.PRODUCT
    MIN, MAX = RedOpType.MIN, RedOpType.MAX


reduce_op = _ReduceOpNames()

_TYPES = {
    "float32": "FLOAT", "float64": "DOUBLE", "uint8": "UINT8_T", "int8": "INT8_T",
    "int16": "INT16_T", "int32": "INT32_T", "int64": "INT64_T", "complex64": "C_FLOAT_COMPLEX",
    "complex128": "C_DOUBLE_COMPLEX", "float16": "UINT16_T", "bfloat16": "UINT16_T",
    "bool": "UINT8_T",
}  # fmt: skip
_OPS = {
    "SUM": "SUM", "AVG": "SUM", "PREMUL_SUM": "SUM", "PRODUCT": "PROD", "MIN": "MIN",
    "MAX": "MAX", "BAND": "BAND", "BOR": "BOR", "BXOR": "BXOR",
}  # fmt: skip
# On bytes that are 0 or 1, arithmetic is logic.
_BOOL_OPS = {
    "SUM": "BOR", "PRODUCT": "BAND", "MIN": "BAND", "MAX": "BOR",
    "BAND": "BAND", "BOR": "BOR", "BXOR": "BXOR",
}  # fmt: skip
_HALF_METHODS = {
    "SUM": "add", "AVG": "add", "PREMUL_SUM": "add", "PRODUCT": "mul", "MIN": "minimum",
    "MAX": "maximum",
}  # fmt: skip

_half_ops: dict[tuple[str, str], Any] = {}


def kind(op: Any, where: str) -> RedOpType:
    """The kind of what a program gave as ``op``."""
    if op is RedOpType.PREMUL_SUM:
        raise TypeError(f"{where}: PREMUL_SUM needs its factor: use _make_nccl_premul_sum(factor)")
    if isinstance(op, RedOpType):
        return op
    if isinstance(op, ReduceOp):
        return op.op
    raise TypeError(f"{where}: op must be a ReduceOp such as ReduceOp.SUM, got {op!r}")


def mpi_type(MPI: Any, dtype: Any) -> Any:
    """The MPI type with the bytes of a dtype."""
    name = str(dtype).removeprefix("torch.").removeprefix("rushlight.")
    return getattr(MPI, _TYPES[name]) if name in _TYPES else None


def check_op(op: RedOpType, dtype: Any, where: str) -> None:
    """Raises if values of the dtype can't be combined so."""
    name = op.name
    text = str(dtype).removeprefix("torch.")
    if dtype.is_complex and name in ("MIN", "MAX", "BAND", "BOR", "BXOR", "PRODUCT"):
        if name != "PRODUCT":
            raise ValueError(f"{where}: does not support {name} on complex tensors")
    elif dtype.is_floating_point and name in ("BAND", "BOR", "BXOR"):
        raise ValueError(f"{where}: Cannot use ReduceOp.{name} with {text}: bits are of integers")
    elif text == "bool" and name not in _BOOL_OPS:
        raise ValueError(f"{where}: Cannot use ReduceOp.{name} with bool: SUM is a logical or")
    if text not in _TYPES:
        raise TypeError(f"{where}: Invalid scalar type: {text}")


def mpi_op(MPI: Any, op: RedOpType, dtype: Any) -> Any:
    """The MPI operation that combines values of the dtype."""
    text = str(dtype).removeprefix("torch.")
    if text == "bool":
        return getattr(MPI, _BOOL_OPS[op.name])
    if text in ("float16", "bfloat16"):
        return _half_op(MPI, op.name, text)
    return getattr(MPI, _OPS[op.name])


def _half_op(MPI: Any, name: str, text: str) -> Any:
    """MPI has no half precision: our own kernels combine the pieces that it hands over."""
    key = (_HALF_METHODS[name], text)
    if key not in _half_ops:
        import rushlight as torch

        dtype = getattr(torch, text)
        function = getattr(torch, key[0])

        def combine(left: Any, right: Any, datatype: Any) -> None:
            with torch.no_grad():
                into = torch.frombuffer(right, dtype=dtype)
                into.copy_(function(torch.frombuffer(left, dtype=dtype), into))

        _half_ops[key] = MPI.Op.Create(combine, commute=True)
    return _half_ops[key]
