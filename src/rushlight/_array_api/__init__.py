"""The namespace of the Python array API standard, version 2024.12, over tensors.

``x.__array_namespace__()`` gives it; libraries that are written for the standard compute with
tensors through it, and gradients flow.

>>> import rushlight as torch
>>> x = torch.tensor([3.0, 4.0], requires_grad=True)
>>> xp = x.__array_namespace__()
>>> xp.linalg.vector_norm(x, axis=0).backward()
>>> x.grad
tensor([0.6000, 0.8000])
"""

from rushlight import e as e, inf as inf, nan as nan, newaxis as newaxis, pi as pi
from rushlight._array_api import fft as fft, linalg as linalg
from rushlight._array_api._creation import *
from rushlight._array_api._dtypes import *
from rushlight._array_api._dtypes import DTYPES as _DTYPES
from rushlight._array_api._elementwise import *
from rushlight._array_api._info import Info as _Info
from rushlight._array_api._manipulation import *
from rushlight._array_api._statistics import *
from rushlight._array_api.linalg import (
    matmul as matmul,
    tensordot as tensordot,
    vecdot as vecdot,
)

__array_api_version__ = "2024.12"
__array_namespace_info__ = _Info
globals().update(_DTYPES)
