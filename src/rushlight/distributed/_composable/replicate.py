"""DDP without a wrapper: the module stays what it is."""

from __future__ import annotations

from rushlight.distributed._composable.contract import contract

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any


@contract()
def replicate(module: Any, ignored_modules: Any = None, **options: Any) -> Any:
    """The module itself, whose gradients are averaged from now on; the options are DDP's."""
    from rushlight.nn.parallel import DistributedDataParallel

    ignored = {id(p) for m in ignored_modules or () for p in m.parameters()}
    if ignored:
        names = [name for name, p in module.named_parameters() if id(p) in ignored]
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(module, names)
    ddp = DistributedDataParallel(module, **options)

    def before(module: Any, inputs: Any) -> None:
        ddp._begin()

    module.register_forward_pre_hook(before)
    module.__dict__["_ddp"] = ddp
    return module
