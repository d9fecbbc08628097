"""Parts of programs of several processes that are put together."""

from rushlight.distributed._composable.checkpoint_activation import checkpoint as checkpoint
from rushlight.distributed._composable.contract import contract as contract
from rushlight.distributed._composable.replicate import replicate as replicate
