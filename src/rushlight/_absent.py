"""Devices that this build does not have: what to say when a program needs one."""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

_ADVICE = "rushlight computes on the CPU only; ask torch.{0}.is_available() before using torch.{0}"


def fail(kind: str, name: str, error: type[Exception] = AssertionError) -> NoReturn:
    """Raises as torch built without the device does; the function ``name`` needed it."""
    text = f"torch.{kind}.{name}(): Torch not compiled with {kind.upper()} enabled"
    raise error(f"{text}: {_ADVICE.format(kind)}")


def failing(kind: str, name: str, doc: str) -> Callable[..., Any]:
    """A function that needs the device, and so raises."""

    def absent(*args: Any, **kwargs: Any) -> NoReturn:
        fail(kind, name, RuntimeError if kind == "mps" else AssertionError)

    return described(absent, kind, name, f"{doc} Raises: there is no such device.")


def described(function: Any, kind: str, name: str, doc: str) -> Any:
    """The function, which raises, with its names and a docstring that shows the error."""
    function.__module__ = f"rushlight.{kind}"
    function.__name__ = function.__qualname__ = name
    error = "RuntimeError" if kind in ("accelerator", "mps") else "AssertionError"
    function.__doc__ = f"""{doc}

    >>> import rushlight as torch
    >>> torch.{kind}.{name}()
    Traceback (most recent call last):
        ...
    {error}: torch.{kind}.{name}(): ...
    """
    return function


def absent_class(kind: str, name: str, doc: str) -> type:
    """A class whose objects need the device: isinstance works, making one raises."""

    def new(cls: type, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            f"torch.{kind}.{name} requires {kind.upper()} support: {_ADVICE.format(kind)}"
        )

    shown = f"""{doc} Making one raises: there is no such device.

    >>> import rushlight as torch
    >>> isinstance(None, torch.{kind}.{name})
    False
    """
    return type(name, (), {"__new__": new, "__doc__": shown, "__module__": f"rushlight.{kind}"})


# What few programs ask for, by device; classes are capitalised.
_REST = {
    "cuda": (
        "CUDAPluggableAllocator", "GreenContext", "MemPool", "caching_allocator_alloc",
        "caching_allocator_delete", "caching_allocator_enable", "change_current_allocator",
        "check_error", "clock_rate", "cudart", "current_solver_handle", "device_memory_used",
        "get_allocator_backend", "get_stream_from_external",
        "power_draw", "temperature", "use_mem_pool",
    ),
    "xpu": (
        "MemPool", "StreamContext", "XPUGraph", "XPUPluggableAllocator", "can_device_access_peer",
        "change_current_allocator", "clock_rate", "device_memory_used", "get_arch_list",
        "get_gencode_flags", "get_per_process_memory_fraction", "get_stream_from_external",
        "graph_pool_handle", "initial_seed", "is_tf32_supported", "make_graphed_callables",
        "mem_get_info", "memory_snapshot", "memory_stats", "memory_stats_as_nested_dict",
        "memory_usage", "power_draw", "reset_accumulated_memory_stats", "reset_peak_memory_stats",
        "set_per_process_memory_fraction", "set_rng_state_all", "temperature", "use_mem_pool",
        "utilization",
    ),
}  # fmt: skip


def rest(kind: str) -> tuple[str, ...]:
    """The names of what few programs ask a device for."""
    return (*_REST[kind], *(("graph", "device", "device_of", "stream") if kind == "xpu" else ()))


def of_name(kind: str, name: str) -> Any:
    """One of them: it raises when it is used."""
    if name[0].isupper() or name in ("graph", "device", "device_of", "stream"):
        return absent_class(kind, name, "A part of programs for such devices.")
    return failing(kind, name, "Asks or tells the devices.")


class OutOfMemoryError(RuntimeError):
    """A device has no memory left."""
