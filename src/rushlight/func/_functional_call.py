"""Calling a module with other parameters than its own."""

from __future__ import annotations

from rushlight import _C

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from rushlight.nn import Module


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: dict[str, Any] | Sequence[dict[str, Any]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Calls a module with tensors in the place of its parameters and buffers, given by name.

    The module is unchanged afterwards. With `tie_weights`, a tensor given for one name of a shared
    parameter stands for all of them; with `strict`, every name must be given and known.

    >>> import rushlight as torch
    >>> layer = torch.nn.Linear(2, 1, bias=False)
    >>> torch.func.functional_call(layer, {"weight": torch.ones(1, 2)}, (torch.tensor([3.0, 4.0]),))
    tensor([7.])
    """
    given: dict[str, Any] = {}
    if not isinstance(parameter_and_buffer_dicts, (dict, list, tuple)):
        raise ValueError(
            "functional_call: Expected parameter_and_buffer_dicts to be a dict, or a list/tuple "
            f"of dicts, but got {type(parameter_and_buffer_dicts)}"
        )
    dicts = (
        [parameter_and_buffer_dicts]
        if isinstance(parameter_and_buffer_dicts, dict)
        else list(parameter_and_buffer_dicts)
    )
    for one in dicts:
        for name in one:
            if name in given:
                raise ValueError(
                    f"{name} appears in multiple dictionaries; behavior of functional call is "
                    "ambiguous"
                )
        given.update(one)
    places = _places(module)
    _check_names(places, given, strict)
    if tie_weights:
        given = _tied(places, given)
    places |= {name: _new_place(module, name) for name in given if name not in places}
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with _C._Scope(("items", tuple((*places[name], value) for name, value in given.items()))):
        return module(*args, **(kwargs or {}))


def _new_place(module: Module, name: str) -> tuple[dict[str, Any], str]:
    """Where a tensor goes that the module does not have: an attribute, for the call."""
    prefix, _, key = name.rpartition(".")
    return module.get_submodule(prefix).__dict__, key


def _places(module: Module) -> dict[str, tuple[dict[str, Any], str]]:
    """Where each parameter and buffer is held, by qualified name."""
    places = {}
    for prefix, owner in module.named_modules(remove_duplicate=False):
        for holder in (owner._parameters, owner._buffers):
            for key, value in holder.items():
                if value is not None:
                    places[f"{prefix}.{key}" if prefix else key] = (holder, key)
    return places


def _check_names(places: dict[str, Any], given: dict[str, Any], strict: bool) -> None:
    unknown = [name for name in given if name not in places]
    missing = [name for name in places if name not in given]
    if strict and (unknown or missing):
        raise RuntimeError(
            "Error(s) in loading state: "
            + "; ".join(
                f"{what} key(s): {', '.join(names)}"
                for what, names in (("Unexpected", unknown), ("Missing", missing))
                if names
            )
            + "."
        )
    for name, value in given.items():
        if not isinstance(value, _C.Tensor):
            raise TypeError(f"functional_call: {name} must be a Tensor, got {type(value).__name__}")


def _tied(places: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    shared: dict[int, list[str]] = {}
    for name, (holder, key) in places.items():
        shared.setdefault(id(holder[key]), []).append(name)
    tied = dict(given)
    for names in shared.values():
        values = [given[name] for name in names if name in given]
        if len({id(v) for v in values}) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(names)}, which are tied. "
                "Consider using tie_weights=False"
            )
        if values:
            tied.update(dict.fromkeys(names, values[0]))
    return tied


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the buffers of several equal models, stacked: for vmap over an ensemble.

    >>> import rushlight as torch
    >>> models = [torch.nn.Linear(2, 1) for _ in range(3)]
    >>> parameters, buffers = torch.func.stack_module_state(models)
    >>> parameters["weight"].shape
    torch.Size([3, 1, 2])
    """
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({type(m) for m in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    if not (all(m.training for m in models) or not any(m.training for m in models)):
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    stack = _C._namespaces[""]["stack"]

    def stacked(name: str, tensors: list[Any]) -> Any:
        wanting = {t.requires_grad for t in tensors}
        if len(wanting) > 1:
            raise RuntimeError(f"Expected {name!r} from each model to have the same .requires_grad")
        return stack([t.detach() for t in tensors]).requires_grad_(wanting.pop())

    def gather(kind: Any) -> dict[str, Any]:
        columns = [dict(kind(model)) for model in models]
        return {name: stacked(name, [c[name] for c in columns]) for name in columns[0]}

    return gather(_parameters), gather(_buffers)


def _parameters(model: Module) -> Iterator[tuple[str, Any]]:
    return model.named_parameters()


def _buffers(model: Module) -> Iterator[tuple[str, Any]]:
    return model.named_buffers()
