"""How processes find the store through which they meet: env://, tcp:// and file://."""

from __future__ import annotations

import os
from datetime import timedelta
from urllib.parse import parse_qs, urlparse

from rushlight.distributed._stores import DEFAULT_TIMEOUT, FileStore, Store, TCPStore

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_handlers: dict[str, Callable[..., Iterator[tuple[Store, int, int]]]] = {}

# The names of rank and world size in the environments that launchers make.
_RANKS = (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"))


def register_rendezvous_handler(scheme: str, handler: Any) -> None:
    """Adds a scheme: ``handler(url, timeout)`` yields a store, a rank and the world size.

    >>> import rushlight.distributed as dist
    >>> dist.register_rendezvous_handler("one", lambda url, **kwargs: [(dist.HashStore(), 0, 1)])
    >>> dist.rendezvous("one://")[1:]
    (0, 1)
    """
    if scheme in _handlers:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _handlers[scheme] = handler


def rendezvous(
    url: str, rank: int = -1, world_size: int = -1, timeout: timedelta = DEFAULT_TIMEOUT
) -> tuple[Store, int, int]:
    """The store, the rank and the world size that a URL gives.

    >>> import rushlight.distributed as dist
    >>> dist.rendezvous("tcp://localhost:0?rank=0")
    Traceback (most recent call last):
        ...
    ValueError: Error initializing torch.distributed using tcp:// rendezvous: ... WORLD_SIZE...
    """
    if not isinstance(url, (str, bytes)):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    parts = urlparse(url)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    rank = rank if rank >= 0 else int(query.get("rank", -1))
    world_size = world_size if world_size > 0 else int(query.get("world_size", -1))
    if parts.scheme in _handlers:
        return next(iter(_handlers[parts.scheme](url, timeout=timeout)))
    if parts.scheme == "env":
        return _from_environment(rank, world_size, timeout)
    if parts.scheme not in ("tcp", "file"):
        raise RuntimeError(f"No rendezvous handler for {parts.scheme}://: env, tcp or file")
    rank, world_size = _numbers(rank, world_size, parts.scheme + "://")
    if parts.scheme == "file":
        if not parts.path:
            raise ValueError(f"file:// rendezvous: a path is needed: {url}")
        return FileStore(parts.path, world_size), rank, world_size
    if not parts.port:
        raise ValueError(f"tcp:// rendezvous: port number missing: {url}")
    return _tcp(parts.hostname or "127.0.0.1", parts.port, rank, timeout), rank, world_size


def _tcp(host: str, port: int, rank: int, timeout: timedelta) -> Store:
    agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return TCPStore(host, port, None, rank == 0 and not agent, timeout, multi_tenant=True)


def _numbers(rank: int, world_size: int, where: str) -> tuple[int, int]:
    for rank_name, size_name in _RANKS:
        if rank < 0 and rank_name in os.environ:
            rank = int(os.environ[rank_name])
        if world_size <= 0 and size_name in os.environ:
            world_size = int(os.environ[size_name])
    if rank < 0:
        raise ValueError(
            f"Error initializing torch.distributed using {where} rendezvous: environment variable "
            "RANK expected, but not set: start the program by `rushlight launch`, or give rank="
        )
    if world_size <= 0:
        raise ValueError(
            f"Error initializing torch.distributed using {where} rendezvous: environment variable "
            "WORLD_SIZE expected, but not set: start the program by `rushlight launch`, or give "
            "world_size="
        )
    return rank, world_size


def _several(world_size: int) -> bool:
    """Whether there are several processes, as far as that is known before they meet."""
    sizes = [world_size, *(int(os.environ.get(name, 0)) for _, name in _RANKS)]
    return next((size for size in sizes if size > 0), 0) > 1


def _from_environment(rank: int, world_size: int, timeout: timedelta) -> tuple[Store, int, int]:
    rank, world_size = _numbers(rank, world_size, "env://")
    host = os.environ.get("MASTER_ADDR") or _slurm_host()
    port = os.environ.get("MASTER_PORT") or _slurm_port()
    for name, value in (("MASTER_ADDR", host), ("MASTER_PORT", port)):
        if value is None:
            raise ValueError(
                "Error initializing torch.distributed using env:// rendezvous: environment "
                f"variable {name} expected, but not set"
            )
    assert host is not None
    assert port is not None
    return _tcp(host, int(port), rank, timeout), rank, world_size


def _slurm_host() -> str | None:
    """The first machine of a Slurm job: `node[03-05,7],other` gives `node03`."""
    nodes = os.environ.get("SLURM_STEP_NODELIST") or os.environ.get("SLURM_JOB_NODELIST")
    if nodes is None:
        return None
    first, bracket, rest = nodes.partition("[")
    if not bracket or "," in first:
        return first.split(",")[0]
    return first + rest.split("]")[0].split(",")[0].split("-")[0]


def _slurm_port() -> str | None:
    """A port that all processes of a Slurm job compute alike."""
    job = os.environ.get("SLURM_JOB_ID")
    return None if job is None else str(20000 + int(job) % 20000)
