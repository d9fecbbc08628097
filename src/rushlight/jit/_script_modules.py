"""The classes of scripted modules: programs ask for them, and derive modules from the first."""

from __future__ import annotations

from rushlight.nn import Module


class ScriptModule(Module):
    """A module to derive from; ``script(module)`` returns the module as it is.

    >>> import rushlight as torch
    >>> isinstance(torch.jit.script(torch.nn.ReLU()), torch.jit.ScriptModule)
    False
    """


class RecursiveScriptModule(ScriptModule):
    """What PyTorch's ``script`` returns."""


class TopLevelTracedModule(ScriptModule):
    """What PyTorch's ``trace`` returns."""
