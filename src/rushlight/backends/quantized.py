"""Engines for quantised tensors: there are none."""

from __future__ import annotations

engine = "none"
supported_engines = ["none"]
