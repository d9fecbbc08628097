"""Backward hooks of what is no module, and hooks that do not go into files."""

from __future__ import annotations

import warnings
from typing import Any

from rushlight.nn.modules._hooked_call import BackwardPassage


class BackwardHook(BackwardPassage):
    """Full backward hooks between inputs and outputs that a program names itself.

    Its ``module`` may be any object: the hooks are given it as their first argument.

    >>> import rushlight as torch
    >>> from rushlight.utils.hooks import BackwardHook
    >>> x = torch.ones(2, requires_grad=True)
    >>> hook = BackwardHook("scale", [lambda *given: print(given)], [])
    >>> (inside,) = hook.setup_input_hook((x,))
    >>> hook.setup_output_hook(3 * inside).sum().backward()
    ('scale', (tensor([3., 3.]),), (tensor([1., 1.]),))
    """

    def __init__(self, module: Any, user_hooks: list[Any], user_pre_hooks: list[Any]) -> None:
        super().__init__(module, user_hooks, user_pre_hooks)

    def setup_input_hook(self, args: Any) -> Any:
        """The inputs, of which the hooks get the gradients."""
        self.input_count = len(args)
        args, self.input_places, node = self.pass_through(args)
        if node is not None:
            node.register_hook(self.after_inputs)
        return args

    def setup_output_hook(self, args: Any) -> Any:
        """The outputs, whose gradients the hooks get; hooks before them may change these."""
        values = args if isinstance(args, tuple) else (args,)
        self.output_count = len(values)
        values, self.output_places, node = self.pass_through(values)
        if node is not None:
            node.register_hook(self.after_outputs)
        return values if isinstance(args, tuple) else values[0]


def unserializable_hook(f: Any) -> Any:
    """Marks a hook that files need not keep: nothing warns of it.

    >>> from rushlight.utils.hooks import unserializable_hook
    >>> @unserializable_hook
    ... def hook(grad):
    ...     return grad
    >>> hook.__torch_unserializable__
    True
    """
    f.__torch_unserializable__ = True
    return f


def warn_if_has_hooks(tensor: Any) -> None:
    """Warns where a tensor has hooks, which files do not keep.

    >>> import rushlight as torch
    >>> from rushlight.utils.hooks import warn_if_has_hooks
    >>> warn_if_has_hooks(torch.ones(2))
    """
    for hook in (tensor._backward_hooks or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, "
                "you can decorate the function with @torch.utils.hooks.unserializable_hook to "
                "suppress this warning",
                stacklevel=2,
            )
