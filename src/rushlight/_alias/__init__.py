"""``torch`` as another name of rushlight, submodules included, for the rest of the process.

``import torch.nn.functional`` gives the very module object ``rushlight.nn.functional``, so both
names see one set of classes. Modules, classes and functions say that they are torch's, in pickles
too. Worker processes that start afresh install the alias as well.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import FunctionType, ModuleType
from typing import Any

import rushlight
from rushlight import _missing
from rushlight.torch_version import TorchVersion

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import FrameType

# The release whose names and behaviour rushlight follows; programs compare it with others.
VERSION = TorchVersion("2.13.0+rushlight")


_ROOTS = {"torch": "rushlight", "functorch": "rushlight.functorch"}


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
    """Finds ``torch`` and what is below it, modules and metadata alike, and ``functorch``."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name.startswith("multiprocessing.popen_"):
            _prepare_workers()
        if name.startswith("rushlight."):
            return _adopted_when_loaded(PathFinder.find_spec(name, path))
        root, dot, rest = name.partition(".")
        if root not in _ROOTS:
            return None
        real = _ROOTS[root] + dot + rest
        try:
            module = import_module(real)
        except ImportError as error:
            if not getattr(error, "_of_rushlight", False):
                raise
            if _only_asked():
                return None
            if _importing_a_name():
                raise error.with_traceback(None) from None
            parent, _, last = real.rpartition(".")
            text = f"No module named '{name}': rushlight does not have it"
            raise ModuleNotFoundError(
                text + _missing.module_hint(parent, last), name=name
            ) from None
        sys.modules.pop(name, None)  # or the import system takes the real module's spec instead
        return ModuleSpec(name, _Existing(module), is_package=hasattr(module, "__path__"))  # type: ignore[arg-type]

    @staticmethod
    def find_distributions(context: Any = None) -> Iterable[Any]:
        """What ``importlib.metadata`` says of torch: its version."""
        wanted = getattr(context, "name", None)
        if wanted is not None and wanted.lower() != "torch":
            return []
        from rushlight._alias.metadata import TorchDistribution

        return [TorchDistribution(VERSION)]


def _adopted_when_loaded(spec: ModuleSpec | None) -> ModuleSpec | None:
    """Has a module of rushlight named below ``torch`` as soon as it is executed."""
    if spec is None or spec.loader is None:
        return spec
    execute = spec.loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        _adopt(spec.name, module)
        _claim(module)

    spec.loader.exec_module = exec_module  # type: ignore[method-assign]
    return spec


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
    return any(frame.f_globals.get("__name__") == "importlib.util" for frame in _importers())


def _importing_a_name() -> bool:
    """Whether it is ``from torch import y``, for which the name need not be a module's."""
    return any(frame.f_code.co_name == "_handle_fromlist" for frame in _importers())


def _importers() -> Iterator[FrameType]:
    """The frames of the import system that lead to the finder."""
    frame = sys._getframe()
    while frame.f_globals is globals():
        frame = frame.f_back  # type: ignore[assignment]
    while frame is not None and "importlib" in frame.f_code.co_filename:
        yield frame
        frame = frame.f_back  # type: ignore[assignment]


def _adopt(name: str, module: ModuleType) -> None:
    """Names a module of rushlight, with what it defines, below ``torch``; has it explain itself."""
    other = "torch" + name[9:]
    sys.modules[other] = module
    if name == "rushlight._C":
        return
    if not hasattr(module, "__path__"):
        module.__path__ = []  # `from torch.x import y` asks the finders only below packages
    vars(module)["__getattr__"] = _missing.module_getattr(module, name)
    module.__name__ = other
    _rename(vars(module), name, other)


def _rename(members: Mapping[str, Any], old: str, new: str) -> None:
    """Tells the classes and functions of a module, and those within them, its new name."""
    for value in list(members.values()):
        if isinstance(value, (type, FunctionType)) and value.__module__ == old:
            value.__module__ = new
            if isinstance(value, type):
                _rename(vars(value), old, new)


def _claim(module: ModuleType) -> None:
    """What a module offers of its private neighbours says that it is the module's own."""
    name = module.__name__
    for item in getattr(module, "__all__", [n for n in vars(module) if n[0] != "_"]):
        home = getattr(vars(module).get(item), "__module__", None) or ""
        parent, _, last = home.rpartition(".")
        if last.startswith("_") and parent in (name, name.rpartition(".")[0]):
            _rename({item: vars(module)[item]}, home, name)


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
    forkserver.set_forkserver_preload(["rushlight._alias.preload", *others])


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
    rushlight._C._set_package_name("torch")
    loaded = [(n, m) for n, m in sys.modules.items() if n.partition(".")[0] == "rushlight"]
    for name, module in loaded:
        _adopt(name, module)
    for _, module in sorted(loaded, key=lambda item: -item[0].count(".")):
        _claim(module)
