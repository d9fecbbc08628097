"""Nested tensors: batches whose parts have different sizes."""
