"""Neural networks: modules, parameters, and the functional forms of layers and losses.

The modules are loaded when one of them is first asked for.
"""

from rushlight.nn import functional as functional
from rushlight.nn import parameter as parameter
from rushlight.nn.parameter import (
    Buffer as Buffer,
    Parameter as Parameter,
    UninitializedBuffer as UninitializedBuffer,
    UninitializedParameter as UninitializedParameter,
)

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

    from rushlight.nn import attention as attention
    from rushlight.nn import common_types as common_types
    from rushlight.nn import grad as grad
    from rushlight.nn import init as init
    from rushlight.nn import modules as modules
    from rushlight.nn import parallel as parallel
    from rushlight.nn import utils as utils
    from rushlight.nn.modules import *
    from rushlight.nn.parallel import DataParallel as DataParallel


def factory_kwargs(kwargs: "dict[str, Any] | None") -> "dict[str, Any]":
    """The arguments among ``kwargs`` that say how parameters are made; others are refused."""
    if kwargs is None:
        return {}
    unknown = set(kwargs) - {"device", "dtype", "memory_format", "factory_kwargs"}
    if unknown:
        raise TypeError(f"unexpected kwargs {unknown}")
    given = dict(kwargs.get("factory_kwargs", {}))
    for key in ("device", "dtype", "memory_format"):
        if key in kwargs:
            if key in given:
                raise TypeError(f"{key} specified twice, in **kwargs and in factory_kwargs")
            given[key] = kwargs[key]
    return given


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in (
        "attention", "common_types", "grad", "init", "modules", "parallel", "quantized", "utils",
    ):  # fmt: skip
        return import_module(f"rushlight.nn.{name}")
    if name == "DataParallel":
        return import_module("rushlight.nn.parallel").DataParallel
    loaded = import_module("rushlight.nn.modules")
    globals().update({each: getattr(loaded, each) for each in loaded.__all__})
    if name == "__all__":
        return [*loaded.__all__, "Buffer", "Parameter", "UninitializedBuffer", "functional", "init"]
    if name in globals():
        return globals()[name]
    from rushlight._missing import MissingAttribute

    raise MissingAttribute("rushlight.nn", name)


def __dir__() -> list[str]:
    __getattr__("Module")
    return sorted(globals())
