"""``torch.ops``: namespaces, ops by name and their overloads."""

from __future__ import annotations

import sys
from types import ModuleType

from rushlight._operators.schema import FunctionSchema

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any


class OperatorBase:
    """What can be called by a name of ``torch.ops``."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


class OpOverload(OperatorBase):
    """One signature of an op: ``torch.ops.aten.add.Tensor``."""

    def __init__(
        self, packet: OpOverloadPacket, schema: FunctionSchema, run: Callable[..., Any]
    ) -> None:
        self._overloadpacket = packet
        self._schema = schema
        self._run = run  # what computes, given the arguments as the caller wrote them
        self._overloadname = schema.overload_name or "default"
        self._name = schema.name + (f".{schema.overload_name}" if schema.overload_name else "")
        self.__name__ = f"{packet.__name__}.{self._overloadname}"
        self.__qualname__ = self._name
        self.__module__ = f"torch._ops.{packet.namespace}"
        self.__doc__ = None

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        return self._overloadpacket

    @property
    def op(self) -> Any:
        return self

    @property
    def namespace(self) -> str:
        return self._overloadpacket.namespace

    @property
    def _opname(self) -> str:
        return self._overloadpacket.__name__

    @property
    def is_view(self) -> bool:
        """Whether its result shares memory with its argument."""
        infos = [argument.alias_info for argument in self._schema.arguments]
        return any(info is not None and not info.is_write for info in infos)

    @property
    def tags(self) -> list[Any]:
        return list(self._overloadpacket.tags.get(self._overloadname, ()))

    @property
    def default(self) -> OpOverload:
        return self._overloadpacket.default

    def name(self) -> str:
        return self._name

    def has_kernel_for_dispatch_key(self, key: Any) -> bool:
        record = self._overloadpacket.records.get(self._overloadname)
        return record is None or record.has_kernel(getattr(key, "name", key))

    has_kernel_for_any_dispatch_key = has_kernel_for_dispatch_key

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._run(*args, **kwargs)

    def __hash__(self) -> int:
        return hash(self._name)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __deepcopy__(self, memo: Any = None) -> OpOverload:
        return self

    def __reduce__(self) -> Any:
        return _find, (self._schema.name, self._overloadname)

    def __str__(self) -> str:
        return f"{self._overloadpacket}.{self._overloadname}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self._overloadpacket}', overload='{self._overloadname}')>"


class OpOverloadPacket(OperatorBase):
    """An op with all its signatures: ``torch.ops.aten.add``."""

    def __init__(self, namespace: str, name: str) -> None:
        self.namespace = namespace
        self.__name__ = name
        self.__qualname__ = f"{namespace}::{name}"
        self._qualified_op_name = self.__qualname__
        self.__module__ = f"torch._ops.{namespace}"
        self.records: dict[str, Any] = {}  # of ops that programs define
        self.tags: dict[str, Any] = {}
        self._overloads: dict[str, OpOverload] = {}

    @property
    def op(self) -> Any:
        return self

    @property
    def _schemas(self) -> dict[str, FunctionSchema]:
        return {name: o._schema for name, o in self._overloads.items()}

    def add(self, schema: FunctionSchema, run: Callable[..., Any]) -> OpOverload:
        """Another signature of the op."""
        overload = OpOverload(self, schema, run)
        self._overloads[overload._overloadname] = overload
        return overload

    def overloads(self) -> list[str]:
        """The names of the signatures."""
        return list(self._overloads)

    def __getattr__(self, name: str) -> OpOverload:
        overloads = self.__dict__.get("_overloads", {})
        if name in overloads:
            found: OpOverload = overloads[name]
            return found
        if name.startswith("__"):
            raise AttributeError(f"'{self}' object has no attribute '{name}'")
        raise AttributeError(
            f"The underlying op of '{self}' has no overload name '{name}': it has "
            f"{', '.join(overloads)}"
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._overloads)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._overloads})

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if len(self._overloads) == 1:
            return next(iter(self._overloads.values()))(*args, **kwargs)
        from rushlight._operators.binding import choose

        return choose(self, args, kwargs)(*args, **kwargs)

    def __deepcopy__(self, memo: Any = None) -> OpOverloadPacket:
        return self

    def __reduce__(self) -> Any:
        return _find, (self._qualified_op_name, None)

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"


def _find(qualified: str, overload: str | None) -> Any:
    space, _, name = qualified.partition("::")
    packet = getattr(getattr(ops, space), name)
    return packet if overload is None else getattr(packet, overload)


class _OpNamespace(ModuleType):
    """The ops of one namespace; aten's are found when they are asked for."""

    def __init__(self, name: str) -> None:
        super().__init__(f"torch.ops.{name}")
        self.name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self.name in ("aten", "prim"):
            from rushlight._operators.aten import packet

            found = packet(name) if self.name == "aten" else None
            if found is not None:
                self.__dict__[name] = found
                return found
        raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")

    def __dir__(self) -> list[str]:
        names = {name for name in self.__dict__ if not name.startswith("_")}
        if self.name == "aten":
            from rushlight._operators.aten import names as aten_names

            names |= aten_names()
        return sorted(names - {"name"})

    def __iter__(self) -> Iterator[str]:
        return iter(dir(self))


class _Ops(ModuleType):
    """``torch.ops``."""

    def __init__(self) -> None:
        super().__init__("torch.ops")
        self.loaded_libraries: set[str] = set()
        self.refused_libraries: set[str] = set()

    def __getattr__(self, name: str) -> _OpNamespace:
        if name.startswith("__"):
            raise AttributeError(name)
        space = _OpNamespace(name)
        self.__dict__[name] = space
        return space

    def load_library(self, path: Any) -> None:
        """Raises: ops compiled for PyTorch need PyTorch."""
        self.refused_libraries.add(str(path))
        raise OSError(
            f"Could not load this library: {path}: it is compiled for PyTorch, whose binary "
            "interface rushlight does not have; define the op in Python, with "
            "torch.library.custom_op"
        )

    def import_module(self, module: str) -> None:
        """Imports a module that defines ops."""
        from importlib import import_module

        import_module(module)


ops: Any = _Ops()
sys.modules.setdefault("rushlight.ops", ops)
