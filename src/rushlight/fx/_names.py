"""How programs name what a graph calls, and the form in which a call is written down.

The text of a graph is PyTorch's: ``torch.add``, ``torch.nn.functional.relu(x, inplace = False)``.
PyTorch's own functions come in two kinds. Those in C++ are written as they were called. Those in
Python fill in their defaults before a tracer sees them: what must be given stays positional,
everything else is a keyword. Which is which cannot be read off our functions, so it is stated here.
"""

from __future__ import annotations

import builtins
import inspect
import re
import sys
import types
from functools import cache
from typing import Any

import rushlight
from rushlight import _C
from rushlight._C import Tensor
from rushlight.nn import functional as F

# Names of nn.functional that stand for functions in C++, by the module these are said to be in.
_CORE_FUNCTIONAL = {
    "torch": frozenset(
        [
            "adaptive_avg_pool1d",
            "avg_pool1d",
            "bilinear",
            "celu_",
            "channel_shuffle",
            "conv1d",
            "conv2d",
            "conv3d",
            "conv_tbc",
            "conv_transpose1d",
            "conv_transpose2d",
            "conv_transpose3d",
            "cosine_similarity",
            "hardshrink",
            "native_channel_shuffle",
            "pairwise_distance",
            "pdist",
            "pixel_shuffle",
            "pixel_unshuffle",
            "prelu",
            "relu_",
            "rrelu_",
            "selu_",
            "threshold_",
        ]
    ),
    "torch._C._nn": frozenset(
        [
            "avg_pool2d",
            "avg_pool3d",
            "elu_",
            "gelu",
            "hardtanh_",
            "leaky_relu_",
            "linear",
            "logsigmoid",
            "one_hot",
            "scaled_dot_product_attention",
            "softplus",
            "softshrink",
        ]
    ),
}
# Names of the top namespace that stand for functions in Python.
_PYTHON_TOP = frozenset(
    [
        "atleast_1d",
        "atleast_2d",
        "atleast_3d",
        "block_diag",
        "broadcast_tensors",
        "cartesian_prod",
        "cdist",
        "chain_matmul",
        "einsum",
        "lu",
        "meshgrid",
        "norm",
        "split",
        "stft",
        "tensordot",
        "unique",
        "unique_consecutive",
        "unravel_index",
    ]
)
# Functions that are known by another name inside.
_INNER_NAMES = {"threshold": "_threshold", "logsigmoid": "log_sigmoid"}
_OUTER_NAMES = {inner: outer for outer, inner in _INNER_NAMES.items()}
# Keywords that are written down with the others though our signature lists no such argument, after
# the one named; and keywords that are not.
_EXTRA_KEYWORDS = {"norm": ("keepdim", "out"), "tensordot": ("dims", "out")}
_SILENT_KEYWORDS = {"l1_loss": "weight"}
# Python functions that call the method of the same name.
_CALLS_METHOD = frozenset({"sigmoid", "tanh"})

Op: Any = type(rushlight.relu)

_OURS = re.compile(r"(rushlight|torch)(\.|$)")


def is_ours(module: str | None) -> bool:
    """Whether a module's name says that it is part of the library."""
    return module is not None and _OURS.match(module) is not None


def public_module(module: str) -> str:
    """A module's name with ``torch`` for ``rushlight``."""
    return "torch" + module[9:] if _OURS.match(module) and module[0] == "r" else module


class _Gathered(types.ModuleType):
    """A part of ``torch._C``: the functions of a namespace under their inner names."""

    def __init__(self, part: str) -> None:
        super().__init__(f"{_C.__name__}._{part}")
        self._part, self.__path__ = part, []

    def __getattr__(self, name: str) -> Any:
        if self._part == "nn":
            if name == "_parse_to":
                from rushlight.nn.modules.module import _parse_to

                return _parse_to
            return getattr(F, _OUTER_NAMES.get(name, name))
        if not name.startswith(f"{self._part}_"):
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
        return getattr(getattr(rushlight, self._part), name[len(self._part) + 1 :])


def gather_parts() -> None:
    """Makes ``torch._C._nn`` and its kin, which the text of graphs refers to."""
    for part in ("nn", "linalg", "special", "fft"):
        if not hasattr(_C, f"_{part}"):
            module = _Gathered(part)
            setattr(_C, f"_{part}", module)
            sys.modules.setdefault(module.__name__, module)


gather_parts()


def is_method(function: Any) -> bool:
    """Whether it is an attribute of Tensor, not of a namespace."""
    name = getattr(function, "__name__", None)
    return isinstance(name, str) and vars(Tensor).get(name) is function


def is_shared(function: Any) -> bool:
    """Whether a method of Tensor is also a function of the top namespace, as in-place ops are."""
    return vars(rushlight).get(function.__name__) is function


