"""Gradients by layer, as a plot of matplotlib."""

from __future__ import annotations

import math
from typing import Any

_BLUE, _RED = "#2a6fd0", "#b3261e"
_WIDEST = 24.0  # inches
_LONGEST = 36  # characters of a name


def plot_grad_flow(named_parameters: Any, ax: Any = None) -> Any:
    """Plots mean and greatest absolute gradient of each parameter, in the order given.

    Call it after ``backward()``. Biases are left out unless there is nothing else. Where a gradient
    is missing, zero, infinite or not a number, that is written instead of a bar. Gives the axes;
    needs matplotlib.

    >>> import rushlight as torch
    >>> model = torch.nn.Linear(3, 2)
    >>> model(torch.ones(1, 3)).sum().backward()
    >>> axes = torch.plot_grad_flow(model.named_parameters())  # doctest: +SKIP
    """
    pairs = [(name, p) for name, p in named_parameters if p.requires_grad]
    chosen = [(name, p) for name, p in pairs if "bias" not in name] or pairs
    if not chosen:
        raise ValueError("plot_grad_flow(): no parameter requires grad")
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "plot_grad_flow() needs matplotlib: pip install matplotlib. rushlight.report() shows "
            "the same without it."
        ) from error
    labels = [_shortened(name.removesuffix(".weight")) for name, _ in chosen]
    measured = [_measured(p.grad) for _, p in chosen]
    if ax is None:
        width = min(max(5.0, 0.32 * len(labels) + 2.0), _WIDEST)
        height = 3.4 + 0.09 * max(map(len, labels))
        _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    at = range(len(labels))
    tops = [math.nan if word else top for _, top, word in measured]
    means = [math.nan if word else mean for mean, _, word in measured]
    ax.bar(at, tops, width=0.8, color=_BLUE, alpha=0.25, label="greatest")
    ax.bar(at, means, width=0.8, color=_BLUE, label="mean")
    for i, (_, _, word) in enumerate(measured):
        if word:
            ax.text(
                i, 0.02, word, transform=ax.get_xaxis_transform(), rotation=90,
                ha="center", va="bottom", color=_RED, fontsize="small",
            )  # fmt: skip
    _set_scale(ax, means, tops)
    step = _step(ax, len(labels))
    ax.set_xticks(list(at)[::step], labels[::step], rotation=90)
    ax.set_xlim(-0.6, len(labels) - 0.4)
    ax.set_ylabel("absolute gradient")
    ax.set_title("Gradients by layer", loc="left")
    ax.grid(axis="y", alpha=0.3)
    ax.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderaxespad=0)
    return ax


def _measured(grad: Any) -> tuple[float, float, str]:
    """A gradient's mean and greatest size, and the word that stands for what no bar shows."""
    if grad is None:
        return math.nan, math.nan, "no gradient"
    sizes = grad.detach().to_dense().abs()
    if not sizes.numel():
        return math.nan, math.nan, "empty"
    mean, top = float(sizes.double().mean()), float(sizes.max())
    if math.isnan(mean) or math.isinf(top):
        return mean, top, "not a number" if math.isnan(mean) else "infinite"
    return mean, top, "" if top > 0 else "zero"


def _shortened(name: str) -> str:
    """A name with its middle left out when it is long: layers differ at both ends."""
    if len(name) <= _LONGEST:
        return name
    end = 2 * _LONGEST // 3
    return f"{name[: _LONGEST - end - 1]}…{name[-end:]}"


def _set_scale(ax: Any, means: list[float], tops: list[float]) -> None:
    """Whole decades, with room below the smallest mean: a bar of the log scale needs a foot."""
    shown = [value for value in (*means, *tops) if value > 0]
    if not shown:
        ax.set_yticks([])
        return
    ax.set_yscale("log")
    low, high = math.log10(min(shown) / 2), math.log10(max(shown) * 1.2)
    ax.set_ylim(10.0 ** math.floor(low), 10.0 ** math.ceil(high))


def _step(ax: Any, count: int) -> int:
    """Which labels fit beside each other: every first, every second, ..."""
    figure = ax.figure
    inches = figure.get_size_inches()[0] * ax.get_position().width
    font = ax.xaxis.label.get_fontsize() / 72
    return max(1, math.ceil(1.2 * font * count / inches))
