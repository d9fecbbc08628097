"""Linear algebra."""

from rushlight._C import _LinAlgError as LinAlgError  # noqa: F401
from rushlight._ops_linalg import *  # noqa: F403
