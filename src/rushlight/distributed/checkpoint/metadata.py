"""What a checkpoint holds, and in which of its files."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import rushlight
from rushlight.distributed.checkpoint._entries import Part

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Metadata"]

NAME = ".metadata"


@dataclass
class Metadata:
    """The tensors of a checkpoint (shape, dtype, parts in files) and its other values.

    ``tensors[name]`` is (shape, dtype, [(offsets, sizes, file), ...]), ``objects[name]`` a file.

    >>> from rushlight.distributed.checkpoint import Metadata
    >>> Metadata().tensors
    {}
    """

    tensors: dict[str, tuple[tuple[int, ...], str, list[Any]]] = field(default_factory=dict)
    objects: dict[str, str] = field(default_factory=dict)

    @property
    def state_dict_metadata(self) -> dict[str, Any]:
        """What is known of each entry, by name."""
        return {**self.tensors, **self.objects}

    def files(self) -> set[str]:
        """The files that the checkpoint consists of."""
        parts = {file for _, _, parts in self.tensors.values() for _, _, file in parts}
        return parts | set(self.objects.values())

    def write(self, folder: str) -> None:
        """From here on the folder holds this checkpoint: the file appears in one step."""
        content = {"version": 1, "tensors": self.tensors, "objects": self.objects}
        rushlight.save(content, os.path.join(folder, NAME))

    @staticmethod
    def read(folder: str) -> Metadata:
        """What a folder holds."""
        path = os.path.join(folder, NAME)
        if not os.path.exists(path):
            raise FileNotFoundError(
                f"checkpoint: {folder!r} holds no whole checkpoint: there is no {NAME} in it; was "
                "its first save interrupted?"
            )
        content = rushlight.load(path)
        return Metadata(content["tensors"], content["objects"])

    def parts(self, name: str) -> list[tuple[Part, str]]:
        """The parts of a tensor and their files."""
        return [(Part(tuple(o), tuple(s)), file) for o, s, file in self.tensors[name][2]]


def key_of(name: str, part: Part) -> str:
    """What a part is called in its file."""
    return f"{name}@{','.join(map(str, part.offsets))}"
