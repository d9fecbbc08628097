"""Extensions in C++ for PyTorch: names that say why they cannot be built here.

Extensions are compiled against PyTorch's headers and linked with its library, neither of which
rushlight has. ``torch.library.custom_op`` makes an op of a Python function, which may call compiled
code by ctypes, cffi, Numba or DLPack.
"""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = [
    "CUDA_HOME",
    "BuildExtension",
    "CUDAExtension",
    "CppExtension",
    "include_paths",
    "is_ninja_available",
    "load",
    "load_inline",
]  # fmt: skip

CUDA_HOME = None


def _fail(name: str) -> NoReturn:
    raise RuntimeError(
        f"torch.utils.cpp_extension.{name}: rushlight has no C++ headers of PyTorch to build "
        "against: make an op of a Python function with torch.library.custom_op, which may call "
        "compiled code through ctypes, cffi or DLPack"
    )


def load(name: str, sources: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Raises: there are no headers to compile against.

    >>> import rushlight.utils.cpp_extension as extensions
    >>> extensions.load("mine", ["mine.cpp"])
    Traceback (most recent call last):
        ...
    RuntimeError: torch.utils.cpp_extension.load: ...
    """
    _fail("load")


def load_inline(name: str, cpp_sources: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Raises: there are no headers to compile against.

    >>> import rushlight.utils.cpp_extension as extensions
    >>> extensions.load_inline("mine", "int f();")
    Traceback (most recent call last):
        ...
    RuntimeError: torch.utils.cpp_extension.load_inline: ...
    """
    _fail("load_inline")


def CppExtension(name: str, sources: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Raises: there are no headers to compile against.

    >>> import rushlight.utils.cpp_extension as extensions
    >>> extensions.CppExtension("mine", ["mine.cpp"])
    Traceback (most recent call last):
        ...
    RuntimeError: torch.utils.cpp_extension.CppExtension: ...
    """
    _fail("CppExtension")


def CUDAExtension(name: str, sources: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Raises: there are no headers to compile against.

    >>> import rushlight.utils.cpp_extension as extensions
    >>> extensions.CUDAExtension("mine", ["mine.cu"])
    Traceback (most recent call last):
        ...
    RuntimeError: torch.utils.cpp_extension.CUDAExtension: ...
    """
    _fail("CUDAExtension")


class BuildExtension:
    """A command of setup scripts; making one raises: there are no headers to compile against.

    >>> import rushlight.utils.cpp_extension as extensions
    >>> extensions.BuildExtension()
    Traceback (most recent call last):
        ...
    RuntimeError: torch.utils.cpp_extension.BuildExtension: ...
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _fail("BuildExtension")

    @classmethod
    def with_options(cls, **options: Any) -> type[BuildExtension]:
        """The command with options."""
        return cls


def include_paths(device_type: str = "cpu", torch_include_dirs: bool = True) -> list[str]:
    """No folders: there are no headers.

    >>> import rushlight.utils.cpp_extension as extensions
    >>> extensions.include_paths()
    []
    """
    return []


def is_ninja_available() -> bool:
    """Whether the program ninja can be run.

    >>> import rushlight.utils.cpp_extension as extensions
    >>> extensions.is_ninja_available() in (True, False)
    True
    """
    import shutil

    return shutil.which("ninja") is not None
