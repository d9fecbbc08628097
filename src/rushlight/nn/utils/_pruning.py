"""What all ways of pruning share: checks, the hook, and several methods in a row."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from numbers import Integral, Real

from rushlight import _C
from rushlight.autograd.grad_mode import no_grad
from rushlight.nn.parameter import Parameter, is_lazy

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rushlight import Tensor
    from rushlight.nn.modules.module import Module

_ops = _C._namespaces[""]


def pruning_hooks(module: Module, name: str) -> list[tuple[int, BasePruningMethod]]:
    """The hooks that prune a parameter of a module, with their keys."""
    return [
        (key, hook)
        for key, hook in module._forward_pre_hooks.items()
        if isinstance(hook, BasePruningMethod) and hook._computed_attribute == name
    ]


def check_amount(amount: Any) -> None:
    if not isinstance(amount, Real):
        raise TypeError(
            f"Invalid type for amount: {amount!r}. Must be int or float: a number of elements or "
            f"channels, or the share of them; got {type(amount).__name__}"
        )
    most = math.inf if isinstance(amount, Integral) else 1
    if not 0 <= float(amount) <= most:
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1], the share to prune, "
            "or a non-negative integer, the number to prune"
        )


def count_of(amount: Any, size: int) -> int:
    """How many of ``size`` elements or channels an amount means."""
    count = int(amount) if isinstance(amount, Integral) else round(amount * size)
    if count > size:
        raise ValueError(
            f"amount={count} should be smaller than the number of parameters to prune={size}; "
            "those pruned before do not count"
        )
    return count


def check_channels(t: Tensor, dim: int) -> None:
    if t.dim() <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of "
            f"shape {t.shape} with {t.dim()} dims; prune its elements by an unstructured method"
        )
    if not -t.dim() <= dim < t.dim():
        raise IndexError(
            f"Invalid index {dim} for tensor of size {t.shape}: dim should be from {-t.dim()} "
            f"to {t.dim() - 1}"
        )


def check_scores(scores: Tensor, t: Tensor, what: str) -> None:
    if scores.shape != t.shape:
        raise AssertionError(
            f"importance_scores should have the same shape as {what}, got {scores.shape} vs "
            f"{t.shape}"
        )


def check_parameter(module: Module, name: str, value: Any) -> None:
    where = f"'{name}' of {module._get_name()}"
    if value is None:
        raise TypeError(f"cannot prune {where}: it must be Tensor, not NoneType")
    if is_lazy(value):
        raise ValueError(
            f"Attempted to use an uninitialized parameter: {where}. Call `forward` with a dummy "
            "batch before pruning"
        )
    if not isinstance(value, Parameter):
        raise TypeError(
            f"cannot assign '{type(value).__name__}' object to parameter '{name}_orig' "
            f"(torch.nn.Parameter or None required): {where} is a buffer, or computed from "
            "other parameters; prune these"
        )


class BasePruningMethod(ABC):
    """A way to choose what is pruned: subclasses define ``compute_mask`` and ``PRUNING_TYPE``.

    The type is ``"unstructured"`` (elements are chosen among those that are left),
    ``"structured"`` (so are channels along the attribute ``dim``) or ``"global"``.

    >>> import rushlight as torch
    >>> from rushlight.nn.utils import prune
    >>> class Negative(prune.BasePruningMethod):
    ...     PRUNING_TYPE = "unstructured"
    ...     def compute_mask(self, t, default_mask):
    ...         return default_mask * (t >= 0)
    >>> Negative().prune(torch.tensor([1.0, -2.0, 3.0])).tolist()
    [1.0, -0.0, 3.0]
    >>> layer = torch.nn.Linear(2, 2)
    >>> method = Negative.apply(layer, "weight")
    >>> bool((layer.weight >= 0).all())
    True
    """

    PRUNING_TYPE: str
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @property
    def _computed_attribute(self) -> str:
        """The attribute that each call sets; copies of a module call the hook to get theirs."""
        return getattr(self, "_tensor_name", "")

    def _name(self) -> str:
        name = self._computed_attribute
        if not name:
            kind = type(self).__name__
            raise AttributeError(
                f"'{kind}' object has no attribute '_tensor_name': it prunes no parameter yet; "
                f"use {kind}.apply(module, name, ...)"
            )
        return name

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask for importance scores ``t``, on top of the mask that there is."""

    def apply_mask(self, module: Module) -> Tensor:
        """The original parameter times its mask."""
        name = self._name()
        mask, orig = getattr(module, name + "_mask"), getattr(module, name + "_orig")
        return mask.to(dtype=orig.dtype) * orig

    @classmethod
    def apply(
        cls,
        module: Module,
        name: str,
        *args: Any,
        importance_scores: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """Prunes a parameter of a module; returns the hook that keeps it pruned.

        Further arguments make the method. What was pruned before stays so: the hook is then a
        :class:`PruningContainer`. A module is left as it was where the mask cannot be computed.
        """
        method = cls(*args, **kwargs)
        method._tensor_name = name
        hooks = pruning_hooks(module, name)
        if len(hooks) > 1:
            raise AssertionError(
                "Avoid adding multiple pruning hooks to the same tensor "
                f"{name} of module {module._get_name()}. Use a PruningContainer."
            )
        tensor = getattr(module, name)
        if not hooks:
            check_parameter(module, name, tensor)
        if importance_scores is not None:
            what = f"parameter {name} of {module._get_name()}"
            check_scores(importance_scores, tensor, what)
        scores = tensor if importance_scores is None else importance_scores
        if hooks:
            return prune_further(module, method, *hooks[0], scores)
        mask = method.compute_mask(scores, default_mask=_ops["ones_like"](tensor.detach()))
        method._install(module, tensor, mask)
        return method

    def _install(self, module: Module, param: Parameter, mask: Tensor) -> None:
        """Replaces the parameter by the original, the mask and the hook."""
        name = self._name()
        module.register_parameter(name + "_orig", param)
        try:
            module.register_buffer(name + "_mask", mask.detach())
        except Exception:
            del module._parameters[name + "_orig"]
            raise
        del module._parameters[name]
        self(module, ())
        module.register_forward_pre_hook(self)

    def prune(
        self,
        t: Tensor,
        default_mask: Tensor | None = None,
        importance_scores: Tensor | None = None,
    ) -> Tensor:
        """A pruned tensor, without any module."""
        if importance_scores is not None:
            check_scores(importance_scores, t, "tensor t")
        scores = t if importance_scores is None else importance_scores
        before = _ops["ones_like"](t.detach()) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=before)

    def remove(self, module: Module) -> None:
        """Makes the pruned value the parameter again; what is pruned stays zero."""
        name = self._name()
        with no_grad():
            value = self.apply_mask(module)
        param = module._parameters[name + "_orig"]
        param.data = value
        for each in (name, name + "_orig", name + "_mask"):
            if hasattr(module, each):
                delattr(module, each)
        module.register_parameter(name, param)


