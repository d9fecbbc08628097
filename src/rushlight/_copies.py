# ruff: noqa: F822
"""Copies of what views show, and parts that share nothing."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor
from rushlight._composed import _into

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = [
    "alias_copy", "as_strided_copy", "detach_copy", "expand_copy", "narrow_copy",
    "permute_copy", "select_copy", "slice_copy", "split_copy", "split_with_sizes",
    "split_with_sizes_copy", "squeeze_copy", "t_copy", "transpose_copy", "unbind_copy",
    "unfold_copy", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes", "unsqueeze_copy",
    "view_as_complex_copy", "view_as_real_copy", "view_copy",
]  # fmt: skip

_ops = _C._namespaces[""]


def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> Any:
    """Parts of these sizes.

    >>> import rushlight as torch
    >>> torch.split_with_sizes(torch.arange(3), [1, 2])
    (tensor([0]), tensor([1, 2]))
    """
    return input.split(list(split_sizes), dim)


def _copies(result: Any) -> Any:
    return tuple(t.clone() for t in result) if isinstance(result, tuple) else result.clone()


# What the docstring of each shows, of x = torch.arange(6.0).reshape(3, 2).
_EXAMPLES = {
    "alias": ("tuple(torch.alias_copy(x).shape)", "(3, 2)"),
    "as_strided": ("tuple(torch.as_strided_copy(x, (2, 2), (1, 2)).shape)", "(2, 2)"),
    "detach": ("tuple(torch.detach_copy(x).shape)", "(3, 2)"),
    "expand": ("tuple(torch.expand_copy(x, (4, 3, 2)).shape)", "(4, 3, 2)"),
    "narrow": ("tuple(torch.narrow_copy(x, 0, 1, 2).shape)", "(2, 2)"),
    "permute": ("tuple(torch.permute_copy(x, (1, 0)).shape)", "(2, 3)"),
    "select": ("tuple(torch.select_copy(x, 0, 1).shape)", "(2,)"),
    "slice": ("tuple(torch.slice_copy(x, 0, 1).shape)", "(2, 2)"),
    "split": ("[tuple(part.shape) for part in torch.split_copy(x, 2)]", "[(2, 2), (1, 2)]"),
    "split_with_sizes": (
        "[tuple(part.shape) for part in torch.split_with_sizes_copy(x, [1, 2])]",
        "[(1, 2), (2, 2)]",
    ),
    "squeeze": ("tuple(torch.squeeze_copy(x).shape)", "(3, 2)"),
    "t": ("tuple(torch.t_copy(x).shape)", "(2, 3)"),
    "transpose": ("tuple(torch.transpose_copy(x, 0, 1).shape)", "(2, 3)"),
    "unbind": ("[tuple(part.shape) for part in torch.unbind_copy(x)]", "[(2,), (2,), (2,)]"),
    "unfold": ("tuple(torch.unfold_copy(x, 0, 2, 1).shape)", "(2, 2, 2)"),
    "unsqueeze": ("tuple(torch.unsqueeze_copy(x, 0).shape)", "(1, 3, 2)"),
    "view_as_complex": ("tuple(torch.view_as_complex_copy(x).shape)", "(3,)"),
    "view_as_real": ("tuple(torch.view_as_real_copy(x.to(torch.complex64)).shape)", "(3, 2, 2)"),
    "view": ("tuple(torch.view_copy(x, (2, 3)).shape)", "(2, 3)"),
}


def _copying(name: str) -> Any:
    method = name.removesuffix("_copy")

    def copy(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        result: Any
        if method == "alias":
            result = input.view_as(input)
        elif method == "slice":
            return _into(out, _slice(input, *args, **kwargs).clone(), name, exact=True)
        elif method in ("view_as_real", "view_as_complex", "as_strided"):
            result = _ops[method](input, *args, **kwargs)
        elif method == "split_with_sizes":
            result = split_with_sizes(input, *args, **kwargs)
        elif method == "detach":
            result = input.detach()
        elif method == "unfold":
            result = input.unfold(*args, **kwargs)
        else:
            result = getattr(input, method)(*args, **kwargs)
        if out is not None and isinstance(result, (tuple, list)):
            for into, part in zip(out, result, strict=True):
                _into(into, part, name, exact=True)
            return None
        return _into(out, _copies(result), name, exact=True)

    copy.__name__ = copy.__qualname__ = name
    call, shown = _EXAMPLES[method]
    copy.__doc__ = f"""A copy of what ``{method}`` shows.

    >>> import rushlight as torch
    >>> x = torch.arange(6.0).reshape(3, 2)
    >>> {call}
    {shown}
    """
    return copy


def _slice(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return x[(slice(None),) * (dim % x.dim()) + (slice(start, end, step),)]


for _name in __all__:
    if _name.endswith("_copy"):
        globals()[_name] = _copying(_name)


def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> Any:
    """``chunk``, whose parts may be written to: writes here are always seen.

    >>> import rushlight as torch
    >>> torch.unsafe_chunk(torch.arange(4), 2)
    (tensor([0, 1]), tensor([2, 3]))
    """
    return input.chunk(chunks, dim)


def unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> Any:
    """``split``, whose parts may be written to: writes here are always seen.

    >>> import rushlight as torch
    >>> torch.unsafe_split(torch.arange(3), 2)
    (tensor([0, 1]), tensor([2]))
    """
    return input.split(split_size, dim)


unsafe_split_with_sizes = split_with_sizes
