"""DataParallel by name: the batch stays whole, on the module's device."""

from __future__ import annotations

from rushlight.nn.modules.module import Module

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """Calls ``module``, which keeps its name in state dicts; the batch stays whole.

    >>> import rushlight as torch
    >>> list(torch.nn.DataParallel(torch.nn.Linear(1, 1)).state_dict())
    ['module.weight', 'module.bias']
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[Any] = []
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """One call of a module as DataParallel makes it.

    >>> import rushlight as torch
    >>> torch.nn.parallel.data_parallel(torch.nn.ReLU(), torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    inputs = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    return module(*inputs, **(module_kwargs or {}))
