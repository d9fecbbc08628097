"""Types of scripted functions: annotations, which nothing reads."""

from __future__ import annotations

from typing import Any as Any
from typing import Optional as Optional
from typing import Union as Union

Dict, List, Tuple = dict, list, tuple


class _BroadcastingList:
    """``BroadcastingList2[int]``: one number, or a list of two."""

    def __getitem__(self, types: Any) -> None:
        return None


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = _BroadcastingList()
BroadcastingList4 = BroadcastingList5 = BroadcastingList6 = BroadcastingList1
