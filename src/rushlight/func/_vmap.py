"""vmap: a function of one sample becomes a function of a batch."""

from __future__ import annotations

import functools

from rushlight import _C
from rushlight.utils._pytree import tree_flatten, tree_unflatten
from rushlight.utils._pytree_prefix import broadcast_prefix

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_RANDOMNESS = ("error", "same", "different")
_ops = _C._namespaces[""]


class Level(_C._Scope):
    """A vmapped region."""

    def __init__(self, size: int, randomness: str = "different") -> None:
        self.size = size
        self._set_parts(("vmap", (size, _RANDOMNESS.index(randomness))))

    @property
    def number(self) -> int:
        """That it got when it was entered."""
        return self._number

    def hide(self, tensor: Any, dim: int) -> Any:
        return _ops["_add_batch_dim"](tensor, dim, self.number)

    def show(self, tensor: Any, dim: int) -> Any:
        return _ops["_remove_batch_dim"](tensor, self.number, self.size, dim)


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that runs `func` on every sample of a batch at once.

    `in_dims` says which dimension of each argument holds the samples (None: the argument is the
    same for all), `out_dims` where they go in the results; both may be nested like the arguments.
    Keyword arguments are batched along dimension 0. `randomness` says what random functions do
    inside: "error", the "same" numbers for all samples, or "different" ones. `chunk_size` bounds
    how many samples are in memory at a time.

    >>> import rushlight as torch
    >>> dot = torch.vmap(torch.dot)
    >>> dot(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.ones(2, 2))
    tensor([3., 7.])

    Gradients of every sample apart:

    >>> from rushlight.func import grad, vmap
    >>> vmap(grad(torch.sin))(torch.zeros(3))
    tensor([1., 1., 1.])
    """
    if randomness not in _RANDOMNESS:
        raise RuntimeError(
            "Only allowed values for randomness are 'error', 'different', or 'same'. "
            f"Got {randomness}"
        )
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def batched(*args: Any, **kwargs: Any) -> Any:
        if not kwargs and chunk_size is None:
            plain = _plain_dims(args, in_dims)
            if plain is not None:
                return _run_plain(func, args, *plain, out_dims, randomness)
        leaves, dims, spec, size = _take_apart(func, in_dims, args, kwargs)
        if chunk_size is None or chunk_size >= size:
            return _run(func, leaves, dims, spec, size, out_dims, randomness)
        chunks = []
        for start in range(0, size, chunk_size):
            count = min(chunk_size, size - start)
            part = [
                leaf if d is None else leaf.narrow(d, start, count)
                for leaf, d in zip(leaves, dims, strict=True)
            ]
            chunks.append(_run(func, part, dims, spec, count, out_dims, randomness))
        return _join(chunks, out_dims)

    return batched


def _name(func: Any) -> str:
    return getattr(func, "__name__", None) or repr(func)


def _plain_dims(args: tuple[Any, ...], in_dims: Any) -> tuple[Any, int] | None:
    """The dims and the size, where each argument is one tensor or not batched: the usual call."""
    dims = (in_dims,) * len(args) if isinstance(in_dims, int) else in_dims
    if type(dims) not in (tuple, list) or len(dims) != len(args):
        return None
    size = None
    for arg, dim in zip(args, dims, strict=True):
        if dim is None:
            continue
        if type(dim) is not int or not isinstance(arg, _C.Tensor):
            return None
        if not -arg.dim() <= dim < arg.dim() or size not in (None, arg.shape[dim]):
            return None
        size = arg.shape[dim]
    return None if size is None else (dims, size)


def _run_plain(
    func: Any, args: tuple[Any, ...], dims: Any, size: int, out_dims: Any, randomness: str
) -> Any:
    with Level(size, randomness) as level:
        hide, number = _ops["_add_batch_dim"], level.number
        inside = [a if d is None else hide(a, d, number) for a, d in zip(args, dims, strict=True)]
        result = func(*inside)
        if type(out_dims) is int and type(result) is _C.Tensor:
            return level.show(result, out_dims)
        return _show_all(func, result, out_dims, level)


def _take_apart(
    func: Any, in_dims: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[Any], list[int | None], Any, int]:
    """The leaves of all arguments, the batch dimension of each, their tree, the batch's size."""
    name = _name(func)
    if not isinstance(in_dims, (int, tuple, list)):
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be int or a "
            f"(potentially nested) tuple matching the structure of inputs, got: {type(in_dims)}."
        )
    if not args and not kwargs:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are "
            "trying to vmap over a function with no inputs. The latter is unsupported."
        )
    dims = broadcast_prefix(tuple(in_dims) if isinstance(in_dims, list) else in_dims, args)
    if dims is None:
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible with the "
            "structure of `inputs`. in_dims has structure that the inputs do not have."
        )
    leaves, spec = tree_flatten((args, kwargs))
    named = leaves[len(dims) :]
    dims = dims + [0 if isinstance(leaf, _C.Tensor) else None for leaf in named]
    sizes: dict[int, None] = {}
    for i, (leaf, dim) in enumerate(zip(leaves, dims, strict=True)):
        if dim is None:
            continue
        if not isinstance(dim, int):
            raise ValueError(
                f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for an input "
                "but in_dim must be either an integer dimension or None."
            )
        if not isinstance(leaf, _C.Tensor):
            raise ValueError(
                f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for an input "
                f"but the input is of type {type(leaf)}. We cannot vmap over non-Tensor arguments, "
                "please use None as the respective in_dim"
            )
        if not -leaf.dim() <= dim < leaf.dim():
            raise ValueError(
                f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for some input, "
                f"but that input is a Tensor of dimensionality {leaf.dim()} so expected in_dim to "
                f"satisfy -{leaf.dim()} <= in_dim < {leaf.dim()}."
            )
        dims[i] = dim % leaf.dim()
        sizes[leaf.shape[dim]] = None
    if not sizes:
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): at least one input must be batched: "
            "all in_dims are None."
        )
    if len(sizes) > 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{list(sizes)} for the mapped dimension"
        )
    return leaves, dims, spec, next(iter(sizes))


