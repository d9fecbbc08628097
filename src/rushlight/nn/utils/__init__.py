"""Helpers for parameters, gradients and modules."""

from rushlight.nn.utils.clip_grad import *
from rushlight.nn.utils.convert_parameters import *
from rushlight.nn.utils.fusion import *
from rushlight.nn.utils.init import *
from rushlight.nn.utils.memory_format import *
from rushlight.nn.utils.spectral_norm import (
    remove_spectral_norm as remove_spectral_norm,
    spectral_norm as spectral_norm,
)
from rushlight.nn.utils.weight_norm import (
    remove_weight_norm as remove_weight_norm,
    weight_norm as weight_norm,
)

TYPE_CHECKING = False  # type checkers read it as True; these are loaded on first use
if TYPE_CHECKING:
    from rushlight.nn.utils import parametrizations as parametrizations
    from rushlight.nn.utils import parametrize as parametrize
    from rushlight.nn.utils import prune as prune
    from rushlight.nn.utils import stateless as stateless


def __getattr__(name: str) -> object:
    if name in ("parametrizations", "parametrize", "prune", "rnn", "stateless"):
        from importlib import import_module

        return import_module(f"rushlight.nn.utils.{name}")
    raise AttributeError(f"module 'rushlight.nn.utils' has no attribute {name!r}")
