"""Layers and losses as functions."""

from rushlight._ops_nn_functional import *  # noqa: F403
