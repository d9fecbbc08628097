"""What learning rate schedules have in common."""

from __future__ import annotations

import functools
import types
import warnings
import weakref

from rushlight._C import Tensor
from rushlight.optim.optimizer import Optimizer, _to_scalar

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use `scheduler.step()` to step the scheduler. During the deprecation, if "
    "epoch is different from None, the closed form is used instead of the new chainable form, "
    "where available."
)
_ORDER = "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"


def _format_param(name: str, optimizer: Optimizer, param: Any) -> list[Any]:
    """One value for each group, from a list of them or one for all."""
    groups = len(optimizer.param_groups)
    if not isinstance(param, (list, tuple)):
        param = [param] * groups
    elif len(param) != groups:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has "
            f"{len(param)} values, param_groups has {groups}."
        )
    return [_copy(p) for p in param]


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


def _group_values(optimizer: Optimizer, key: str) -> list[Any]:
    return [_copy(group[key]) for group in optimizer.param_groups]


def _set_group_value(group: dict[str, Any], key: str, value: Any) -> None:
    """A tensor in a group stays the same tensor."""
    if isinstance(group[key], Tensor):
        group[key].fill_(_to_scalar(value))
    else:
        group[key] = value


def _check_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def _packed_function(function: Any) -> dict[str, Any] | None:
    """What a state dict keeps of a callable: the attributes of an object, nothing of a function."""
    return None if isinstance(function, types.FunctionType) else function.__dict__.copy()


class LRScheduler:
    """Sets the learning rates of an optimizer's groups, step by step.

    A subclass gives `get_lr()`, the rates for `self.last_epoch`.

    >>> import rushlight as torch
    >>> class Halving(torch.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [lr * 0.5**self.last_epoch for lr in self.base_lrs]
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    >>> scheduler = Halving(optimizer)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    _get_lr_called_within_step: bool = False
    _is_initial: bool = False
    optimizer: Optimizer
    base_lrs: list[Any]
    last_epoch: int
    _last_lr: list[Any]
    _step_count: int

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        _check_optimizer(optimizer)
        self.optimizer = optimizer
        if last_epoch == -1:
            for group in optimizer.param_groups:
                group.setdefault("initial_lr", _copy(group["lr"]))
        else:
            for i, group in enumerate(optimizer.param_groups):
                if "initial_lr" not in group:
                    raise KeyError(
                        f"param 'initial_lr' is not specified in param_groups[{i}] when resuming "
                        "scheduler with last_epoch >= 0: load the optimizer's state dict first, or "
                        "leave last_epoch at -1 to start anew"
                    )
        self.base_lrs = _group_values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _watch_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return self._state_without("optimizer")

    def _state_without(self, *names: str) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in names}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what `state_dict()` gave."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The rates that the latest step set."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The rates for the present epoch, as `step` calls it."""
        raise NotImplementedError(f"{type(self).__name__} must define get_lr()")

    def step(self, epoch: int | None = None) -> None:
        """Moves on by one epoch, or to a given one, and sets the rates."""
        if self._step_count == 1:
            _check_order(self.optimizer)
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        self._get_lr_called_within_step = True
        try:
            self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
            closed = getattr(self, "_get_closed_form_lr", None)
            values = self.get_lr() if epoch is None or closed is None else closed()
        finally:
            self._get_lr_called_within_step = False
        for group, lr in zip(self.optimizer.param_groups, values, strict=True):
            _set_group_value(group, "lr", lr)
        self._last_lr = _group_values(self.optimizer, "lr")

    def _check_called_by_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use "
                "`get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )

    def _present(self) -> list[Any]:
        return _group_values(self.optimizer, "lr")

    def _scaled(self, factor: float) -> list[Any]:
        """The present rates times a factor."""
        return [group["lr"] * factor for group in self.optimizer.param_groups]


class _LRScheduler(LRScheduler):
    """The name of LRScheduler in older programs."""


def _step_function(optimizer: Optimizer) -> Any:
    return getattr(optimizer.step, "__func__", optimizer.step)


def _watch_steps(optimizer: Optimizer) -> None:
    """From now on it is known whether the optimizer stepped."""
    if "_watched_step" in optimizer.__dict__:
        return
    if not getattr(optimizer.step, "hooked", False):  # its class never called Optimizer.__init__
        optimizer.step = _noting(optimizer)  # type: ignore[method-assign]
    optimizer._watched_step = _step_function(optimizer)  # type: ignore[attr-defined]
    optimizer._opt_called = False


def _noting(optimizer: Optimizer) -> Any:
    """The step of an optimizer that notes when it is called."""
    function = _step_function(optimizer)
    holder = weakref.ref(optimizer)

    @functools.wraps(function)
    def step(*args: Any, **kwargs: Any) -> Any:
        self: Any = holder()
        self._opt_called = True
        return function.__get__(self, type(self))(*args, **kwargs)

    return step


def _check_order(optimizer: Optimizer) -> None:
    """Warns when the first step of a scheduler comes before the first of its optimizer."""
    if getattr(optimizer, "_watched_step", None) is not _step_function(optimizer):
        warnings.warn(
            "Seems like `optimizer.step()` has been overridden after learning rate scheduler "
            "initialization. Please, make sure to call `optimizer.step()` before "
            f"`lr_scheduler.step()`. See more details at {_ORDER}",
            UserWarning,
            stacklevel=3,
        )
    elif not optimizer._opt_called:
        warnings.warn(
            "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 "
            "and later, you should call them in the opposite order: `optimizer.step()` before "
            "`lr_scheduler.step()`.  Failure to do this will result in PyTorch skipping the first "
            f"value of the learning rate schedule. See more details at {_ORDER}",
            UserWarning,
            stacklevel=3,
        )
