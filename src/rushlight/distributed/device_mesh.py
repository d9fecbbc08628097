"""Processes in a grid: a group for each line along each dimension."""

from __future__ import annotations

from rushlight.distributed._groups import (
    ProcessGroup,
    get_rank,
    get_world_size,
    is_initialized,
    new_group,
)
from rushlight.distributed._groups import (
    the_group as _the_group,
)

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any


class DeviceMesh:
    """A grid of ranks, with names for its dimensions.

    >>> import rushlight.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> mesh = dist.DeviceMesh("cpu", [[0]], mesh_dim_names=("data", "model"))
    >>> mesh.shape, mesh["model"].size(), mesh.get_coordinate()
    ((1, 1), 1, [0, 0])
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        device_type: str,
        mesh: Any,
        *,
        mesh_dim_names: tuple[str, ...] | None = None,
        _groups: list[Any] | None = None,
        _root: DeviceMesh | None = None,
    ) -> None:
        import rushlight as torch

        self.device_type = device_type
        self.mesh = (
            mesh.detach().to("cpu", torch.int64)
            if isinstance(mesh, torch.Tensor)
            else torch.tensor(mesh, dtype=torch.int64)
        )
        if mesh_dim_names is not None and len(mesh_dim_names) != self.mesh.dim():
            raise ValueError(
                f"DeviceMesh: {len(mesh_dim_names)} names for {self.mesh.dim()} dimensions: "
                f"{mesh_dim_names}"
            )
        self.mesh_dim_names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        self._root = _root
        if not is_initialized():
            from rushlight.distributed._groups import init_process_group

            init_process_group()
        ranks = [int(r) for r in self.mesh.reshape(-1).tolist()]
        if len(set(ranks)) != len(ranks) or any(not 0 <= r < get_world_size() for r in ranks):
            raise ValueError(
                f"DeviceMesh: the ranks must be distinct and in 0..{get_world_size() - 1}: {ranks}"
            )
        self._groups = self._make_groups(ranks) if _groups is None else _groups
        self._flattened: dict[str, DeviceMesh] = {}

    def _make_groups(self, ranks: list[int]) -> list[Any]:
        """A group for each dim; every process makes all of them, in the same order."""
        if self.mesh.dim() == 1 and ranks == list(range(get_world_size())):
            return [_the_group(None, "DeviceMesh")]
        own = []
        for dim in range(self.mesh.dim()):
            lines = self.mesh.movedim(dim, -1).reshape(-1, self.mesh.shape[dim])
            made = [new_group(line, sort_ranks=False) for line in lines.tolist()]
            own.append(next((g for g in made if isinstance(g, ProcessGroup)), None))
        return own

    @property
    def shape(self) -> tuple[int, ...]:
        """How many processes there are along each dim."""
        return tuple(self.mesh.shape)

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return int(self.mesh.dim())

    def size(self, mesh_dim: int | None = None) -> int:
        """The number of processes, in all or along a dim."""
        return int(self.mesh.numel() if mesh_dim is None else self.mesh.shape[mesh_dim])

    def get_rank(self) -> int:
        """The rank of this process in the whole world."""
        return get_rank()

    def get_coordinate(self) -> list[int] | None:
        """Where this process is in the grid; None if it is not in it."""
        found = (self.mesh == get_rank()).nonzero().tolist()
        return [int(x) for x in found[0]] if found else None

    def _dim(self, mesh_dim: int | str | None, where: str) -> int:
        if mesh_dim is None:
            if self.ndim != 1:
                raise RuntimeError(
                    f"{where}: the mesh has {self.ndim} dims, optional kwarg `mesh_dim` needs to "
                    "be specified when device_mesh.ndim > 1"
                )
            return 0
        if isinstance(mesh_dim, str):
            if self.mesh_dim_names is None or mesh_dim not in self.mesh_dim_names:
                raise KeyError(f"{where}: no dim {mesh_dim!r} in {self.mesh_dim_names}")
            return self.mesh_dim_names.index(mesh_dim)
        if not -self.ndim <= mesh_dim < self.ndim:
            raise IndexError(f"{where}: dim {mesh_dim} of a mesh of {self.ndim}")
        return mesh_dim % self.ndim

    def get_group(self, mesh_dim: int | str | None = None) -> Any:
        """The group of the processes on this one's line along a dim."""
        return self._groups[self._dim(mesh_dim, "DeviceMesh.get_group")]

    def get_all_groups(self) -> list[Any]:
        """The groups of this process, one for each dim."""
        return list(self._groups)

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Where this process is along a dim."""
        return get_rank(self.get_group(mesh_dim))

    def __getitem__(self, names: str | tuple[str, ...]) -> DeviceMesh:
        """The part of the grid along some dims that has this process."""
        chosen = (names,) if isinstance(names, str) else tuple(names)
        if len(chosen) == 1 and chosen[0] in self._flattened:
            return self._flattened[chosen[0]]
        dims = [self._dim(name, "DeviceMesh") for name in chosen]
        if dims != sorted(dims):
            raise KeyError(f"DeviceMesh: {chosen} must be in the order of {self.mesh_dim_names}")
        if len(dims) == self.ndim:
            return self
        at = self.get_coordinate()
        if at is None:
            raise RuntimeError(f"DeviceMesh: rank {get_rank()} is not in the mesh {self!r}")
        index = tuple(slice(None) if d in dims else at[d] for d in range(self.ndim))
        groups = [self._groups[d] for d in dims]
        return DeviceMesh(
            self.device_type,
            self.mesh[index],
            mesh_dim_names=chosen,
            _groups=groups,
            _root=self._root or self,
        )

    def _flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        """The same processes in one dim."""
        name = mesh_dim_name or "_".join(self.mesh_dim_names or ())
        root = self._root or self
        if name not in root._flattened:
            root._flattened[name] = DeviceMesh(
                self.device_type, self.mesh.reshape(-1), mesh_dim_names=(name,), _root=root
            )
        return root._flattened[name]

    def _get_root_mesh(self) -> DeviceMesh:
        """The grid that this one is a part of."""
        return self._root or self

    @staticmethod
    def from_group(
        group: Any,
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: tuple[str, ...] | None = None,
    ) -> DeviceMesh:
        """A grid over groups that there are already: one of a dim, or a list of all dims."""
        from rushlight.distributed._groups import get_process_group_ranks

        groups = [group] if isinstance(group, ProcessGroup) else list(group)
        if mesh is None:
            if len(groups) != 1:
                raise ValueError("Must pass mesh if passing multiple ProcessGroups")
            mesh = get_process_group_ranks(groups[0])
        return DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, _groups=groups)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceMesh):
            return NotImplemented
        return (
            self.device_type == other.device_type
            and self.mesh_dim_names == other.mesh_dim_names
            and self.shape == other.shape
            and bool((self.mesh == other.mesh).all())
        )

    def __hash__(self) -> int:
        ranks = tuple(self.mesh.reshape(-1).tolist())
        return hash((self.device_type, self.mesh_dim_names, self.shape, ranks))

    def __enter__(self) -> DeviceMesh:
        return self

    def __exit__(self, *exception: object) -> None:
        return None

    def __repr__(self) -> str:
        names = "" if self.mesh_dim_names is None else f", mesh_dim_names={self.mesh_dim_names}"
        return f"DeviceMesh('{self.device_type}', {self.mesh.tolist()}{names})"


def init_device_mesh(
    device_type: str,
    mesh_shape: tuple[int, ...],
    *,
    mesh_dim_names: tuple[str, ...] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """A grid of all processes, in the order of their ranks.

    With ``"cuda"`` a process that has used no device yet takes the one that ``LOCAL_RANK`` says.

    >>> import rushlight.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.init_device_mesh("cpu", (1, 1), mesh_dim_names=("data", "model"))
    DeviceMesh('cpu', [[0]], mesh_dim_names=('data', 'model'))
    >>> dist.destroy_process_group()
    """
    import math
    import os

    import rushlight as torch

    if mesh_dim_names is not None and len(set(mesh_dim_names)) != len(mesh_dim_names):
        raise RuntimeError(
            f"Each mesh_dim_name must be unique. Found repeated names in {mesh_dim_names}"
        )
    if mesh_dim_names is not None and len(mesh_dim_names) != len(mesh_shape):
        raise RuntimeError(
            "mesh_shape and mesh_dim_names should have same length! Found "
            f"{len(mesh_shape)} and {len(mesh_dim_names)}"
        )
    if device_type == "cuda" and not torch.cuda.is_initialized():
        local = int(os.environ.get("LOCAL_RANK", "0"))
        if local < torch.cuda.device_count():
            torch.cuda.set_device(local)
    if not is_initialized():
        from rushlight.distributed._groups import init_process_group

        init_process_group()
    count = math.prod(mesh_shape)
    if count > get_world_size():
        raise RuntimeError(
            f"init_device_mesh: Mesh should not be bigger than default world size: {mesh_shape} "
            f"needs {count} processes, there are {get_world_size()}"
        )
    mesh = torch.arange(count, dtype=torch.int64).view(tuple(mesh_shape))
    return DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names)
