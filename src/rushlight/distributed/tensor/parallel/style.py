"""How a layer is spread over the processes of a mesh of one dimension.

A style replaces the layer's parameters by DTensors. While the layer runs, it sees this process's
parts of them, and hooks bring inputs and results into the layout that the next layer wants.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from rushlight import nn
from rushlight._C import Tensor
from rushlight.distributed.tensor import _parts
from rushlight.distributed.tensor._dtensor import DTensor, distribute_tensor
from rushlight.distributed.tensor.placement_types import (
    Partial,
    Placement,
    Replicate,
    Shard,
    bounds,
)

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight.nn.modules.module import Module


class ParallelStyle(ABC):
    """One way to spread a module.

    >>> from rushlight.distributed.tensor.parallel import ColwiseParallel, ParallelStyle
    >>> issubclass(ColwiseParallel, ParallelStyle)
    True
    """

    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module: Module, device_mesh: Any) -> Module:
        """Spreads the module."""

    def _spread(self, module: Any, mesh: Any, placement_of: Callable[[str], Placement]) -> None:
        for name, p in list(module._parameters.items()):
            if p is not None and not isinstance(p, DTensor):
                spread = distribute_tensor(
                    p, mesh, [placement_of(name)], src_data_rank=self.src_data_rank
                )
                module.register_parameter(name, spread)


def _on_parts(module: Module, part_of: Callable[[str, DTensor], Any]) -> None:
    """Lets the module see parts of its parameters while it runs."""
    kept: list[dict[str, Any]] = []

    def enter(module: Module, inputs: Any) -> None:
        parameters = module._parameters
        kept.append(dict(parameters))
        for name, p in parameters.items():
            if isinstance(p, DTensor):
                parameters[name] = part_of(name, p)

    def leave(module: Module, inputs: Any, output: Any) -> None:
        module._parameters.update(kept.pop())

    module.register_forward_pre_hook(enter)
    module.register_forward_hook(leave, always_call=True)


def _as_dtensor(value: Any, layout: Placement, mesh: Any) -> Any:
    if isinstance(value, DTensor) or not isinstance(value, Tensor):
        return value
    return DTensor.from_local(value, mesh, [layout])


def _prepared(value: Any, layout: Placement, wanted: Placement, mesh: Any, local: bool) -> Any:
    """A value in the layout that is wanted."""
    spread = _as_dtensor(value, layout, mesh)
    if not isinstance(spread, DTensor):
        return value
    if spread.placements != (wanted,):
        spread = spread.redistribute(mesh, [wanted])
    return spread.to_local() if local else spread


def _change_first_input(module: Module, change: Callable[[Any], Any]) -> None:
    module.register_forward_pre_hook(lambda m, inputs: (change(inputs[0]), *inputs[1:]))


class ColwiseParallel(ParallelStyle):
    """A linear layer or an embedding, spread over its outputs.

    The input is whole in every process (``input_layouts``), the result is spread over its last
    dimension (``output_layouts``).

    >>> from rushlight.distributed.tensor.parallel import ColwiseParallel
    >>> ColwiseParallel().output_layouts
    (Shard(dim=-1),)
    """

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        self.input_layouts = (input_layouts or Replicate(),)
        self.output_layouts = (output_layouts or Shard(-1),)
        self.use_local_output = use_local_output

    def _apply(self, module: Module, device_mesh: Any) -> Module:
        if not isinstance(module, (nn.Linear, nn.Embedding)):
            raise NotImplementedError(
                "ColwiseParallel currently only support nn.Linear and nn.Embedding! got "
                f"{type(module).__name__}"
            )
        mesh, group = device_mesh, device_mesh.get_group()
        across = 1 if isinstance(module, nn.Embedding) else 0
        size = module.weight.shape[across]
        self._spread(module, mesh, lambda name: Shard(across if name == "weight" else 0))

        def enter(value: Any) -> Any:
            whole = _prepared(value, self.input_layouts[0], Replicate(), mesh, local=True)
            return _parts.Copy.apply(whole, group) if whole.is_floating_point() else whole

        def leave(module: Module, inputs: Any, output: Tensor) -> Any:
            shape = [*output.shape[:-1], size]
            spread = DTensor.from_local(output, mesh, [Shard(-1)], shape=shape)
            return _prepared(spread, Shard(-1), *self._wanted(output, mesh))

        _change_first_input(module, enter)
        _on_parts(module, lambda name, p: p.to_local())
        module.register_forward_hook(leave)
        return module

    def _wanted(self, output: Tensor, mesh: Any) -> tuple[Placement, Any, bool]:
        return _counted(self.output_layouts[0], output.dim()), mesh, self.use_local_output


def _counted(placement: Placement, dims: int) -> Placement:
    if isinstance(placement, Shard) and placement.dim < 0:
        return Shard(placement.dim + dims)
    return placement


class RowwiseParallel(ParallelStyle):
    """A linear layer or an embedding, spread over its inputs: the results are terms of a sum.

    The input is spread over its last dimension: give an embedding whose indices every process has
    whole ``input_layouts=Replicate()``. The result is whole, or spread over the sequence with
    ``output_layouts=Shard(1)``.

    >>> from rushlight.distributed.tensor.parallel import RowwiseParallel
    >>> RowwiseParallel().output_layouts
    (Replicate(),)
    """

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        self.input_layouts = (input_layouts or Shard(-1),)
        self.output_layouts = (output_layouts or Replicate(),)
        self.use_local_output = use_local_output

    def _apply(self, module: Module, device_mesh: Any) -> Module:
        mesh = device_mesh
        if isinstance(module, nn.Linear):
            self._spread(module, mesh, lambda name: Shard(1) if name == "weight" else Replicate())
            _change_first_input(module, lambda value: self._part(value, mesh))
            # The bias is added once, to the sum.
            _on_parts(module, lambda name, p: p.to_local() if name == "weight" else None)
        elif isinstance(module, nn.Embedding):
            self._spread(module, mesh, lambda name: Shard(0))
            self._look_up_own_rows(module, mesh)
        else:
            raise NotImplementedError(
                "RowwiseParallel currently only support nn.Linear and nn.Embedding! got "
                f"{type(module).__name__}"
            )

        def leave(module: Module, inputs: Any, output: Tensor) -> Any:
            terms = DTensor.from_local(output, mesh, [Partial()])
            wanted = _counted(self.output_layouts[0], output.dim())
            spread = terms.redistribute(mesh, [wanted])
            bias = module._parameters.get("bias")
            if bias is not None:
                local = bias.to_local()
                if wanted.is_shard():  # each process sees a part of what the bias is added to
                    local = _parts.Copy.apply(local, mesh.get_group())
                spread = spread._like(spread.to_local() + local)
            return spread.to_local() if self.use_local_output else spread

        module.register_forward_hook(leave)
        return module

    def _part(self, value: Any, mesh: Any) -> Any:
        last = Shard(value.dim() - 1)
        return _prepared(value, _counted(self.input_layouts[0], value.dim()), last, mesh, True)

    def _look_up_own_rows(self, module: Any, mesh: Any) -> None:
        """Indices of rows that other processes have give zeros here."""
        rows = module.weight.shape[0]
        start, end = bounds(rows, mesh.size(), mesh.get_local_rank())
        elsewhere: list[Tensor] = []
        padding = module.padding_idx

        def enter(indices: Tensor) -> Tensor:
            whole = _prepared(indices, self.input_layouts[0], Replicate(), mesh, local=True)
            elsewhere.append((whole < start) | (whole >= end))
            inside = padding is not None and start <= padding < end
            module.padding_idx = padding - start if inside else None
            return (whole - start).clamp(0, max(end - start - 1, 0))

        def leave(module: Any, inputs: Any, output: Tensor) -> Tensor:
            module.padding_idx = padding
            return output.masked_fill(elsewhere.pop().unsqueeze(-1), 0)

        def part_of(name: str, p: DTensor) -> Any:
            local = p.to_local()
            return local if local.shape[0] else local.new_zeros(1, local.shape[1])

        _change_first_input(module, enter)
        _on_parts(module, part_of)
        module.register_forward_hook(leave)


class SequenceParallel(ParallelStyle):
    """A norm or a dropout whose input is spread over the sequence; its parameters are whole.

    >>> from rushlight.distributed.tensor.parallel import SequenceParallel
    >>> SequenceParallel().sequence_sharding
    (Shard(dim=1),)
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_sharding = (Shard(sequence_dim),)
        self.use_local_output = use_local_output

    def _apply(self, module: Module, device_mesh: Any) -> Module:
        mesh, group = device_mesh, device_mesh.get_group()
        layout = self.sequence_sharding[0]
        self._spread(module, mesh, lambda name: Replicate())
        shapes: list[Any] = []

        def enter(value: Any) -> Any:
            spread = _as_dtensor(value, layout, mesh)
            if spread.placements != (layout,):
                spread = spread.redistribute(mesh, [layout])
            shapes.append(spread.shape)
            return spread.to_local()

        def leave(module: Module, inputs: Any, output: Any) -> Any:
            shape = shapes.pop()
            if self.use_local_output:
                return output
            return DTensor.from_local(output, mesh, [layout], shape=shape)

        _change_first_input(module, enter)
        # Each process sees a part of the sequence: its gradients of parameters are terms.
        _on_parts(module, lambda name, p: _parts.Copy.apply(p.to_local(), group))
        module.register_forward_hook(leave)
        return module


