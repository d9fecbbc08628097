"""Signals: window functions."""

from rushlight.signal import windows as windows

__all__ = ["windows"]
