"""The older name of ``torch.distributed.tensor``."""

from rushlight.distributed import tensor as _tensor

globals().update({name: getattr(_tensor, name) for name in _tensor.__all__})
