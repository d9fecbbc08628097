"""The older name of parts of ``torch.distributed.fsdp``."""

from rushlight.distributed import fsdp as _fsdp

_NAMES = [
    "CPUOffloadPolicy", "FSDPModule", "MixedPrecisionPolicy", "OffloadPolicy", "fully_shard",
    "register_fsdp_forward_method",
]  # fmt: skip

globals().update({name: getattr(_fsdp, name) for name in _NAMES})
