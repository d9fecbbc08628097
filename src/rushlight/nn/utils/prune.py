"""Weights set to zero by a mask: which ones, in what order, and for how long.

A pruned parameter ``weight`` becomes the parameter ``weight_orig`` and the buffer ``weight_mask``;
``weight`` itself is their product, computed anew before each forward.

>>> import rushlight as torch
>>> from rushlight.nn.utils import prune
>>> layer = prune.l1_unstructured(torch.nn.Linear(3, 2), "weight", amount=2)
>>> list(layer.state_dict())
['bias', 'weight_orig', 'weight_mask']
>>> int((layer.weight == 0).sum())
2
"""

from __future__ import annotations

from rushlight import _C
from rushlight.nn.utils._pruning import (
    BasePruningMethod,
    PruningContainer,
    check_amount,
    check_channels,
    check_parameter,
    count_of,
    pruning_hooks,
)
from rushlight.nn.utils.convert_parameters import parameters_to_vector

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rushlight import Tensor
    from rushlight.nn.modules.module import Module

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]

_ops = _C._namespaces[""]


def _without_elements(default_mask: Tensor, pruned: Tensor) -> Tensor:
    """A mask that also drops the elements at these places in row-major order."""
    flat = default_mask.detach().reshape(-1).clone()
    flat[pruned] = 0
    return flat.reshape(default_mask.shape)


def _without_channels(t: Tensor, default_mask: Tensor, dim: int, pruned: Tensor) -> Tensor:
    """A mask that also drops whole channels; of the dtype of the scores ``t``."""
    mask = default_mask.detach().clone().to(dtype=t.dtype)
    return mask.index_fill_(dim, pruned.to(mask.device), 0)


class Identity(BasePruningMethod):
    """Prunes nothing, but makes the parameter a pruned one.

    >>> import rushlight as torch
    >>> from rushlight.nn.utils import prune
    >>> prune.Identity().prune(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask that there is."""
        return default_mask

    @classmethod
    def apply(cls, module: Module, name: str) -> Any:  # type: ignore[override]
        """Makes a parameter of a module a pruned one; returns the hook."""
        return super().apply(module, name)


class RandomUnstructured(BasePruningMethod):
    """Prunes elements at random.

    >>> import rushlight as torch
    >>> from rushlight.nn.utils import prune
    >>> int((prune.RandomUnstructured(amount=0.25).prune(torch.ones(8)) == 0).sum())
    2
    """

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """A mask without the elements that the lot falls on."""
        count = count_of(self.amount, t.numel())
        if count == 0:
            return default_mask.clone()
        lots = _ops["rand_like"](t.detach()).reshape(-1)
        return _without_elements(default_mask, lots.topk(count).indices)

    @classmethod
    def apply(cls, module: Module, name: str, amount: float) -> Any:  # type: ignore[override]
        """Prunes a parameter of a module; returns the hook."""
        return super().apply(module, name, amount=amount)


