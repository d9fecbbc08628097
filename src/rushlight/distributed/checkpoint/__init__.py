"""Checkpoints written and read by several processes, each its own part."""

from rushlight.distributed.checkpoint.default_planner import (
    DefaultLoadPlanner as DefaultLoadPlanner,
)
from rushlight.distributed.checkpoint.default_planner import (
    DefaultSavePlanner as DefaultSavePlanner,
)
from rushlight.distributed.checkpoint.filesystem import FileSystemReader as FileSystemReader
from rushlight.distributed.checkpoint.filesystem import FileSystemWriter as FileSystemWriter
from rushlight.distributed.checkpoint.filesystem import StorageReader as StorageReader
from rushlight.distributed.checkpoint.filesystem import StorageWriter as StorageWriter
from rushlight.distributed.checkpoint.metadata import Metadata as Metadata
from rushlight.distributed.checkpoint.state_dict_loader import load as load
from rushlight.distributed.checkpoint.state_dict_loader import load_state_dict as load_state_dict
from rushlight.distributed.checkpoint.state_dict_saver import (
    CheckpointException as CheckpointException,
)
from rushlight.distributed.checkpoint.state_dict_saver import async_save as async_save
from rushlight.distributed.checkpoint.state_dict_saver import save as save
from rushlight.distributed.checkpoint.state_dict_saver import save_state_dict as save_state_dict
from rushlight.distributed.checkpoint.stateful import Stateful as Stateful
from rushlight.distributed._single import absent as _absent

globals().update(_absent(__name__, ["LoadPlan", "LoadPlanner", "SavePlan", "SavePlanner"]))
