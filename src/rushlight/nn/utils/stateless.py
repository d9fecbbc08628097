"""Calling a module with other parameters than its own."""

from __future__ import annotations

from contextlib import contextmanager

from rushlight import _C

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rushlight import Tensor
    from rushlight.nn.modules.module import Module

__all__ = ["functional_call"]


def _places(module: Module) -> dict[str, tuple[dict[str, Any], str]]:
    """For each qualified name the dict that holds the tensor, and its key there."""
    return {
        f"{path}.{key}" if path else key: (members, key)
        for path, each in module.named_modules(remove_duplicate=False)
        for members in (each._parameters, each._buffers)
        for key in members
        if members[key] is not None
    }


def _with_tied(
    places: dict[str, tuple[dict[str, Any], str]], given: dict[str, Tensor]
) -> dict[str, Tensor]:
    """The given tensors also under the other names of the tensors they replace."""
    names: dict[int, list[str]] = {}
    for name, (members, key) in places.items():
        names.setdefault(id(members[key]), []).append(name)
    result = dict(given)
    for tied in names.values():
        values = {id(given[n]): given[n] for n in tied if n in given}
        if len(values) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(tied)}, which are tied. "
                "Consider using tie_weights=False"
            )
        for value in values.values():
            result.update(dict.fromkeys(tied, value))
    return result


@contextmanager
def _reparametrize_module(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    *,
    tie_weights: bool = False,
    strict: bool = False,
) -> Iterator[None]:
    places = _places(module)
    given = _with_tied(places, parameters_and_buffers) if tie_weights else parameters_and_buffers
    unexpected = [name for name in given if name not in places]
    missing = [name for name in places if name not in given]
    if strict and (unexpected or missing):
        lines = [
            f"{what} key(s): {', '.join(map(repr, names))}."
            for what, names in (("Unexpected", unexpected), ("Missing", missing))
            if names
        ]
        text = "\n\t".join(lines)
        raise RuntimeError(f"Error(s) in reparametrizing for {module._get_name()}:\n\t{text}")
    own = [name for name in given if name in places]
    with _C._Scope(("items", tuple((*places[name], given[name]) for name in own))):
        try:
            yield
        finally:
            for name in own:
                members, key = places[name]
                if name in parameters_and_buffers:  # forward may have replaced a buffer
                    parameters_and_buffers[name] = members[key]


def _functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with _reparametrize_module(
        module, parameters_and_buffers, tie_weights=tie_weights, strict=strict
    ):
        return module(*args, **(kwargs or {}))


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Deprecated: use ``rushlight.func.functional_call``."""
    import warnings

    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be "
        "removed in a future version of PyTorch. Please use `torch.func.functional_call` instead "
        "which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return _functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
