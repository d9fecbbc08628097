"""Modules that save memory of activations."""
