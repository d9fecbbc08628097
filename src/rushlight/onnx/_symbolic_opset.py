"""The ops of an ONNX version, for functions that nothing calls: using one raises."""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    raise RuntimeError(f"torch.onnx: rushlight does not write ONNX files: {name}")
