"""What ``importlib.metadata`` finds under the name torch while it is rushlight."""

from __future__ import annotations

import os
import pathlib
from importlib.metadata import Distribution


class TorchDistribution(Distribution):
    """The metadata of PyTorch's release that rushlight follows."""

    def __init__(self, version: str) -> None:
        self._version = version

    def read_text(self, filename: str | os.PathLike[str]) -> str | None:
        """The text of METADATA; there are no other files."""
        if os.fspath(filename) != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: torch\nVersion: {self._version}\n"

    def locate_file(self, path: str | os.PathLike[str]) -> pathlib.Path:
        """Where a file of the package would lie."""
        return pathlib.Path(__file__).parent.parent / path
