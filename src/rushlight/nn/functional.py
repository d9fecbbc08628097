"""Layers and losses as functions."""

from rushlight._ops_nn_functional import *  # noqa: F403
from rushlight.nn._functional_attention import *  # noqa: F403
from rushlight.nn._functional_attention import _canonical_mask as _canonical_mask
from rushlight.nn._functional_attention import _none_or_dtype as _none_or_dtype
from rushlight.nn._functional_composites import *  # noqa: F403
from rushlight.nn._functional_ctc import *  # noqa: F403
from rushlight.nn._functional_fractional import *  # noqa: F403
from rushlight.nn._functional_grid import *  # noqa: F403
from rushlight.nn._functional_vision import *  # noqa: F403
