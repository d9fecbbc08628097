"""How a tensor prints: `repr(tensor)` and `set_printoptions`.

The values that will be seen are taken out of the tensor first, as nested lists in which `_GAP`
stands for what a summary leaves out. A `_Style` per component (a complex number has two) is chosen
from all of them; then the lists are laid out in lines.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from rushlight import _C

__all__ = ["get_printoptions", "printoptions", "set_printoptions", "tensor_repr"]


@dataclass(frozen=True)
class _Options:
    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES = {
    "default": _Options(),
    "short": _Options(precision=2, edgeitems=2),
    "full": _Options(threshold=math.inf),
}
_options = _PROFILES["default"]

_GAP = object()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Sets how tensors print.

    precision: digits after the point. threshold: tensors of more elements are summarised.
    edgeitems: what a summary keeps at each end of a dimension. linewidth: characters per line.
    profile: 'default', 'short' or 'full', the base that the other arguments change.
    sci_mode: scientific notation always (True), never (False), or as the values need (None).
    """
    global _options
    base = _options
    if profile is not None:
        if profile not in _PROFILES:
            known = ", ".join(map(repr, _PROFILES))
            raise ValueError(f"set_printoptions: unknown profile {profile!r}: expected {known}")
        base = _PROFILES[profile]
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    changes: dict[str, Any] = {k: v for k, v in given.items() if v is not None}
    _options = replace(base, sci_mode=sci_mode, **changes)


def get_printoptions() -> dict[str, Any]:
    """The options now in force, as keyword arguments of `set_printoptions`."""
    return asdict(_options)


@contextmanager
def printoptions(**kwargs: Any) -> Iterator[None]:
    """`set_printoptions(**kwargs)` for the length of a `with` block."""
    with _C._Scope(("items", ((globals(), "_options", _options),))):
        set_printoptions(**kwargs)
        yield


