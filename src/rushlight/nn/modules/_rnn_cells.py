"""One step of recurrent layers."""

from __future__ import annotations

import math

import rushlight as _root
from rushlight import _C
from rushlight.nn import init
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor


class RNNCellBase(Module):
    """The weights of one step.

    >>> import rushlight as torch
    >>> isinstance(torch.nn.GRUCell(4, 8), torch.nn.RNNCellBase)
    True
    """

    op: str

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        gates = num_chunks * hidden_size
        shapes: dict[str, tuple[int, ...] | None] = {
            "weight_ih": (gates, input_size),
            "weight_hh": (gates, hidden_size),
            "bias_ih": (gates,) if bias else None,
            "bias_hh": (gates,) if bias else None,
        }
        empty = _C._namespaces[""]["empty"]
        for name, shape in shapes.items():
            value = None if shape is None else Parameter(empty(shape, device=device, dtype=dtype))
            self.register_parameter(name, value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws all weights uniformly within 1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if self.__dict__.get("nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text

    def _check(self, what: str, tensor: Tensor) -> None:
        if tensor.dim() not in (1, 2):
            name = type(self).__name__
            raise ValueError(f"{name}: Expected {what} to be 1D or 2D, got {tensor.dim()}D instead")

    def _step(self, input: Tensor, hx: Any) -> Any:
        return getattr(_root, self.op)(
            input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        )

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        self._check("input", input)
        if hx is not None:
            self._check("hidden", hx)
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
        if hx is None:
            zeros = _C._namespaces[""]["zeros"]
            hx = zeros((input.size(0), self.hidden_size), dtype=input.dtype, device=input.device)
        elif not batched:
            hx = hx.unsqueeze(0)
        result = self._step(input, hx)
        return result if batched else result.squeeze(0)


class RNNCell(RNNCellBase):
    """One step of an RNN.

    >>> import rushlight as torch
    >>> torch.nn.RNNCell(4, 8)(torch.zeros(3, 4)).shape
    torch.Size([3, 8])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def _step(self, input: Tensor, hx: Any) -> Any:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return getattr(_root, f"rnn_{self.nonlinearity}_cell")(
            input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        )


class GRUCell(RNNCellBase):
    """One step of a GRU.

    >>> import rushlight as torch
    >>> torch.nn.GRUCell(4, 8)(torch.zeros(3, 4)).shape
    torch.Size([3, 8])
    """

    op = "gru_cell"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)


class LSTMCell(RNNCellBase):
    """One step of an LSTM; the state is a pair.

    >>> import rushlight as torch
    >>> hidden, cell = torch.nn.LSTMCell(4, 8)(torch.zeros(3, 4))
    >>> hidden.shape, cell.shape
    (torch.Size([3, 8]), torch.Size([3, 8]))
    """

    op = "lstm_cell"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        self._check("input", input)
        for i, state in enumerate(hx or ()):
            self._check(f"hx[{i}]", state)
        batched = input.dim() == 2
        if not batched:
            input = input.unsqueeze(0)
        if hx is None:
            zeros = _C._namespaces[""]["zeros"]
            state = zeros((input.size(0), self.hidden_size), dtype=input.dtype, device=input.device)
            hx = (state, state)
        elif not batched:
            hx = (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
        h, c = self._step(input, tuple(hx))
        return (h, c) if batched else (h.squeeze(0), c.squeeze(0))
