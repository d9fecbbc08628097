"""Process groups: the one of all processes, and those of some."""

from __future__ import annotations

import os
from datetime import timedelta

from rushlight.distributed import _world
from rushlight.distributed._backends import Backend, choose
from rushlight.distributed._errors import DistBackendError
from rushlight.distributed._stores import HashStore, PrefixStore, Store, TCPStore
from rushlight.distributed.rendezvous import _several, rendezvous

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight.distributed._work import Work

default_pg_timeout = timedelta(minutes=30)
_GRACE = 0.5  # seconds in which data of a process that has gone may still arrive


class ProcessGroup:
    """Processes that call collectives together. ``init_process_group`` and ``new_group`` make one.

    >>> import rushlight as torch
    >>> isinstance(None, torch.distributed.ProcessGroup)
    False
    """

    def __init__(
        self,
        world: Any,
        ranks: list[int],
        backends: dict[str, str],
        timeout: timedelta,
        backend: Backend,
        name: str,
        description: str,
    ) -> None:
        self._world = world
        self._ranks = ranks
        self._rank = ranks.index(world.rank)
        self._backends = backends  # by the kind of device
        self._engines: dict[str, Any] = {}
        self._timeout = timeout
        self._backend = backend
        self._name = name
        self._description = description
        self._store = PrefixStore(f"group/{name}", world.store)
        self._lost: list[Any] = []  # memory that MPI may still write to, after an error
        self._barriers = 0
        self._lines = world.lines(int(name) if name.isdecimal() else -1, ranks)

    def rank(self) -> int:
        """The number of this process in the group."""
        return self._rank

    def size(self) -> int:
        """The number of processes."""
        return len(self._ranks)

    def name(self) -> str:
        """The backend's name."""
        return self._backend

    @property
    def group_name(self) -> str:
        """The group's own name."""
        return self._name

    @property
    def group_desc(self) -> str:
        """What the program calls the group."""
        return self._description

    def _engine(self, device: str, where: str) -> Any:
        """What moves tensors of a device between the processes."""
        engine = self._engines.get(device)
        if engine is None:
            known = ", ".join(f"{d}:{b}" for d, b in self._backends.items())
            raise RuntimeError(
                f"{where}: No backend type associated with device type {device}: the group has "
                f"{known}; move the tensor, or make the group with backend='cpu:gloo,cuda:nccl'"
            )
        return engine

    def _main_device(self) -> str:
        """Where objects and barriers go: main memory, if the group has an engine for it."""
        return "cpu" if "cpu" in self._engines else "cuda"

    def _check(self, work: Work, waited: float, seconds: float | None) -> None:
        """Raises if a collective can't end: another was called, a process has gone, too late."""
        call = work._call
        if call.number and self._lines is not None:
            try:
                self._lines.look(call.number)
            except DistBackendError as error:
                work._give_up(error)
        gone = self._world.gone
        if gone and waited > _GRACE:
            lost = next((rank for rank in self._ranks if rank in gone), None)
            if lost is not None:
                how = "has died" if gone[lost] == "died" else "has left the group"
                work._give_up(
                    DistBackendError(
                        f"{call.name}: rank {lost} {how}; rank {self._world.rank} waits for it at "
                        f"{call.line()}: Connection closed by peer"
                    )
                )
        limit = self._timeout.total_seconds() if seconds is None else seconds
        if waited > limit:
            work._give_up(
                DistBackendError(
                    f"{call.name}: Timed out waiting {limit * 1000:.0f}ms on rank "
                    f"{self._world.rank}, called at {call.line()}{self._others()}"
                )
            )

    def _others(self) -> str:
        """What the other processes of this machine are doing, for an error."""
        return "" if self._lines is None else f": {self._lines.doing()}"

    def _mark_failed(self) -> None:
        _world._joined["failed"] = True

    def _abandon(self, memory: Any) -> None:
        self._mark_failed()
        self._lost.append(memory)

    def __repr__(self) -> str:
        return f"<ProcessGroup {self._name} of ranks {self._ranks}, {self._backend}>"


class _Members(type):
    """Holds the group of all processes as an attribute of a class that has no instances."""

    _world_group: ProcessGroup | None = None

    @property
    def WORLD(cls) -> ProcessGroup | None:
        """The group of all processes."""
        return _Members._world_group

    @WORLD.setter
    def WORLD(cls, group: ProcessGroup | None) -> None:
        _Members._world_group = group


