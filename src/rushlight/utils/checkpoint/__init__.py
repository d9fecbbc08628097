"""Activation checkpointing: less memory in exchange for computing twice."""

from rushlight.utils.checkpoint._checkpoint import (
    checkpoint as checkpoint,
    checkpoint_sequential as checkpoint_sequential,
    noop_context_fn as noop_context_fn,
    set_checkpoint_debug_enabled as set_checkpoint_debug_enabled,
    set_checkpoint_early_stop as set_checkpoint_early_stop,
)
from rushlight.utils.checkpoint._legacy import (
    CheckpointFunction as CheckpointFunction,
    DefaultDeviceType as DefaultDeviceType,
    GraphExecGroup as GraphExecGroup,
    check_backward_validity as check_backward_validity,
    detach_variable as detach_variable,
    get_device_states as get_device_states,
    set_device_states as set_device_states,
)
from rushlight.utils.checkpoint._report import CheckpointError as CheckpointError
from rushlight.utils.checkpoint._selective import (
    SAC_IGNORED_OPS as SAC_IGNORED_OPS,
    CheckpointPolicy as CheckpointPolicy,
    SelectiveCheckpointContext as SelectiveCheckpointContext,
    create_selective_checkpoint_contexts as create_selective_checkpoint_contexts,
)
