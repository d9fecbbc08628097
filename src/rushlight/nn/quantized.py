"""Operations of models that are made to be quantized: they compute with floats."""

from __future__ import annotations

from rushlight import _C
from rushlight.nn.modules.linear import Identity
from rushlight.nn.modules.module import Module

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from rushlight._C import Tensor

_ops = _C._namespaces[""]


class FloatFunctional(Module):
    """Additions and products as a module, so that something can observe their results.

    >>> import rushlight as torch
    >>> torch.nn.quantized.FloatFunctional().add_relu(torch.ones(2), torch.tensor([1.0, -3.0]))
    tensor([2., 0.])
    """

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process = Identity()

    def forward(self, x: Any) -> NoReturn:
        raise RuntimeError(
            "FloatFunctional is not called itself: call one of its operations, such as add(x, y)"
        )

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """``x + y``."""
        return self._observed(x + y)

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        """``x + y``, which nobody observes."""
        return x + y

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """``x * y``."""
        return self._observed(x * y)

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        """``x * y``, which nobody observes."""
        return x * y

    def cat(self, x: list[Tensor], dim: int = 0) -> Tensor:
        """The tensors joined along a dimension."""
        return self._observed(_ops["cat"](x, dim))

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        """``relu(x + y)``."""
        return self._observed(_ops["relu"](x + y))

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """``x @ y``."""
        return self._observed(x @ y)

    def _observed(self, x: Tensor) -> Tensor:
        found: Tensor = self.activation_post_process(x)
        return found
