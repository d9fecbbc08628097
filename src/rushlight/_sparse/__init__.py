"""Sparse tensors: where the elements lie (pattern), the class, and the rules of its ops."""
