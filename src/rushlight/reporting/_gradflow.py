"""Gradients by layer, as a plot of matplotlib."""

from __future__ import annotations

from typing import Any


def plot_grad_flow(named_parameters: Any, ax: Any = None) -> Any:
    """Plots mean and greatest absolute gradient of each parameter, in the order given.

    Call it after ``backward()``. Biases are left out unless there is nothing else. Gives the axes;
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
    labels = [name.removesuffix(".weight") for name, _ in chosen]
    means, tops = [], []
    for _, p in chosen:
        grad = None if p.grad is None else p.grad.detach().abs()
        means.append(float("nan") if grad is None or not grad.numel() else float(grad.mean()))
        tops.append(float("nan") if grad is None or not grad.numel() else float(grad.max()))
    if ax is None:
        size = (max(5.0, 0.32 * len(labels) + 2.0), 4.2)
        _, ax = plt.subplots(figsize=size, layout="constrained")
    at = range(len(labels))
    ax.bar(at, tops, width=0.8, color="#2a6fd0", alpha=0.25, label="greatest")
    ax.bar(at, means, width=0.8, color="#2a6fd0", label="mean")
    for i, (_, p) in enumerate(chosen):
        if p.grad is None:
            ax.text(
                i, 0.02, "no gradient", transform=ax.get_xaxis_transform(), rotation=90,
                ha="center", va="bottom", color="#b3261e", fontsize="small",
            )  # fmt: skip
    if any(value > 0 for value in means):
        ax.set_yscale("log")
    ax.set_xticks(list(at), labels, rotation=90)
    ax.set_xlim(-0.6, len(labels) - 0.4)
    ax.set_ylabel("absolute gradient")
    ax.set_title("Gradients by layer")
    ax.grid(axis="y", alpha=0.3)
    ax.legend(frameon=False)
    return ax
