"""Optimizers whose step is one call into the core."""

from __future__ import annotations

import sys

import rushlight as torch
from rushlight import _C
from rushlight._C import Tensor
from rushlight.optim.optimizer import (
    Optimizer,
    ParamsT,
    _get_scalar_dtype,
    _global_optimizer_post_hooks,
    _global_optimizer_pre_hooks,
    _step_with_hooks,
    _to_scalar,
)

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

_core_step = _C._optimizer_step


def check(ok: bool, text: str) -> None:
    """Raises ValueError(text) unless ok."""
    if not ok:
        raise ValueError(text)


def check_rates(lr: Any, betas: Any = None, eps: float = 0.0, weight_decay: Any = 0.0) -> None:
    """The conditions that most rules set on their options."""
    check(not isinstance(lr, Tensor) or lr.numel() == 1, "Tensor lr must be 1-element")
    check(lr >= 0.0, f"Invalid learning rate: {lr}")
    check(eps >= 0.0, f"Invalid epsilon value: {eps}")
    for i, beta in enumerate(betas or ()):
        check(0.0 <= beta < 1.0, f"Invalid beta parameter at index {i}: {beta}")
    check(weight_decay >= 0.0, f"Invalid weight_decay value: {weight_decay}")


def check_kinds(fused: bool | None, foreach: bool | None, differentiable: bool) -> None:
    """`fused` and `foreach` choose among torch's loops; here there is one. Both are checked."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


class SteppedOptimizer(Optimizer):
    """Steps all parameters in the core by the rule of the same name.

    `_update` is the same rule in differentiable operations: for `differentiable=True`, for
    parameters with tangents, and for subclasses of Tensor that want to see operations.
    """

    _rule: int
    _scalars: tuple[str, ...] = ("step",)  # what of the state is a number
    _options: dict[str, Any] = {}  # noqa: RUF012 - what state dicts of older versions lack

    _takes_sparse = False

    def __init_subclass__(cls, rule: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if rule:
            cls._rule = _C._optimizer_rule(rule)

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        super().__init__(params, defaults)
        if defaults.get("fused"):
            self._step_supports_amp_scaling = True

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in self._options.items():
                group.setdefault(name, default)
            for p in group["params"]:
                kept = self.state.get(p) or {}
                for name in self._scalars:
                    if name in kept and not isinstance(kept[name], Tensor):
                        kept[name] = torch.tensor(float(kept[name]), dtype=_get_scalar_dtype())

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates every parameter that has a gradient. A closure computes the loss anew.

        >>> import rushlight as torch
        >>> p = torch.nn.Parameter(torch.tensor(1.0))
        >>> optimizer = torch.optim.SGD([p], lr=0.25)
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = p * p
        ...     loss.backward()
        ...     return loss
        >>> optimizer.step(closure).item(), p.item()
        (1.0, 0.5)
        """
        if (
            self._optimizer_step_pre_hooks
            or self._optimizer_step_post_hooks
            or _global_optimizer_pre_hooks
            or _global_optimizer_post_hooks
        ) and not self._stepping:
            args = (self,) if closure is None else (self, closure)
            return _step_with_hooks(SteppedOptimizer.step, args, {})
        self._opt_called = True
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self.defaults.get("fused") and not self._unscaled():
            return loss
        if self.defaults["differentiable"]:
            with torch.enable_grad():
                self._step_by_formula()
        elif not _core_step(self._rule, self.param_groups, self.state):
            with torch.no_grad():
                if not self._step_on_parts():
                    self._step_by_formula()
        return loss

    step.hooked = True  # type: ignore[attr-defined]

    def _step_on_parts(self) -> bool:
        """Steps parameters that are spread over processes; whether there are any."""
        if "rushlight.distributed.tensor" not in sys.modules:
            return False
        from rushlight.distributed.tensor._optim import step_on_parts

        return step_on_parts(self)

    def _unscaled(self) -> bool:
        """What a GradScaler leaves to a fused step: to divide by `grad_scale`, and to skip where
        `found_inf` is set. Whether there is a step to take."""
        grads = (p.grad for group in self.param_groups for p in group["params"])
        return unscale(grads, getattr(self, "grad_scale", None), getattr(self, "found_inf", None))

    def _step_by_formula(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if p.grad.is_sparse and not self._takes_sparse:
                    raise RuntimeError(
                        f"{type(self).__name__} does not support sparse gradients, please consider "
                        "SparseAdam, SGD or Adagrad instead"
                    )
                self._apply(p, p.grad, self._state_of(p, group), group)

    @classmethod
    def _apply(cls, p: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """The formula for one parameter; complex ones are taken as pairs of real numbers."""
        view = torch.view_as_real if p.is_complex() else _itself
        tensors = {k: v if k in cls._scalars or v is None else view(v) for k, v in state.items()}
        grad = view(-grad if group["maximize"] else grad)
        cls._update(view(p), grad, tensors, group, _to_scalar(group.get("lr")))

    def _state_of(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state: dict[str, Any] = self.state[p]
        if not state:
            _C._optimizer_init(self._rule, group, p, state)
        return state

    @staticmethod
    def _complete(p: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Puts in what a state may lack."""

    @staticmethod
    def _update(
        p: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any], lr: Any
    ) -> None:
        raise NotImplementedError


def unscale(grads: Iterable[Tensor | None], scale: Any, found_inf: Any) -> bool:
    """Divides gradients by a scale, unless infinities were found: then there is no step."""
    if found_inf is not None and found_inf.item():
        return False
    if scale is not None:
        with torch.no_grad():
            for grad in grads:
                if grad is not None:
                    grad.div_(scale)
    return True


def _itself(t: Tensor) -> Tensor:
    return t


def decayed(grad: Tensor, p: Tensor, weight_decay: Any) -> Tensor:
    """The gradient with the penalty's: grad + weight_decay * p."""
    if isinstance(weight_decay, Tensor) and weight_decay.requires_grad:
        return grad + p.clone() * _to_scalar(weight_decay)  # p is about to be written
    return grad + p * _to_scalar(weight_decay) if weight_decay != 0 else grad


def shrink(p: Tensor, lr: Any, weight_decay: Any) -> None:
    """Decay that acts on the parameter itself."""
    if weight_decay != 0:
        p.copy_(p.clone() * (1 - lr * _to_scalar(weight_decay)))  # lr may want the old p


def average(mean: Tensor, value: Tensor, weight: Any) -> Tensor:
    """Moves a running mean towards a value, in place."""
    return mean.add_((value - mean) * weight)


# What the lists of a functional form are called in a parameter's state, where it is not the
# singular.
_KEYS = {"state_steps": "step", "momentum_buffer_list": "momentum_buffer", "state_sums": "sum"}
_PAIRS = {
    "betas": ("beta1", "beta2"),
    "etas": ("etaminus", "etaplus"),
    "step_sizes": ("step_size_min", "step_size_max"),
}


def functional(
    kind: type[SteppedOptimizer],
    lists: str,
    optional: str,
    required: str,
    grads: str = "grads",
    *,
    example: tuple[str, str, str],
) -> Callable[..., None]:
    """The rule of an optimizer as torch's function of lists: `lists` and `optional` name the
    arguments that follow the parameters and their gradients, `required` those by keyword. The
    example is the lists and the options of a step from 1 with the gradient 1, and its result."""
    states = lists.split()
    positions = ["params", grads, *states, *optional.split()]
    name = kind.__name__.lower()

    def step(*args: Any, **options: Any) -> None:
        given = {**dict(zip(positions, args, strict=False)), **options}
        for each in (*positions[: 2 + len(states)], *required.split()):
            if each not in given:
                raise TypeError(f"{name}() missing a required argument: '{each}'")
        if not unscale(given[grads], given.get("grad_scale"), given.get("found_inf")):
            return
        group = {"maximize": False, **kind._options, **given}
        for pair, parts in _PAIRS.items():
            if parts[0] in given:
                group[pair] = tuple(given[part] for part in parts)
        for i, (p, grad) in enumerate(zip(given["params"], given[grads], strict=True)):
            kept = {_KEYS.get(s, s[:-1]): given[s][i] for s in states if i < len(given[s])}
            kind._complete(p, grad, kept, group)
            for s in states:
                if i < len(given[s]):
                    given[s][i] = kept[_KEYS.get(s, s[:-1])]
            kind._apply(p, grad, kept, group)

    step.__name__ = step.__qualname__ = name
    step.__module__ = kind.__module__
    step.__doc__ = f"""One step of {kind.__name__} for parameters, gradients and state in lists.

    >>> import rushlight as torch
    >>> from {kind.__module__} import {name}
    >>> p, grad, a, b, c = torch.ones(1), torch.ones(1), *torch.zeros(3, 1)
    >>> options = {{{example[1]}}}
    >>> {name}([p], [grad], {example[0]}, **options)
    >>> p
    {example[2]}
    """
    return step
