"""Choosing how attention is computed: by cuDNN where it may, else by the one way for every input.

>>> import rushlight as torch
>>> from rushlight.nn.attention import SDPBackend, sdpa_kernel
>>> q = torch.ones(1, 1, 2, 4)
>>> with sdpa_kernel(SDPBackend.MATH):
...     torch.nn.functional.scaled_dot_product_attention(q, q, q).shape
torch.Size([1, 1, 2, 4])
"""

from __future__ import annotations

from contextlib import contextmanager
from enum import IntEnum

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(IntEnum):
    """PyTorch's names for implementations of attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(
    backends: SDPBackend | Sequence[SDPBackend], set_priority: bool = False
) -> Iterator[None]:
    """``with sdpa_kernel(...):`` only these backends; without cuDNN's, our own kernel attends.

    The block sets the switches of ``backends.cuda``; the one way that suits every input stays.

    >>> import rushlight as torch
    >>> from rushlight.nn.attention import SDPBackend, sdpa_kernel
    >>> with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
    ...     x = torch.ones(1, 2, 4)
    ...     torch.nn.functional.scaled_dot_product_attention(x, x, x)
    tensor([[[1., 1., 1., 1.],
             [1., 1., 1., 1.]]])
    """
    chosen = [backends] if isinstance(backends, SDPBackend) else list(backends)
    if not chosen or not all(isinstance(b, SDPBackend) for b in chosen):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances"
        )
    from rushlight.backends.cuda import sdp_kernel

    with sdp_kernel(
        enable_flash=SDPBackend.FLASH_ATTENTION in chosen,
        enable_math=SDPBackend.MATH in chosen,
        enable_mem_efficient=SDPBackend.EFFICIENT_ATTENTION in chosen,
        enable_cudnn=SDPBackend.CUDNN_ATTENTION in chosen,
    ):
        yield
