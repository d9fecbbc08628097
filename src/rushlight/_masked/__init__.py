"""Reductions over the elements that a mask selects, and tensors that carry their mask."""
