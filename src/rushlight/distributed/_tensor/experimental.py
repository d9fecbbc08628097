"""The older name of ``torch.distributed.tensor.experimental``."""

from rushlight.distributed.tensor import experimental as _experimental

globals().update({name: getattr(_experimental, name) for name in _experimental._NAMES})
