"""Classes of compiled modules, which libraries ask ``isinstance`` about."""

from __future__ import annotations

from rushlight.nn.modules.module import Module


class OptimizedModule(Module):
    """A compiled module: nothing is one, ``compile`` gives back what it got."""
