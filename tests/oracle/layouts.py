"""Tensors of one layout in both libraries, and the strides of what comes out of them."""

import warnings

import numpy as np

import rushlight
from oracle.harness import to_numpy


def strides_without_gaps(sizes, order):
    """Strides of a tensor whose dimensions lie in memory in this order, the innermost first."""
    strides, step = [0] * len(sizes), 1
    for d in order:
        strides[d] = step
        step *= max(sizes[d], 1)
    return strides


def contiguous(sizes):
    return strides_without_gaps(sizes, reversed(range(len(sizes))))


def reversed_dims(sizes):
    return strides_without_gaps(sizes, range(len(sizes)))


def permuted(sizes):
    """Neither rows nor reversed rows: the last dimension lies outermost."""
    n = len(sizes)
    return strides_without_gaps(sizes, [*reversed(range(n - 1)), n - 1]) if n > 2 else None


def channels_last(sizes):
    n = len(sizes)
    return strides_without_gaps(sizes, [1, *reversed(range(2, n)), 0]) if n in (4, 5) else None


def sliced(sizes):
    """Every second element of the last dimension of wider rows."""
    return [2 * s for s in contiguous([*sizes[:-1], sizes[-1] + 1])] if sizes else None


def sliced_channels(sizes):
    """Part of the channels of a tensor in channels_last."""
    return channels_last([sizes[0], sizes[1] + 2, *sizes[2:]]) if len(sizes) in (4, 5) else None


def expanded(sizes):
    """The first dimension of more than one element repeats without memory of its own."""
    for d, size in enumerate(sizes):
        if size > 1:
            strides = contiguous([*sizes[:d], 1, *sizes[d + 1 :]])
            strides[d] = 0
            return strides
    return None


def expanded_last(sizes):
    return [*contiguous(sizes[:-1]), 0] if sizes and sizes[-1] > 1 else None


LAYOUTS = {
    f.__name__: f
    for f in (
        contiguous, reversed_dims, permuted, channels_last, sliced, sliced_channels, expanded,
        expanded_last,
    )
}  # fmt: skip


def memory_of(array, strides):
    """A flat array that holds the elements at the strides."""
    if array.size == 0:
        return np.zeros(1, array.dtype)
    last = sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True))
    flat = np.zeros(last + 1, array.dtype)
    for index in np.ndindex(*array.shape):
        flat[sum(i * s for i, s in zip(index, strides, strict=True))] = array[index]
    return flat


class Case:
    """One call with its tensors in a layout, to be built in either library."""

    def __init__(self, sample, layout, first_only=False):
        self.sample, self.layout, self.left = sample, layout, 1 if first_only else 10**6
        self.changed = False
        self.args = [self.plan(a) for a in sample.args]
        self.kwargs = {k: self.plan(v) for k, v in sample.kwargs.items()}

    def plan(self, value):
        if isinstance(value, rushlight.Tensor):
            array, sizes = to_numpy(value), list(value.shape)
            strides = LAYOUTS[self.layout](sizes) if self.left > 0 else None
            self.left -= 1
            if strides is None:
                strides = contiguous(sizes)
            else:
                self.changed = True
            dtype = str(value.dtype).removeprefix("torch.")
            return ("tensor", memory_of(array, strides), sizes, strides, dtype)
        if isinstance(value, (list, tuple)):
            return type(value)(self.plan(v) for v in value)
        if isinstance(value, rushlight.dtype):
            return ("dtype", str(value).removeprefix("torch."))
        return value

    def build(self, library, value, leaves):
        if isinstance(value, tuple) and value and value[0] == "tensor":
            _, flat, sizes, strides, dtype = value
            t = library.from_numpy(flat.copy()).to(getattr(library, dtype))
            t = t.as_strided(sizes, strides)
            if t.is_floating_point() or t.is_complex():
                leaves.append(t.requires_grad_())
            return t
        if isinstance(value, tuple) and value and value[0] == "dtype":
            return getattr(library, value[1])
        if isinstance(value, (list, tuple)):
            return type(value)(self.build(library, v, leaves) for v in value)
        return value

    def call(self, library, function):
        """The tensors that come out, and the leaves that went in."""
        leaves = []
        args = [self.build(library, a, leaves) for a in self.args]
        kwargs = {k: self.build(library, v, leaves) for k, v in self.kwargs.items()}
        return list(tensors_in(function(*args, **kwargs), library)), leaves

    def run(self, library, function):
        """The strides of the results and of the leaves' gradients, or the error."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                results, leaves = self.call(library, function)
            except Exception as error:
                return error, None
            strides = [layout_of(r) for r in results]
            tops = [r for r in results if r.requires_grad]
            try:
                library.autograd.backward(
                    tops, [library.ones(r.shape, dtype=r.dtype) for r in tops]
                )
            except Exception as error:
                return strides, error
            grads = [leaf.grad for leaf in leaves]
            return strides, [None if g is None else layout_of(g) for g in grads]


def layout_of(t):
    """The sizes and the strides. Those of dimensions with one element say nothing, as do those of
    tensors without elements.
    """
    told = [s if n > 1 else None for n, s in zip(t.shape, t.stride(), strict=True)]
    return (tuple(t.shape), tuple(told)) if t.numel() else "empty"


def tensors_in(value, library):
    if isinstance(value, library.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from tensors_in(v, library)


def find(library, name):
    if name.startswith("Tensor.") and name.endswith("_") and not name.endswith("__"):
        method = name.removeprefix("Tensor.")
        return lambda target, *a, **k: getattr(target.clone(), method)(*a, **k)
    for part in name.split("."):
        library = getattr(library, part, None)
    return library


def packs_sequences(name, sample):
    """PyTorch reads strided batch sizes as if they were not."""
    recurrent = name in ("gru", "lstm", "rnn_tanh", "rnn_relu")
    return recurrent and getattr(sample.args[1], "dtype", None) == rushlight.int64
