"""``rushlight run``: a program that says ``import torch`` runs on rushlight, as its own main."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from types import CodeType, ModuleType, TracebackType
from typing import Any

from rushlight import _alias, _missing

# The modules whose frames are no part of the program.
_RUNNER = (
    __name__, _alias.__name__, _missing.__name__, "rushlight.cli", "runpy",
    "rushlight.reporting", "rushlight._commands.graph", "rushlight._commands.doctor",
    "rushlight.doctor._observer", "rushlight.doctor._watch",
)  # fmt: skip


def main(arguments: list[str], around: AbstractContextManager[Any] | None = None) -> int:
    """Runs ``script.py ...``, ``-m module ...`` or ``- ...`` (standard input), in a block if given.

    Returns the exit status. SystemExit is the program's own affair.
    """
    _alias.install()
    try:
        with around or nullcontext():
            if arguments[0] == "-m":
                _run_module(arguments[1], arguments[2:])
            else:
                _run_script(arguments[0], arguments[1:])
    except SystemExit:
        raise
    except BaseException as error:
        _show(error)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def finished(arguments: list[str], around: AbstractContextManager[Any] | None = None) -> int:
    """As ``main``, for who has something to do afterwards: SystemExit is a status too."""
    try:
        return main(arguments, around)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1


def program_name(arguments: list[str]) -> str:
    """What to call a program in a title: ``train.py``."""
    if arguments[0] == "-":
        return "standard input"
    return arguments[1] if arguments[0] == "-m" else os.path.basename(arguments[0])


def _fresh_main() -> ModuleType:
    module = ModuleType("__main__")
    module.__dict__.update(__builtins__=__builtins__, __annotations__={})
    sys.modules["__main__"] = module
    return module


def _set_path(first: str) -> None:
    """The first entry of sys.path is the program's folder, in place of this command's."""
    if getattr(sys.flags, "safe_path", False):
        return
    if sys.path:
        sys.path[0] = first
    else:
        sys.path.insert(0, first)


def _run_module(name: str, arguments: list[str]) -> None:
    import runpy

    _set_path(os.getcwd())
    sys.argv[:] = ["-m", *arguments]
    _fresh_main()
    runpy._run_module_as_main(name)  # type: ignore[attr-defined]


def _run_script(path: str, arguments: list[str]) -> None:
    sys.argv[:] = [path, *arguments]
    if path != "-" and (os.path.isdir(path) or path.endswith((".zip", ".pyz"))):
        import runpy

        sys.path.insert(0, path)
        _fresh_main()
        return runpy._run_module_as_main("__main__", False)  # type: ignore[attr-defined]
    file = "<stdin>" if path == "-" else os.path.abspath(path)
    try:
        code = _code(path, file)
    except OSError as error:
        print(f"rushlight run: can't open file '{file}': {error}", file=sys.stderr)
        raise SystemExit(2) from None
    _set_path("" if path == "-" else os.path.dirname(os.path.realpath(path)))
    module = _fresh_main()
    if path != "-":
        from importlib.machinery import SourceFileLoader

        module.__file__ = file
        module.__loader__ = SourceFileLoader("__main__", file)
    module.__dict__.setdefault("__cached__", None)
    exec(code, module.__dict__)


def _code(path: str, file: str) -> CodeType:
    if path == "-":
        return compile(sys.stdin.read(), file, "exec", dont_inherit=True)
    import io

    with io.open_code(file) as stream:
        data = stream.read()
    if path.endswith(".pyc"):
        import marshal

        return marshal.loads(data[16:])
    return compile(data, file, "exec", dont_inherit=True)


def _show(error: BaseException) -> None:
    """Prints the traceback as Python would, without this command's frames."""
    _clean(error, set())
    # What the interpreter leaves behind of an exception that nobody caught.
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        sys.stderr.flush()


def _clean(error: BaseException | None, seen: set[int]) -> None:
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.__traceback__ = _without_runner(error.__traceback__)
        _explain(error)
        _clean(error.__cause__, seen)
        error = error.__context__


def _without_runner(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback without frames of the runner."""
    kept = []
    while traceback is not None:
        frame = traceback.tb_frame
        module = _real_name(frame.f_globals.get("__name__", ""))
        lookup = frame.f_code.co_name == "__getattr__" and module.startswith("rushlight.")
        runner = module in _RUNNER or module.startswith("rushlight._commands")
        if not runner and not lookup and module != "rushlight":
            kept.append(traceback)
        traceback = traceback.tb_next
    for i, entry in enumerate(kept):
        entry.tb_next = kept[i + 1] if i + 1 < len(kept) else None
    return kept[0] if kept else None


def _real_name(module: str) -> str:
    """The name in rushlight of a module that goes by the name of one of torch."""
    return "rushlight" + module[5:] if module.partition(".")[0] == "torch" else module


def _explain(error: BaseException) -> None:
    """Says of an attribute that a tensor lacks that it is rushlight's that lacks it."""
    if not isinstance(error, AttributeError) or isinstance(error, _missing.MissingAttribute):
        return
    from rushlight._C import Tensor

    owner = error.obj
    is_tensor = isinstance(owner, Tensor) or (isinstance(owner, type) and issubclass(owner, Tensor))
    if is_tensor and error.name and hasattr(error, "add_note"):
        error.add_note(_missing.of_tensor(error.name))