class _InForce:
    """The options now in force, to read and to set, as libraries do with ``PRINT_OPTS``."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_options, name)

    def __setattr__(self, name: str, value: Any) -> None:
        global _options
        _options = replace(_options, **{name: value})


PRINT_OPTS = _InForce()


# -- values ---------------------------------------------------------------------------------------


def _seen_values(t: Any, summary: bool) -> Any:
    """The values to print: a number, or nested lists with `_GAP` where a summary skips."""
    if not summary or t.dim() == 0:
        return t.tolist()
    edge, size = _options.edgeitems, t.shape[0]
    if size <= 2 * edge:
        return t.tolist() if t.dim() == 1 else [_seen_values(row, summary) for row in t]
    if t.dim() == 1:
        return [*t[:edge].tolist(), _GAP, *t[size - edge :].tolist()]
    head = [_seen_values(t[i], summary) for i in range(edge)]
    tail = [_seen_values(t[i], summary) for i in range(size - edge, size)]
    return [*head, _GAP, *tail]


def _flat(values: Any) -> Iterator[Any]:
    if isinstance(values, list):
        for v in values:
            yield from _flat(v)
    elif values is not _GAP:
        yield values


# -- numbers --------------------------------------------------------------------------------------


@dataclass
class _Style:
    """One way to write every number of a tensor, and the width it takes."""

    width: int
    write: Callable[[Any], str]

    def __call__(self, value: Any) -> str:
        return self.write(value).rjust(self.width)


def _scientific(x: float) -> str:
    return f"{x:.{_options.precision}e}"


def _fixed(x: float) -> str:
    return f"{x:.{_options.precision}f}"


def _whole(x: float) -> str:
    return f"{x:.0f}." if math.isfinite(x) else f"{x:.0f}"


def _float_style(values: list[float]) -> _Style:
    # Zeros, infinities and nans say nothing about the scale: they take what room there is.
    telling = [x for x in values if math.isfinite(x) and x != 0]
    if not telling:
        return _Style(1, _whole)
    plain = _whole if all(x == math.ceil(x) for x in telling) else _fixed
    largest, smallest = max(map(abs, telling)), min(map(abs, telling))
    spread = largest / smallest > 1000 or largest > 1e8 or (plain is _fixed and smallest < 1e-4)
    wanted = spread if _options.sci_mode is None else _options.sci_mode
    write = _scientific if wanted else plain
    return _Style(max(len(write(x)) for x in telling), write)


def _style(values: list[Any]) -> _Style:
    if values and isinstance(values[0], float):
        return _float_style(values)
    return _Style(max((len(str(v)) for v in values), default=1), str)


def _complex_style(values: list[complex]) -> _Style:
    real = _float_style([z.real for z in values])
    imag = _float_style([z.imag for z in values])

    def write(z: complex) -> str:
        tail = imag(z.imag).lstrip() + "j"
        return real(z.real) + (tail if tail[0] == "-" else "+" + tail)

    return _Style(real.width + imag.width + 1, write)


# -- layout ---------------------------------------------------------------------------------------


def _lay_out(values: Any, write: Callable[[Any], str], width: int, depth: int, indent: int) -> str:
    """`values`, nested `depth` deep, in brackets; lines after the first start at `indent`."""
    if depth == 0:
        return write(values)
    newline = "\n" + " " * (indent + 1)
    if depth > 1:
        rows = [
            "..." if v is _GAP else _lay_out(v, write, width, depth - 1, indent + 1) for v in values
        ]
        return "[" + ("," + "\n" * (depth - 2) + newline).join(rows) + "]"
    gap = " ..." if len(values) > 1 else "..."
    cells = [gap if v is _GAP else write(v) for v in values]
    per_line = max(1, (_options.linewidth - indent) // (width + 2))
    lines = [", ".join(cells[i : i + per_line]) for i in range(0, len(cells), per_line)]
    return "[" + ("," + newline).join(lines) + "]"


def _body(t: Any, indent: int) -> str:
    if t.is_meta:
        return "..."
    if t.numel() == 0:
        return "[]"
    values = _seen_values(t, t.numel() > _options.threshold)
    numbers = list(_flat(values))
    if not numbers:
        numbers = [t.reshape(-1)[0].item()]
    if isinstance(numbers[0], complex):
        style = _complex_style(numbers)
        # The room of the whole number is counted, but each half is aligned by itself.
        return _lay_out(values, style.write, style.width, t.dim(), indent)
    if t.dtype is _C.float8_e8m0fnu:  # has no 0: its least number stands for it
        numbers = [x for x in numbers if x != 2.0**-127]
    style = _style(numbers) if numbers else _Style(1, _whole)
    return _lay_out(values, style, style.width, t.dim(), indent)


_tensor_str = _body  # by the name that libraries know

# -- the tensor -----------------------------------------------------------------------------------


def _implied_dtypes() -> tuple[str, set[str]]:
    """The default dtype, and all dtypes that a literal of the printed values would give."""
    import rushlight

    default = str(rushlight.get_default_dtype())
    paired = "torch.complex128" if default == "torch.float64" else "torch.complex64"
    return default, {default, paired, "torch.int64", "torch.bool"}


def _facts(t: Any) -> Iterator[str]:
    """What is said after the values."""
    device = t.device
    if device.type != "cpu":
        yield f"device='{device}'"
    default, implied = _implied_dtypes()
    dtype = str(t.dtype)
    empty = t.numel() == 0
    # Sizes that the brackets do not show.
    if t.is_meta or (empty and t.dim() != 1) or (not empty and _options.edgeitems == 0):
        yield f"size={tuple(t.shape)}"
    if dtype != default if empty or t.is_meta else dtype not in implied:
        yield f"dtype={dtype}"


def _history(t: Any) -> str | None:
    try:
        node = t.grad_fn
    except RuntimeError:
        return "grad_fn=<Invalid>"
    if node is not None:
        name = getattr(node, "name", None)
        return f"grad_fn=<{name() if callable(name) else type(node).__name__}>"
    return "requires_grad=True" if t.requires_grad else None


def _tangent(t: Any) -> Iterator[str]:
    if _C._is_dual(t):
        from rushlight.autograd import forward_ad

        tangent = forward_ad.unpack_dual(t).tangent
        if tangent is not None:
            yield f"tangent={tensor_repr(tangent)}"


def _batched_repr(t: Any, levels: Any, name: str) -> str:
    """A tensor inside vmap: all its samples, under dimensions of their own."""
    shown = t.detach()
    for level, size in reversed(levels):
        shown = _C._namespaces[""]["_remove_batch_dim"](shown, level, size, 0)
    counts = " x ".join(str(size) for _, size in levels)
    return f"{name}(batched, {counts} samples: {tensor_repr(shown)})"


def _add_suffixes(text: str, facts: list[str], indent: int, force_newline: bool) -> str:
    """The text with facts behind it and a bracket, on new lines where they do not fit."""
    # The line of the last values counts two characters more than it has: torch breaks there.
    used = len(text) - text.rfind("\n") + 1
    for fact in facts:
        if force_newline or used + len(fact) + 2 > _options.linewidth:
            text += ",\n" + " " * indent + fact
            used, force_newline = indent + len(fact), False
        else:
            text += ", " + fact
            used += len(fact) + 2
    return text + ")"


def tensor_repr(t: Any, *, name: str = "tensor", contents: str | None = None) -> str:
    """The text of a tensor, as `name(values, facts)`."""
    dispatch = sys.modules.get("rushlight.utils._python_dispatch")
    if dispatch is not None and dispatch.modes():  # which are not asked about printing
        with dispatch._disable_current_modes():
            return tensor_repr(t, name=name, contents=contents)
    if levels := _C._batch_sizes(t):
        return _batched_repr(t, levels, name)
    prefix = name + "("
    indent = len(prefix)
    history = _history(t)
    plain = t.detach()
    text = prefix + (_body(plain, indent) if contents is None else contents)
    facts = [*_facts(plain), *([history] if history else []), *_tangent(t)]
    return _add_suffixes(text, facts, indent, force_newline=False)


def _str_intern(t: Any, *, tensor_contents: str | None = None) -> str:
    """The text of a tensor, with other values where they are given."""
    name = "tensor" if type(t) is _C.Tensor else type(t).__name__
    return tensor_repr(t, name=name, contents=tensor_contents)
