"""Names of backends: which engine moves tensors of which kind of device."""

from __future__ import annotations


class Backend(str):
    """A backend's name. ``mpi`` and ``gloo`` are the same engine here, ``nccl`` that of GPUs.

    >>> import rushlight as torch
    >>> torch.distributed.Backend("GLOO") == torch.distributed.Backend.GLOO
    True
    """

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"
    XCCL = "xccl"
    FAKE = "fake"
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]  # noqa: RUF012
    default_device_backend_map = {"cpu": GLOO, "cuda": NCCL}  # noqa: RUF012

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish: {name!r}")
        return str.__new__(cls, name.lower())


def choose(backend: str | None, where: str) -> tuple[Backend, dict[str, str]]:
    """A backend's name, and the engine for each kind of device."""
    text = "undefined" if backend is None else str(backend).lower()
    if text == "undefined":
        from rushlight.distributed import _nccl_engine

        if _nccl_engine.is_default():
            return Backend("cpu:gloo,cuda:nccl"), {"cpu": "gloo", "cuda": "nccl"}
        text = "gloo"
    if ":" in text:
        chosen = dict(part.partition(":")[::2] for part in text.split(","))
    else:
        chosen = {"cuda": text} if text == "nccl" else {"cpu": text, "cuda": text}
    for device, name in chosen.items():
        if device not in ("cpu", "cuda") or name not in ("mpi", "gloo", "nccl"):
            raise ValueError(
                f"{where}: Invalid backend: '{backend}': mpi, gloo or nccl, or one for each kind "
                "of device, as 'cpu:gloo,cuda:nccl'"
            )
        if (device, name) == ("cpu", "nccl"):
            raise ValueError(f"{where}: Invalid backend: '{backend}': nccl is for cuda alone")
    if chosen.get("cuda") == "nccl":
        from rushlight.distributed import _nccl_engine

        _nccl_engine.require(where)
    return Backend(text), chosen
