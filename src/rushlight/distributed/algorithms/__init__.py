"""What is done around collectives: names only."""

from rushlight.distributed._single import absent as _absent

_NAMES = ["Join", "JoinHook", "Joinable"]

globals().update(_absent(__name__, _NAMES))
