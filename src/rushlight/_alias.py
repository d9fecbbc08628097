"""``torch`` as another name of rushlight, submodules included, for the rest of the process.

``import torch.nn.functional`` gives the very module object ``rushlight.nn.functional``, so both
names see one set of classes. Worker processes that start afresh install the alias as well.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import rushlight
from rushlight import _missing
from rushlight.torch_version import TorchVersion

# The release whose names and behaviour rushlight follows; programs compare it with others.
VERSION = TorchVersion("2.13.0+rushlight")


class _Existing:
    """Loads a module that is there already."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # the import system wrote the alias's


class _Finder:
    """Finds ``torch`` and what is below it; stands first."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name.startswith("multiprocessing.popen_"):
            _prepare_workers()
        if name != "torch" and not name.startswith("torch."):
            return None
        real = "rushlight" + name[5:]
        try:
            module = import_module(real)
        except ImportError as error:
            if not getattr(error, "_of_rushlight", False):
                raise
            if _only_asked():
                return None
            parent, _, last = real.rpartition(".")
            text = f"No module named '{name}': rushlight does not have it"
            raise ModuleNotFoundError(
                text + _missing.module_hint(parent, last), name=name
            ) from None
        _adopt()
        sys.modules.pop(name, None)  # or the import system takes the real module's spec instead
        return ModuleSpec(name, _Existing(module), is_package=hasattr(module, "__path__"))  # type: ignore[arg-type]


class _LastResort:
    """Explains what is missing from rushlight; stands last."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not name.startswith("rushlight.") or _only_asked():
            return None
        parent, _, last = name.rpartition(".")
        text = f"cannot import name '{last}' from '{_missing.public(parent)}'"
        # No ModuleNotFoundError: of `from torch import y` the import system would ignore it.
        error = ImportError(f"{text}: rushlight does not have it{_missing.hint(parent, last)}")
        error._of_rushlight = True  # type: ignore[attr-defined]
        raise error


def _only_asked() -> bool:
    """Whether ``importlib.util.find_spec`` is asking: it wants None, not an error."""
    frame = sys._getframe(2)
    while frame is not None and "importlib" in frame.f_code.co_filename:
        if frame.f_globals.get("__name__") == "importlib.util":
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _adopt() -> None:
    """Names every loaded module of rushlight below ``torch`` too, and has it explain itself."""
    for name, module in list(sys.modules.items()):
        if name != "rushlight" and not name.startswith("rushlight."):
            continue
        other = "torch" + name[9:]
        if sys.modules.get(other) is module:
            continue
        sys.modules[other] = module
        if name == "rushlight._C":
            continue
        if not hasattr(module, "__path__"):
            module.__path__ = []  # `from torch.x import y` asks the finders only below packages
        explain = _missing.module_getattr(module)
        vars(module)["__getattr__"] = explain if name != "rushlight" else _adopting(explain)


def _adopting(explain: Any) -> Any:
    """The package's ``__getattr__``: modules that it loads on first use are adopted."""

    def __getattr__(name: str) -> Any:
        value = explain(name)
        if isinstance(value, ModuleType):
            _adopt()
        return value

    return __getattr__


def _prepare_workers() -> None:
    """Has processes that multiprocessing starts afresh install the alias before anything else."""
    from multiprocessing import forkserver, spawn

    if getattr(spawn.get_command_line, "_rushlight", False):
        return
    original = spawn.get_command_line

    def get_command_line(**arguments: Any) -> list[str]:
        command = original(**arguments)
        if "-c" in command:
            at = command.index("-c") + 1
            command[at] = f"import rushlight._alias as a; a.install(); {command[at]}"
        return command

    get_command_line._rushlight = True  # type: ignore[attr-defined]
    spawn.get_command_line = get_command_line
    # Each worker imports the program itself: in the server it might come before the alias.
    others = [m for m in vars(forkserver._forkserver)["_preload_modules"] if m != "__main__"]
    forkserver.set_forkserver_preload(["rushlight._aliased", *others])


def install() -> None:
    """From now on ``torch`` is rushlight, and a seed gives PyTorch's random numbers."""
    if sys.modules.get("torch") is rushlight:
        return
    if "torch" in sys.modules:
        raise RuntimeError("PyTorch is already imported; torch cannot become rushlight any more")
    sys.meta_path.insert(0, _Finder)
    sys.meta_path.append(_LastResort)
    rushlight.__version__ = VERSION
    rushlight.random.torch_streams()
    _adopt()
