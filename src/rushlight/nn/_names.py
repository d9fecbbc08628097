"""Names that models give to their parts, for messages.

Nothing is kept while programs run: a message looks for its tensor or module in the live modules.
"""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

    from rushlight.nn.modules.module import Module


def _parents() -> dict[int, tuple[Module, str]]:
    """For each live submodule its parent and its name there."""
    found: dict[int, tuple[Module, str]] = {}
    for parent in _C._live_modules():
        for name, module in parent.__dict__.get("_modules", {}).items():
            if module is not None:
                found.setdefault(id(module), (parent, name))
    return found


def path_of(module: Module) -> tuple[str, Module]:
    """The qualified name of a module within the outermost one that holds it, and that one."""
    parents = _parents()
    names: list[str] = []
    seen = {id(module)}
    while id(module) in parents:
        parent, name = parents[id(module)]
        if id(parent) in seen:
            break
        seen.add(id(parent))
        names.append(name)
        module = parent
    return ".".join(reversed(names)), module


def _owner(tensor: Tensor) -> tuple[Module, str, str] | None:
    """The module that holds a tensor or one on the same memory, the name and the kind."""
    for module in _C._live_modules():
        for kind in ("_parameters", "_buffers"):
            for name, member in module.__dict__.get(kind, {}).items():
                if member is not None and member._is_same_storage(tensor):
                    return module, name, kind[1:-1]
    return None


def qualified_name(tensor: Tensor) -> str | None:
    """``encoder.layers.3.linear1.weight``, or None for a tensor that no module holds."""
    owner = _owner(tensor)
    if owner is None:
        return None
    path, _ = path_of(owner[0])
    return f"{path}.{owner[1]}" if path else owner[1]


def parameter_text(tensor: Tensor) -> str:
    """``parameter 'encoder.weight' of Model``; empty for a tensor that no module holds."""
    owner = _owner(tensor)
    if owner is None:
        return ""
    path, root = path_of(owner[0])
    name = f"{path}.{owner[1]}" if path else owner[1]
    return f"{owner[2]} '{name}' of {type(root).__name__}"


def _module_text(module: Module) -> str:
    path, _ = path_of(module)
    own = f"{module._get_name()}({module.extra_repr()})"
    own = own if "\n" not in own and len(own) < 120 else f"{module._get_name()}(...)"
    return f"{path} ({own})" if path else own


def _maker_in_graph(node: Any) -> str:
    """The module whose parameters are nearest in the history of a tensor."""
    level = [node]
    for word in ("by", *["after"] * 8):
        below = [n for each in level for n, _ in each.next_functions if n is not None]
        for leaf in below:
            variable = getattr(leaf, "variable", None)
            owner = None if variable is None else _owner(variable)
            if owner is not None:
                return f" made {word} {_module_text(owner[0])}"
        level = below[:16]
    return ""


def _maker(tensor: Tensor) -> str:
    """Which module made a tensor, as far as the graph or the last calls tell."""
    if tensor.grad_fn is not None:
        return _maker_in_graph(tensor.grad_fn)
    for module_id, result_id in _C._returned_modules():
        if result_id == id(tensor):
            for module in _C._live_modules():
                if id(module) == module_id and not module._modules:
                    return f" made by {_module_text(module)}"
    return ""


def annotate(error: BaseException, module: Module, args: tuple[Any, ...]) -> None:
    """Notes on an error which module it came from, its inputs and who made them; once."""
    if any(note.startswith("in module ") for note in getattr(error, "__notes__", ())):
        return
    tensors = [a for a in args if isinstance(a, Tensor)]
    text = f"in module {_module_text(module)}"
    if tensors:
        inputs = [f"{list(t.shape)}{_maker(t)}" for t in tensors]
        text += f", input of shape {', '.join(inputs)}"
    error.add_note(text)