class group(metaclass=_Members):
    """``group.WORLD``: the group of all processes, or None.

    >>> import rushlight as torch
    >>> torch.distributed.group.WORLD is None
    True
    """


class GroupMember(metaclass=_Members):
    """``GroupMember.NON_GROUP_MEMBER``: what ``new_group`` gives to other processes.

    >>> import rushlight as torch
    >>> torch.distributed.GroupMember.WORLD is None
    True
    """

    NON_GROUP_MEMBER = -100


_groups: dict[str, ProcessGroup] = {}
_counts = {"init": 0, "group": 0}
_local: dict[str, int] = {}  # how many groups only their members know of, by their ranks


def is_initialized() -> bool:
    """Whether this process is in a group.

    >>> import rushlight as torch
    >>> torch.distributed.is_initialized()
    False
    """
    return _Members._world_group is not None


def the_group(group: Any, where: str) -> ProcessGroup:
    """The group that a function is called with; None is the one of all processes."""
    if group is None:
        group = _Members._world_group
        if group is None:
            raise ValueError(
                f"torch.distributed.{where}(): Default process group has not been initialized, "
                "please make sure to call init_process_group. Ask "
                "torch.distributed.is_initialized() first."
            )
    if not isinstance(group, ProcessGroup):
        raise ValueError(
            f"torch.distributed.{where}(): Invalid process group specified: {group!r}: this "
            "process is not part of it"
        )
    return group


def get_rank(group: Any = None) -> int:
    """The number of this process in the group; -1 if it is not part of it.

    >>> import rushlight as torch
    >>> torch.distributed.get_rank()
    Traceback (most recent call last):
        ...
    ValueError: torch.distributed.get_rank(): Default process group has not been ...
    """
    if group == GroupMember.NON_GROUP_MEMBER:
        return -1
    return the_group(group, "get_rank").rank()


def get_world_size(group: Any = None) -> int:
    """The number of processes of the group; -1 if this process is not part of it.

    >>> import rushlight as torch
    >>> torch.distributed.get_world_size()
    Traceback (most recent call last):
        ...
    ValueError: torch.distributed.get_world_size(): Default process group has not been ...
    """
    if group == GroupMember.NON_GROUP_MEMBER:
        return -1
    return the_group(group, "get_world_size").size()


def get_backend(group: Any = None) -> Backend:
    """The backend's name.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.get_backend()
    'gloo'
    >>> dist.destroy_process_group()
    """
    return the_group(group, "get_backend")._backend


def get_backend_config(group: Any = None) -> str:
    """The backend of each kind of device, as ``cpu:gloo,cuda:gloo``.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.get_backend_config()
    'cpu:gloo,cuda:gloo'
    >>> dist.destroy_process_group()
    """
    backends = the_group(group, "get_backend_config")._backends
    return ",".join(f"{device}:{name}" for device, name in backends.items())


def get_process_group_ranks(group: Any) -> list[int]:
    """The ranks of the group's processes, in the whole world.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.get_process_group_ranks(dist.group.WORLD)
    [0]
    >>> dist.destroy_process_group()
    """
    return list(the_group(group, "get_process_group_ranks")._ranks)


def get_global_rank(group: Any, group_rank: int) -> int:
    """The rank in the whole world of a process of a group.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.get_global_rank(dist.group.WORLD, 0)
    0
    >>> dist.destroy_process_group()
    """
    members = the_group(group, "get_global_rank")
    if not 0 <= group_rank < members.size():
        raise ValueError(f"Group rank {group_rank} is not part of group {members!r}")
    return members._ranks[group_rank]


