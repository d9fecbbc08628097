"""Tensors that hold other tensors: what sparse, nested and masked ones have in common."""
