"""Methods and attributes of tensors that few programs ask for, and what became of them."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any


def hash_tensor(self: Tensor, *args: Any, **options: Any) -> Tensor:
    """The method of ``rushlight.hash_tensor``.

    >>> torch.tensor([1, 2, 4]).hash_tensor()
    tensor(7, dtype=torch.uint64)
    """
    from rushlight._hashing import hash_tensor

    return hash_tensor(self, *args, **options)


def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """What a module makes of this parameter and of the tensor of a file that it loads.

    >>> torch.zeros(2).module_load(torch.ones(2))
    tensor([1., 1.])
    """
    return other.detach() if assign else self.copy_(other).detach()


def _warned(name: str) -> None:
    import warnings

    warnings.warn(f"non-inplace {name} is deprecated: use reshape", stacklevel=4)


def resize(self: Tensor, *sizes: Any) -> Tensor:
    """The elements in another shape. Deprecated: ``reshape`` is the same.

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     torch.arange(4).resize(2, 2)
    tensor([[0, 1],
            [2, 3]])
    """
    _warned("resize")
    return self.reshape(*sizes)


def resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """The elements in the shape of another tensor. Deprecated: ``reshape`` is the same.

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     torch.arange(4).resize_as(torch.ones(2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    _warned("resize_as")
    return self.reshape(tensor.shape)


def const_data_ptr(self: Tensor) -> int:
    """The address of the first element, for who only reads.

    >>> x = torch.ones(2)
    >>> x.const_data_ptr() == x.data_ptr()
    True
    """
    return self.data_ptr()


def storage_type(self: Tensor) -> Any:
    """The class of ``storage()``.

    >>> torch.ones(2).storage_type()
    <class 'torch.FloatStorage'>
    """
    from rushlight._legacy import legacy_storage

    return legacy_storage(self.type().rpartition(".")[2].removesuffix("Tensor") + "Storage")


def _volatile(self: Tensor) -> bool:
    """False: ``no_grad`` took its place.

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     torch.ones(2).volatile
    False
    """
    import warnings

    warnings.warn("volatile was removed (Variable.volatile is always False)", stacklevel=2)
    return False


def _elsewhere(name: str, what: str) -> Any:
    def method(self: Tensor, *args: Any, **options: Any) -> Tensor:
        raise RuntimeError(f"Tensor.{name}(): rushlight has no {what}")

    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__doc__ = f"""Raises: there are no {what}.

    >>> torch.ones(2).{name}()
    Traceback (most recent call last):
        ...
    RuntimeError: Tensor.{name}(): rushlight has no {what}
    """
    return method


_methods: dict[str, Any] = {
    f.__name__: f
    for f in (
        hash_tensor, module_load, resize, resize_as, const_data_ptr, storage_type,
        _elsewhere("ipu", "devices of that kind"), _elsewhere("mtia", "devices of that kind"),
        _elsewhere("to_mkldnn", "layout of MKL-DNN"),
    )
}  # fmt: skip
_methods["name"] = property(lambda self: None, doc="None.\n\n>>> torch.ones(2).name\n")
_methods["volatile"] = property(_volatile)
_C._add_tensor_methods(_methods)
