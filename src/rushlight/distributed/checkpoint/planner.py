"""Plans of one's own for checkpoints: left out."""

from rushlight.distributed._single import absent as _absent

_NAMES = [
    "LoadItemType", "LoadPlan", "LoadPlanner", "ReadItem", "SavePlan", "SavePlanner",
    "WriteItem", "WriteItemType",
]  # fmt: skip

globals().update(_absent(__name__, _NAMES))
