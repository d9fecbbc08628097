"""The order in which a stage takes micro-batches forward and back."""

from __future__ import annotations

from abc import ABC, abstractmethod

import rushlight
from rushlight._C import Tensor
from rushlight.utils import _pytree

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from rushlight.distributed.pipelining.stage import PipelineStage

__all__ = ["Schedule1F1B", "ScheduleGPipe"]


class _Schedule(ABC):
    """Cuts a batch into micro-batches along dimension 0 and runs them through a stage.

    Losses are averaged over the micro-batches (``scale_grads``), so that gradients are those of
    the mean of their losses.
    """

    def __init__(
        self,
        stage: PipelineStage,
        n_microbatches: int,
        loss_fn: Callable[..., Any] | None = None,
        args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
    ) -> None:
        for option, value in (
            ("args_chunk_spec", args_chunk_spec),
            ("kwargs_chunk_spec", kwargs_chunk_spec),
            ("output_merge_spec", output_merge_spec),
        ):
            if value is not None:
                raise ValueError(
                    f"{type(self).__name__}: {option} is not supported: tensors are cut and joined "
                    "along dimension 0, and everything else goes to each micro-batch"
                )
        if n_microbatches < 1:
            raise ValueError(
                f"{type(self).__name__}: n_microbatches must be at least 1, got {n_microbatches}"
            )
        self._stage, self._count, self._loss_fn = stage, n_microbatches, loss_fn
        self._scale_grads = scale_grads

    @abstractmethod
    def _order(self) -> Iterator[tuple[bool, int]]:
        """(whether it is a backward, which micro-batch) in the order of this stage."""

    def step(
        self,
        *args: Any,
        target: Any = None,
        losses: list[Any] | None = None,
        return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Runs a batch: the first stage is given the inputs, the last one the targets.

        The last stage returns the joined results and appends to ``losses``; others return None.
        """
        return self._run(args, kwargs, target, losses, return_outputs, loss_kwargs or {}, True)

    def eval(
        self,
        *args: Any,
        target: Any = None,
        losses: list[Any] | None = None,
        return_outputs: bool = True,
        **kwargs: Any,
    ) -> Any:
        """The same without gradients."""
        with rushlight.no_grad():
            return self._run(args, kwargs, target, losses, return_outputs, {}, False)

    def _run(
        self,
        args: Any,
        kwargs: Any,
        target: Any,
        losses: list[Any] | None,
        return_outputs: bool,
        loss_kwargs: dict[str, Any],
        learns: bool,
    ) -> Any:
        stage = self._stage
        stage.clear()
        batches = _cut((args, kwargs), self._count)
        targets = _cut(target, self._count)
        outputs: dict[int, Any] = {}
        found: dict[int, Any] = {}
        for is_backward, k in self._order():
            if not is_backward:
                output = stage.forward(k, *batches[k])
                if not stage.is_last:
                    continue
                if self._loss_fn is not None and target is not None:
                    found[k] = self._loss_fn(output, targets[k], **loss_kwargs)
                outputs[k] = _pytree.tree_map(_without_history, output)
            elif learns and self._loss_fn is not None:
                loss = found.get(k)
                if loss is not None:
                    found[k] = loss.detach()
                    # One factor for all stages: the last one scales what flows back.
                    loss = loss / self._count if self._scale_grads else loss
                stage.backward(k, loss)
        stage.finish()
        if losses is not None and stage.is_last:
            losses.clear()
            losses.extend(found[k].detach() for k in sorted(found))
        if stage.is_last and return_outputs:
            return _joined([outputs[k] for k in sorted(outputs)])
        return None


def _without_history(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value


def _cut(tree: Any, count: int) -> list[Any]:
    leaves, spec = _pytree.tree_flatten(tree)
    columns = [
        t.tensor_split(count) if isinstance(t, Tensor) and t.dim() else (t,) * count for t in leaves
    ]
    return [spec.unflatten([column[k] for column in columns]) for k in range(count)]


def _joined(parts: list[Any]) -> Any:
    spec = _pytree.tree_structure(parts[0])
    columns = zip(*map(spec.flatten_up_to, parts), strict=True)
    return spec.unflatten(
        [
            rushlight.cat(column) if isinstance(column[0], Tensor) else column[0]
            for column in columns
        ]
    )


class ScheduleGPipe(_Schedule):
    """All micro-batches forward, then all back: simple, and keeps every activation.

    >>> import rushlight as torch
    >>> torch.distributed.init_process_group(rank=0, world_size=1)
    >>> from rushlight.distributed.pipelining import PipelineStage, ScheduleGPipe
    >>> stage = PipelineStage(torch.nn.Linear(2, 1), 0, 1, "cpu")
    >>> schedule = ScheduleGPipe(stage, 2, loss_fn=torch.nn.functional.mse_loss)
    >>> schedule.step(torch.ones(4, 2), target=torch.ones(4, 1)).shape
    torch.Size([4, 1])
    >>> torch.distributed.destroy_process_group()
    """

    def _order(self) -> Iterator[tuple[bool, int]]:
        yield from ((False, k) for k in range(self._count))
        yield from ((True, k) for k in range(self._count))


class Schedule1F1B(_Schedule):
    """One forward, one back: a stage keeps no more micro-batches than stages follow it.

    >>> import rushlight as torch
    >>> torch.distributed.init_process_group(rank=0, world_size=1)
    >>> from rushlight.distributed.pipelining import PipelineStage, Schedule1F1B
    >>> stage = PipelineStage(torch.nn.Linear(2, 1), 0, 1, "cpu")
    >>> schedule = Schedule1F1B(stage, 2, loss_fn=torch.nn.functional.mse_loss)
    >>> schedule.step(torch.ones(4, 2), target=torch.ones(4, 1)).shape
    torch.Size([4, 1])
    >>> torch.distributed.destroy_process_group()
    """

    def _order(self) -> Iterator[tuple[bool, int]]:
        ahead = min(self._count, self._stage.num_stages - self._stage.stage_index)
        yield from ((False, k) for k in range(ahead))
        for k in range(self._count):
            yield True, k
            if k + ahead < self._count:
                yield False, k + ahead
