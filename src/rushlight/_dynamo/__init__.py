"""Names of torch's compiler that programs touch: see ``torch.compiler``."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from rushlight.compiler import (
    allow_in_graph as allow_in_graph,
)
from rushlight.compiler import (
    assume_constant_result as assume_constant_result,
)
from rushlight.compiler import (
    disable as disable,
)
from rushlight.compiler import (
    is_compiling as is_compiling,
)
from rushlight.compiler import (
    list_backends as list_backends,
)
from rushlight.compiler import (
    reset as reset,
)
from rushlight.compiler import (
    set_stance as set_stance,
)
from rushlight.compiler import (
    substitute_in_graph as substitute_in_graph,
)

if TYPE_CHECKING:
    from collections.abc import Callable

config = SimpleNamespace(
    suppress_errors=False,
    verbose=False,
    cache_size_limit=8,
    recompile_limit=8,
    accumulated_cache_size_limit=256,
    capture_scalar_outputs=False,
    capture_dynamic_output_shape_ops=False,
    automatic_dynamic_shapes=True,
    assume_static_by_default=True,
    optimize_ddp=True,
)


def optimize(backend: Any = "inductor", **options: Any) -> Callable[[Any], Any]:
    """A decorator that gives back the function: see ``torch.compile``."""
    return lambda function: function


run = forbid_in_graph = disallow_in_graph = allow_in_graph


def graph_break(msg: str = "") -> None:
    """Nothing to break."""


def mark_dynamic(t: Any, index: Any, **options: Any) -> None:
    """Says that a dimension changes: without effect."""


mark_static = maybe_mark_dynamic = mark_static_address = mark_dynamic


def is_dynamo_supported() -> bool:
    """False: functions run as they are."""
    return False


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "OptimizedModule":
        return import_module("rushlight._dynamo.eval_frame").OptimizedModule
    if name in ("eval_frame", "utils"):
        return import_module(f"rushlight._dynamo.{name}")
    from rushlight._missing import MissingAttribute

    raise MissingAttribute("rushlight._dynamo", name)
