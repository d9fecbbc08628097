"""Weak references to tensors, by identity: ``==`` of tensors compares elements.

>>> import rushlight as torch
>>> notes = torch.utils.weak.WeakTensorKeyDictionary()
>>> x = torch.ones(2)
>>> notes[x] = "weights"
>>> notes[x], len(notes)
('weights', 1)
>>> del x
>>> len(notes)
0
"""

from __future__ import annotations

import weakref
from collections.abc import MutableMapping
from typing import Any
from weakref import ref

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(ref[Any]):
    """A weak reference that equals others to the same object.

    >>> import rushlight as torch
    >>> x = torch.ones(2)
    >>> torch.utils.weak.WeakIdRef(x) == torch.utils.weak.WeakIdRef(x)
    True
    """

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Callable[[Any], Any] | None = None) -> None:
        self._id = id(key)
        super().__init__(key, callback)  # type: ignore[call-arg]

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        mine = self()
        theirs = other() if isinstance(other, WeakIdRef) else None
        return self is other if mine is None or theirs is None else mine is theirs


WeakTensorRefKey = WeakIdRef


class TensorWeakRef:
    """A weak reference to a tensor.

    >>> import rushlight as torch
    >>> x = torch.ones(2)
    >>> reference = torch.utils.weak.TensorWeakRef(x)
    >>> reference() is x
    True
    """

    def __init__(self, tensor: Any) -> None:
        from rushlight._C import Tensor

        if not isinstance(tensor, Tensor):
            raise AssertionError(f"expected torch.Tensor, got {type(tensor)}.")
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Any:
        return self.ref()


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A dict whose keys are objects themselves, and which does not keep them alive.

    >>> import rushlight as torch
    >>> x, y = torch.ones(2), torch.ones(2)
    >>> notes = torch.utils.weak.WeakIdKeyDictionary({x: 1})
    >>> x in notes, y in notes
    (True, False)
    """

    def __init__(self, dict: Any = None, ref_type: Any = WeakIdRef) -> None:
        self.data: Any = {}
        self.ref_type = ref_type
        own = weakref.ref(self)

        def forget(gone: Any) -> None:
            there = own()
            if there is not None:
                there.data.pop(gone, None)

        self._forget = forget
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._forget)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: object) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # what cannot be referred to weakly is no key
            return False

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def __len__(self) -> int:
        return len(self.data)

    def keyrefs(self) -> list[Any]:
        """The weak references to the keys."""
        return list(self.data)

    def copy(self) -> WeakIdKeyDictionary:
        """Another dict of the same keys."""
        return type(self)(self, self.ref_type)

    __copy__ = copy

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MutableMapping):
            return NotImplemented
        mine = {id(k): v for k, v in self.items()}
        return mine == {id(k): v for k, v in other.items()}

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"


WeakTensorKeyDictionary = WeakIdKeyDictionary
