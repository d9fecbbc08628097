"""What is done around collectives."""

from rushlight.distributed.algorithms.join import Join as Join
from rushlight.distributed.algorithms.join import Joinable as Joinable
from rushlight.distributed.algorithms.join import JoinHook as JoinHook
