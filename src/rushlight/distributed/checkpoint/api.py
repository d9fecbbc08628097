"""The error of checkpoints."""

from rushlight.distributed.checkpoint.state_dict_saver import (
    CheckpointException as CheckpointException,
)
