"""Options of the fused linear layer and cross entropy."""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = ["LinearCrossEntropyOptions"]


class LinearCrossEntropyOptions:
    """How the loss may be cut into parts of the batch; the result is the same.

    >>> import rushlight as torch
    >>> options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=2)
    >>> loss = torch.nn.LinearCrossEntropyLoss(4, 3, options=options)
    >>> loss(torch.zeros(4, 4), torch.tensor([0, 1, 2, 0])).ndim
    0
    """

    def __init__(
        self,
        allow_retain_graph: bool = False,
        batch_chunk_size: int | None = None,
        chunking_method: str | None = "auto",
        acc_policy: str = "auto",
        acc_dtype: Any = None,
    ) -> None:
        if acc_policy not in ("auto", "accurate", "balanced", "compact"):
            raise ValueError(f"invalid acc_policy: {acc_policy!r}")
        if batch_chunk_size is not None and batch_chunk_size <= 0:
            raise ValueError(
                f"batch_chunk_size must be positive int or None, got {batch_chunk_size!r}"
            )
        self.allow_retain_graph = allow_retain_graph
        self.batch_chunk_size = batch_chunk_size
        self.chunking_method = chunking_method
        self.acc_policy = acc_policy
        self.acc_dtype = acc_dtype

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"LinearCrossEntropyOptions({fields})"
