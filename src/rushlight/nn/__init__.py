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
    from rushlight.nn import init as init
    from rushlight.nn import modules as modules
    from rushlight.nn import utils as utils
    from rushlight.nn.modules import *


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in ("init", "modules", "utils", "attention", "parallel", "grad"):
        try:
            return import_module(f"rushlight.nn.{name}")
        except ModuleNotFoundError:
            raise AttributeError(f"module 'rushlight.nn' has no attribute {name!r}") from None
    loaded = import_module("rushlight.nn.modules")
    globals().update({each: getattr(loaded, each) for each in loaded.__all__})
    if name == "__all__":
        return [*loaded.__all__, "Buffer", "Parameter", "UninitializedBuffer", "functional", "init"]
    if name in globals():
        return globals()[name]
    raise AttributeError(f"module 'rushlight.nn' has no attribute {name!r}")


def __dir__() -> list[str]:
    __getattr__("Module")
    return sorted(globals())