def get_group_rank(group: Any, global_rank: int) -> int:
    """The rank in a group of a process of the world.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.get_group_rank(dist.group.WORLD, 0)
    0
    >>> dist.destroy_process_group()
    """
    members = the_group(group, "get_group_rank")
    if global_rank not in members._ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {members!r}")
    return members._ranks.index(global_rank)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The number of this process on its machine, as the launcher gave it.

    >>> import rushlight as torch
    >>> torch.distributed.get_node_local_rank(0)
    0
    """
    for name in ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"):
        if name in os.environ:
            return int(os.environ[name])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
        "`get_node_local_rank` to work, assuming you are not running in a multi-device context"
    )


def get_pg_count() -> int:
    """How many groups this process is in.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.get_pg_count()
    1
    >>> dist.destroy_process_group()
    """
    return len(_groups)


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Joins the other processes of the program.

    Args:
        backend: ``"mpi"`` for CPUs; ``"gloo"`` is another name of the same engine, which copies
            tensors of GPUs. ``"nccl"`` for GPUs; ``"cpu:gloo,cuda:nccl"``, the default where there
            is a GPU for each process, for both.
        init_method: ``env://`` (the default), ``tcp://host:port`` or ``file:///path``.
        timeout: of collectives, and of this call; 30 minutes.
        world_size, rank: how many processes there are, and which is this one. The environment
            has them when ``rushlight launch``, ``torchrun``, ``mpiexec`` or ``srun`` started it.
        store: a store that all processes reach, in place of ``init_method``.
        device_id: a CUDA device: NCCL is set up on it now, and not at the first collective.

    With NCCL every process uses a device of its own: ``torch.cuda.set_device(local_rank)``.

    >>> import rushlight as torch
    >>> torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    >>> torch.distributed.get_rank(), torch.distributed.get_world_size()
    (0, 1)
    >>> torch.distributed.destroy_process_group()
    """
    if is_initialized():
        raise ValueError("trying to initialize the default process group twice!")
    name, backends = choose(backend, "init_process_group")
    timeout = default_pg_timeout if timeout is None else timeout
    if not isinstance(timeout, timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta: {timeout!r}")
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    by_mpi = set(backends.values()) != {"nccl"}
    if by_mpi and _several(world_size):
        _world.mpi()  # says what to install, before anyone waits for a process that could not start
    if store is None:
        store, rank, world_size = _meet(init_method, rank, world_size, timeout)
    elif world_size <= 0 or rank < 0:
        raise AssertionError("world_size must be positive and rank non-negative if using store")
    if not 0 <= rank < world_size:
        raise ValueError(f"init_process_group: rank {rank} is not in 0..{world_size - 1}")
    _counts["init"] += 1
    restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    world = _world.World(
        store, rank, world_size, timeout, f"default_pg/{restart}/{_counts['init']}", by_mpi
    )
    made = ProcessGroup(world, list(range(world_size)), backends, timeout, name, "0", "default_pg")
    _counts["group"] = 0
    _local.clear()
    _Members._world_group = made
    _equip(made, world.engine, device_id)


def _meet(
    method: str | None, rank: int, world_size: int, timeout: timedelta
) -> tuple[Store, int, int]:
    """The store, the rank and the number of processes that an init method gives."""
    by_environment = method is None or method.startswith("env://")
    if by_environment and rank < 0 and "RANK" not in os.environ and _world.started_by_mpi():
        comm = _world.launched_world()
        return _store_of_world(comm, timeout), comm.rank, comm.size
    if by_environment and (rank, world_size) == (0, 1) and "MASTER_ADDR" not in os.environ:
        return HashStore(), 0, 1  # nobody to meet
    return rendezvous(method or "env://", rank, world_size, timeout=timeout)


def _store_of_world(comm: Any, timeout: timedelta) -> Store:
    """A store for processes that know each other through MPI already."""
    store = None
    if comm.rank == 0:
        store = TCPStore("127.0.0.1", 0, None, True, timeout)
        store._host = _world._reachable() if comm.size > 1 else "127.0.0.1"
    host, port = comm.bcast(None if store is None else (store.host, store.port))
    return store if store is not None else TCPStore(host, port, None, False, timeout)


def _equip(made: ProcessGroup, engine: Any, device_id: Any) -> None:
    """Gives a group the engines that its backends are; ``engine`` is that of main memory."""
    for device, name in made._backends.items():
        if name != "nccl":
            made._engines[device] = engine
            continue
        from rushlight.distributed._nccl_engine import Nccl

        made._engines[device] = Nccl(made)
    _groups[made._name] = made
    if device_id is not None and made._backends.get("cuda") == "nccl":
        from rushlight.cuda._start import number_of
        from rushlight.distributed._buffers import Call

        place = number_of(device_id, "init_process_group")
        made._engines["cuda"].connect(Call("init_process_group", made), place)


def destroy_process_group(group: Any = None) -> None:
    """Leaves a group; without one, all of them.

    >>> import rushlight as torch
    >>> torch.distributed.destroy_process_group()
    Traceback (most recent call last):
        ...
    ValueError: torch.distributed.destroy_process_group(): Default process group has not been ...
    """
    if group == GroupMember.NON_GROUP_MEMBER:
        return
    members = the_group(group, "destroy_process_group")
    whole = members is _Members._world_group
    for each in list(_groups.values()) if whole else [members]:
        _groups.pop(each._name, None)
        for engine in each._engines.values():
            engine.close()
    if not whole:
        return
    members._world.leave()
    _Members._world_group = None


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """A group of some processes. All processes of the world call it, in the same order.

    With ``use_local_synchronization`` only the members need to call it.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.get_world_size(dist.new_group([0]))
    1
    >>> dist.destroy_process_group()
    """
    whole = the_group(None, "new_group")
    chosen = list(range(whole.size())) if ranks is None else [int(r) for r in ranks]
    if len(set(chosen)) != len(chosen) or any(not 0 <= r < whole.size() for r in chosen):
        raise ValueError(
            f"new_group: the ranks must be distinct and in 0..{whole.size() - 1}: {chosen}"
        )
    if sort_ranks:
        chosen.sort()
    if use_local_synchronization:
        name = "of_" + "_".join(map(str, chosen))
        _local[name] = _local.get(name, 0) + 1
        name += f"_{_local[name]}"
    else:
        _counts["group"] += 1
        name = str(_counts["group"])
    world = whole._world
    kind, backends = whole._backend, whole._backends
    if backend is not None:
        kind, backends = choose(backend, "new_group")
    by_mpi = set(backends.values()) != {"nccl"}
    if by_mpi and world.engine is None:
        if use_local_synchronization:
            raise RuntimeError(
                "new_group: the first group with a backend for CPUs is made by all processes: "
                "leave use_local_synchronization away, or init_process_group('cpu:gloo,cuda:nccl')"
            )
        world.start_mpi()
    if world.rank not in chosen:
        return GroupMember.NON_GROUP_MEMBER
    engine = world.engine.part(chosen) if by_mpi else None
    timeout = whole._timeout if timeout is None else timeout
    made = ProcessGroup(world, chosen, backends, timeout, kind, name, group_desc or "undefined")
    _equip(made, engine, device_id)
    return made


def new_subgroups(
    group_size: int | None = None,
    group: Any = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of ``group_size`` consecutive ranks; the one of this process, and all of them.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> own, every = dist.new_subgroups(1)
    >>> len(every)
    1
    >>> dist.destroy_process_group()
    """
    whole = the_group(group, "new_subgroups")
    if group_size is None:
        group_size = int(os.environ.get("LOCAL_WORLD_SIZE", whole.size()))
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    if whole.size() % group_size != 0:
        raise ValueError(
            f"The world size ({whole.size()}) must be divisible by 'group_size={group_size}'"
        )
    starts = range(0, whole.size(), group_size)
    lists = [whole._ranks[start : start + group_size] for start in starts]
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of the ranks given; the one of this process, and all of them.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> own, every = dist.new_subgroups_by_enumeration([[0]])
    >>> len(every)
    1
    >>> dist.destroy_process_group()
    """
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    flat = [rank for ranks in ranks_per_subgroup_list for rank in ranks]
    if len(set(flat)) != len(flat):
        raise ValueError(f"new_subgroups_by_enumeration: a rank is in two groups: {flat}")
    made = [
        new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        for ranks in ranks_per_subgroup_list
    ]
    own = [one for one in made if isinstance(one, ProcessGroup)]
    return (own[0] if own else GroupMember.NON_GROUP_MEMBER), made


def _get_default_group() -> ProcessGroup:
    """The group of all processes."""
    return the_group(None, "_get_default_group")


def _get_default_store() -> Store:
    """The store of the group of all processes."""
    return _get_default_group()._store


def _rank_not_in_group(group: Any) -> bool:
    """Whether this process is not part of a group."""
    return bool(group == GroupMember.NON_GROUP_MEMBER)
