"""Switches for deterministic algorithms, beside ``torch.use_deterministic_algorithms``."""

__all__ = ["fill_uninitialized_memory"]

fill_uninitialized_memory = True
