"""A softmax over many classes, of which most are rare."""

from __future__ import annotations

from rushlight.nn import functional as F
from rushlight.nn.modules.container import ModuleList, Sequential
from rushlight.nn.modules.linear import Linear
from rushlight.nn.modules.module import Module

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight import Tensor

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _ASMoutput(tuple):  # a named tuple without the cost of making one at import
    """The log probability of each target, and the loss."""

    __slots__ = ()
    _fields = ("output", "loss")

    def __new__(cls, output: Tensor, loss: Tensor) -> _ASMoutput:
        return tuple.__new__(cls, (output, loss))

    @property
    def output(self) -> Tensor:
        return self[0]

    @property
    def loss(self) -> Tensor:
        return self[1]

    def __repr__(self) -> str:
        return f"_ASMoutput(output={self[0]!r}, loss={self[1]!r})"


class AdaptiveLogSoftmaxWithLoss(Module):
    """Frequent classes in a full-size head, rare ones in clusters of lower dimension.

    >>> import rushlight as torch
    >>> layer = torch.nn.AdaptiveLogSoftmaxWithLoss(16, 100, cutoffs=[10, 40])
    >>> output, loss = layer(torch.zeros(3, 16), torch.tensor([2, 20, 90]))
    >>> output.shape, loss.ndim
    (torch.Size([3]), 0)
    >>> layer.log_prob(torch.zeros(3, 16)).shape
    torch.Size([3, 100])
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        ordered = cutoffs == sorted(set(cutoffs)) and all(int(c) == c for c in cutoffs)
        if not ordered or min(cutoffs) <= 0 or max(cutoffs) > n_classes - 1:
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing "
                f"order, where each value is between 1 and n_classes-1, got {cutoffs}"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        options = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **options)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            width = int(in_features // (div_value ** (i + 1)))
            count = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(
                    Linear(in_features, width, bias=False, **options),
                    Linear(width, count, bias=False, **options),
                )
            )

    def reset_parameters(self) -> None:
        """Draws the weights of head and clusters anew."""
        self.head.reset_parameters()
        for projection in self.tail:
            for layer in projection:
                layer.reset_parameters()

    @staticmethod
    def _check(input: Tensor, target: Tensor) -> None:
        if target.dim() > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if input.dim() != target.dim() + 1:
            raise RuntimeError(
                f"{target.dim()}D target tensor expects {target.dim() + 1}D input tensors, but "
                f"found inputs with size {input.size()}"
            )
        if target.dim() == 1 and input.size(0) != target.size(0):
            raise RuntimeError(
                "Input and target should have the same size in the batch dimension, got "
                f"{input.size(0)} and {target.size(0)}."
            )

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        self._check(input_, target_)
        batched = target_.dim() > 0
        input = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)
        if bool(((target < 0) | (target >= self.n_classes)).any()):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target.min().item()}, {target.max().item()}] were found. "
            )
        in_head = target.clone()
        output = input.new_zeros(target.size(0))
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:], strict=False)):
            rows = ((target >= low) & (target < high)).nonzero().flatten()
            if rows.numel() == 0:
                continue
            in_head[rows] = self.shortlist_size + i
            logs = F.log_softmax(self.tail[i](input.index_select(0, rows)), dim=1)
            local = logs.gather(1, (target[rows] - low).unsqueeze(1)).squeeze(1)
            output = output.index_copy(0, rows, local)
        head = F.log_softmax(self.head(input), dim=1)
        output = output + head.gather(1, in_head.unsqueeze(1)).squeeze(1)
        return _ASMoutput(output if batched else output.squeeze(0), (-output).mean())

    def log_prob(self, input: Tensor) -> Tensor:
        """The log probabilities of all classes."""
        head = F.log_softmax(self.head(input), dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, projection in enumerate(self.tail):
            at = self.shortlist_size + i
            parts.append(F.log_softmax(projection(input), dim=1) + head[:, at : at + 1])
        from rushlight import cat

        return cat(parts, dim=1)

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of each row."""
        output = self.head(input).argmax(dim=1)
        rare = (output >= self.shortlist_size).nonzero().flatten()
        if rare.numel() > 0:
            output[rare] = self.log_prob(input[rare]).argmax(dim=1)
        return output
