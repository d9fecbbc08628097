"""The old flags of losses."""

from __future__ import annotations


def legacy_get_string(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> str:
    """The reduction that ``size_average`` and ``reduce`` stand for."""
    reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
    if emit_warning:
        import warnings

        warnings.warn(
            "size_average and reduce args will be deprecated, please use "
            f"reduction='{reduction}' instead.",
            stacklevel=4,
        )
    return reduction
