"""Samples into batches."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import rushlight
from rushlight import Tensor

_ERROR = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found"

CollateMap = dict[type | tuple[type, ...], Callable[..., Any]]


def _holds_text_or_objects(array: Any) -> bool:
    return array.dtype.kind in "SaUO"


def _like_mapping(original: Any, items: dict[Any, Any]) -> Any:
    """A mapping of the same class with other values; a dict where the class can't be made."""
    try:
        if isinstance(original, MutableMapping):
            clone = copy.copy(original)
            clone.update(items)
            return clone
        return type(original)(items)
    except TypeError:
        return items


def _like_sequence(original: Any, items: list[Any]) -> Any:
    """A sequence of the same class with other items; a list where the class can't be made."""
    try:
        if isinstance(original, MutableSequence):
            clone = copy.copy(original)
            for i, item in enumerate(items):
                clone[i] = item
            return clone
        return type(original)(items)
    except TypeError:
        return items


def default_convert(data: Any) -> Any:
    """NumPy arrays inside ``data`` become tensors; the rest stays as it is.

    >>> from rushlight.utils.data import default_convert
    >>> default_convert([0, "text"])
    [0, 'text']
    """
    kind = type(data)
    if isinstance(data, Tensor):
        return data
    if kind.__module__ == "numpy" and kind.__name__ not in ("str_", "string_", "bytes_"):
        if kind.__name__ == "ndarray" and _holds_text_or_objects(data):
            return data
        return rushlight.as_tensor(data)
    if isinstance(data, Mapping):
        return _like_mapping(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple):
        items = [default_convert(item) for item in data]
        return kind(*items) if hasattr(data, "_fields") else items
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _like_sequence(data, [default_convert(item) for item in data])
    return data


def collate(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Joins samples, going into their containers; the map says what to do with other types."""
    first = batch[0]
    kind = type(first)
    if collate_fn_map is not None:
        function = collate_fn_map.get(kind)
        if function is None:
            matches = (f for t, f in collate_fn_map.items() if isinstance(first, t))
            function = next(matches, None)
        if function is not None:
            return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        columns = {
            key: collate([sample[key] for sample in batch], collate_fn_map=collate_fn_map)
            for key in first
        }
        return _like_mapping(first, columns)
    if isinstance(first, Sequence):
        named = isinstance(first, tuple) and hasattr(first, "_fields")
        if not named and any(len(sample) != len(first) for sample in batch):
            lengths = sorted({len(sample) for sample in batch})
            raise RuntimeError(
                f"each element in list of batch should be of equal size, got the sizes {lengths}"
            )
        items = [collate(c, collate_fn_map=collate_fn_map) for c in zip(*batch, strict=False)]
        if named:
            return kind(*items)
        return items if isinstance(first, tuple) else _like_sequence(first, items)
    raise TypeError(f"{_ERROR} {kind}")


def collate_tensor_fn(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    """Tensors of equal shape, stacked."""
    return rushlight.stack(batch if type(batch) is list else list(batch), 0)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Arrays as tensors, joined."""
    if _holds_text_or_objects(batch[0]):
        raise TypeError(f"{_ERROR} {batch[0].dtype}")
    return collate([rushlight.as_tensor(a) for a in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    """NumPy numbers as one tensor of their dtype."""
    import numpy

    return rushlight.as_tensor(numpy.array(batch))


def collate_float_fn(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    """Python floats, in double precision."""
    return rushlight.tensor(batch, dtype=rushlight.float64)


def collate_int_fn(batch: Any, *, collate_fn_map: Any = None) -> Tensor:
    """Python integers."""
    return rushlight.tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Texts stay as they are."""
    return batch


default_collate_fn_map: CollateMap = {
    Tensor: collate_tensor_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def _add_numpy() -> None:
    """NumPy's types go before ``float``, of which float64 is a subclass."""
    import numpy

    added: CollateMap = {
        numpy.ndarray: collate_numpy_array_fn,
        (numpy.bool_, numpy.number, numpy.object_): collate_numpy_scalar_fn,
    }
    if numpy.ndarray not in default_collate_fn_map:
        rest = dict(default_collate_fn_map)
        default_collate_fn_map.clear()
        default_collate_fn_map.update({Tensor: rest[Tensor], **added, **rest})


def default_collate(batch: Any) -> Any:
    """Joins samples into a batch: tensors are stacked, numbers become tensors, containers keep
    their kind.

    >>> from rushlight.utils.data import default_collate
    >>> default_collate([{"x": 1, "name": "a"}, {"x": 2, "name": "b"}])
    {'x': tensor([1, 2]), 'name': ['a', 'b']}
    >>> default_collate([(0, 1), (2, 3)])
    [tensor([0, 2]), tensor([1, 3])]
    """
    if "numpy" in sys.modules and len(default_collate_fn_map) == 5:
        _add_numpy()
    return collate(batch, collate_fn_map=default_collate_fn_map)
