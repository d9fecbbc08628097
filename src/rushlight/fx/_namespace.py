"""The names in generated code: which are free, and what they stand for."""

from __future__ import annotations

import builtins
import keyword
import math
import re
from typing import Any, NamedTuple

import rushlight
from rushlight.fx import _names
from rushlight.fx import _pytree as fx_pytree
from rushlight.utils import _pytree as pytree


class _CustomBuiltin(NamedTuple):
    """A name that every generated function may use, and how a file gets it."""

    import_str: str
    obj: Any


# Names that no local of a generated function may have, unless it is that very object.
_illegal_names: dict[str, Any] = {k: object() for k in keyword.kwlist} | vars(builtins)
_custom_builtins: dict[str, _CustomBuiltin] = {}


def _register_custom_builtin(name: str, import_str: str, obj: Any) -> None:
    _custom_builtins[name] = _CustomBuiltin(import_str, obj)
    _illegal_names[name] = obj


_register_custom_builtin("inf", "from math import inf", math.inf)
_register_custom_builtin("nan", "from math import nan", math.nan)
_register_custom_builtin("NoneType", "NoneType = type(None)", type(None))
_register_custom_builtin("torch", "import rushlight as torch", rushlight)
_register_custom_builtin("device", "from rushlight import device", rushlight.device)
_register_custom_builtin("fx_pytree", "import rushlight.fx._pytree as fx_pytree", fx_pytree)
_register_custom_builtin("pytree", "import rushlight.utils._pytree as pytree", pytree)


def _is_magic(x: str) -> bool:
    return x.startswith("__") and x.endswith("__")


def _snake_case(s: str) -> str:
    """``someName`` as ``some_name``."""
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", s).lower()


def _is_from_torch(obj: Any) -> bool:
    """Whether generated code reaches an object as ``torch.``something."""
    if isinstance(obj, _names.Op) and obj.__name__.startswith("_"):
        return vars(rushlight).get(obj.__name__) is obj  # most of these are inner ones
    return _names.is_ours(getattr(obj, "__module__", None)) or _names.is_method(obj)


class _Namespace:
    """Names for objects: one for each, none twice."""

    def __init__(self) -> None:
        self._obj_to_name: dict[Any, str] = {}
        self._used_names: set[str] = set()
        self._base_count: dict[str, int] = {}

    def create_name(self, candidate: str, obj: Any) -> str:
        """A free name like `candidate`; the one that `obj` has already, if any."""
        if obj is not None and obj in self._obj_to_name:
            return self._obj_to_name[obj]
        if not re.fullmatch(r"[a-zA-Z_][0-9a-zA-Z_]*", candidate):
            candidate = re.sub("[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
            if candidate[0].isdigit():
                candidate = f"_{candidate}"
        numbered = re.fullmatch(r"(.+?)_(\d+)", candidate)
        base = numbered[1] if numbered else candidate
        if numbered and candidate not in self._used_names:
            count = int(numbered[2])
        else:
            count = self._base_count.get(base, 0)
            if _illegal_names.get(candidate, obj) is not obj:
                count += 1
                candidate = f"{base}_{count}"
        while candidate in self._used_names:
            count += 1
            candidate = f"{base}_{count}"
        self._used_names.add(candidate)
        self._base_count[base] = count
        if obj is not None:
            self._obj_to_name[obj] = candidate
        return candidate

    def associate_name_with_obj(self, name: str, obj: Any) -> None:
        """Gives a name to an object that has none."""
        if self._obj_to_name.setdefault(obj, name) is not name:
            raise AssertionError("obj is already associated")

    def _rename_object(self, obj: Any, name: str) -> None:
        if obj not in self._obj_to_name:
            raise AssertionError(f"Object {obj} is not in _obj_to_name")
        self._obj_to_name[obj] = name
        self._used_names.add(name)
