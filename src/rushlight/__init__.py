"""A small, quick autograd engine with PyTorch's names: ``import rushlight as torch``."""

import gc as _gc
import os as _os
import sys as _sys

from rushlight import _C

_C._set_package_folder(_os.path.dirname(_os.path.abspath(__file__)) + _os.sep)
_gc.callbacks.append(_C._collector_callback)


def _find_blas() -> None:
    """Tells the core where the BLAS wheel lies; it is opened when first needed."""
    here = _os.path.dirname(_os.path.dirname(_os.path.abspath(__file__)))
    for folder in (here, *_sys.path):
        path = _os.path.join(folder, "scipy_openblas32", "lib", "libscipy_openblas.so")
        if _os.path.exists(path):
            _C._set_blas_path(path)
            return


_find_blas()

from rushlight._C import (
    Size as Size,
    Tensor as Tensor,
    bfloat16 as bfloat16,
    complex32 as complex32,
    complex64 as complex64,
    complex128 as complex128,
    device as device,
    dtype as dtype,
    empty_cache as empty_cache,
    float8_e4m3fn as float8_e4m3fn,
    float8_e4m3fnuz as float8_e4m3fnuz,
    float8_e5m2 as float8_e5m2,
    float8_e5m2fnuz as float8_e5m2fnuz,
    float8_e8m0fnu as float8_e8m0fnu,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    get_default_device as get_default_device,
    get_default_dtype as get_default_dtype,
    get_num_threads as get_num_threads,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled,
    is_anomaly_enabled as is_anomaly_enabled,
    is_grad_enabled as is_grad_enabled,
    is_inference_mode_enabled as is_inference_mode_enabled,
    memory_stats as memory_stats,
    promote_types as promote_types,
    reset_peak_memory_stats as reset_peak_memory_stats,
    set_default_dtype as set_default_dtype,
    set_num_threads as set_num_threads,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
)

bool = _C.bool
float = float32
double = float64
half = float16
long = int64
int = int32
short = int16
chalf = complex32
cfloat = complex64
cdouble = complex128

from rushlight._ops import *

from rushlight._layout import (
    channels_last as channels_last,
    channels_last_3d as channels_last_3d,
    contiguous_format as contiguous_format,
    jagged as jagged,
    layout as layout,
    memory_format as memory_format,
    preserve_format as preserve_format,
    sparse_bsc as sparse_bsc,
    sparse_bsr as sparse_bsr,
    sparse_coo as sparse_coo,
    sparse_csc as sparse_csc,
    sparse_csr as sparse_csr,
    strided as strided,
)
from rushlight._numeric import finfo as finfo
from rushlight._numeric import iinfo as iinfo
from rushlight.random import (
    Generator as Generator,
    default_generator as default_generator,
    get_rng_state as get_rng_state,
    initial_seed as initial_seed,
    manual_seed as manual_seed,
    seed as seed,
    set_rng_state as set_rng_state,
)
from rushlight import _tensor as _tensor  # completes the Tensor type
from rushlight.storage import UntypedStorage as UntypedStorage
from rushlight import _tensor_devices as _tensor_devices
from rushlight import _tensor_python as _tensor_python
from rushlight import _tensor_composed as _tensor_composed
from rushlight import _tensor_older as _tensor_older
from rushlight._functions import *
from rushlight._functions import _assert as _assert
from rushlight._deterministic import *
from rushlight import autograd as autograd
from rushlight import linalg as linalg
from rushlight import nn as nn
from rushlight import special as special
from rushlight import utils as utils
from rushlight.autograd import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    no_grad as no_grad,
    set_anomaly_enabled as set_anomaly_enabled,
    set_grad_enabled as set_grad_enabled,
)

__version__ = "0.1.0"

e = 2.718281828459045
pi = 3.141592653589793
inf = _sys.float_info.max * 10
nan = inf - inf
newaxis = None
legacy_contiguous_format = contiguous_format

