"""The layout of convolution weights in memory."""

from __future__ import annotations

from rushlight._layout import preserve_format
from rushlight.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

    from rushlight.nn.modules.module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(op: str, module: Module, memory_format: Any, kinds: tuple[type, ...]) -> Module:
    if memory_format is preserve_format:
        raise RuntimeError(
            f"{op}: unsupported memory format Preserve: weights keep their layout without a call; "
            "pass torch.channels_last, torch.channels_last_3d or torch.contiguous_format"
        )
    for each in module.modules():
        if isinstance(each, kinds):
            each.weight.data = each.weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """Gives the weights of 2-d convolutions another memory format.

    >>> import rushlight as torch
    >>> conv = torch.nn.Conv2d(4, 8, 3)
    >>> model = torch.nn.utils.convert_conv2d_weight_memory_format(conv, torch.channels_last)
    >>> model.weight.is_contiguous(memory_format=torch.channels_last), model.weight.is_contiguous()
    (True, False)
    """
    op = "convert_conv2d_weight_memory_format"
    return _convert(op, module, memory_format, (Conv2d, ConvTranspose2d))


def convert_conv3d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """Gives the weights of 3-d convolutions another memory format.

    >>> import rushlight as torch
    >>> conv = torch.nn.Conv3d(4, 8, 3)
    >>> convert = torch.nn.utils.convert_conv3d_weight_memory_format
    >>> convert(conv, torch.channels_last_3d).weight.stride()
    (108, 1, 36, 12, 4)
    """
    op = "convert_conv3d_weight_memory_format"
    return _convert(op, module, memory_format, (Conv3d, ConvTranspose3d))
