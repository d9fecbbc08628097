"""What libraries read from the private part of TorchScript."""

from __future__ import annotations

from rushlight.jit.annotations import BroadcastingList1 as BroadcastingList1
from rushlight.jit.annotations import BroadcastingList2 as BroadcastingList2
from rushlight.jit.annotations import BroadcastingList3 as BroadcastingList3

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any


def _copy_to_script_wrapper(fn: Any) -> Any:
    """The method itself: nothing is wrapped."""
    return fn
