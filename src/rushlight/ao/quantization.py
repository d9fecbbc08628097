"""Marks of quantization in models, which compute with floats as long as nothing converts them.

Quantized numbers are left out: observing, fusing and converting raise.

>>> import rushlight as torch
>>> torch.ao.quantization.QuantStub()(torch.ones(2))
tensor([1., 1.])
"""

from __future__ import annotations

from rushlight.nn.modules.module import Module

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from rushlight._C import Tensor


class QuantStub(Module):
    """Where a converted model would begin to compute with quantized numbers: the input itself.

    >>> import rushlight as torch
    >>> torch.ao.quantization.QuantStub()(torch.ones(2))
    tensor([1., 1.])
    """

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        return x


class DeQuantStub(QuantStub):
    """Where a converted model would return to floats: the input itself.

    >>> import rushlight as torch
    >>> torch.ao.quantization.DeQuantStub()(torch.ones(2))
    tensor([1., 1.])
    """


def _left_out(name: str) -> Any:
    def absent(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"torch.ao.quantization.{name}: rushlight has no quantized numbers; the model computes "
            "with floats as it is"
        )

    absent.__module__ = __name__
    absent.__name__ = absent.__qualname__ = name
    absent.__doc__ = f"""Raises: quantized numbers are left out.

    >>> import rushlight as torch
    >>> torch.ao.quantization.{name}()
    Traceback (most recent call last):
        ...
    NotImplementedError: torch.ao.quantization.{name}: rushlight has no quantized numbers; ...
    """
    return absent


_LEFT_OUT = (
    "QConfig", "convert", "default_observer", "default_per_channel_weight_observer",
    "default_weight_observer", "fuse_modules", "fuse_modules_qat", "get_default_qat_qconfig",
    "get_default_qconfig", "prepare", "prepare_qat", "quantize", "quantize_dynamic", "quantize_qat",
)  # fmt: skip

globals().update({name: _left_out(name) for name in _LEFT_OUT})
