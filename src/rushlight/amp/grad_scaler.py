"""Loss scaling: gradients of float16 values that would underflow are computed larger."""

from __future__ import annotations

from enum import Enum

import rushlight
from rushlight import _C
from rushlight.amp import _state

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = ["GradScaler", "OptState"]


class OptState(Enum):
    """How far an optimizer is since the last ``update()``."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class _States(dict[int, "dict[str, Any]"]):
    """By id of an optimizer: its stage, and whether its gradients have infinities."""

    def __missing__(self, key: int) -> dict[str, Any]:
        self[key] = {"stage": OptState.READY, "found_inf_per_device": {}}
        return self[key]


def _without_gradients(optimizer: Any) -> str:
    """Which parameters of an optimizer have no gradient, by the reason why."""
    from rushlight.nn._names import qualified_name

    named: dict[str, list[str]] = {}
    for i, group in enumerate(optimizer.param_groups):
        given = group.get("param_names", ())
        for j, p in enumerate(group["params"]):
            name = given[j] if j < len(given) else qualified_name(p)
            name = name or f"parameter {j} of group {i}, of shape {list(p.shape)}"
            named.setdefault(p.grad_status, []).append(name)
    lines = ["No inf checks were recorded for this optimizer: none of its parameters has a grad."]
    for why, names in named.items():
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        lines.append(f"  {', '.join(names[:8])}{more}: {why}")
    return "\n".join(lines)


def _unscale_each(grads: list[Any], inverse: Any, found: Any) -> None:
    for grad in grads:
        found.copy_(rushlight.where(grad.isfinite().all(), found, rushlight.ones_like(found)))
        if inverse is not None:
            grad.mul_(inverse)


class GradScaler:
    """Scales losses up and gradients down again, and skips steps whose gradients overflow.

    The scale halves (``backoff_factor``) after a skipped step and doubles (``growth_factor``) after
    ``growth_interval`` good ones in a row.

    >>> import rushlight as torch
    >>> scaler = torch.GradScaler("cpu", init_scale=1024.0)
    >>> loss = torch.ones((), requires_grad=True)
    >>> scaler.scale(loss).backward()
    >>> loss.grad
    tensor(1024.)
    >>> scaler.get_scale()
    1024.0
    """

    _scale: Any
    _growth_tracker: Any

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = bool(enabled)
        if self._enabled and device == "cuda" and not _state.has_cuda():
            import warnings

            warnings.warn(
                "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.",
                stacklevel=2,
            )
            self._enabled = False
        self._init_scale = init_scale
        self._scale = None
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._growth_tracker = None
        self._per_optimizer_states = _States()
        if self._enabled:
            self._check(
                growth_factor > 1.0, f"The growth factor must be > 1.0, got {growth_factor}."
            )
            self._check(
                backoff_factor < 1.0, f"The backoff factor must be < 1.0, got {backoff_factor}."
            )

    @staticmethod
    def _check(condition: bool, text: str) -> None:
        if not condition:
            raise AssertionError(text)

    def _check_scale_growth_tracker(self, method: str) -> tuple[Any, Any]:
        self._check(
            self._scale is not None,
            f"Attempted {method} but _scale is None.  This may indicate your script did not use "
            "scaler.scale(loss or outputs) earlier in the iteration.",
        )
        return self._scale, self._growth_tracker

    def _lazy_init_scale_growth_tracker(self, device: Any) -> None:
        self._scale = rushlight.full((), self._init_scale, dtype=_C.float32, device=device)
        self._growth_tracker = rushlight.full(
            (), self._init_growth_tracker, dtype=_C.int32, device=device
        )

    def scale(self, outputs: Any) -> Any:
        """A tensor, or each in an iterable (nested ones too), times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, _C.Tensor):
            if self._scale is None:
                self._lazy_init_scale_growth_tracker(outputs.device)
            return outputs * self._scale.to(outputs.device)
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(map(self.scale, outputs))
        if hasattr(outputs, "__iter__") and not isinstance(outputs, (str, bytes)):
            return map(self.scale, outputs)
        raise ValueError(
            f"outputs must be a Tensor or an iterable of Tensors, got {type(outputs).__name__}"
        )

    def _unscale_grads_(
        self, optimizer: Any, inv_scale: Any, found_inf: Any, allow_fp16: bool
    ) -> dict[Any, Any]:
        """Multiplies the gradients; says for their device whether one is not finite."""
        with rushlight.no_grad():
            grads = [
                p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None
            ]
            for grad in grads:
                if grad.dtype == _C.float16 and not allow_fp16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
            by_device: dict[Any, list[Any]] = {}
            for grad in grads:
                by_device.setdefault(grad.device, []).append(grad)
            for device, there in by_device.items():
                inverse = None if inv_scale is None else inv_scale.to(device)
                found = found_inf if device == found_inf.device else found_inf.to(device)
                if not _C._unscale_grads(there, inverse, found):
                    _unscale_each(there, inverse, found)
                if found is not found_inf:
                    found_inf.copy_(found)
        return {found_inf.device: found_inf} if grads else {}

    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of an optimizer by the scale, to be clipped or looked at.

        ``step`` does it by itself otherwise. Once per step.
        """
        if not self._enabled:
            return
        scale, _ = self._check_scale_growth_tracker("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = scale.double().reciprocal().float()
        found_inf = rushlight.zeros((), dtype=_C.float32, device=scale.device)
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, inverse, found_inf, False)
        state["stage"] = OptState.UNSCALED

    def _maybe_opt_step(
        self, optimizer: Any, optimizer_state: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        if any(found.item() for found in optimizer_state["found_inf_per_device"].values()):
            return None
        return optimizer.step(*args, **kwargs)

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """``optimizer.step()`` with unscaled gradients; nothing when one is inf or NaN."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        scale, _ = self._check_scale_growth_tracker("step")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            result = self._step_that_unscales(optimizer, state, scale, args, kwargs)
        else:
            if state["stage"] is OptState.READY:
                self.unscale_(optimizer)
            if not state["found_inf_per_device"]:
                raise AssertionError(_without_gradients(optimizer))
            result = self._maybe_opt_step(optimizer, state, *args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def _step_that_unscales(
        self, optimizer: Any, state: dict[str, Any], scale: Any, args: Any, kwargs: Any
    ) -> Any:
        """The optimizer divides by ``grad_scale`` itself and skips when ``found_inf`` is set."""
        if state["stage"] is OptState.READY:
            self._check_inf_per_device(optimizer)
            optimizer.grad_scale = scale
        else:
            optimizer.grad_scale = None
        found = list(state["found_inf_per_device"].values())
        optimizer.found_inf = found[0] if found else rushlight.zeros(())
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            del optimizer.grad_scale, optimizer.found_inf

    def update(self, new_scale: Any = None) -> None:
        """Adapts the scale, or sets it. At the end of an iteration, after all steps."""
        if not self._enabled:
            return
        scale, tracker = self._check_scale_growth_tracker("update")
        if new_scale is None:
            self._adapt(scale, tracker)
        elif isinstance(new_scale, _C.Tensor):
            kind = new_scale.device.type
            self._check(
                kind == self._device and new_scale.numel() == 1 and not new_scale.requires_grad,
                "new_scale should be a float or a 1-element torch.FloatTensor with "
                f"requires_grad=False, got shape {tuple(new_scale.shape)} on {kind}",
            )
            scale.copy_(new_scale.reshape(()))
        else:
            scale.fill_(float(new_scale))
        self._per_optimizer_states = _States()

    def _adapt(self, scale: Any, tracker: Any) -> None:
        states = self._per_optimizer_states.values()
        found = [f for state in states for f in state["found_inf_per_device"].values()]
        self._check(len(found) > 0, "No inf checks were recorded prior to update.")
        with rushlight.no_grad():
            all_found = found[0].to(scale.device, rushlight.float32)
            for each in found[1:]:
                all_found = all_found + each.to(scale.device)
            _C._update_scale(
                scale, tracker, all_found, float(self._growth_factor), float(self._backoff_factor),
                int(self._growth_interval),
            )  # fmt: skip

    def _get_scale_async(self) -> Any:
        return self._scale

    def get_scale(self) -> float:
        """The scale; 1.0 when scaling is disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        """What the scale is multiplied by after a run of good steps."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Sets what the scale is multiplied by after a run of good steps."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """What the scale is multiplied by after a skipped step."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Sets what the scale is multiplied by after a skipped step."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """How many good steps in a row let the scale grow."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Sets how many good steps in a row let the scale grow."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        tracker = self._growth_tracker
        return self._init_growth_tracker if tracker is None else tracker.item()

    def is_enabled(self) -> bool:
        """Whether losses are scaled at all."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The state as plain numbers, to be taken after ``update()``; empty when disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over a ``state_dict()``; does nothing when disabled."""
        if not self._enabled:
            return
        if len(state_dict) == 0:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._enabled:
            self._check(
                len(self._per_optimizer_states) == 0,
                "A GradScaler instance may only be pickled at the beginning of an iteration, or at "
                "the end after scaler.update().",
            )
            state["_init_scale"] = self.get_scale()
            state["_init_growth_tracker"] = self._get_growth_tracker()
            state["_scale"] = state["_growth_tracker"] = None
        return state

    def _check_inf_per_device(self, optimizer: Any) -> dict[Any, Any]:
        scale, _ = self._check_scale_growth_tracker("_check_inf_per_device")
        found_inf = rushlight.zeros((), dtype=_C.float32, device=scale.device)
        state = self._per_optimizer_states[id(optimizer)]
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, None, found_inf, True)
        found: dict[Any, Any] = state["found_inf_per_device"]
        return found

    def _found_inf_per_device(self, optimizer: Any) -> dict[Any, Any]:
        found: dict[Any, Any] = self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
        return found
