"""Passes and tools on top of graphs."""
