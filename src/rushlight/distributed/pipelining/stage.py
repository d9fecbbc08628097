"""One stage of a pipeline: what it receives, computes and passes on for each micro-batch."""

from __future__ import annotations

import rushlight
from rushlight import _C
from rushlight import distributed as dist

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

    from rushlight._C import Tensor
    from rushlight.nn.modules.module import Module

# A message begins with its kind, so that micro-batches may differ in shape: the number of tensors,
# then for each its dtype, whether it wants a gradient, its dimensions and sizes.
_HEADER = 64
_DTYPES = [
    rushlight.float32, rushlight.float64, rushlight.float16, rushlight.bfloat16,
    rushlight.complex64, rushlight.complex128, rushlight.int64, rushlight.int32,
    rushlight.int16, rushlight.int8, rushlight.uint8, rushlight.bool,
]  # fmt: skip


class PipelineStage:
    """The part ``submodule`` of a model: stage ``stage_index`` of ``num_stages``, in this process.

    Stage i runs on rank i of the group. Inputs of later stages arrive from the stage before; what
    ``input_args`` and ``output_args`` would tell of their shapes is not needed.

    >>> import rushlight as torch
    >>> torch.distributed.init_process_group(rank=0, world_size=1)
    >>> from rushlight.distributed.pipelining import PipelineStage
    >>> stage = PipelineStage(torch.nn.Linear(2, 1), 0, 1, "cpu")
    >>> stage.is_first, stage.is_last
    (True, True)
    >>> torch.distributed.destroy_process_group()
    """

    def __init__(
        self,
        submodule: Module,
        stage_index: int,
        num_stages: int,
        device: Any,
        input_args: Any = None,
        output_args: Any = None,
        output_grads: Any = None,
        input_grads: Any = None,
        group: Any = None,
        dw_builder: Any = None,
        get_mesh: Any = None,
    ) -> None:
        world = dist.get_world_size(group)
        if num_stages != world:
            raise ValueError(
                f"PipelineStage: num_stages must be the number of processes {world}, got "
                f"{num_stages}: each process runs one stage"
            )
        if stage_index != dist.get_rank(group):
            raise ValueError(
                f"PipelineStage: stage_index must be the rank {dist.get_rank(group)} in the group, "
                f"got {stage_index}"
            )
        self.submod = submodule
        self.stage_index, self.num_stages = stage_index, num_stages
        self.device, self.group = _C.device(device), group
        self.is_first, self.is_last = stage_index == 0, stage_index == num_stages - 1
        self.clear()

    def clear(self) -> None:
        """Forgets the micro-batches of a step."""
        self.inputs: dict[int, tuple[Tensor, ...]] = {}
        self.outputs: dict[int, tuple[Any, ...]] = {}
        self.sends: list[tuple[Any, Tensor]] = []

    def _neighbour(self, step: int) -> int:
        rank = self.stage_index + step
        return rank if self.group is None else dist.get_global_rank(self.group, rank)

    def _send(self, tensors: list[Tensor | None], step: int) -> None:
        """Sends without waiting; a None is told as such."""
        header = [len(tensors)]
        for t in tensors:
            if t is None:
                header.append(-1)
                continue
            header += [_DTYPES.index(t.dtype), int(t.requires_grad), t.dim(), *t.shape]
        if len(header) > _HEADER:
            raise ValueError(
                f"PipelineStage: stage {self.stage_index} passes {len(tensors)} tensors on, whose "
                "shapes do not fit into a message: pass fewer"
            )
        header += [0] * (_HEADER - len(header))
        parts = [rushlight.tensor(header, device=self.device)]
        parts += [t.detach().contiguous() for t in tensors if t is not None]
        for part in parts:
            work = dist.isend(part, self._neighbour(step), group=self.group)
            self.sends.append((work, part))

    def _receive(self, step: int) -> list[Tensor | None]:
        message = rushlight.empty(_HEADER, dtype=rushlight.int64, device=self.device)
        source = self._neighbour(step)
        dist.recv(message, source, group=self.group)
        header = message.tolist()
        at = 1
        found: list[Tensor | None] = []
        for _ in range(header[0]):
            if header[at] < 0:
                at += 1
                found.append(None)
                continue
            dtype, wants, dims = header[at : at + 3]
            shape = header[at + 3 : at + 3 + dims]
            at += 3 + dims
            t = rushlight.empty(shape, dtype=_DTYPES[dtype], device=self.device)
            dist.recv(t, source, group=self.group)
            found.append(t.requires_grad_(bool(wants)))
        return found

    def forward(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs a micro-batch through the stage; the last stage's result is returned."""
        if not self.is_first:
            args = tuple(self._receive(-1))
        output = self.submod(*args, **kwargs)
        several = output if isinstance(output, tuple) else (output,)
        self.inputs[number] = args
        self.outputs[number] = several
        if not self.is_last:
            self._send(list(several), +1)
        return output

    def backward(self, number: int, loss: Tensor | None) -> None:
        """Takes a micro-batch back: from its loss in the last stage, else from what comes in."""
        inputs, outputs = self.inputs.pop(number), self.outputs.pop(number)
        if self.is_last:
            if loss is not None:
                loss.backward()
        else:
            grads = self._receive(+1)
            pairs = [
                (o, g)
                for o, g in zip(outputs, grads, strict=True)
                if g is not None and o.requires_grad
            ]
            if pairs:
                rushlight.autograd.backward([o for o, _ in pairs], [g for _, g in pairs])
        if not self.is_first:
            self._send([t.grad if t is not None else None for t in inputs], -1)

    def finish(self) -> None:
        """Waits until all is sent."""
        for work, _ in self.sends:
            work.wait()
        self.clear()
