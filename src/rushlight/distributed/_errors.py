"""What goes wrong between processes."""


class DistError(RuntimeError):
    """An error of ``torch.distributed``."""

    __module__ = "rushlight.distributed"


class DistBackendError(DistError):
    """A collective failed: a process ended, was late, or called something else."""

    __module__ = "rushlight.distributed"


class DistNetworkError(DistError):
    """A connection could not be made, or was lost."""

    __module__ = "rushlight.distributed"


class DistStoreError(DistError):
    """A store did not answer in time."""

    __module__ = "rushlight.distributed"


class QueueEmptyError(DistStoreError):
    """A queue of a store has no entry."""

    __module__ = "rushlight.distributed"
