"""The constructor ``Tensor(...)``: uninitialised sizes, or data of the default dtype."""

from typing import Any

from rushlight import _C


def construct(
    cls: type, *args: Any, device: Any = None, requires_grad: bool = False, **kwargs: Any
) -> Any:
    """What ``cls(*args)`` makes for ``Tensor`` and subclasses that do not override ``__new__``."""
    if device is not None and _C.device(device).type != "cpu":
        raise RuntimeError("Tensor: this build of rushlight computes on the CPU only")
    if cls is not _C.Tensor and kwargs:
        kwargs = {}
    if kwargs:
        raise TypeError(f"Tensor() got an unexpected keyword argument '{next(iter(kwargs))}'")
    dtype = _C.get_default_dtype()
    if not args:
        made = _C._namespaces[""]["empty"]((0,))
    elif all(isinstance(a, int) and not isinstance(a, bool) for a in args):
        made = _C._namespaces[""]["empty"](tuple(args))
    elif len(args) == 1 and isinstance(args[0], _C.Size):
        made = _C._namespaces[""]["empty"](args[0])
    elif len(args) == 1 and isinstance(args[0], _C.Tensor):
        made = args[0].detach()
    elif len(args) == 1 and not isinstance(args[0], (float, str, complex)):
        made = _C._tensor(args[0], dtype, None, False)
    else:
        names = ", ".join(type(a).__name__ for a in args)
        raise TypeError(f"Tensor() received an invalid combination of arguments - got ({names})")
    if cls is _C.Tensor and not requires_grad:
        return made
    return _C.Tensor._make_subclass(cls, made, requires_grad)
