"""Averages of models: stochastic weight averaging and exponential moving averages."""

from __future__ import annotations

import math
from copy import deepcopy
from itertools import chain

import rushlight as torch
from rushlight._C import Tensor
from rushlight.nn.modules.module import Module
from rushlight.optim._lr_base import LRScheduler, _format_param
from rushlight.optim.optimizer import Optimizer

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """An exponential moving average of a list of tensors, in place.

    >>> import rushlight as torch
    >>> mean = [torch.zeros(1)]
    >>> torch.optim.swa_utils.get_ema_multi_avg_fn(0.75)(mean, [torch.ones(1)], 1)
    >>> mean[0].item()
    0.25
    """
    _check_decay(decay)

    @torch.no_grad()
    def ema_update(ema_params: list[Tensor], current_params: list[Tensor], _: Any) -> None:
        for mean, value in zip(ema_params, current_params, strict=True):
            if mean.is_floating_point() or mean.is_complex():
                mean.lerp_(value, 1 - decay)
            else:
                mean.copy_(mean * decay + value * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """The mean of all models so far, of a list of tensors, in place.

    >>> import rushlight as torch
    >>> mean = [torch.zeros(1)]
    >>> torch.optim.swa_utils.get_swa_multi_avg_fn()(mean, [torch.ones(1)], 1)
    >>> mean[0].item()
    0.5
    """

    @torch.no_grad()
    def swa_update(means: list[Tensor], values: list[Tensor], num_averaged: Tensor | int) -> None:
        weight = 1 / (float(num_averaged) + 1)
        for mean, value in zip(means, values, strict=True):
            if mean.is_floating_point() or mean.is_complex():
                mean.lerp_(value, weight)
            else:
                mean.copy_(mean + (value - mean) * weight)

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Tensor]:
    """An exponential moving average of one tensor.

    >>> import rushlight as torch
    >>> torch.optim.swa_utils.get_ema_avg_fn(0.75)(torch.zeros(1), torch.ones(1), 1).item()
    0.25
    """
    _check_decay(decay)

    @torch.no_grad()
    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Callable[..., Tensor]:
    """The mean of all models so far, of one tensor.

    >>> import rushlight as torch
    >>> torch.optim.swa_utils.get_swa_avg_fn()(torch.zeros(1), torch.ones(1), 1).item()
    0.5
    """

    @torch.no_grad()
    def swa_update(mean: Tensor, value: Tensor, num_averaged: Tensor | int) -> Tensor:
        return mean + (value - mean) / (num_averaged + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages over the course of training.

    >>> import rushlight as torch
    >>> model = torch.nn.Linear(1, 1, bias=False)
    >>> averaged = torch.optim.swa_utils.AveragedModel(model)
    >>> for value in (1.0, 3.0):
    ...     _ = torch.nn.init.constant_(model.weight, value)
    ...     averaged.update_parameters(model)
    >>> averaged(torch.ones(1)).item()
    2.0
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable[..., Tensor] | None = None,
        multi_avg_fn: Callable[..., None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", torch.tensor(0, dtype=torch.int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def _members(self, model: Module) -> Iterable[Tensor]:
        return chain(model.parameters(), model.buffers() if self.use_buffers else ())

    def update_parameters(self, model: Module) -> None:
        """Takes the model's present parameters into the averages."""
        means = [p.detach() for p in self._members(self.module)]
        pairs = zip(self._members(model), means, strict=False)
        values = [p.detach().to(mean.device) for p, mean in pairs]
        if self.n_averaged == 0:
            for mean, value in zip(means, values, strict=False):
                mean.copy_(value)
        elif self.multi_avg_fn is not None:
            for dtype in {mean.dtype: None for mean in means}:
                alike = [(m, v) for m, v in zip(means, values, strict=False) if m.dtype == dtype]
                self.multi_avg_fn(*map(list, zip(*alike, strict=True)), self.n_averaged)
        else:
            average = self.avg_fn or get_swa_avg_fn()
            for mean, value in zip(means, values, strict=False):
                mean.copy_(average(mean, value, self.n_averaged))
        if not self.use_buffers:
            for mean, value in zip(self.module.buffers(), model.buffers(), strict=True):
                mean.detach().copy_(value.detach())
        self.n_averaged += 1


@torch.no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Computes the statistics of a model's batch norms anew in one pass over the data.

    >>> import rushlight as torch
    >>> norm = torch.nn.BatchNorm1d(1)
    >>> torch.optim.swa_utils.update_bn([torch.tensor([[1.0], [3.0]])], norm)
    >>> norm.running_mean.item()
    2.0
    """
    norms = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    was_training = model.training
    model.train()
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    for batch in loader:
        inputs = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(inputs if device is None else inputs.to(device))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Moves the rate to a constant one, `swa_lr`, in `anneal_epochs` epochs.

    >>> import rushlight as torch
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    >>> scheduler = torch.optim.swa_utils.SWALR(
    ...     optimizer, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear"
    ... )
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.75]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        rates = _format_param("swa_lr", optimizer, swa_lr)
        for rate, group in zip(rates, optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_strategy = anneal_strategy
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def anneal_func(self, t: float) -> float:
        """How far the rate has moved at a part t of the time."""
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[Any]:
        self._check_called_by_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        epochs = max(1, self.anneal_epochs)
        before = self.anneal_func(max(0, min(1, (step - 1) / epochs)))
        now = self.anneal_func(max(0, min(1, step / epochs)))
        rates = []
        for group in self.optimizer.param_groups:
            goal = group["swa_lr"]
            start = goal if before == 1 else (group["lr"] - before * goal) / (1 - before)
            rates.append(goal * now + start * (1 - now))
        return rates
