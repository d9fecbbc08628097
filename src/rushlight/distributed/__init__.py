"""Several processes: groups of them, collectives, stores. The engines are MPI and NCCL.

>>> import rushlight as torch
>>> torch.distributed.is_available(), torch.distributed.is_initialized()
(True, False)
"""

from __future__ import annotations

from rushlight.distributed._backends import Backend as Backend
from rushlight.distributed._collectives import (
    all_gather as all_gather,
    all_gather_coalesced as all_gather_coalesced,
    all_gather_into_tensor as all_gather_into_tensor,
    all_reduce as all_reduce,
    all_reduce_coalesced as all_reduce_coalesced,
    all_to_all as all_to_all,
    all_to_all_single as all_to_all_single,
    barrier as barrier,
    broadcast as broadcast,
    gather as gather,
    reduce as reduce,
    reduce_scatter as reduce_scatter,
    reduce_scatter_tensor as reduce_scatter_tensor,
    scatter as scatter,
)
from rushlight.distributed._debug import (
    DebugLevel as DebugLevel,
    get_debug_level as get_debug_level,
    set_debug_level as set_debug_level,
    set_debug_level_from_env as set_debug_level_from_env,
    supports_complex as supports_complex,
)
from rushlight.distributed._errors import (
    DistBackendError as DistBackendError,
    DistError as DistError,
    DistNetworkError as DistNetworkError,
    DistStoreError as DistStoreError,
    QueueEmptyError as QueueEmptyError,
)
from rushlight.distributed._groups import (
    GroupMember as GroupMember,
    ProcessGroup as ProcessGroup,
    _get_default_group as _get_default_group,
    _rank_not_in_group as _rank_not_in_group,
    default_pg_timeout as default_pg_timeout,
    destroy_process_group as destroy_process_group,
    get_backend as get_backend,
    get_backend_config as get_backend_config,
    get_global_rank as get_global_rank,
    get_group_rank as get_group_rank,
    get_node_local_rank as get_node_local_rank,
    get_pg_count as get_pg_count,
    get_process_group_ranks as get_process_group_ranks,
    get_rank as get_rank,
    get_world_size as get_world_size,
    group as group,
    init_process_group as init_process_group,
    is_initialized as is_initialized,
    new_group as new_group,
    new_subgroups as new_subgroups,
    new_subgroups_by_enumeration as new_subgroups_by_enumeration,
)
from rushlight.distributed._monitored import monitored_barrier as monitored_barrier
from rushlight.distributed._objects import (
    all_gather_object as all_gather_object,
    broadcast_object_list as broadcast_object_list,
    gather_object as gather_object,
    recv_object_list as recv_object_list,
    scatter_object_list as scatter_object_list,
    send_object_list as send_object_list,
)
from rushlight.distributed._point_to_point import (
    P2POp as P2POp,
    batch_isend_irecv as batch_isend_irecv,
    irecv as irecv,
    isend as isend,
    recv as recv,
    send as send,
)
from rushlight.distributed._reductions import ReduceOp as ReduceOp, reduce_op as reduce_op
from rushlight.distributed.rendezvous import (
    register_rendezvous_handler as register_rendezvous_handler,
    rendezvous as rendezvous,
)
from rushlight.distributed._single import absent as _absent
from rushlight.distributed._stores import (
    FileStore as FileStore,
    HashStore as HashStore,
    PrefixStore as PrefixStore,
    Store as Store,
    TCPStore as TCPStore,
)
from rushlight.distributed._work import Work as Work
from rushlight.distributed._world import has_mpi as _has_mpi
from rushlight.distributed.device_mesh import (
    DeviceMesh as DeviceMesh,
    init_device_mesh as init_device_mesh,
)

globals().update(_absent(__name__, ["Logger"]))

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any


def is_available() -> bool:
    """True: a process can join a group. Several processes need an engine: see ``[mpi]``.

    >>> import rushlight as torch
    >>> torch.distributed.is_available()
    True
    """
    return True


def is_mpi_available() -> bool:
    """Whether mpi4py is installed, the engine of groups of several processes.

    >>> import rushlight as torch
    >>> torch.distributed.is_mpi_available() == torch.distributed.is_gloo_available()
    True
    """
    return _has_mpi()


is_gloo_available = is_mpi_available
# The newer names of two collectives.
all_gather_single, reduce_scatter_single = all_gather_into_tensor, reduce_scatter_tensor


def get_default_backend_for_device(device: Any) -> str:
    """The name of the engine for tensors of a kind of device.

    >>> import rushlight as torch
    >>> torch.distributed.get_default_backend_for_device("cpu")
    'gloo'
    """
    from rushlight import device as device_of

    kind = device_of(device).type
    if kind not in Backend.default_device_backend_map:
        raise ValueError(f"Default backend not registered for device : {kind}")
    return Backend.default_device_backend_map[kind]


def is_nccl_available() -> bool:
    """Whether NCCL is installed, the engine of groups of CUDA devices.

    >>> import rushlight as torch
    >>> torch.distributed.is_nccl_available() in (True, False)
    True
    """
    from rushlight.distributed import _nccl

    return _nccl.is_available()


def is_ucc_available() -> bool:
    """False: there is no engine of that name.

    >>> import rushlight as torch
    >>> torch.distributed.is_ucc_available()
    False
    """
    return False


is_xccl_available = is_ucc_available


def is_backend_available(backend: str) -> bool:
    """Whether groups can be made with a backend.

    >>> import rushlight as torch
    >>> torch.distributed.is_backend_available("none")
    False
    """
    name = backend.lower()
    return is_nccl_available() if name == "nccl" else name in ("mpi", "gloo") and _has_mpi()


def is_torchelastic_launched() -> bool:
    """Whether ``rushlight launch`` or ``torchrun`` started this process.

    >>> import rushlight as torch
    >>> torch.distributed.is_torchelastic_launched()
    False
    """
    import os

    return "TORCHELASTIC_RUN_ID" in os.environ


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        from importlib import import_module

        return import_module(f"rushlight.distributed.{name}")
    if name == "GradBucket":
        from rushlight.nn.parallel._buckets import GradBucket

        return GradBucket
    if name == "BuiltinCommHookType":
        from rushlight.distributed.algorithms import ddp_comm_hooks

        return ddp_comm_hooks.BuiltinCommHookType
    from rushlight._missing import MissingAttribute

    raise MissingAttribute("rushlight.distributed", name)


_MODULES = (
    "algorithms", "checkpoint", "device_mesh", "distributed_c10d", "elastic", "fsdp", "launch",
    "launcher", "nn", "optim", "pipelining", "ray", "rpc", "run", "tensor", "utils",
)  # fmt: skip
