"""What the namespace can do."""

from __future__ import annotations

import rushlight as torch
from rushlight._array_api._dtypes import DTYPES, of_kind

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Info"]


class Info:
    """Capabilities, devices and dtypes, as the standard asks for them."""

    def capabilities(self) -> dict[str, Any]:
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": 64,
        }

    def default_device(self) -> Any:
        return torch.get_default_device()

    def devices(self) -> list[Any]:
        cards = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
        return [torch.device("cpu"), *(torch.device("cuda", i) for i in cards)]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        real = torch.get_default_dtype()
        return {
            "real floating": real,
            "complex floating": real.to_complex(),
            "integral": torch.int64,
            "indexing": torch.int64,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        if kind is None:
            return dict(DTYPES)
        kinds = kind if isinstance(kind, tuple) else (kind,)
        return {name: dtype for k in kinds for name, dtype in of_kind(k).items()}