def prune_further(
    module: Module, method: BasePruningMethod, key: int, old: BasePruningMethod, scores: Tensor
) -> PruningContainer:
    """Adds a method to the hook of a pruned parameter."""
    container = old if isinstance(old, PruningContainer) else PruningContainer(old)
    before = container._pruning_methods
    name = method._name()
    container.add_pruning_method(method)
    try:
        default_mask = getattr(module, name + "_mask").detach().clone()
        mask = container.compute_mask(scores, default_mask=default_mask)
        module.register_buffer(name + "_mask", mask.detach())
    except Exception:
        container._pruning_methods = before
        raise
    del module._forward_pre_hooks[key]
    container(module, ())
    module.register_forward_pre_hook(container)
    return container


class PruningContainer(BasePruningMethod):
    """The methods that pruned one parameter, in order; the last one computes the next mask.

    >>> import rushlight as torch
    >>> from rushlight.nn.utils import prune
    >>> layer = prune.random_unstructured(torch.nn.Linear(4, 4), "weight", amount=4)
    >>> container = prune.L1Unstructured.apply(layer, "weight", amount=0.5)
    >>> len(container), type(container[-1]).__name__
    (2, 'L1Unstructured')
    >>> int(layer.weight_mask.sum())  # half of the 12 that were left
    6
    """

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[Any, ...] = ()
        if args:
            first: Any = args[0]
            self._tensor_name = first._name() if isinstance(first, BasePruningMethod) else ""
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Appends a method for the same parameter; ``None`` keeps a place and prunes nothing."""
        if method is not None:
            if not isinstance(method, BasePruningMethod):
                raise TypeError(
                    f"{type(method)} is not a BasePruningMethod subclass: got {method!r}"
                )
            if self._name() != method._name():
                raise ValueError(
                    "Can only add pruning methods acting on the parameter named "
                    f"'{self._tensor_name}' to PruningContainer {self}. "
                    f"Found '{method._tensor_name}'"
                )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask that the last method makes of the part that is not pruned yet."""
        methods = [method for method in self if method is not None]
        if not methods:
            raise IndexError(
                "PruningContainer: index out of range: there is no method that could compute a "
                "mask; call add_pruning_method first"
            )
        part = self._left(methods[-1], t, default_mask)
        mask = default_mask.detach().clone().to(dtype=t.dtype)
        chosen = methods[-1].compute_mask(t[part], default_mask=default_mask[part])
        mask[part] = chosen.detach().to(dtype=mask.dtype)
        return mask

    @staticmethod
    def _left(method: Any, t: Tensor, mask: Tensor) -> Any:
        """The index of what a method chooses from."""
        everything = (slice(None),) * t.dim()
        if method.PRUNING_TYPE == "unstructured":
            return mask == 1
        if method.PRUNING_TYPE == "global":
            return everything
        if method.PRUNING_TYPE != "structured":
            raise ValueError(
                f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE} of {type(method).__name__}: it "
                "should be 'unstructured', 'structured' or 'global'"
            )
        if not hasattr(method, "dim"):
            raise AttributeError(
                'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` '
                f"defined. {type(method).__name__} has none"
            )
        check_channels(t, method.dim)
        dim = method.dim % t.dim()
        alive = mask.movedim(dim, 0).flatten(1).sum(1) != 0
        return (*everything[:dim], alive, *everything[dim + 1 :])
