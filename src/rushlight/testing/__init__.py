"""What tests of tensor programs need."""

from rushlight.testing._comparison import assert_allclose as assert_allclose
from rushlight.testing._comparison import assert_close as assert_close
from rushlight.testing._creation import make_tensor as make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
