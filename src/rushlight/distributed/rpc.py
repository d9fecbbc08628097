"""Calls between processes: names only."""

from rushlight.distributed._single import absent as _absent

_NAMES = [
    "BackendType", "RRef", "TensorPipeRpcBackendOptions", "WorkerInfo", "get_worker_info",
    "init_rpc", "remote", "rpc_async", "rpc_sync", "shutdown",
]  # fmt: skip

globals().update(_absent(__name__, _NAMES))


def is_available() -> bool:
    """False: calls between processes are left out.

    >>> import rushlight.distributed.rpc as rpc
    >>> rpc.is_available()
    False
    """
    return False
