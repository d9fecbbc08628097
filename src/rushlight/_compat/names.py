"""What of torch a set of files uses, and what of that rushlight has."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from rushlight import _missing
from rushlight._compat import sources as files_of
from rushlight._compat.scan import INSTANCE, TENSOR, Scan

_HOMES = {"torch": "rushlight", "functorch": "rushlight.functorch"}


@dataclass
class Names:
    """One name of torch: whether rushlight has it, and where it is used."""

    name: str
    present: bool
    raises: bool = False  # it is there to say why it is left out
    guarded: bool = True  # as long as every use is
    uses: dict[str, None] = field(default_factory=dict)  # in the order they were found

    @property
    def hint(self) -> str:
        """`` (near: torch.nn.Linear)``, or nothing."""
        parent, _, last = self.name.rpartition(".")
        return _hint(parent, last)


@dataclass
class Report:
    """What was found in some files."""

    files: int = 0
    names: dict[str, Names] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)

    @property
    def missing(self) -> list[Names]:
        """Those that the program needs and rushlight lacks."""
        return [n for n in self.names.values() if not n.present and not n.guarded]

    @property
    def optional(self) -> list[Names]:
        """Those that rushlight lacks and the program can do without."""
        return [n for n in self.names.values() if not n.present and n.guarded]

    @property
    def left_out(self) -> list[Names]:
        """Those that are there, and raise an error that says why when they are called."""
        return [n for n in self.names.values() if n.raises]

    def to_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "files": self.files,
            "unread": self.unread,
            "missing": [n.name for n in self.missing],
            "optional": [n.name for n in self.optional],
            "left_out": [n.name for n in self.left_out],
            "names": {
                n.name: {"present": n.present, "guarded": n.guarded, "uses": list(n.uses)}
                for n in self.names.values()
            },
        }

    def read(
        self,
        files: Iterable[str],
        folder: str,
        follow: bool = False,
        tick: Callable[[int, str], None] = lambda done, file: None,
    ) -> Report:
        """Adds what is in the files; with ``follow``, in those beside them that they import."""
        waiting, seen, done = list(files), set(files), 0
        while waiting:
            file = waiting.pop(0)
            shown = os.path.relpath(file, folder)
            tick(done, shown)
            done += 1
            self.files += 1
            try:
                text = files_of.read(file)
                if "torch" not in text and not follow:
                    continue
                scan = Scan(text, file, gives_tensor)
            except (SyntaxError, ValueError, OSError, RecursionError) as error:
                self.unread.append(f"{shown}: {error}")
                continue
            self._add(scan, shown)
            if follow:
                for found in scan.imports:
                    new = [f for f in files_of.neighbours(file, *found) if f not in seen]
                    waiting += new
                    seen.update(new)
        self.names = dict(sorted(self.names.items()))
        return self

    def _add(self, scan: Scan, shown: str) -> None:
        for use in scan.uses:
            absent = first_missing(use.name)
            name = absent or use.name
            entry = self.names.get(name)
            if entry is None:
                entry = self.names[name] = Names(name, absent is None, raises(name))
            entry.guarded &= use.guarded or name in scan.tested
            entry.uses[f"{shown}:{use.line}"] = None


@functools.cache
def first_missing(path: str) -> str | None:
    """The shortest part of a path that rushlight lacks; None when it has it all.

    >>> from rushlight._compat.names import first_missing
    >>> first_missing("torch.nn.Linear.forward"), first_missing("torch.nn.Lineal.forward")
    (None, 'torch.nn.Lineal')
    """
    if path == INSTANCE or _of_the_program(path):
        return None
    root, *parts = path.split(".")
    here = _HOMES[root]
    found: Any = importlib.import_module(here)
    for at, part in enumerate(parts):
        here = f"{here}.{part}"
        try:
            found = getattr(found, part)
        except AttributeError:
            try:
                found = importlib.import_module(here)
            except ImportError as error:
                if error.name and not error.name.startswith("rushlight"):
                    return None  # it is there, and needs a package that is not
                return ".".join([root, *parts[: at + 1]])
        except Exception:  # a property that needs a device, say
            return None
        if found is None:
            return None  # as version.cuda is, of which nothing more can be said
    return None


def raises(path: str) -> bool:
    """Whether a name is there only to say why it is left out, as its docstring does.

    >>> from rushlight._compat.names import raises
    >>> raises("torch.onnx.export"), raises("torch.save")
    (True, False)
    """
    if first_missing(path) is not None or path == INSTANCE:
        return False
    found = _found(path)
    doc = getattr(found, "__doc__", None)
    return callable(found) and isinstance(doc, str) and doc.lstrip().startswith("Raises: ")


def _of_the_program(path: str) -> bool:
    """Operators and classes that programs register themselves are not torch's."""
    parts = path.split(".")
    return parts[:2] in (["torch", "ops"], ["torch", "classes"]) and (
        len(parts) > 2 and parts[2] not in ("aten", "prims", "quantized")
    )


@functools.cache
def _results() -> dict[str, set[str]]:
    """For each operation by its path: what kinds of results its forms have."""
    from rushlight import _C

    kinds: dict[str, set[str]] = {}
    for op in _C._registry():
        space = f"torch.{op['namespace']}" if op["namespace"] else "torch"
        for form in op["forms"]:
            path = f"{TENSOR}.{op['name']}" if form == "method" else f"{space}.{op['name']}"
            path = f"{TENSOR}.{op['name']}_" if form == "inplace" else path
            kinds.setdefault(path, set()).add(op["result"])
    return kinds


def gives_tensor(path: str) -> bool:
    """Whether calling a function or a method of tensors gives one tensor.

    >>> from rushlight._compat.names import gives_tensor
    >>> gives_tensor("torch.sin"), gives_tensor("torch.topk")
    (True, False)
    """
    return _results().get(path) == {"Tensor"}


def _found(path: str) -> Any:
    """What a path leads to in rushlight, or None."""
    root, *parts = path.split(".")
    try:
        found: Any = importlib.import_module(_HOMES[root])
        for part in parts:
            found = getattr(found, part)
    except Exception:  # what is absent, or needs a device
        return None
    return found


def _hint(parent: str, last: str) -> str:
    close = _missing.near(last, dir(_found(parent)))
    return f" (near: {', '.join(f'{parent}.{n}' for n in close)})" if close else ""
