"""Processes with different numbers of batches: those that have run out shadow the others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import rushlight
from rushlight import distributed as dist

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """What a process that has run out of inputs does for one object in each step of the others.

    >>> from rushlight.distributed.algorithms import JoinHook
    >>> JoinHook().main_hook() is None
    True
    """

    def main_hook(self) -> None:
        """Called once for each step that other processes take: takes part in its collectives."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called once when all have run out."""


class _JoinConfig(NamedTuple):
    enable: bool = False
    throw_on_early_termination: bool = False
    is_first_joinable: bool = False


class Joinable(ABC):
    """An object whose steps make collectives; ``DistributedDataParallel`` is one.

    >>> import rushlight as torch
    >>> from rushlight.distributed.algorithms import Joinable
    >>> issubclass(torch.nn.parallel.DistributedDataParallel, Joinable)
    True
    """

    def __init__(self) -> None:
        self._join_config = _JoinConfig()
        self._join_present = 0

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a process without inputs does."""

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """Where the tensors of the collectives are."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """Who takes part."""


class Join:
    """A context for training loops of different lengths.

    Every object in ``joinables`` calls ``Join.notify_join_context(self)`` before the collectives
    of a step. With ``throw_on_early_termination`` every process raises once one has run out.

    >>> import rushlight as torch
    >>> torch.distributed.init_process_group(rank=0, world_size=1)
    >>> from rushlight.distributed.algorithms import Join
    >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    >>> with Join([model]):
    ...     model(torch.ones(1, 2)).sum().backward()
    >>> torch.distributed.destroy_process_group()
    """

    def __init__(
        self,
        joinables: list[Joinable],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables = joinables
        self._enable, self._throw = enable, throw_on_early_termination
        self._hooks = [j.join_hook(**kwargs) for j in joinables]
        groups = {id(j.join_process_group) for j in joinables}
        if len(groups) > 1:
            raise ValueError("Using join context manager with multiple process groups")
        self._group = joinables[0].join_process_group
        self._device = joinables[0].join_device

    def __enter__(self) -> Join:
        for k, joinable in enumerate(self._joinables):
            joinable._join_config = _JoinConfig(self._enable, self._throw, k == 0)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if self._enable and kind is None:
                self._shadow()
        finally:
            for joinable in self._joinables:
                joinable._join_config = _JoinConfig()

    def _shadow(self) -> None:
        """Goes along with the steps of the others until all have run out."""
        last = True
        while True:
            present = self._present()
            if present == 0:
                break
            last = False
            if self._throw:
                self._tell_to_throw()
            for joinable, hook in zip(self._joinables, self._hooks, strict=True):
                joinable._join_present = present
                hook.main_hook()
        for hook in self._hooks:
            hook.post_hook(last)

    def _present(self) -> int:
        count = rushlight.zeros(1, device=self._device)
        dist.all_reduce(count, group=self._group)
        return int(count.item())

    def _tell_to_throw(self) -> None:
        dist.all_reduce(rushlight.ones(1, device=self._device), group=self._group)
        raise RuntimeError(
            "Detected at least one rank that exhausted inputs: this one has no inputs left while "
            "others have, and throw_on_early_termination=True"
        )

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Any:
        """Tells the processes that have run out that this one takes a step.

        Returns the Work of the collective, or None where nothing is to be told: no context is
        entered, or another of its objects has told it. ``joinable._join_present`` then counts
        the processes that have inputs.
        """
        config = joinable._join_config
        if not config.enable or not config.is_first_joinable:
            return None
        device, group = joinable.join_device, joinable.join_process_group
        count = rushlight.ones(1, device=device)
        work = dist.all_reduce(count, group=group, async_op=True)
        if config.throw_on_early_termination:
            work.wait()
            gone = rushlight.zeros(1, device=device)
            if int(count.item()) < dist.get_world_size(group):
                dist.all_reduce(gone, group=group)
                raise RuntimeError(
                    "Detected at least one rank that exhausted inputs. Throwing across all ranks."
                )
        return _Notice(work, count, joinable)


class _Notice:
    """The Work of a notice; waiting for it counts the processes that have inputs."""

    def __init__(self, work: Any, count: Any, joinable: Joinable) -> None:
        self._work, self._count, self._joinable = work, count, joinable

    def wait(self, timeout: Any = None) -> bool:
        self._work.wait()
        self._joinable._join_present = int(self._count.item())
        return True

    def is_completed(self) -> bool:
        return bool(self._work.is_completed())
