"""Several modules, each on its own input, side by side."""

from __future__ import annotations

import threading

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight.nn.modules.module import Module

__all__ = ["parallel_apply"]


def parallel_apply(
    modules: Sequence[Module],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """What each module makes of its input, each in a thread of its own.

    >>> import rushlight as torch
    >>> layers = [torch.nn.ReLU(), torch.nn.Identity()]
    >>> torch.nn.parallel.parallel_apply(layers, [torch.tensor([-1.0]), torch.tensor([-2.0])])
    [tensor([0.]), tensor([-2.])]
    """
    import contextvars

    if len(modules) != len(inputs):
        raise AssertionError(
            f"The number of modules {len(modules)} is not equal to the number of inputs "
            f"{len(inputs)}"
        )
    named = kwargs_tup or [{}] * len(modules)
    results: list[Any] = [None] * len(modules)
    errors: list[BaseException] = []

    def run(i: int) -> None:
        given = inputs[i] if isinstance(inputs[i], (list, tuple)) else (inputs[i],)
        try:
            results[i] = modules[i](*given, **named[i])
        except BaseException as error:
            errors.append(error)

    # Grad mode and autocast belong to the context, which the threads take along.
    threads = [
        threading.Thread(target=contextvars.copy_context().run, args=(run, i))
        for i in range(len(modules))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
