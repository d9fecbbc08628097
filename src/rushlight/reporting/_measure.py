"""What costs time to know: norms, updates, histograms, activations, slowest lines.

Each kind is measured in a step of its own, and again when the time it took last would not exceed
the report's budget. So the cost is bounded whatever the model.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import rushlight
from rushlight import _C
from rushlight.graphview._collect import names_of_parameters

if TYPE_CHECKING:
    from rushlight.reporting import Report

_SAMPLE = 16384  # elements of a parameter that are looked at
_BINS = 32
_KEPT = 120  # samples of layers; older ones are thinned out
_LAYERS = 400  # parameters and modules that are followed


def _sampled(tensor: Any) -> Any:
    """Some elements, evenly spread."""
    flat = tensor.detach().reshape(-1)
    stride = -(-flat.numel() // _SAMPLE)
    return flat[::stride] if stride > 1 else flat


def _histogram(values: Any) -> list[Any] | None:
    """[least, greatest, counts], or None where no number is finite."""
    values = values.float()
    if values.is_complex() or not values.numel():
        return None
    values = values[rushlight.isfinite(values)]
    if not values.numel():
        return None
    low, high = float(values.min()), float(values.max())
    if low == high:
        low, high = low - 0.5, high + 0.5
    counts = rushlight.histc(values, _BINS, low, high)
    return [low, high, [int(c) for c in counts.tolist()]]


class Measurer:
    """Chooses what to measure in the step that comes, and keeps what was found."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.layers: list[dict[str, Any]] = []  # samples: step, norms, ratios, histograms
        self.activations: dict[str, dict[str, Any]] = {}  # by module, the latest
        self.activations_step = 0
        self.lines: dict[tuple[str, int], list[float]] = {}  # forward, backward, calls
        self.line_steps = 0
        self.wants_layers = False
        self._names: dict[int, str] = {}
        self._costs: dict[str, float] = {}  # of the latest measurement of each kind
        self._turns: dict[str, int] = {}  # how often each kind was measured
        self._armed = ""
        self._first = 0.0  # what the first round took
        self._before: dict[int, Any] = {}
        self._sample: dict[str, Any] = {}
        self._hooks: list[Any] = []
        self._profiler: Any = None
        self._stride = 1  # every how many samples of layers are kept
        self._samples = 0

    # ---- which, when

    def next_step(self, step: int) -> None:
        """Ends what was measured in the step that is over, begins what the next one is for."""
        kind = self._armed
        started = time.perf_counter()
        self.disarm()
        if kind:
            self._costs[kind] = self._costs.get(kind, 0.0) + time.perf_counter() - started
        for kind in ("layers", "activations", "lines"):  # first each once, then as time allows
            if kind not in self._costs:
                return self._arm(kind)
        if not self._first:
            self._first = self.report._spent
        kind = min(self._costs, key=lambda k: self._turns.get(k, 0))
        if self._affordable(self._costs[kind]):
            self._arm(kind)

    def _affordable(self, cost: float) -> bool:
        report = self.report
        # The first of each kind are made whatever they cost: their imports are no sign of it.
        return report._spent - self._first + cost <= report.budget * report.seconds

    def _arm(self, kind: str) -> None:
        self._turns[kind] = self._turns.get(kind, 0) + 1
        self._costs[kind] = 0.0
        self._armed = kind
        if kind == "layers":
            self.wants_layers = True
        elif kind == "activations":
            self._watch_modules()
        elif not _C._profile_running():
            from rushlight.autograd.profiler import profile

            self._profiler = profile()
            self._profiler.__enter__()

    def disarm(self) -> None:
        """Ends what is measured now."""
        self.wants_layers = False
        self._before = {}
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        if self._profiler is not None:
            profiler, self._profiler = self._profiler, None
            profiler.__exit__()
            self._add_lines(profiler._rows or [])
        self._armed = ""

    def _cost(self, started: float) -> None:
        spent = time.perf_counter() - started
        self._costs[self._armed] = self._costs.get(self._armed, 0.0) + spent

    # ---- gradients, updates and histograms, around an optimizer's step

    def _parameters(self, optimizer: Any) -> list[tuple[str, Any]]:
        found = []
        for g, group in enumerate(optimizer.param_groups):
            for i, parameter in enumerate(group["params"]):
                if id(parameter) not in self._names:
                    self._names.update(names_of_parameters(self.report.model))
                    self._names.setdefault(id(parameter), f"group {g}, parameter {i}")
                found.append((self._names[id(parameter)], parameter))
        return found[:_LAYERS]

    def before_update(self, optimizer: Any) -> None:
        """Notes the gradients, and the weights as they are."""
        started = time.perf_counter()
        with rushlight.no_grad():
            pairs = [
                (name, p)
                for name, p in self._parameters(optimizer)
                if p.grad is not None and not p.grad.is_sparse
            ]
            values = [float(p.grad.norm()) for _, p in pairs]
            self._before = {id(p): _sampled(p).clone() for _, p in pairs}
            self._sample = {
                "norms": {name: value for (name, _), value in zip(pairs, values, strict=True)},
                "total": sum(v * v for v in values) ** 0.5,
                "grads": {name: _histogram(_sampled(p.grad)) for name, p in pairs},
            }
        self._cost(started)

    def after_update(self, optimizer: Any, step: int) -> None:
        """Compares the weights with those before."""
        started = time.perf_counter()
        ratios, weights = {}, {}
        with rushlight.no_grad():
            for name, p in self._parameters(optimizer):
                before = self._before.get(id(p))
                if before is None:
                    continue
                now = _sampled(p)
                size = float(before.norm())
                ratios[name] = float((now - before).norm()) / size if size else None
                weights[name] = _histogram(now)
        self._add_sample({"step": step, **self._sample, "ratios": ratios, "weights": weights})
        self._cost(started)

    def _add_sample(self, sample: dict[str, Any]) -> None:
        if self.layers and self.layers[-1]["step"] == sample["step"]:  # of a second optimizer
            for key in ("norms", "grads", "ratios", "weights"):
                self.layers[-1][key] |= sample[key]
            return
        self._samples += 1
        if self._samples % self._stride == 0 or len(self.layers) < 2:
            self.layers.append(sample)
        if len(self.layers) > _KEPT:
            self.layers = self.layers[::2]
            self._stride *= 2

    # ---- activations

    def _watch_modules(self) -> None:
        names: dict[int, str] = {}
        if self.report.model is not None:
            modules = list(self.report.model.named_modules())
        else:
            from rushlight.nn._names import path_of

            modules = [(path_of(m)[0], m) for m in _C._live_modules() if not m._modules]
        self.activations_step = self.report.steps + 1
        for name, module in modules[:_LAYERS]:
            if module._modules or id(module) in names:
                continue
            names[id(module)] = name or type(module).__name__
            self._hooks.append(module.register_forward_hook(self._activation_hook(names)))

    def _activation_hook(self, names: dict[int, str]) -> Any:
        def note(module: Any, inputs: Any, output: Any) -> None:
            first = output[0] if isinstance(output, (tuple, list)) and output else output
            if not isinstance(first, _C.Tensor) or not first.is_floating_point():
                return
            started = time.perf_counter()
            with rushlight.no_grad():
                values = _sampled(first).float()
                if values.numel():
                    self.activations[names[id(module)]] = {
                        "type": type(module).__name__,
                        "shape": list(first.shape),
                        "mean": float(values.mean()),
                        "std": float(values.std(correction=0)),
                        "zeros": float((values == 0).float().mean()),
                        "max": float(values.abs().max()),
                        "histogram": _histogram(values),
                    }
            spent = time.perf_counter() - started
            self._costs["activations"] = self._costs.get("activations", 0.0) + spent
            self.report._spent += spent

        return note

    # ---- slowest lines

    def _add_lines(self, rows: list[Any]) -> None:
        from rushlight.profiler._lines import time_by_line

        self.line_steps += 1
        for place, times in time_by_line(rows).items():
            known = self.lines.setdefault(place, [0.0, 0.0, 0.0])
            for i in range(3):
                known[i] += times[i]
        # A profiled op costs some 0.3 µs more; it is charged to the report.
        extra = 0.3e-6 * len(rows)
        self._costs["lines"] = self._costs.get("lines", 0.0) + extra
        self.report._spent += extra
