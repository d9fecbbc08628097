"""Several processes as programs ask for them: this build runs in one, and says so.

>>> import rushlight as torch
>>> torch.distributed.is_available(), torch.distributed.is_initialized()
(False, False)
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any, NoReturn

__all__ = [
    "get_rank", "get_world_size", "init_process_group", "is_available", "is_gloo_available",
    "is_initialized", "is_mpi_available", "is_nccl_available", "is_torchelastic_launched",
    "is_ucc_available", "is_xccl_available",
]  # fmt: skip


def is_available() -> bool:
    """False: this build runs in one process.

    >>> import rushlight as torch
    >>> torch.distributed.is_available()
    False
    """
    return False


is_nccl_available = is_gloo_available = is_mpi_available = is_available
is_ucc_available = is_xccl_available = is_available


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
