"""Lists and dicts that cannot be changed: what the arguments of nodes are kept in."""

from __future__ import annotations

from typing import Any, NoReturn

from rushlight.utils._pytree import register_pytree_node

__all__ = ["immutable_dict", "immutable_list"]


def _no_mutation(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(
        f"'{type(self).__name__}' object does not support mutation: to change the arguments of a "
        "node, change a copy and assign it: node.args = new_args, node.kwargs = new_kwargs"
    )


class immutable_list(list):
    """A list that raises when it is changed.

    >>> from rushlight.fx.immutable_collections import immutable_list
    >>> immutable_list([1, 2]).append(3)
    Traceback (most recent call last):
        ...
    TypeError: 'immutable_list' object does not support mutation: ...
    """

    __delitem__ = __iadd__ = __imul__ = __setitem__ = _no_mutation
    append = clear = extend = insert = pop = remove = reverse = sort = _no_mutation

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (tuple(self),)


class immutable_dict(dict):
    """A dict that raises when it is changed.

    >>> from rushlight.fx.immutable_collections import immutable_dict
    >>> immutable_dict(a=1).update(a=2)
    Traceback (most recent call last):
        ...
    TypeError: 'immutable_dict' object does not support mutation: ...
    """

    __delitem__ = __ior__ = __setitem__ = _no_mutation
    clear = pop = popitem = setdefault = update = _no_mutation

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (tuple(self.items()),)


register_pytree_node(
    immutable_list, lambda x: (list(x), None), lambda values, _: immutable_list(values)
)
register_pytree_node(
    immutable_dict,
    lambda x: (list(x.values()), list(x)),
    lambda values, keys: immutable_dict(zip(keys, values, strict=True)),
)
