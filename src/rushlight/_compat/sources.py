"""The source files of what a user names: a script, a notebook, a folder, an installed package."""

from __future__ import annotations

import os
import tokenize
from collections.abc import Iterator
from importlib.machinery import PathFinder

_SKIPPED = {"__pycache__", "node_modules", "build", "dist", "site-packages"}


def sources(target: str) -> tuple[list[str], str]:
    """The files of a target, and the folder their names are shown relative to.

    >>> from rushlight._compat import sources
    >>> files, folder = sources("json")
    >>> [file.rsplit("/", 1)[1] for file in files]
    ['__init__.py', 'decoder.py', 'encoder.py', 'scanner.py', 'tool.py']
    """
    if os.path.isdir(target):
        return sorted(_below(target)), os.path.abspath(target)
    if os.path.isfile(target):
        return [os.path.abspath(target)], os.path.dirname(os.path.abspath(target))
    if target.endswith((".py", ".ipynb")) or os.sep in target:
        raise FileNotFoundError(f"no such file: {target}")
    return _package(target)


def _package(name: str) -> tuple[list[str], str]:
    """Finds an installed module without importing it or what is above it."""
    path: list[str] | None = [os.getcwd(), *_search_path()]
    spec = None
    parts = name.split(".")
    for at in range(len(parts)):
        spec = PathFinder.find_spec(".".join(parts[: at + 1]), path)
        if spec is None:
            break
        found = spec.submodule_search_locations
        path = list(found) if found is not None else []
    if spec is None:
        raise FileNotFoundError(f"neither a file nor a folder nor an installed package: {name}")
    if spec.submodule_search_locations:
        folders = list(spec.submodule_search_locations)
        files = sorted(file for folder in folders for file in _below(folder))
        return files, os.path.dirname(folders[0])
    if spec.origin is None or not spec.origin.endswith(".py"):
        raise FileNotFoundError(f"{name} has no Python source")
    return [spec.origin], os.path.dirname(spec.origin)


def _search_path() -> list[str]:
    import sys

    return [entry for entry in sys.path if entry]


def _below(folder: str) -> Iterator[str]:
    for where, folders, files in os.walk(os.path.abspath(folder)):
        folders[:] = [each for each in folders if each not in _SKIPPED and each[0] != "."]
        yield from (os.path.join(where, f) for f in files if f.endswith((".py", ".ipynb")))


def read(file: str) -> str:
    """The text of a file, in the encoding it declares; of a notebook, that of its cells."""
    if file.endswith(".ipynb"):
        return _notebook(file)
    with tokenize.open(file) as stream:
        return stream.read()


def _notebook(file: str) -> str:
    import json

    with open(file, encoding="utf-8") as stream:
        cells = json.load(stream).get("cells", [])
    code = ["".join(c.get("source", "")) for c in cells if c.get("cell_type") == "code"]
    lines = "\n".join(text.rstrip("\n") for text in code).splitlines()
    return "\n".join("pass" if line.lstrip()[:1] in ("%", "!", "?") else line for line in lines)


def neighbours(file: str, level: int, module: str, names: tuple[str, ...]) -> Iterator[str]:
    """The files beside a program that an import of it reads."""
    folder = os.path.dirname(file)
    for _ in range(level - 1):
        folder = os.path.dirname(folder)
    parts = module.split(".") if module else []
    for last in ("", *names):
        path = os.path.join(folder, *parts, *([last] if last else []))
        for found in (path + ".py", os.path.join(path, "__init__.py")):
            if os.path.isfile(found):
                yield found