class L1Unstructured(BasePruningMethod):
    """Prunes the elements of smallest magnitude.

    >>> import rushlight as torch
    >>> from rushlight.nn.utils import prune
    >>> prune.L1Unstructured(amount=2).prune(torch.tensor([3.0, -1.0, 2.0, -4.0])).tolist()
    [3.0, -0.0, 0.0, -4.0]
    """

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """A mask without the smallest elements."""
        count = count_of(self.amount, t.numel())
        if count == 0:
            return default_mask.clone()
        sizes = t.detach().abs().reshape(-1)
        return _without_elements(default_mask, sizes.topk(count, largest=False).indices)

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: float, importance_scores: Tensor | None = None
    ) -> Any:
        """Prunes a parameter of a module; returns the hook."""
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class RandomStructured(BasePruningMethod):
    """Prunes channels along a dimension at random.

    >>> import rushlight as torch
    >>> from rushlight.nn.utils import prune
    >>> pruned = prune.RandomStructured(amount=1, dim=0).prune(torch.ones(3, 2))
    >>> sorted(pruned.sum(1).tolist())
    [0.0, 2.0, 2.0]
    """

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        check_amount(amount)
        self.amount = amount
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """A mask without the channels that the lot falls on."""
        check_channels(t, self.dim)
        channels = t.shape[self.dim]
        count = count_of(self.amount, channels)
        if count == 0:
            return default_mask
        lots = _ops["rand"](channels)
        pruned = lots.topk(count, largest=False).indices
        return _without_channels(t, default_mask, self.dim, pruned)

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: float, dim: int = -1
    ) -> Any:
        """Prunes a parameter of a module; returns the hook."""
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(BasePruningMethod):
    """Prunes the channels along a dimension that have the smallest norm of order ``n``.

    >>> import rushlight as torch
    >>> from rushlight.nn.utils import prune
    >>> rows = torch.tensor([[1.0, 2.0], [3.0, 4.0], [0.0, 1.0]])
    >>> prune.LnStructured(amount=2, n=2, dim=0).prune(rows).tolist()
    [[0.0, 0.0], [3.0, 4.0], [0.0, 0.0]]
    """

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        check_amount(amount)
        self.amount = amount
        self.n = n
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """A mask without the channels of smallest norm."""
        check_channels(t, self.dim)
        count = count_of(self.amount, t.shape[self.dim])
        others = [d for d in range(t.dim()) if d != self.dim % t.dim()]
        norms = t.detach().norm(self.n, others)
        if count == 0:
            return default_mask
        pruned = norms.topk(count, largest=False).indices
        return _without_channels(t, default_mask, self.dim, pruned)

    @classmethod
    def apply(  # type: ignore[override]
        cls,
        module: Module,
        name: str,
        amount: float,
        n: Any,
        dim: int,
        importance_scores: Tensor | None = None,
    ) -> Any:
        """Prunes a parameter of a module; returns the hook."""
        return super().apply(
            module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores
        )


class CustomFromMask(BasePruningMethod):
    """Prunes by a mask made elsewhere.

    >>> import rushlight as torch
    >>> from rushlight.nn.utils import prune
    >>> prune.CustomFromMask(torch.tensor([1, 0, 1])).prune(torch.tensor([5.0, 6.0, 7.0]))
    tensor([5., 0., 7.])
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask that there is times the given one."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape "
                f"{self.mask.shape}: give CustomFromMask a mask of the parameter's shape"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module: Module, name: str, mask: Tensor) -> Any:  # type: ignore[override]
        """Prunes a parameter of a module; returns the hook."""
        return super().apply(module, name, mask=mask)


# The same as functions that return the module.


def identity(module: Any, name: str) -> Any:
    """Makes a parameter a pruned one with a mask of ones.

    >>> import rushlight as torch
    >>> from rushlight.nn.utils import prune
    >>> prune.identity(torch.nn.Linear(2, 3), "bias").bias_mask
    tensor([1., 1., 1.])
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: float) -> Any:
    """Prunes elements at random: ``amount`` of those left, or that share of them.

    >>> import rushlight as torch
    >>> from rushlight.nn.utils import prune
    >>> layer = prune.random_unstructured(torch.nn.Linear(2, 3), "weight", amount=1)
    >>> int((layer.weight_mask == 0).sum())
    1
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Any, name: str, amount: float, importance_scores: Tensor | None = None
) -> Any:
    """Prunes the elements of smallest magnitude, or of smallest importance.

    >>> import rushlight as torch
    >>> from rushlight.nn.utils import prune
    >>> scores = torch.tensor([3.0, 1.0, 2.0])
    >>> layer = prune.l1_unstructured(torch.nn.Linear(2, 3), "bias", 0.4, scores)
    >>> layer.bias_mask
    tensor([1., 0., 1.])
    """
    L1Unstructured.apply(module, name, amount, importance_scores)
    return module


def random_structured(module: Any, name: str, amount: float, dim: int) -> Any:
    """Prunes channels along a dimension at random.

    >>> import rushlight as torch
    >>> from rushlight.nn.utils import prune
    >>> layer = prune.random_structured(torch.nn.Linear(4, 3), "weight", amount=2, dim=1)
    >>> sorted(layer.weight_mask.sum(0).tolist())
    [0.0, 0.0, 3.0, 3.0]
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Any,
    name: str,
    amount: float,
    n: Any,
    dim: int,
    importance_scores: Tensor | None = None,
) -> Any:
    """Prunes the channels along a dimension that have the smallest norm of order ``n``.

    >>> import rushlight as torch
    >>> from rushlight.nn.utils import prune
    >>> scores = torch.tensor([[1.0, 5.0, 2.0], [1.0, 5.0, 2.0]])
    >>> layer = torch.nn.Linear(3, 2)
    >>> _ = prune.ln_structured(layer, "weight", 0.3, 2, dim=1, importance_scores=scores)
    >>> layer.weight_mask.tolist()
    [[0.0, 1.0, 1.0], [0.0, 1.0, 1.0]]
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Any, str]],
    pruning_method: Any,
    importance_scores: dict[tuple[Any, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prunes several parameters as if they were one: pairs of a module and a name.

    >>> import rushlight as torch
    >>> from rushlight.nn.utils import prune
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
    >>> pairs = [(net[0], "weight"), (net[1], "weight")]
    >>> prune.global_unstructured(pairs, prune.L1Unstructured, amount=0.5)
    >>> sum(int((mask == 0).sum()) for mask in net.buffers())
    9
    """
    if not hasattr(parameters, "__iter__"):
        raise TypeError(
            "global_unstructured(): parameters is not an Iterable of (module, name): got "
            f"{parameters!r}"
        )
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError(
            "global_unstructured(): importance_scores must be of type dict, from (module, name) "
            f"to a tensor: got {type(scores).__name__}"
        )
    places = [(module, name) for module, name in parameters]
    tensors = [getattr(module, name) for module, name in places]
    for (module, name), t in zip(places, tensors, strict=True):
        if not pruning_hooks(module, name):
            check_parameter(module, name, t)
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    container = PruningContainer()
    container._tensor_name = method._tensor_name = "all parameters"
    container.add_pruning_method(method)
    chosen = [scores.get(p, t).detach() for p, t in zip(places, tensors, strict=True)]
    for (module, name), score, t in zip(places, chosen, tensors, strict=True):
        if score.numel() != t.numel():
            raise IndexError(
                "importance_scores should have the same shape as parameter "
                f"{name} of {module._get_name()}, got {score.shape} vs {t.shape}"
            )
    before = [
        getattr(module, name + "_mask", _ops["ones_like"](t.detach()))
        for (module, name), t in zip(places, tensors, strict=True)
    ]
    mask = container.compute_mask(parameters_to_vector(chosen), parameters_to_vector(before))
    parts = mask.split([t.numel() for t in tensors])
    for (module, name), part, t in zip(places, parts, tensors, strict=True):
        custom_from_mask(module, name, part.view(t.shape))


