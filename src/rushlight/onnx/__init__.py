"""Exporting to ONNX is left out: this module answers the question that libraries ask, and says so.

>>> import rushlight as torch
>>> torch.onnx.is_in_onnx_export()
False
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any, NoReturn

__all__ = [
    "export", "is_in_onnx_export", "is_onnxrt_backend_supported", "register_custom_op_symbolic",
    "unregister_custom_op_symbolic",
]  # fmt: skip


def is_in_onnx_export() -> bool:
    """False: nothing is being exported.

    >>> import rushlight as torch
    >>> torch.onnx.is_in_onnx_export()
    False
    """
    return False


def is_onnxrt_backend_supported() -> bool:
    """False: there is no such backend.

    >>> import rushlight as torch
    >>> torch.onnx.is_onnxrt_backend_supported()
    False
    """
    return False


def export(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises: rushlight does not write ONNX files.

    >>> import rushlight as torch
    >>> torch.onnx.export(torch.nn.Linear(1, 1), torch.ones(1, 1), "model.onnx")
    Traceback (most recent call last):
        ...
    RuntimeError: torch.onnx.export: rushlight does not write ONNX files: ...
    """
    raise RuntimeError(
        "torch.onnx.export: rushlight does not write ONNX files: save model.state_dict() with "
        "torch.save, load it with PyTorch (the file format is the same) and export it there"
    )


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Any, opset_version: int, custom_opsets: Any = None
) -> None:
    """Says how an op of one's own would be exported: nothing is, so nothing asks for it.

    >>> import rushlight as torch
    >>> torch.onnx.register_custom_op_symbolic("mine::op", lambda g, x: g.op("Relu", x), 11)
    """


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Takes back what ``register_custom_op_symbolic`` said.

    >>> import rushlight as torch
    >>> torch.onnx.unregister_custom_op_symbolic("mine::op", 11)
    """


def __getattr__(name: str) -> Any:
    if name.startswith("symbolic_opset") and name[14:].isdecimal():
        from rushlight.onnx import _symbolic_opset

        return _symbolic_opset
    from rushlight._missing import MissingAttribute

    raise MissingAttribute("rushlight.onnx", name)
