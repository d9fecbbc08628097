"""Checkpoints written by several processes: names only."""

from rushlight.distributed._single import absent as _absent

_NAMES = [
    "DefaultLoadPlanner", "DefaultSavePlanner", "FileSystemReader", "FileSystemWriter",
    "LoadPlan", "LoadPlanner", "Metadata", "SavePlan", "SavePlanner", "StorageReader",
    "StorageWriter", "async_save", "load", "load_state_dict", "save", "save_state_dict",
]  # fmt: skip

globals().update(_absent(__name__, _NAMES))