def custom_from_mask(module: Any, name: str, mask: Tensor) -> Any:
    """Prunes a parameter by a mask made elsewhere.

    >>> import rushlight as torch
    >>> from rushlight.nn.utils import prune
    >>> prune.custom_from_mask(torch.nn.Linear(5, 3), "bias", torch.tensor([0, 1, 0])).bias_mask
    tensor([0., 1., 0.])
    """
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Any, name: str) -> Any:
    """Makes the pruned value the parameter again; what is pruned stays zero.

    >>> import rushlight as torch
    >>> from rushlight.nn.utils import prune
    >>> layer = prune.custom_from_mask(torch.nn.Linear(1, 2), "bias", torch.tensor([0, 0]))
    >>> bool((prune.remove(layer, "bias").bias == 0).all()), sorted(layer.state_dict())
    (True, ['bias', 'weight'])
    """
    for key, hook in pruning_hooks(module, name):
        hook.remove(module)
        del module._forward_pre_hooks[key]
        return module
    pruned = [n.removesuffix("_mask") for n in module._buffers if n.endswith("_mask")]
    raise ValueError(
        f"Parameter '{name}' of module {module._get_name()} has to be pruned before pruning can be "
        f"removed; pruned there: {pruned}"
    )


def is_pruned(module: Any) -> bool:
    """Whether a parameter of a module, or of one inside it, is pruned.

    >>> import rushlight as torch
    >>> from rushlight.nn.utils import prune
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 2))
    >>> before, _ = prune.is_pruned(net), prune.identity(net[0], "weight")
    >>> before, prune.is_pruned(net)
    (False, True)
    """
    return any(
        isinstance(hook, BasePruningMethod)
        for each in module.modules()
        for hook in each._forward_pre_hooks.values()
    )
