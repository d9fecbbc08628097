"""What needs Triton, and so raises."""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn


def triton_op(
    name: str, fn: Any = None, /, *, mutates_args: Any, schema: str | None = None
) -> NoReturn:
    """Raises: Triton writes kernels for GPUs, and this build computes on the CPU.

    >>> import rushlight as torch
    >>> torch.library.triton_op("docs::kernel", mutates_args=())
    Traceback (most recent call last):
        ...
    RuntimeError: torch.library.triton_op: ...
    """
    raise RuntimeError(
        f"torch.library.triton_op: {name} is made of Triton kernels, which run on GPUs; rushlight "
        "computes on the CPU: write the op with torch.library.custom_op"
    )


def wrap_triton(triton_kernel: Callable[..., Any], /) -> NoReturn:
    """Raises: Triton writes kernels for GPUs, and this build computes on the CPU.

    >>> import rushlight as torch
    >>> torch.library.wrap_triton(print)
    Traceback (most recent call last):
        ...
    RuntimeError: torch.library.wrap_triton: ...
    """
    raise RuntimeError(
        "torch.library.wrap_triton: Triton kernels run on GPUs; rushlight computes on the CPU"
    )
