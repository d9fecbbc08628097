"""A name that libraries import for masks computed under ``vmap``."""

from __future__ import annotations

from contextlib import nullcontext


class TransformGetItemToIndex(nullcontext[None]):
    """A block in which ``x[tensor]`` works under ``vmap``: it always does."""
