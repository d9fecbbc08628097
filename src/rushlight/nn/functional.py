"""Layers and losses as functions."""

from rushlight._ops_nn_functional import *  # noqa: F403
from rushlight.nn._functional_attention import *  # noqa: F403
from rushlight.nn._functional_attention import _canonical_mask as _canonical_mask
from rushlight.nn._functional_attention import _none_or_dtype as _none_or_dtype
from rushlight.nn._functional_composites import *  # noqa: F403
from rushlight.nn._functional_ctc import *  # noqa: F403
from rushlight.nn._functional_fractional import *  # noqa: F403
from rushlight.nn._functional_grid import *  # noqa: F403
from rushlight.nn._functional_vision import *  # noqa: F403

_ELSEWHERE = {
    "conv_tbc": "",
    "handle_torch_function": "overrides",
    "has_torch_function": "overrides",
    "has_torch_function_unary": "overrides",
    "has_torch_function_variadic": "overrides",
    "native_channel_shuffle": "",
}


def __getattr__(name: str) -> object:
    if name in _ELSEWHERE:
        from importlib import import_module

        return getattr(import_module(f"rushlight.{_ELSEWHERE[name]}".rstrip(".")), name)
    from rushlight._missing import MissingAttribute

    raise MissingAttribute("rushlight.nn.functional", name)
