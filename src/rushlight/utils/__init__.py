"""Helpers around the core."""

from rushlight.utils import hooks as hooks
