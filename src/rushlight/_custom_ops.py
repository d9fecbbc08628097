"""What libraries read from the module that ``torch.library`` has replaced."""

from rushlight.library import custom_op as custom_op
from rushlight.library import get_ctx as get_ctx
from rushlight.library import impl as impl
from rushlight.library import impl_abstract as impl_abstract
