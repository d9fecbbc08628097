"""The names of ``torch.distributed.launcher``."""

from rushlight.distributed import launcher as _launcher

_NAMES = ["LaunchConfig", "elastic_launch", "launch_agent"]

globals().update({name: getattr(_launcher, name) for name in _NAMES})
