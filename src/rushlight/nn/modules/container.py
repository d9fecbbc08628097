"""Modules that hold other modules."""

from __future__ import annotations

import operator

from rushlight.nn.modules._parameter_containers import ParameterDict, ParameterList
from rushlight.nn.modules.module import Module, _addindent

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Self

__all__ = [
    "Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential",
]  # fmt: skip


class Container(Module):
    """Deprecated: a Module does the same."""

    def __init__(self, **kwargs: Any) -> None:
        import warnings

        warnings.warn(
            "`nn.Container` is deprecated. All of its functionality is now implemented in "
            "`nn.Module`. Subclass that instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__()
        for key, value in kwargs.items():
            self.add_module(key, value)


class _Numbered(Module):
    """What Sequential and ModuleList share: submodules under the numbers 0, 1, 2 ..."""

    def _key(self, index: Any) -> str:
        index = operator.index(index)
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range")
        return list(self._modules)[index]

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, self._key(idx), module)

    def __delitem__(self, idx: int | slice) -> None:
        keys = list(self._modules)[idx] if isinstance(idx, slice) else [self._key(idx)]
        for key in keys:
            delattr(self, key)
        self.__dict__["_modules"] = {str(i): m for i, m in enumerate(self._modules.values())}

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def append(self, module: Module) -> Self:
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key: int | slice) -> Any:
        """Takes a module out."""
        value = self[key]  # type: ignore[index]
        del self[key]
        return value


class Sequential(_Numbered):
    """Calls its modules one after the other.

    >>> import rushlight as torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    >>> model
    Sequential(
      (0): Linear(in_features=2, out_features=3, bias=True)
      (1): ReLU()
    )
    >>> model(torch.zeros(5, 2)).shape
    torch.Size([5, 3])
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], dict):
            for key, module in args[0].items():
                self.add_module(key, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def __getitem__(self, idx: int | slice) -> Any:
        if isinstance(idx, slice):
            return type(self)(dict(list(self._modules.items())[idx]))
        return self._modules[self._key(idx)]

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input

    @staticmethod
    def _check_operand(other: Any) -> None:
        if not isinstance(other, Sequential):
            raise ValueError(
                "add operator supports only objects of Sequential class, but "
                f"{type(other)} is given."
            )

    def __add__(self, other: Any) -> Sequential:
        self._check_operand(other)
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Self:
        self._check_operand(other)
        return self.extend(list(other))

    def _check_factor(self, other: Any) -> None:
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")

    def __mul__(self, other: int) -> Sequential:
        self._check_factor(other)
        return Sequential(*(list(self) * other))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Self:
        self._check_factor(other)
        return self.extend(list(self) * (other - 1))

    def insert(self, index: int, module: Module) -> Self:
        """Puts a module before position ``index``."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        count = len(self)
        if not -count <= index <= count:
            raise IndexError(f"Index out of range: {index}")
        modules = list(self)
        modules.insert(index, module)
        self.__dict__["_modules"] = {str(i): m for i, m in enumerate(modules)}
        return self

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Adds modules at the end."""
        for module in sequential:
            self.append(module)
        return self


class ModuleList(_Numbered):
    """A list whose modules belong to the model.

    >>> import rushlight as torch
    >>> layers = torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(3))
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, idx: int | slice) -> Any:
        if isinstance(idx, slice):
            return type(self)(list(self._modules.values())[idx])
        return self._modules[self._key(idx)]

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def insert(self, index: int, module: Module) -> None:
        """Puts a module before position ``index``."""
        modules = list(self)
        modules.insert(index, module)
        self.__dict__["_modules"] = {str(i): m for i, m in enumerate(modules)}

    def extend(self, modules: Iterable[Module]) -> Self:
        """Adds modules at the end."""
        if not hasattr(modules, "__iter__"):
            raise TypeError(
                "ModuleList.extend should be called with an iterable, but got "
                f"{type(modules).__name__}"
            )
        for module in list(modules):
            self.append(module)
        return self

    def __repr__(self) -> str:
        texts = [repr(module) for module in self]
        if not texts:
            return f"{self._get_name()}()"
        blocks: list[tuple[int, int, str]] = []  # first, last, text: equal neighbours are joined
        for i, text in enumerate(texts):
            if blocks and blocks[-1][2] == text:
                blocks[-1] = (blocks[-1][0], i, text)
            else:
                blocks.append((i, i, text))
        lines = [
            f"({a}): {text}" if a == b else f"({a}-{b}): {b - a + 1} x {text}"
            for a, b, text in blocks
        ]
        inside = "\n  ".join(_addindent(line, 2) for line in lines)
        return f"{self._get_name()}(\n  {inside}\n)"


class ModuleDict(Module):
    """A dict whose modules belong to the model.

    >>> import rushlight as torch
    >>> heads = torch.nn.ModuleDict({"cls": torch.nn.Linear(4, 2), "box": torch.nn.Linear(4, 4)})
    >>> list(heads), heads["box"].out_features
    (['cls', 'box'], 4)
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Takes all modules out."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Takes a module out."""
        return self._modules.pop(key)

    def keys(self) -> Any:
        """The names."""
        return self._modules.keys()

    def items(self) -> Any:
        """The names with the modules."""
        return self._modules.items()

    def values(self) -> Any:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Adds the modules of a mapping or of (key, module) pairs."""
        for key, module in pairs(modules, "ModuleDict"):
            self[key] = module


def pairs(values: Any, kind: str) -> list[tuple[str, Any]]:
    """The items of a mapping or an iterable of pairs."""
    if not hasattr(values, "__iter__"):
        raise TypeError(
            f"{kind}.update should be called with an iterable of key/value pairs, but got "
            f"{type(values).__name__}"
        )
    if hasattr(values, "items"):
        return list(values.items())
    result = []
    for i, pair in enumerate(values):
        if not hasattr(pair, "__iter__"):
            raise TypeError(
                f"{kind} update sequence element #{i} should be Iterable; is {type(pair).__name__}"
            )
        if len(pair) != 2:
            raise ValueError(
                f"{kind} update sequence element #{i} has length {len(pair)}; 2 is required"
            )
        result.append((pair[0], pair[1]))
    return result