def _of_op(op: Any) -> str:
    """PyTorch's full name of one of our ops."""
    module, name = public_module(op.__module__), op.__name__
    inner = _INNER_NAMES.get(name, name)
    if is_method(op) and not is_shared(op):
        return f"torch.Tensor.{name}"
    if module == "torch.nn.functional":
        home = next((m for m, names in _CORE_FUNCTIONAL.items() if name in names), module)
        return f"{home}.{inner}"
    if module == "torch" and name in _PYTHON_TOP:
        return f"torch.functional.{name}"
    head, _, part = module.rpartition(".")
    if head == "torch" and part in ("linalg", "special", "fft"):
        return f"torch._C._{part}.{part}_{name}"
    return f"{module}.{name}"


def qualified_name(function: Any) -> str:
    """The full name under which the text of a graph refers to a function or class."""
    name: str = function.__name__
    if getattr(builtins, name, None) is function:
        return name
    module = getattr(function, "__module__", None)
    if name == "<lambda>":
        try:
            name = inspect.getsource(function).split("=")[0].strip()
        except Exception as error:
            raise RuntimeError("Unable to represent lambda") from error
    if isinstance(function, Op):
        return _of_op(function)
    if module is not None and is_ours(module):
        for place, home in ((F, "torch.nn.functional"), (rushlight, "torch")):
            if vars(place).get(name) is function:
                core = name in _CORE_FUNCTIONAL["torch"] and place is F
                return f"{'torch' if core else home}.{name}"
    if is_method(function):
        return f"torch.Tensor.{name}"
    if module is None:
        raise RuntimeError(f"cannot find module for {function}")
    return f"{public_module(module)}.{name}"


def _default(text: str) -> Any:
    words = {"None": None, "True": True, "False": False, "inf": float("inf")}
    if text in words:
        return words[text]
    if text[0] in "'\"":
        return text[1:-1]
    return float(text) if re.search(r"[.e]", text) else int(text)


def op_parameters(op: Any) -> list[list[inspect.Parameter]]:
    """What an op takes, for each of its signatures; the type is the annotation, as text."""
    found = []
    for line in (op.__doc__ or "").split("\n\n")[0].splitlines():
        if not line.startswith(f"{op.__name__.rstrip('_')}("):
            continue
        kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
        row: list[inspect.Parameter] = []
        for text in re.split(r",\s*(?![^()]*\))", line[line.index("(") + 1 : line.rindex(")")]):
            if text == "*":
                kind = inspect.Parameter.KEYWORD_ONLY
                continue
            annotation, _, rest = text.partition(" ")
            name, equals, default = rest.partition("=")
            spread = inspect.Parameter.VAR_POSITIONAL
            row.append(
                inspect.Parameter(
                    name,
                    spread if annotation == "tensors" else kind,
                    default=_default(default) if equals else inspect.Parameter.empty,
                    annotation=annotation,
                )
            )
            if annotation == "tensors":
                kind = inspect.Parameter.KEYWORD_ONLY
        found.append(row)
    return found


@cache
def _filled_in(function: Any) -> tuple[inspect.Signature, ...] | None:
    """The signatures of an op that writes its defaults down; None: it does not."""
    if not isinstance(function, Op) or is_method(function):
        return None
    home = _of_op(function).rpartition(".")[0]
    if home not in ("torch.nn.functional", "torch.functional"):
        return None
    rows = op_parameters(function)
    for row in rows:
        row[:] = [p for p in row if p.annotation != "Generator?"]
        row[:] = [p for p in row if p.name != _SILENT_KEYWORDS.get(function.__name__)]
        after, extra = _EXTRA_KEYWORDS.get(function.__name__, ("", ""))
        at = next((i for i, p in enumerate(row, 1) if p.name == after), None)
        if at is not None:
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
            row.insert(at, inspect.Parameter(extra, kind, default=None))
    return tuple(inspect.Signature(row) for row in rows)


def written_form(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call as they are written down."""
    for signature in _filled_in(function) or ():
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            continue
        bound.apply_defaults()
        given: list[Any] = []
        named: dict[str, Any] = {}
        for name, parameter in signature.parameters.items():
            value = bound.arguments[name]
            if parameter.kind is parameter.VAR_POSITIONAL:
                listed = len(value) == 1 and isinstance(value[0], (list, tuple))
                given.extend(value[0] if listed and function is rushlight.einsum else value)
            elif parameter.default is parameter.empty:
                given.append(value)
            else:
                named[name] = value
        return tuple(given), named
    return args, kwargs


def calls_method(function: Any) -> bool:
    """Whether a function of ``nn.functional`` only calls the tensor's method of the same name."""
    return (
        isinstance(function, Op)
        and function.__name__ in _CALLS_METHOD
        and function.__module__.endswith(".functional")
    )
