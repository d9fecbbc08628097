"""A small, quick autograd engine with PyTorch's names: ``import rushlight as torch``."""

import gc as _gc
import os as _os

from rushlight import _C

_C._set_package_folder(_os.path.dirname(_os.path.abspath(__file__)) + _os.sep)
_gc.callbacks.append(_C._collector_callback)


def _find_blas() -> None:
    """Tells the core where the BLAS wheel lies; it is opened when first needed."""
    here = _os.path.dirname(_os.path.dirname(_os.path.abspath(__file__)))
    for folder in (here, *_os.sys.path):
        path = _os.path.join(folder, "scipy_openblas32", "lib", "libscipy_openblas.so")
        if _os.path.exists(path):
            _C._set_blas_path(path)
            return


_find_blas()

from rushlight._C import (  # noqa: E402
    Size,
    Tensor,
    bfloat16,
    complex64,
    complex128,
    default_generator,
    device,
    dtype,
    empty_cache,
    float16,
    float32,
    float64,
    get_default_dtype,
    get_num_threads,
    int8,
    int16,
    int32,
    int64,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    is_grad_enabled,
    is_inference_mode_enabled,
    memory_stats,
    promote_types,
    reset_peak_memory_stats,
    set_default_dtype,
    set_num_threads,
    uint8,
)

bool = _C.bool
float = float32
double = float64
half = float16
long = int64
int = int32
short = int16
cfloat = complex64
cdouble = complex128

from rushlight._ops import *  # noqa: E402, F403

from rushlight._layout import (  # noqa: E402
    channels_last,
    contiguous_format,
    layout,
    memory_format,
    preserve_format,
    strided,
)
from rushlight._numeric import finfo, iinfo  # noqa: E402
from rushlight._tensor_str import set_printoptions  # noqa: E402
from rushlight.random import (  # noqa: E402
    Generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from rushlight import _tensor as _tensor  # noqa: E402  (completes the Tensor type)
from rushlight._functions import *  # noqa: E402, F403
from rushlight import autograd, linalg, nn, special, utils  # noqa: E402
from rushlight.autograd import (  # noqa: E402
    enable_grad,
    inference_mode,
    no_grad,
    set_anomaly_enabled,
    set_grad_enabled,
)

__version__ = "0.1.0"

e = 2.718281828459045
pi = 3.141592653589793
inf = _os.sys.float_info.max * 10
nan = inf - inf
newaxis = None
