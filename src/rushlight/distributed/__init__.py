"""Several processes as programs ask for them: this build runs in one, and says so.

>>> import rushlight as torch
>>> torch.distributed.is_available(), torch.distributed.is_initialized()
(False, False)
"""

from __future__ import annotations

import enum

from rushlight.distributed._single import absent as _absent

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any, NoReturn

_ABSENT = [
    "Backend", "DeviceMesh", "FileStore", "GradBucket", "HashStore", "P2POp", "PrefixStore",
    "ProcessGroup", "Store", "TCPStore", "Work", "all_gather", "all_gather_coalesced",
    "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_reduce_coalesced",
    "all_to_all", "all_to_all_single", "barrier", "batch_isend_irecv", "broadcast",
    "broadcast_object_list", "destroy_process_group", "gather", "gather_object", "get_backend",
    "get_global_rank", "get_group_rank", "get_process_group_ranks", "init_device_mesh", "irecv",
    "isend", "monitored_barrier", "new_group", "new_subgroups", "recv", "reduce",
    "reduce_scatter", "reduce_scatter_tensor", "scatter", "scatter_object_list", "send",
]  # fmt: skip

globals().update(_absent(__name__, _ABSENT))


class ReduceOp(enum.Enum):
    """How a collective combines values.

    >>> import rushlight as torch
    >>> torch.distributed.ReduceOp.SUM.name
    'SUM'
    """

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


reduce_op = ReduceOp


class group:
    """The group of all processes: there is none.

    >>> import rushlight as torch
    >>> torch.distributed.group.WORLD is None
    True
    """

    WORLD = None


GroupMember = group


def is_available() -> bool:
    """False: this build runs in one process.

    >>> import rushlight as torch
    >>> torch.distributed.is_available()
    False
    """
    return False


is_nccl_available = is_gloo_available = is_mpi_available = is_available
is_ucc_available = is_xccl_available = is_available


def is_backend_available(backend: str) -> bool:
    """False: there is no backend.

    >>> import rushlight as torch
    >>> torch.distributed.is_backend_available("gloo")
    False
    """
    return False


def is_initialized() -> bool:
    """False: there is no process group.

    >>> import rushlight as torch
    >>> torch.distributed.is_initialized()
    False
    """
    return False


def is_torchelastic_launched() -> bool:
    """Whether ``torchrun`` started this process.

    >>> import rushlight as torch
    >>> torch.distributed.is_torchelastic_launched()
    False
    """
    import os

    return "TORCHELASTIC_RUN_ID" in os.environ


def _no_group(name: str) -> NoReturn:
    raise ValueError(
        f"torch.distributed.{name}(): Default process group has not been initialized, please make "
        "sure to call init_process_group. Ask torch.distributed.is_initialized() first."
    )


def get_rank(group: Any = None) -> int:
    """The number of this process. Raises: there is no process group.

    >>> import rushlight as torch
    >>> torch.distributed.get_rank()
    Traceback (most recent call last):
        ...
    ValueError: torch.distributed.get_rank(): Default process group has not been ...
    """
    _no_group("get_rank")


def get_world_size(group: Any = None) -> int:
    """The number of processes. Raises: there is no process group.

    >>> import rushlight as torch
    >>> torch.distributed.get_world_size()
    Traceback (most recent call last):
        ...
    ValueError: torch.distributed.get_world_size(): Default process group has not been ...
    """
    _no_group("get_world_size")


def init_process_group(*args: Any, **kwargs: Any) -> None:
    """Joins a process group. Raises: this build runs in one process.

    >>> import rushlight as torch
    >>> torch.distributed.init_process_group("gloo")
    Traceback (most recent call last):
        ...
    RuntimeError: init_process_group: Distributed package doesn't have any backend built in...
    """
    raise RuntimeError(
        "init_process_group: Distributed package doesn't have any backend built in: this build of "
        "rushlight runs in one process; ask torch.distributed.is_available() first"
    )


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        from importlib import import_module

        return import_module(f"rushlight.distributed.{name}")
    from rushlight._missing import MissingAttribute

    raise MissingAttribute("rushlight.distributed", name)


_MODULES = (
    "algorithms", "checkpoint", "device_mesh", "distributed_c10d", "fsdp", "nn", "optim", "rpc",
    "tensor",
)  # fmt: skip
