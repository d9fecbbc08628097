"""PowerSGD: gradients sent as products of two thin matrices (Vogels and others, 2019).

Each matrix M is approximated by P Qᵀ of a low rank in one round of subspace iteration: P = M Q is
summed over the processes and made orthonormal, then Q = Mᵀ P is summed. What the product leaves
out is added to the next gradient (error feedback), and Q starts where the last step ended.
"""

from __future__ import annotations

import rushlight
from rushlight import distributed as dist
from rushlight.distributed.algorithms.ddp_comm_hooks.default_hooks import _average

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

    from rushlight._C import Tensor

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]


class PowerSGDState:
    """What PowerSGD remembers between steps, and its settings.

    Until step ``start_powerSGD_iter`` gradients are sent whole. A matrix of n × m is compressed to
    rank r where (n + m) r ``min_compression_rate`` is less than n m. More rank is more exact.

    >>> from rushlight.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState
    >>> PowerSGDState(None, matrix_approximation_rank=4).matrix_approximation_rank
    4
    """

    def __init__(
        self,
        process_group: Any,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1000,
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is "
                "enabled, because PowerSGD can only be applied after the first two iterations in "
                "DDP."
            )
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback = use_error_feedback
        self.warm_start = warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.compression_stats_logging_frequency = compression_stats_logging_frequency
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape
        self.generator = rushlight.Generator().manual_seed(random_seed)  # the same in every process
        self.error_dict: dict[int, Tensor] = {}
        self.q_memory_dict: dict[int, list[Tensor]] = {}
        self.iter = 0
        self.total_numel_before_compression = 0
        self.total_numel_after_compression = 0

    def compression_stats(self) -> tuple[float, int, int]:
        """How many times less was sent, the numbers before and after compression."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after else 0.0), before, after

    def _step_of(self, bucket: Any) -> int:
        """The number of this step; the last bucket ends it."""
        step = self.iter
        if bucket.is_last():
            self.iter += 1
        return step

    def _rank_for(self, n: int, m: int) -> int:
        """The rank of the approximation, 0 where sending the matrix costs less."""
        rank = min(n, m, self.matrix_approximation_rank)
        return rank if (n + m) * rank * self.min_compression_rate < n * m else 0

    def _with_error(self, bucket: Any, values: Tensor) -> None:
        """Adds what earlier steps left out."""
        error = self.error_dict.get(bucket.index())
        if error is not None and error.shape == values.shape:
            values.add_(error)

    def _starts(self, bucket: Any, shapes: list[tuple[int, int]], like: Tensor) -> list[Tensor]:
        """The matrices Q to start from: the last ones, or random ones that all processes share."""
        kept = self.q_memory_dict.get(bucket.index())
        if self.warm_start and kept is not None and [q.shape for q in kept] == shapes:
            return kept
        fresh = [
            rushlight.randn(*shape, generator=self.generator, dtype=like.dtype).to(like.device)
            for shape in shapes
        ]
        self.q_memory_dict[bucket.index()] = fresh
        return fresh


def _orthonormal(matrix: Tensor, epsilon: float) -> Tensor:
    """An orthonormal basis of the columns, by Gram and Schmidt; epsilon keeps zeros finite."""
    if epsilon == 0:
        return rushlight.linalg.qr(matrix)[0]
    columns: list[Tensor] = []
    for column in matrix.unbind(1):
        for other in columns:
            column = column - (other @ column) * other
        columns.append(column / (column.norm() + epsilon))
    return rushlight.stack(columns, 1)


def _summed(tensors: list[Tensor], group: Any) -> list[Tensor]:
    """The averages of the tensors over the processes, in one collective."""
    if not tensors:
        return []
    flat = rushlight.cat([t.reshape(-1) for t in tensors])
    flat.div_(dist.get_world_size(group))
    dist.all_reduce(flat, group=group)
    parts = flat.split([t.numel() for t in tensors])
    return [part.view(t.shape) for part, t in zip(parts, tensors, strict=True)]


def _approximate(
    state: PowerSGDState, bucket: Any, matrices: list[Tensor], ranks: list[int]
) -> list[Tensor]:
    """The average of each matrix as far as its rank goes."""
    qs = state._starts(
        bucket, [(m.shape[1], r) for m, r in zip(matrices, ranks, strict=True)], matrices[0]
    )
    epsilon = state.orthogonalization_epsilon
    ps = _summed(
        [m @ _orthonormal(q, epsilon) for m, q in zip(matrices, qs, strict=True)],
        state.process_group,
    )
    ps = [_orthonormal(p, epsilon) for p in ps]
    qs = _summed([m.t() @ p for m, p in zip(matrices, ps, strict=True)], state.process_group)
    state.q_memory_dict[bucket.index()] = qs
    state.total_numel_before_compression += sum(m.numel() for m in matrices)
    state.total_numel_after_compression += sum(t.numel() for t in [*ps, *qs])
    return [p @ q.t() for p, q in zip(ps, qs, strict=True)]


def _done(value: Tensor) -> Any:
    future: Any = rushlight.futures.Future()
    future.set_result(value)
    return future


def powerSGD_hook(state: PowerSGDState, bucket: Any) -> Any:
    """Compresses each gradient of two or more dimensions by PowerSGD; the others are sent whole.

    >>> import rushlight as torch
    >>> torch.distributed.init_process_group(rank=0, world_size=1)
    >>> from rushlight.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power
    >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1, bias=False))
    >>> state = power.PowerSGDState(None, 2, start_powerSGD_iter=2)
    >>> model.register_comm_hook(state, power.powerSGD_hook)
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> model.module.weight.grad
    tensor([[1., 1.]])
    >>> torch.distributed.destroy_process_group()
    """
    buffer = bucket.buffer()
    if state._step_of(bucket) < state.start_powerSGD_iter:
        return _average(state.process_group, buffer)
    if state.use_error_feedback:
        state._with_error(bucket, buffer)
        before = buffer.clone()
    gradients = bucket.gradients()
    ranks = [state._rank_for(g.shape[0], g[0].numel()) if g.dim() > 1 else 0 for g in gradients]
    whole = [g for g, r in zip(gradients, ranks, strict=True) if not r]
    thin = [g for g, r in zip(gradients, ranks, strict=True) if r]
    sent = sum(g.numel() for g in whole)
    state.total_numel_before_compression += sent
    state.total_numel_after_compression += sent
    for g, average in zip(whole, _summed(whole, state.process_group), strict=True):
        g.copy_(average)
    if thin:
        matrices = [g.reshape(g.shape[0], -1) for g in thin]
        found = _approximate(state, bucket, matrices, [r for r in ranks if r])
        for g, average in zip(thin, found, strict=True):
            g.copy_(average.view(g.shape))
    if state.use_error_feedback:
        error = before - buffer
        offset = 0
        for g, r in zip(gradients, ranks, strict=True):
            if not r:  # nothing was left out of what went whole
                error[offset : offset + g.numel()].zero_()
            offset += g.numel()
        state.error_dict[bucket.index()] = error
    return _done(buffer)


def batched_powerSGD_hook(state: PowerSGDState, bucket: Any) -> Any:
    """Compresses a whole bucket as one square matrix: quicker and less exact.

    >>> import rushlight as torch
    >>> torch.distributed.init_process_group(rank=0, world_size=1)
    >>> from rushlight.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power
    >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1, bias=False))
    >>> state = power.PowerSGDState(None, 2, start_powerSGD_iter=2)
    >>> model.register_comm_hook(state, power.batched_powerSGD_hook)
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> model.module.weight.grad
    tensor([[1., 1.]])
    >>> torch.distributed.destroy_process_group()
    """
    buffer = bucket.buffer()
    if state._step_of(bucket) < state.start_powerSGD_iter:
        return _average(state.process_group, buffer)
    side = int(-(-(buffer.numel() ** 0.5) // 1))
    square = rushlight.zeros(side * side, dtype=buffer.dtype, device=buffer.device)
    square[: buffer.numel()] = buffer
    if state.use_error_feedback:
        state._with_error(bucket, square)
    rank = min(side, state.matrix_approximation_rank)
    (found,) = _approximate(state, bucket, [square.view(side, side)], [rank])
    if state.use_error_feedback:
        state.error_dict[bucket.index()] = square - found.reshape(-1)
        state.error_dict[bucket.index()][buffer.numel() :].zero_()
    buffer.copy_(found.reshape(-1)[: buffer.numel()])
    return _done(buffer)
