"""Memory shared with other libraries: see ``torch.from_dlpack``."""

from enum import IntEnum

from rushlight._functions import from_dlpack as from_dlpack
from rushlight._functions import to_dlpack as to_dlpack

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]


class DLDeviceType(IntEnum):
    """The numbers of kinds of devices in ``__dlpack_device__``; here there are the first two.

    >>> import rushlight as torch
    >>> from rushlight.utils.dlpack import DLDeviceType
    >>> torch.ones(2).__dlpack_device__() == (DLDeviceType.kDLCPU, 0)
    True
    """

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17
