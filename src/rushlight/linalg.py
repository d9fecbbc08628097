"""Linear algebra."""

from rushlight._ops_linalg import *  # noqa: F403