def _run(
    func: Any,
    leaves: list[Any],
    dims: list[int | None],
    spec: Any,
    size: int,
    out_dims: Any,
    randomness: str,
) -> Any:
    with Level(size, randomness) as level:
        inside = [
            leaf if d is None else level.hide(leaf, d) for leaf, d in zip(leaves, dims, strict=True)
        ]
        args, kwargs = tree_unflatten(inside, spec)
        return _show_all(func, func(*args, **kwargs), out_dims, level)


def _show_all(func: Any, result: Any, out_dims: Any, level: Level) -> Any:
    outputs, spec = tree_flatten(result)
    if type(out_dims) is int and all(isinstance(t, _C.Tensor) for t in outputs):
        return tree_unflatten([level.show(t, out_dims) for t in outputs], spec)
    for output in outputs:
        if not isinstance(output, _C.Tensor):
            raise ValueError(
                f"vmap({_name(func)}, ...): `{_name(func)}` must only return Tensors, got type "
                f"{type(output)}. Did you mean to set out_dims= to None for output?"
            )
    shown = []
    for output, dim in zip(outputs, _out_dims(func, out_dims, result), strict=True):
        if dim is None:
            if level.number in _C._batch_levels(output):
                raise ValueError(
                    f"vmap({_name(func)}, ...): `{_name(func)}` can not return a BatchedTensor "
                    "when out_dim is None"
                )
            shown.append(output)
        else:
            shown.append(level.show(output, dim))
    return tree_unflatten(shown, spec)


def _out_dims(func: Any, out_dims: Any, result: Any) -> list[int | None]:
    dims = broadcast_prefix(out_dims, result)
    if dims is None:
        # A tuple of one for a single tensor.
        single = isinstance(out_dims, tuple) and len(out_dims) == 1
        dims = broadcast_prefix(out_dims[0], result) if single else None
    if dims is None or not all(d is None or isinstance(d, int) for d in dims):
        raise ValueError(
            f"vmap({_name(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible "
            "with the structure of the outputs."
        )
    return dims


def _join(chunks: list[Any], out_dims: Any) -> Any:
    columns, spec = [], None
    for chunk in chunks:
        leaves, spec = tree_flatten(chunk)
        columns.append(leaves)
    dims = _out_dims(vmap, out_dims, chunks[0])
    joined = [
        parts[0] if dim is None else _ops["cat"](parts, dim)
        for parts, dim in zip(zip(*columns, strict=True), dims, strict=True)
    ]
    assert spec is not None
    return tree_unflatten(joined, spec)
