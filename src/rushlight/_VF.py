"""The core's functions under the name that modules of PyTorch use."""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any


def __getattr__(name: str) -> Any:
    import rushlight

    return getattr(rushlight, name)