def _listed(layouts: Any) -> tuple[Any, ...]:
    return layouts if isinstance(layouts, tuple) else () if layouts is None else (layouts,)


class PrepareModuleInput(ParallelStyle):
    """Brings the inputs of a module from one layout into another; None leaves one as it is.

    >>> from rushlight.distributed.tensor import Replicate, Shard
    >>> from rushlight.distributed.tensor.parallel import PrepareModuleInput
    >>> style = PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate())
    >>> style.desired_input_layouts
    (Replicate(),)
    """

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        self.input_layouts = _listed(input_layouts)
        self.desired_input_layouts = _listed(desired_input_layouts)
        self.input_kwarg_layouts = input_kwarg_layouts or {}
        self.desired_input_kwarg_layouts = desired_input_kwarg_layouts or {}
        self.use_local_output = use_local_output
        if len(self.input_layouts) != len(self.desired_input_layouts):
            raise AssertionError("input_layouts and desired_input_layouts should have same length!")

    def _apply(self, module: Module, device_mesh: Any) -> Module:
        def enter(module: Module, args: Any, kwargs: Any) -> Any:
            pairs = [*zip(self.input_layouts, self.desired_input_layouts, strict=True)]
            pairs += [(None, None)] * (len(args) - len(pairs))
            args = tuple(
                self._one(value, *pair, device_mesh)
                for value, pair in zip(args, pairs, strict=False)
            )
            kwargs = {
                name: self._one(
                    value,
                    self.input_kwarg_layouts.get(name),
                    self.desired_input_kwarg_layouts.get(name),
                    device_mesh,
                )
                for name, value in kwargs.items()
            }
            return args, kwargs

        module.register_forward_pre_hook(enter, with_kwargs=True)
        return module

    def _one(self, value: Any, layout: Any, wanted: Any, mesh: Any) -> Any:
        if layout is None or wanted is None:
            return value
        return _prepared(value, layout, wanted, mesh, self.use_local_output)


