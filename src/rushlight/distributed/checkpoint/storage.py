"""Where checkpoints are written and read; storage of one's own is left out."""

from rushlight.distributed._single import absent as _absent
from rushlight.distributed.checkpoint.filesystem import StorageReader as StorageReader
from rushlight.distributed.checkpoint.filesystem import StorageWriter as StorageWriter

globals().update(_absent(__name__, ["WriteResult"]))
