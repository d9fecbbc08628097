"""How this build was made and runs, as text."""

from __future__ import annotations

__all__ = ["parallel_info", "show"]


def show() -> str:
    """The version, the CPU's instructions, threads and libraries, a line each."""
    from rushlight._commands.info import facts

    return "rushlight built with:\n" + "".join(f"  - {name}: {text}\n" for name, text in facts())


def parallel_info() -> str:
    """How many threads kernels run on."""
    import os

    import rushlight

    return (
        f"threads: {rushlight.get_num_threads()}\n"
        f"interop threads: {rushlight.get_num_interop_threads()}\n"
        f"logical cores: {os.cpu_count()}\n"
    )
