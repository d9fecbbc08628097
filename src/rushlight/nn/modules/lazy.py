"""Modules that take the shapes of their parameters from the first input."""

from __future__ import annotations

from rushlight.autograd.grad_mode import no_grad
from rushlight.nn.parameter import is_lazy

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

    from rushlight.nn.modules.module import Module as _Base
else:
    _Base = object

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin(_Base):
    """Calls ``initialize_parameters`` with the first input, then becomes ``cls_to_become``.

    >>> import rushlight as torch
    >>> layer = torch.nn.LazyLinear(2)
    >>> layer.has_uninitialized_params()
    True
    >>> _ = layer(torch.ones(1, 3))
    >>> layer
    Linear(in_features=3, out_features=2, bias=True)
    """

    cls_to_become: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materializes the parameters for these inputs; each lazy class defines it."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer still waits for its shape."""
        return any(map(is_lazy, [*self._parameters.values(), *self._buffers.values()]))

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        persistent = {
            n: b for n, b in self._buffers.items() if n not in self._non_persistent_buffers_set
        }
        for name, value in {**self._parameters, **persistent}.items():
            if value is not None:
                keep = keep_vars or is_lazy(value)
                destination[prefix + name] = value if keep else value.detach()

    def _lazy_load_hook(self, state_dict: Any, prefix: str, *_: Any) -> None:
        """Shapes that a state dict brings are taken from it."""
        for name, param in [*self._parameters.items(), *self._buffers.items()]:
            given = state_dict.get(prefix + name)
            if given is not None and is_lazy(param) and not is_lazy(given):
                with no_grad():
                    param.materialize(given.shape)

    def _infer_parameters(self, module: Any, args: Any, kwargs: Any = None) -> None:
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self) -> Any:
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. "
            "Run a dummy forward pass to correctly initialize the modules"
        )
