"""Recurrent layers and their cells."""

from __future__ import annotations

import math

import rushlight as _root
from rushlight import _C
from rushlight._C import Tensor
from rushlight.nn import init
from rushlight.nn.modules._rnn_cells import GRUCell, LSTMCell, RNNCell, RNNCellBase
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
_ops = _C._namespaces[""]


def _permute(tensor: Tensor, permutation: Tensor | None) -> Tensor:
    return tensor if permutation is None else tensor.index_select(1, permutation)


class RNNBase(Module):
    """What recurrent layers share: their weights, and how a sequence passes through them.

    >>> import rushlight as torch
    >>> isinstance(torch.nn.LSTM(4, 8), torch.nn.RNNBase)
    True
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = dropout
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._check_arguments()
        self.dropout = float(dropout)
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for direction in range(1 + bidirectional):
                self._make_layer(layer, direction, {"device": device, "dtype": dtype})
        self._flat_weights_names = [name for names in self._all_weights for name in names]
        self.reset_parameters()

    def _check_arguments(self) -> None:
        dropout = self.dropout
        if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not (
            0 <= dropout <= 1
        ):  # fmt: skip
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an "
                f"element being zeroed, got {dropout}"
            )
        if dropout > 0 and self.num_layers == 1:
            import warnings

            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero "
                f"dropout expects num_layers greater than 1, but got dropout={dropout} and "
                f"num_layers={self.num_layers}",
                stacklevel=4,
            )
        for name, kind in (
            ("bias", bool),
            ("batch_first", bool),
            ("input_size", int),
            ("hidden_size", int),
        ):
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise TypeError(
                    f"{name} should be of type {kind.__name__}, got: {type(value).__name__}"
                )
        for name in ("input_size", "hidden_size", "num_layers"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be greater than zero, got {getattr(self, name)}")
        if self.proj_size < 0:
            raise ValueError(
                "proj_size should be a positive integer or zero to disable projections"
            )
        if self.proj_size >= self.hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if self.mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + self.mode)

    def _make_layer(self, layer: int, direction: int, options: dict[str, Any]) -> None:
        gates = _GATES[self.mode] * self.hidden_size
        output = self._output_size
        inputs = self.input_size if layer == 0 else output * (1 + self.bidirectional)
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih": (gates, inputs),
            "weight_hh": (gates, output),
        }
        if self.bias:
            shapes.update(bias_ih=(gates,), bias_hh=(gates,))
        if self.proj_size > 0:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        suffix = f"_l{layer}" + ("_reverse" if direction else "")
        for name, shape in shapes.items():
            setattr(self, name + suffix, Parameter(_ops["empty"](shape, **options)))
        self._all_weights.append([name + suffix for name in shapes])

    @property
    def _output_size(self) -> int:
        return self.proj_size or self.hidden_size

    @property
    def _flat_weights(self) -> list[Any]:
        own = self.__dict__.get("_given_weights")
        return [getattr(self, name) for name in self._flat_weights_names] if own is None else own

    @_flat_weights.setter
    def _flat_weights(self, weights: list[Any]) -> None:
        """What calls compute with until a weight is set by its name or the module converted."""
        self.__dict__.pop("_given_weights", None)
        if any(a is not b for a, b in zip(weights, self._flat_weights, strict=True)):
            self.__dict__["_given_weights"] = weights

    def __setattr__(self, name: str, value: Any) -> None:
        given = self.__dict__.get("_given_weights")
        if given is not None and name in self._flat_weights_names:
            given[self._flat_weights_names.index(name)] = value
        super().__setattr__(name, value)

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        self.__dict__.pop("_given_weights", None)
        return super()._apply(fn, recurse)

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        self.__dict__.pop("_flat_weights", None)  # in files of torch's form

    @property
    def all_weights(self) -> list[list[Any]]:
        """The weights of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Accepted: the weights may lie anywhere in memory."""

    def reset_parameters(self) -> None:
        """Draws all weights uniformly within 1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        defaults = {
            "proj_size": 0,
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0,
            "bidirectional": False,
        }
        for name, default in defaults.items():
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        return text

    # Checks.

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raises unless the input fits the layer."""
        weight = self._flat_weights[0]
        if input.dtype != weight.dtype:
            from rushlight.amp._state import is_autocast_enabled

            if not is_autocast_enabled("cpu"):
                raise ValueError(
                    f"RNN input dtype ({input.dtype}) does not match weight dtype "
                    f"({weight.dtype}). Convert input: input.to({weight.dtype}), or convert model: "
                    f"model.to({input.dtype})"
                )
        expected = 3 if batch_sizes is None else 2
        if input.dim() != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.dim()}")
        if input.size(-1) != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got "
                f"{input.size(-1)}"
            )

    def get_expected_hidden_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape of the hidden state for an input."""
        if batch_sizes is not None:
            batch = int(batch_sizes[0])
        else:
            batch = input.size(0 if self.batch_first else 1)
        return self.num_layers * (1 + self.bidirectional), batch, self._output_size

    def check_hidden_size(
        self, hx: Tensor, expected: tuple[int, ...], msg: str = "Expected hidden size {}, got {}"
    ) -> None:
        """Raises unless a hidden state has the expected shape."""
        if tuple(hx.shape) != expected:
            raise RuntimeError(msg.format(expected, list(hx.shape)))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raises unless input and hidden state fit."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """The hidden state in another order of the batch."""
        return _permute(hx, permutation)

    # What differs between a layer with one state tensor and one with two.

    def _states(self, hx: Any) -> tuple[Tensor, ...]:
        return (hx,)

    def _joined(self, states: Any) -> Any:
        return states[0]

    def _zeros(self, input: Tensor, expected: tuple[int, ...]) -> tuple[Tensor, ...]:
        return (_ops["zeros"](expected, dtype=input.dtype, device=input.device),)

    def _check_dims(self, states: tuple[Tensor, ...], batched: bool) -> None:
        expected = 3 if batched else 2
        if any(s.dim() != expected for s in states):
            kind = "batched 3-D" if batched else "unbatched 2-D"
            got = ", ".join(f"{s.dim()}-D" for s in states)
            names, got = ("hx", got) if len(states) == 1 else ("hx and cx", f"({got})")
            raise RuntimeError(
                f"For {kind} input, {names} should also be {expected}-D but got {got} "
                + ("tensor" if len(states) == 1 else "tensors")
            )

    def forward(self, input: Any, hx: Any = None) -> Any:
        if not isinstance(input, Tensor):
            return self._forward_packed(input, hx)
        if input.dim() not in (2, 3):
            name = type(self).__name__
            raise ValueError(f"{name}: Expected input to be 2D or 3D, got {input.dim()}D instead")
        batched, batch_dim = input.dim() == 3, 0 if self.batch_first else 1
        states = None if hx is None else self._states(hx)
        if states is not None:
            self._check_dims(states, batched)
        if not batched:
            input = input.unsqueeze(batch_dim)
            states = states and tuple(s.unsqueeze(1) for s in states)
        if states is None:
            states = self._zeros(input, self.get_expected_hidden_size(input, None))
        self.check_forward_args(input, self._joined(states), None)
        output, *hidden = getattr(_root, self.mode.lower())(
            input,
            self._joined(states),
            self._flat_weights,
            self.bias,
            self.num_layers,
            self.dropout,
            self.training,
            self.bidirectional,
            self.batch_first,
        )
        if not batched:
            output = output.squeeze(batch_dim)
            hidden = [h.squeeze(1) for h in hidden]
        return output, self._joined(tuple(hidden))

    def _forward_packed(self, packed: Any, hx: Any) -> Any:
        input, batch_sizes, sorted_indices, unsorted_indices = packed
        if hx is None:
            states = self._zeros(input, self.get_expected_hidden_size(input, batch_sizes))
        else:
            states = tuple(_permute(s, sorted_indices) for s in self._states(hx))
        self.check_forward_args(input, self._joined(states), batch_sizes)
        output, *hidden = getattr(_root, self.mode.lower())(
            input,
            batch_sizes,
            self._joined(states),
            self._flat_weights,
            self.bias,
            self.num_layers,
            self.dropout,
            self.training,
            self.bidirectional,
        )
        result = type(packed)(output, batch_sizes, sorted_indices, unsorted_indices)
        return result, self._joined(tuple(_permute(h, unsorted_indices) for h in hidden))


class RNN(RNNBase):
    """The plain recurrent layer: ``h = tanh(W x + b + V h + c)``.

    >>> import rushlight as torch
    >>> output, hidden = torch.nn.RNN(4, 8)(torch.zeros(5, 3, 4))
    >>> output.shape, hidden.shape
    (torch.Size([5, 3, 8]), torch.Size([1, 3, 8]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if len(args) > 3:
            nonlinearity, args = args[3], args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)
        self.nonlinearity = nonlinearity


class GRU(RNNBase):
    """Recurrent layers with a gate for what is renewed and one for what is forgotten.

    >>> import rushlight as torch
    >>> output, hidden = torch.nn.GRU(4, 8, batch_first=True)(torch.zeros(3, 5, 4))
    >>> output.shape, hidden.shape
    (torch.Size([3, 5, 8]), torch.Size([1, 3, 8]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)


class LSTM(RNNBase):
    """Recurrent layers with a memory and gates for input, output and forgetting.

    >>> import rushlight as torch
    >>> output, (hidden, cell) = torch.nn.LSTM(4, 8, num_layers=2)(torch.zeros(5, 3, 4))
    >>> output.shape, hidden.shape, cell.shape
    (torch.Size([5, 3, 8]), torch.Size([2, 3, 8]), torch.Size([2, 3, 8]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape of the memory for an input."""
        layers, batch, _ = self.get_expected_hidden_size(input, batch_sizes)
        return layers, batch, self.hidden_size

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raises unless input, hidden state and memory fit."""
        self.check_input(input, batch_sizes)
        expected = self.get_expected_hidden_size(input, batch_sizes)
        self.check_hidden_size(hidden[0], expected, "Expected hidden[0] size {}, got {}")
        expected = self.get_expected_cell_size(input, batch_sizes)
        self.check_hidden_size(hidden[1], expected, "Expected hidden[1] size {}, got {}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """The hidden state and the memory in another order of the batch."""
        return tuple(_permute(h, permutation) for h in hx)

    def _states(self, hx: Any) -> tuple[Tensor, ...]:
        return tuple(hx)

    def _joined(self, states: Any) -> Any:
        return tuple(states)

    def _zeros(self, input: Tensor, expected: tuple[int, ...]) -> tuple[Tensor, ...]:
        memory = (*expected[:2], self.hidden_size)
        options = {"dtype": input.dtype, "device": input.device}
        return _ops["zeros"](expected, **options), _ops["zeros"](memory, **options)
