"""Special functions."""

from rushlight._ops_special import *  # noqa: F403
