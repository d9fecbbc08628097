"""Quantization, which is left out but for the marks that models carry: see ``ao.quantization``."""
