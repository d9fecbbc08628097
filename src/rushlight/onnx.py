"""Exporting to ONNX is left out: this module answers the question that libraries ask, and says so.

>>> import rushlight as torch
>>> torch.onnx.is_in_onnx_export()
False
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any, NoReturn

__all__ = ["export", "is_in_onnx_export", "is_onnxrt_backend_supported"]


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


def __getattr__(name: str) -> Any:
    from rushlight._missing import MissingAttribute

    raise MissingAttribute("rushlight.onnx", name)
