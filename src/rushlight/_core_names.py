"""Names of PyTorch's core that libraries read from ``torch._C``; loaded when one is missing."""

from __future__ import annotations

import enum
import sys

from rushlight import _C

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

TensorBase = _TensorBase = _C.Tensor
_TensorMeta = type(_C.Tensor)
DisableTorchFunction = DisableTorchFunctionSubclass = _C.DisableTorchFunctionSubclass


class AcceleratorError(RuntimeError):
    """An error that a device reports."""


def _log_api_usage_once(*event: str) -> None:
    """Nothing is reported to anyone."""


_log_api_usage_metadata = _log_api_usage_once


def _get_privateuse1_backend_name() -> str:
    return "privateuseone"


def _is_torch_function_enabled() -> bool:
    return True


def _is_torch_function_mode_enabled() -> bool:
    return bool(_C._mode_state()[5])


def _get_tracing_state() -> None:
    """None: nothing is being traced."""
    return None


def _are_functorch_transforms_active() -> bool:
    """Whether a transform of ``func`` runs here: vmap, or one that differentiates."""
    state = _C._mode_state()
    return bool(state[6] or state[0] >> 9 & 1)  # levels of vmap; the switch "transforms"


class _functorch:
    """What libraries ask of tensors inside transforms."""

    @staticmethod
    def is_batchedtensor(tensor: Any) -> bool:
        """Whether vmap hides dimensions of a tensor."""
        return bool(_C._batch_levels(tensor))

    @staticmethod
    def is_legacy_batchedtensor(tensor: Any) -> bool:
        """False: there is one kind of vmap."""
        return False


def _get_accelerator(check: bool | None = None) -> Any:
    """The device that programs compute on where there is a choice."""
    from rushlight import accelerator, device

    return accelerator.current_accelerator() or device("cpu")


def _get_default_device() -> str:
    return str(_C.get_default_device().type)


def _get_cudnn_enabled() -> bool:
    return False


def _has_torch_function(args: Any) -> bool:
    from rushlight.overrides import has_torch_function

    return has_torch_function(args)


def _has_torch_function_unary(value: Any) -> bool:
    return _has_torch_function((value,))


def _has_torch_function_variadic(*values: Any) -> bool:
    return _has_torch_function(values)


class DispatchKey(enum.Enum):
    """Where a kernel of a custom op belongs."""

    Undefined = CatchAll = 0
    CPU = 1
    CUDA = 2
    Meta = 3
    MPS = 4
    XPU = 5
    HPU = 6
    XLA = 7
    IPU = 8
    SparseCPU = 20
    SparseCUDA = 21
    QuantizedCPU = 22
    Autograd = 40
    AutogradCPU = 41
    AutogradCUDA = 42
    AutocastCPU = 50
    AutocastCUDA = 51
    AutocastXPU = 52
    ADInplaceOrView = 60
    CompositeImplicitAutograd = 70
    CompositeExplicitAutograd = 71
    CompositeExplicitAutogradNonFunctional = 72
    BackendSelect = 80
    Python = 81
    Functionalize = 82
    FuncTorchBatched = 83
    PrivateUse1 = 90


class DispatchKeySet(frozenset[DispatchKey]):
    """A set of keys; a key stands for the set of itself."""

    def __new__(cls, keys: Any = ()) -> DispatchKeySet:
        return super().__new__(cls, (keys,) if isinstance(keys, DispatchKey) else keys)

    def __or__(self, other: Any) -> DispatchKeySet:
        return DispatchKeySet(frozenset.__or__(self, other))

    def has(self, key: DispatchKey) -> bool:
        return key in self


class _ExcludeDispatchKeyGuard:
    """``with _ExcludeDispatchKeyGuard(keys):`` runs ops without autocast where the keys say so."""

    def __init__(self, keys: DispatchKeySet) -> None:
        from contextlib import ExitStack

        from rushlight.amp import autocast

        self._scopes = ExitStack()
        self._devices = [k for k in ("cpu", "cuda") if DispatchKey[f"Autocast{k.upper()}"] in keys]
        self._autocast = autocast

    def __enter__(self) -> None:
        for device in self._devices:
            self._scopes.enter_context(self._autocast(device, enabled=False))

    def __exit__(self, *error: Any) -> None:
        self._scopes.close()


class Tag(enum.Enum):
    """What is said of an op as a whole."""

    core = 0
    pointwise = 1
    inplace_view = 2
    view_copy = 3
    generated = 4
    data_dependent_output = 5
    dynamic_output_shape = 6
    nondeterministic_seeded = 7
    nondeterministic_bitwise = 8
    needs_fixed_stride_order = 9
    needs_exact_strides = 10
    needs_contiguous_strides = 11
    flexible_layout = 12
    pt2_compliant_tag = 13
    maybe_aliasing_or_mutating = 14
    reduction = 15


def parse_schema(schema: str) -> Any:
    """``name(Tensor x) -> Tensor`` as an object."""
    from rushlight._operators.schema import FunctionSchema

    return FunctionSchema.parse(schema)


# Where other modules keep what PyTorch's core offers.
_HOMES = {
    "FunctionSchema": "_operators.schema",
    "Argument": "_operators.schema",
    "Future": "futures",
    "StorageBase": "storage",
    "OutOfMemoryError": "_absent",
    "finfo": "_numeric",
    "iinfo": "_numeric",
    "layout": "_layout",
    "memory_format": "_layout",
    "ScriptModule": "jit",
    "ScriptFunction": "jit",
    "SymInt": "_symbolic",
    "_len_torch_dispatch_stack": "utils._python_dispatch",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _HOMES:
        module = import_module(f"rushlight.{_HOMES[name]}")
        return getattr(module, "UntypedStorage" if name == "StorageBase" else name)
    if name == "_VariableFunctions":
        return import_module("rushlight._VF")
    if name in ("_nn", "_special", "_linalg", "_fft") and "rushlight.fx._names" not in sys.modules:
        import_module("rushlight.fx._names")  # which makes them
        return vars(_C)[name]
    if not name.startswith("_") and name not in ("TYPE_CHECKING", "enum", "annotations"):
        import rushlight

        # The core has the settings that are functions of the top namespace here.
        if "autocast" in name or name.startswith(("get_num", "set_num", "has_", "set_flush")):
            return getattr(rushlight, name)
    raise AttributeError(f"module 'rushlight._C' has no attribute '{name}'")