class PrepareModuleOutput(ParallelStyle):
    """Brings the results of a module from one layout into another; None leaves one as it is.

    >>> from rushlight.distributed.tensor import Replicate, Shard
    >>> from rushlight.distributed.tensor.parallel import PrepareModuleOutput
    >>> style = PrepareModuleOutput(output_layouts=Shard(1), desired_output_layouts=Replicate())
    >>> style.output_layouts
    (Shard(dim=1),)
    """

    def __init__(
        self, *, output_layouts: Any, desired_output_layouts: Any, use_local_output: bool = True
    ) -> None:
        self.output_layouts = _listed(output_layouts)
        self.desired_output_layouts = _listed(desired_output_layouts)
        self.use_local_output = use_local_output
        if len(self.output_layouts) != len(self.desired_output_layouts):
            raise AssertionError(
                "output_layouts and desired_output_layouts should have same length!"
            )

    def _apply(self, module: Module, device_mesh: Any) -> Module:
        def leave(module: Module, inputs: Any, output: Any) -> Any:
            several = isinstance(output, tuple)
            values = output if several else (output,)
            changed = tuple(
                value
                if layout is None or wanted is None
                else _prepared(value, layout, wanted, device_mesh, self.use_local_output)
                for value, layout, wanted in zip(
                    values, self.output_layouts, self.desired_output_layouts, strict=True
                )
            )
            return changed if several else changed[0]

        module.register_forward_hook(leave)
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """``PrepareModuleInput`` and ``PrepareModuleOutput`` in one.

    >>> from rushlight.distributed.tensor import Replicate, Shard
    >>> from rushlight.distributed.tensor.parallel import PrepareModuleInputOutput
    >>> PrepareModuleInputOutput(
    ...     input_layouts=Shard(1), desired_input_layouts=Replicate(),
    ...     output_layouts=Replicate(), desired_output_layouts=Shard(1),
    ... ).after.output_layouts
    (Replicate(),)
    """

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_input: bool = False,
        output_layouts: Any,
        desired_output_layouts: Any,
        use_local_output: bool = True,
    ) -> None:
        self.before = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )
        self.after = PrepareModuleOutput(
            output_layouts=output_layouts,
            desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )

    def _apply(self, module: Module, device_mesh: Any) -> Module:
        return self.after._apply(self.before._apply(module, device_mesh), device_mesh)