# Loaded when first used.
_lazy_modules = (
    "_VF", "__config__", "_custom_ops", "_dynamo", "_higher_order_ops",
    "_jit_internal", "_utils", "_vmap_internals", "accelerator",
    "amp", "ao", "backends", "compiler", "cpu", "cuda", "distributed", "distributions", "doctor",
    "export", "fft", "func", "functional", "futures", "fx", "hub", "jit", "library", "masked",
    "mps", "multiprocessing", "nested", "onnx", "optim", "overrides", "profiler", "quasirandom",
    "return_types", "serialization", "signal", "sparse", "testing", "torch_version", "types",
    "version", "xpu",
)  # fmt: skip
_lazy_names = {
    "_dirichlet_grad": "_ops",
    "_sample_dirichlet": "_ops",
    "_standard_gamma": "_ops",
    "_standard_gamma_grad": "_ops",
    "explain": "autograd._explain",
    "from_file": "storage",
    "hash_tensor": "_hashing",
    **dict.fromkeys(("graph", "summary"), "graphview"),
    **dict.fromkeys(("plot_grad_flow", "report"), "reporting"),
    "autocast": "amp",
    "compile": "compiler",
    "GradScaler": "amp",
    "load": "serialization",
    "save": "serialization",
    "ops": "_operators",
    "PyTorchFileReader": "_file_reader",
    "vmap": "func",
    **dict.fromkeys(("istft", "stft"), "_spectral"),
    **dict.fromkeys(
        (
            "conv_tbc",
            "frexp",
            "index_reduce",
            "gcd",
            "gradient",
            "grid_sampler",
            "grid_sampler_2d",
            "grid_sampler_3d",
            "lcm",
            "nanmedian",
            "nanquantile",
            "nonzero_static",
            "quantile",
            "renorm",
            "unravel_index",
        ),
        "_composed",
    ),
    **dict.fromkeys(("histogram", "histogramdd"), "_histograms"),
    **dict.fromkeys(
        ("split_with_sizes", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes"), "_copies"
    ),
    **dict.fromkeys(
        [f"{name}_window" for name in ("bartlett", "blackman", "hamming", "hann", "kaiser")],
        "_spectral",
    ),
    **dict.fromkeys(
        [f"sparse_{kind}_tensor" for kind in ("coo", "csr", "csc", "bsr", "bsc", "compressed")],
        "_sparse.construct",
    ),
    **dict.fromkeys(
        (
            "ccol_indices_copy",
            "col_indices_copy",
            "crow_indices_copy",
            "dsmm",
            "hsmm",
            "hspmm",
            "indices_copy",
            "resize_as_sparse_",
            "row_indices_copy",
            "saddmm",
            "smm",
            "spmm",
            "sspaddmm",
            "values_copy",
        ),
        "_sparse.methods",
    ),
    "_grouped_mm": "nn._functional_composites",
    **dict.fromkeys(("_segment_reduce", "range", "segment_reduce"), "_segments"),
    **dict.fromkeys(
        (
            "_chunk_cat",
            "_convert_indices_from_coo_to_csr",
            "_convert_indices_from_csr_to_coo",
            "_embedding_bag",
            "_native_batch_norm_legit",
            "_safe_softmax",
            "_shape_as_tensor",
            "_softmax_backward_data",
            "_unsafe_masked_index",
            "_unsafe_masked_index_put_accumulate",
            "affine_grid_generator",
            "as_strided_",
            "binary_cross_entropy_with_logits",
            "ctc_loss",
            "detach",
            "detach_",
            "embedding_bag",
            "embedding_renorm_",
            "gcd_",
            "kl_div",
            "lcm_",
            "native_channel_shuffle",
            "norm_except_dim",
            "resize_as_",
            "rrelu",
            "rrelu_",
            "zero_",
        ),
        "_internals",
    ),
    **dict.fromkeys(("lobpcg", "pca_lowrank", "svd_lowrank"), "_lowrank"),
    **dict.fromkeys(("eig", "lstsq", "matrix_rank", "solve", "symeig"), "_removed"),
    **dict.fromkeys(
        (
            "AcceleratorError",
            "DisableTorchFunction",
            "DisableTorchFunctionSubclass",
            "DispatchKey",
            "Future",
            "OutOfMemoryError",
            "ScriptFunction",
            "ScriptModule",
            "Tag",
        ),
        "_core_names",
    ),
    **dict.fromkeys(("Event", "Stream"), "cuda"),
    **dict.fromkeys(("SymBool", "SymFloat", "SymInt", "cond", "while_loop"), "_symbolic"),
}

TYPE_CHECKING = False  # type checkers read it as True
if TYPE_CHECKING:
    from rushlight import accelerator as accelerator, backends as backends, compiler as compiler
    from rushlight import amp as amp, cpu as cpu, cuda as cuda, distributed as distributed
    from rushlight import export as export, functional as functional, futures as futures, fx as fx
    from rushlight import func as func, hub as hub, library as library, onnx as onnx
    from rushlight import distributions as distributions, fft as fft, signal as signal
    from rushlight import jit as jit, mps as mps, multiprocessing as multiprocessing
    from rushlight import optim as optim, overrides as overrides, profiler as profiler
    from rushlight import serialization as serialization, testing as testing, types as types
    from rushlight import masked as masked, nested as nested, sparse as sparse
    from rushlight import return_types as return_types, torch_version as torch_version
    from rushlight import version as version, xpu as xpu
    from rushlight._sparse.construct import sparse_bsc_tensor as sparse_bsc_tensor
    from rushlight._sparse.construct import sparse_bsr_tensor as sparse_bsr_tensor
    from rushlight._sparse.construct import sparse_compressed_tensor as sparse_compressed_tensor
    from rushlight._sparse.construct import sparse_coo_tensor as sparse_coo_tensor
    from rushlight._sparse.construct import sparse_csc_tensor as sparse_csc_tensor
    from rushlight._sparse.construct import sparse_csr_tensor as sparse_csr_tensor
    from rushlight._sparse.methods import *
    from rushlight._lowrank import lobpcg as lobpcg, pca_lowrank as pca_lowrank
    from rushlight._lowrank import svd_lowrank as svd_lowrank
    from rushlight._settings import *
    from rushlight._composed import *
    from rushlight._hashing import *
    from rushlight._histograms import *
    from rushlight._copies import *
    from rushlight._spectral import *
    from rushlight._symbolic import *
    from rushlight._operators import ops as ops
    from rushlight.amp import GradScaler as GradScaler, autocast as autocast
    from rushlight.autograd._explain import explain as explain
    from rushlight.graphview import graph as graph, summary as summary
    from rushlight.reporting import plot_grad_flow as plot_grad_flow, report as report
    from rushlight.compiler import compile as compile
    from rushlight.func import vmap as vmap
    from rushlight.doctor import Doctor as doctor  # noqa: F401 - the module can be called
    from rushlight.serialization import load as load, save as save


def _home(name: str) -> str:
    """The module that holds a name which is loaded when first used, or an empty string."""
    if name in _lazy_names:
        return _lazy_names[name]
    if "_autocast" in name or "autocast_" in name:
        return "amp._state"
    if name.startswith("_foreach_"):
        return "_foreach"
    if name.startswith(("_check", "_assert_", "_is_a")):
        return "_checks"
    if name.endswith("_copy"):
        return "_copies"
    if name.startswith("sym_"):
        return "_symbolic"
    if name.startswith("_"):
        return ""
    from rushlight._settings import __all__ as settings

    return "_settings" if name in settings else ""


def __getattr__(name: str) -> object:
    import importlib

    if name in _lazy_modules:
        return importlib.import_module(f"rushlight.{name}")
    home = _home(name)
    value = getattr(importlib.import_module(f"rushlight.{home}"), name, None) if home else None
    if value is None and name.endswith("Tensor"):
        value = importlib.import_module("rushlight._legacy").legacy_type(name)
    if value is None and name.endswith("Storage"):
        value = importlib.import_module("rushlight._legacy").legacy_storage(name)
    if value is None and name.startswith(("bits", "float", "int", "q", "uint")):
        value = importlib.import_module("rushlight._absent_dtypes").of_name(name)
    if value is None and name == "torch":
        value = _sys.modules[__name__]
    if value is not None:
        globals()[name] = value
        return value
    from rushlight._missing import MissingAttribute

    raise MissingAttribute("rushlight", name)


def _core_getattr(name: str) -> object:
    """What libraries read from PyTorch's core and ours keeps elsewhere."""
    import importlib

    return getattr(importlib.import_module("rushlight._core_names"), name)


vars(_C)["__getattr__"] = _core_getattr


def __dir__() -> list[str]:
    from rushlight._absent_dtypes import NAMES as dtypes
    from rushlight._legacy import NAMES as legacy
    from rushlight._settings import __all__ as settings
    from rushlight._symbolic import __all__ as symbolic
    from rushlight.amp._state import __all__ as autocast

    lazy = {*_lazy_modules, *_lazy_names, *dtypes, *legacy, *settings, *symbolic, *autocast}
    return sorted({*globals(), *lazy} - {"TYPE_CHECKING"})
