"""Parameters computed from others."""

from __future__ import annotations

from contextlib import contextmanager, suppress

from rushlight import _C
from rushlight._C import Tensor
from rushlight.autograd.grad_mode import no_grad
from rushlight.nn.modules.container import ModuleDict, ModuleList
from rushlight.nn.parameter import Parameter

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from rushlight.nn.modules.module import Module

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization",
    "remove_parametrizations", "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]  # fmt: skip

_cache: dict[tuple[int, str], Tensor] = {}
_cache_depth = 0


@contextmanager
def cached() -> Iterator[None]:
    """A context in which every parametrized tensor is computed once.

    >>> import rushlight as torch
    >>> parametrize = torch.nn.utils.parametrize
    >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))
    >>> with parametrize.cached():
    ...     layer.weight is layer.weight
    True
    >>> layer.weight is layer.weight
    False
    """
    if not _cache_depth:
        _cache.clear()
    try:
        with _C._Scope(("items", ((globals(), "_cache_depth", _cache_depth + 1),))):
            yield
    finally:
        if not _cache_depth:
            _cache.clear()


def _register(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _check_kept(what: str, old: Any, new: Any, names: tuple[str, str], note: str = "") -> None:
    if old != new:
        raise ValueError(
            f"{note or 'Registering a parametrization'} may not change the {what} of the tensor, "
            f"unless `unsafe` flag is enabled.\n{names[0]} {what}: {old}\n{names[1]} {what}: {new}"
        )


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, one after the other, and the tensors they start from.

    >>> import rushlight as torch
    >>> parametrize = torch.nn.utils.parametrize
    >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))
    >>> type(layer.parametrizations.weight) is parametrize.ParametrizationList
    True
    >>> layer.parametrizations.weight.original0.shape
    torch.Size([2, 1])
    """

    def __init__(self, modules: Iterable[Module], original: Tensor, unsafe: bool = False) -> None:
        super().__init__(modules)
        if len(self) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        new: Any = original
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    with suppress(NotImplementedError):
                        new = module.right_inverse(new)
        self._check_originals(new)
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            if new.dtype != dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {dtype}\nright_inverse(original).dtype: {new.dtype}"
                )
            with no_grad():
                original.set_(new)
            _register(self, "original", original)
        else:
            for i, tensor in enumerate(new):
                if isinstance(original, Parameter):
                    tensor = Parameter(tensor, original.requires_grad)
                tensor.requires_grad_(original.requires_grad)
                _register(self, f"original{i}", tensor)
        if not unsafe:
            result = self()
            if not isinstance(result, Tensor):
                raise ValueError(
                    f"A parametrization must return a tensor. Got {type(result).__name__}."
                )
            names = ("unparametrized", "parametrized")
            _check_kept("dtype", dtype, result.dtype, names)
            _check_kept("shape", shape, result.shape, names)

    @staticmethod
    def _check_originals(new: Any) -> None:
        text = "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got"
        if isinstance(new, Tensor):
            return
        if not isinstance(new, (list, tuple)):
            raise ValueError(f"{text} {type(new).__name__}")
        for i, tensor in enumerate(new):
            if not isinstance(tensor, Tensor):
                kind = type(tensor).__name__
                raise ValueError(f"{text} element {i} of the sequence with type {kind}.")

    def right_inverse(self, value: Any) -> None:
        """Sets the originals so that the parametrized tensor becomes ``value``."""
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                value = module.right_inverse(value)
            if self.is_tensor:
                if not isinstance(value, Tensor):
                    raise ValueError(
                        f"`right_inverse` should return a tensor. Got {type(value).__name__}"
                    )
                value = [value]
            elif not isinstance(value, (list, tuple)) or len(value) != self.ntensors:
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors of length "
                    f"{self.ntensors}. Got {type(value).__name__}."
                )
            for original, tensor in zip(self._originals(), value, strict=True):
                if original.dtype != tensor.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {tensor.dtype} while "
                        f"`original` has dtype {original.dtype}"
                    )
                original.set_(tensor)

    def _originals(self) -> list[Tensor]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def forward(self) -> Tensor:
        first, *rest = self
        result = first(*self._originals())
        for module in rest:
            result = module(result)
        return result


def _inject_class(module: Module) -> None:
    """Gives a module a class of its own, which can have properties."""
    cls = type(module)

    def deepcopy_(self: Module, memo: dict[int, Any]) -> Module:
        from copy import deepcopy

        if id(self) not in memo:
            replica = self.__new__(type(self))
            memo[id(self)] = replica
            replica.__dict__ = deepcopy(self.__dict__, memo)
        return memo[id(self)]

    def getstate(self: Module) -> Any:
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict()."
        )

    members: dict[str, Any] = {"__getstate__": getstate}
    if not hasattr(cls, "__deepcopy__"):
        members["__deepcopy__"] = deepcopy_
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), members)


def _inject_property(module: Module, name: str) -> None:
    def get(self: Module) -> Tensor:
        parametrization = self.parametrizations[name]
        if not _cache_depth:
            return parametrization()
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = parametrization()
        return _cache[key]

    def set_(self: Module, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, set_))


def _check_further(module: Module, name: str, parametrization: Module) -> None:
    """Whether another parametrization keeps what the present ones give."""
    before = getattr(module, name)
    after = parametrization(before)
    if not isinstance(after, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(after).__name__}.")
    names = (f"module.{name}", f"parametrization(module.{name})")
    _check_kept("dtype", before.dtype, after.dtype, names)
    _check_kept("shape", before.shape, after.shape, names)
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(after)
    except NotImplementedError:
        return
    if not isinstance(back, Tensor):
        raise ValueError(
            f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}"
        )
    names = (f"module.{name}", "returned")
    _check_kept("dtype", before.dtype, back.dtype, names, "parametrization.right_inverse")
    _check_kept("shape", before.shape, back.shape, names, "parametrization.right_inverse")


def register_parametrization(
    module: Any, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Any:
    """Makes a parameter or buffer the result of a module applied to another one.

    >>> import rushlight as torch
    >>> class Positive(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x.exp()
    >>> layer = torch.nn.Linear(2, 2)
    >>> layer = torch.nn.utils.parametrize.register_parametrization(layer, "weight", Positive())
    >>> bool((layer.weight > 0).all())
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_further(module, tensor_name, parametrization)
        module.parametrizations[tensor_name].append(parametrization)
        module.parametrizations[tensor_name].unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        parametrizations = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = parametrizations
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    return module


def is_parametrized(module: Any, tensor_name: str | None = None) -> bool:
    """Whether a module, or one of its tensors, has parametrizations.

    >>> import rushlight as torch
    >>> parametrize = torch.nn.utils.parametrize
    >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))
    >>> parametrize.is_parametrized(layer), parametrize.is_parametrized(layer, "bias")
    (True, False)
    """
    found = getattr(module, "parametrizations", None)
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(module: Any, tensor_name: str, leave_parametrized: bool = True) -> Any:
    """Makes the tensor a plain one again, with its present value or the original one.

    >>> import rushlight as torch
    >>> parametrize = torch.nn.utils.parametrize
    >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))
    >>> _ = parametrize.remove_parametrizations(layer, "weight")
    >>> parametrize.is_parametrized(layer)
    False
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    parametrizations = module.parametrizations[tensor_name]
    if parametrizations.is_tensor:
        original = parametrizations.original
        if leave_parametrized:
            with no_grad():
                original.set_(getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Any) -> type:
    """The class that a module had before it was parametrized.

    >>> import rushlight as torch
    >>> parametrize = torch.nn.utils.parametrize
    >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))
    >>> type(layer).__name__, parametrize.type_before_parametrizations(layer).__name__
    ('ParametrizedLinear', 'Linear')
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Any, to_module: Any, tensor_name: str | None = None
) -> Any:
    """Parametrizes another module in the same way, with the same originals.

    >>> import rushlight as torch
    >>> parametrize = torch.nn.utils.parametrize
    >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))
    >>> other = torch.nn.Linear(2, 2)
    >>> _ = parametrize.transfer_parametrizations_and_params(layer, other)
    >>> torch.equal(other.weight, layer.weight)
    True
    """
    if not is_parametrized(from_module):
        return to_module
    for name in list(from_module.parametrizations) if tensor_name is None else [tensor_name]:
        source = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        for function in source:
            register_parametrization(to_module, name, function)
        target = to_module.parametrizations[name]
        for key in (k for k in source._parameters if k.startswith("original")):
            setattr(target, key, getattr(source, key))
    return to_module
