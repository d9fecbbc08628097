"""Which modules of a model are divided on their own."""

from __future__ import annotations

import contextlib

from rushlight.nn.modules.module import Module

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

__all__ = [
    "CustomPolicy", "ModuleWrapPolicy", "always_wrap_policy", "enable_wrap",
    "lambda_auto_wrap_policy", "size_based_auto_wrap_policy", "transformer_auto_wrap_policy",
    "wrap",
]  # fmt: skip


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Every module.

    >>> from rushlight.distributed.fsdp.wrap import always_wrap_policy
    >>> always_wrap_policy()
    True
    """
    return True


class ModuleWrapPolicy:
    """Modules of these classes.

    >>> import rushlight as torch
    >>> from rushlight.distributed.fsdp.wrap import ModuleWrapPolicy
    >>> ModuleWrapPolicy({torch.nn.Linear})(torch.nn.Linear(1, 1), False, 0)
    True
    """

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._classes = tuple(module_classes)

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return recurse or isinstance(module, self._classes)


class CustomPolicy:
    """Modules for which a function says so; a dict that it gives holds options of their own.

    >>> import rushlight as torch
    >>> from rushlight.distributed.fsdp.wrap import CustomPolicy
    >>> CustomPolicy(lambda m: isinstance(m, torch.nn.Linear))(torch.nn.ReLU(), False, 0)
    False
    """

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._choose = lambda_fn

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return recurse or bool(self._choose(module))


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]
) -> bool:
    """Modules for which a function says so.

    >>> import rushlight as torch
    >>> from rushlight.distributed.fsdp.wrap import lambda_auto_wrap_policy
    >>> lambda_auto_wrap_policy(torch.nn.ReLU(), False, 0, lambda m: True)
    True
    """
    return recurse or lambda_fn(module)


def transformer_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: set[type[Module]]
) -> bool:
    """Layers of a transformer, by their classes.

    >>> import rushlight as torch
    >>> from rushlight.distributed.fsdp.wrap import transformer_auto_wrap_policy
    >>> transformer_auto_wrap_policy(torch.nn.ReLU(), False, 0, {torch.nn.TransformerEncoderLayer})
    False
    """
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = int(1e8),
    force_leaf_modules: Any = None,
    exclude_wrap_modules: Any = None,
) -> bool:
    """Modules of at least ``min_num_params`` numbers that are not in a divided one.

    >>> import rushlight as torch
    >>> from rushlight.distributed.fsdp.wrap import size_based_auto_wrap_policy
    >>> size_based_auto_wrap_policy(torch.nn.Linear(3, 3), False, 12, min_num_params=10)
    True
    """
    return nonwrapped_numel >= min_num_params


def chosen(root: Module, policy: Callable[..., bool], ignored: set[Module]) -> list[Module]:
    """The modules below ``root`` that a policy divides on their own, innermost first."""
    found: list[Module] = []

    def visit(module: Module) -> int:
        """The numbers of parameters that no module below has taken."""
        left = sum(p.numel() for p in module._parameters.values() if p is not None)
        for child in module.children():
            if child not in ignored:
                left += visit(child)
        if module is root or not left:
            return left
        if policy(module=module, recurse=False, nonwrapped_numel=left):
            found.append(module)
            return 0
        return left

    visit(root)
    return found


_wrapper: list[tuple[Any, dict[str, Any]]] = []


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """Within it, ``wrap(module)`` wraps by this class with these options.

    >>> import rushlight as torch
    >>> from rushlight.distributed.fsdp.wrap import enable_wrap, wrap
    >>> with enable_wrap(wrapper_cls=torch.nn.Sequential):
    ...     wrap(torch.nn.ReLU())
    Sequential(
      (0): ReLU()
    )
    """
    _wrapper.append((wrapper_cls, wrapper_kwargs))
    try:
        yield
    finally:
        _wrapper.pop()


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """The module, wrapped where ``enable_wrap`` says by what.

    >>> import rushlight as torch
    >>> from rushlight.distributed.fsdp.wrap import wrap
    >>> wrap(torch.nn.ReLU())
    ReLU()
    """
    if not _wrapper:
        return module
    wrapper, options = _wrapper[-1]
    made: Module = wrapper(module, **{**options, **wrap_overrides})
    return made
