"""Every form of x[...] and x[...] = value: PyTorch's result, or a result where PyTorch refuses."""

import itertools
import warnings

import numpy as np
import pytest
import torch

import rushlight

KEYS = {
    "range": lambda t: range(2),
    "range in a tuple": lambda t: (slice(None), range(2)),
    "two ranges": lambda t: (range(2), range(2)),
    "no range": lambda t: range(0),
    "list": lambda t: [0, 2],
    "list of bools": lambda t: [True, False, True],
    "list of tensors": lambda t: [t.tensor(1), t.tensor(0)],
    "list of lists": lambda t: [[0, 1], [1, 2]],
    "list of slices": lambda t: [slice(0, 1), 1],
    "list with None": lambda t: [None, 1],
    "tuple of lists": lambda t: ([0, 1], [1, 2]),
    "NumPy int16": lambda t: np.array([1, 0], "int16"),
    "NumPy scalar": lambda t: np.int16(1),
    "NumPy matrix": lambda t: np.array([[0, 1], [1, 2]]),
    "int mask": lambda t: t.tensor([1, 0, 1], dtype=t.uint8),
    "wide int mask": lambda t: t.tensor([[1, 0, 1, 0]] * 3, dtype=t.uint8),
    "mask": lambda t: t.tensor([True, False, True]),
    "True": lambda t: True,
    "False": lambda t: False,
    "True tensor": lambda t: t.tensor(True),
    "uint8 truth": lambda t: t.tensor(1, dtype=t.uint8),
    "uint8 falsehood": lambda t: t.tensor(0, dtype=t.uint8),
    "int with a truth": lambda t: (0, t.tensor(1, dtype=t.uint8)),
    **{
        f"0-d {name}": lambda t, name=name: t.tensor(1, dtype=getattr(t, name))
        for name in ("int8", "int16", "int32", "int64", "float32")
    },
    **{
        f"{name} vector": lambda t, name=name: t.tensor([1, 0], dtype=getattr(t, name))
        for name in ("int8", "int16", "int32", "int64", "float32")
    },
    "0-d int16 in a tuple": lambda t: (slice(1), t.tensor(1, dtype=t.int16)),
    "Ellipsis": lambda t: ...,
    "None": lambda t: None,
    "empty tuple": lambda t: (),
}
SHAPES = [(3, 4), (), (3,)]


def outcome(name, use):
    """What `use` gives with one library: arrays, or the class of its exception."""
    library = {"torch": torch, "rushlight": rushlight}[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = use(library)
        except (IndexError, RuntimeError, TypeError, ValueError) as error:
            return type(error)
    return np.array(result.tolist()), tuple(result.shape)


def same(use, lenient=False):
    """Whether both agree; a lenient test takes a result where PyTorch refuses."""
    expected, found = outcome("torch", use), outcome("rushlight", use)
    if isinstance(expected, type):
        assert lenient or found == expected, (expected, found)
        return
    assert not isinstance(found, type), found
    np.testing.assert_array_equal(found[0], expected[0])
    assert found[1] == expected[1]


def numbers(library, shape, dtype="float32"):
    count = int(np.prod(shape))
    return library.arange(count).reshape(shape).to(getattr(library, dtype))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("key", KEYS)
def test_reading(key, shape):
    same(lambda t: numbers(t, shape)[KEYS[key](t)])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("key", KEYS)
def test_writing_a_number(key, shape):
    def use(t):
        x = numbers(t, shape)
        x[KEYS[key](t)] = 7
        return x

    same(use, lenient=True)


VALUES = {
    "whole": lambda t: t.tensor(1),
    "real": lambda t: t.tensor(1.5),
    "complex": lambda t: t.tensor(1 + 2j),
    "complex that is real": lambda t: t.tensor(2 + 0j),
    "truth": lambda t: t.tensor(True),
    "vector of one": lambda t: t.tensor([2]),
    "matrix of one": lambda t: t.tensor([[2.5]]),
    "large": lambda t: t.tensor(1e30),
    "negative": lambda t: t.tensor(-1),
    "two": lambda t: t.tensor([1, 2]),
}
MASKS = ("mask", "True", "True tensor", "list of bools", "list", "int64 vector")
DTYPES = ("float32", "int64", "bool", "complex64", "uint8", "float16")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", VALUES)
def test_writing_a_tensor_of_another_dtype(value, dtype):
    for key in MASKS:

        def use(t, key=key):
            x = numbers(t, (3,), dtype)
            x[KEYS[key](t)] = VALUES[value](t)
            return x

        same(use, lenient=True)


def test_index_put_of_another_dtype():
    for dtype, value in itertools.product(DTYPES, VALUES):
        for put in (lambda x, i, v: x.index_put(i, v), lambda x, i, v: x.index_put_(i, v)):

            def use(t, put=put, dtype=dtype, value=value):
                mask = t.tensor([True, False, True])
                return put(numbers(t, (3,), dtype), (mask,), VALUES[value](t))

            same(use, lenient=True)


@pytest.mark.parametrize("lead", [0, 1, 2, 4])
@pytest.mark.parametrize("key", ["True", "mask", "list", "Ellipsis", "None", "empty tuple"])
def test_leading_ones_of_a_value(key, lead):
    def use(t):
        x = numbers(t, (3, 4))
        x[KEYS[key](t)] = t.arange(4.0).reshape((1,) * lead + (4,))
        return x

    same(use)


def assigned(change):
    def use(t):
        x = numbers(t, (3, 4))
        change(x)
        return x

    return use


ALIASES = {
    "a row by one of its numbers": lambda x: x.__setitem__(1, x[1][0]),
    "all by one number": lambda x: x.__setitem__(slice(None), x[0, 2]),
    "all by a row": lambda x: x.__setitem__(slice(None), x[0]),
    "all by a column": lambda x: x.__setitem__((slice(None), slice(None)), x[:, :1]),
    "chosen by one": lambda x: x.__setitem__(x > 3, x[0, 1]),
    "rows exchanged": lambda x: x.__setitem__([0, 1], x[[1, 0]]),
    "shifted": lambda x: x.__setitem__(slice(1, None), x[:-1]),
}


@pytest.mark.parametrize("name", ALIASES)
def test_writing_a_part_of_itself(name):
    same(assigned(ALIASES[name]))


EXPANDED = {
    "fill_": lambda t, x: x.fill_(1),
    "fill_ by a tensor": lambda t, x: x.fill_(t.tensor(2.0)),
    "zero_": lambda t, x: x.zero_(),
    "masked_fill_": lambda t, x: x.masked_fill_(t.tensor([True, False, True]), 1.0),
    "masked_fill_ by none": lambda t, x: x.masked_fill_(t.tensor([False] * 3), 1.0),
    "masked_fill_ by a tensor": lambda t, x: x.masked_fill_(
        t.tensor([True, False, True]), t.tensor(3.0)
    ),
    "index_fill_": lambda t, x: x.index_fill_(-1, t.tensor([0]), 1.0),
    "index_fill_ of nothing": lambda t, x: x.index_fill_(-1, t.tensor([], dtype=t.int64), 1.0),
    "index_fill_ of rows": lambda t, x: x.index_fill_(0, t.tensor([0]), 1.0),
    "index_put_": lambda t, x: x.index_put_((t.tensor([0]),), t.tensor(4.0)),
    "mask": lambda t, x: x.__setitem__(x == 0, 3.0),
    "list": lambda t, x: x.__setitem__([0], 3.0),
    "all": lambda t, x: x.__setitem__(..., 3.0),
    "copy_": lambda t, x: x.copy_(x + 1),
    "add_": lambda t, x: x.add_(1),
    "uniform_": lambda t, x: x.uniform_(),
    "scatter_": lambda t, x: x.scatter_(0, x.long(), 1.0),
    "out": lambda t, x: t.add(x, 1, out=x),
}


@pytest.mark.parametrize("shape", [(3,), (2, 3)], ids=str)
@pytest.mark.parametrize("name", EXPANDED)
def test_writes_to_expanded_tensors(name, shape):
    def use(t):
        x = t.zeros(*shape[:-1], 1).expand(shape)
        EXPANDED[name](t, x)
        return x

    same(use)


EMPTY_INDEX = {
    "gather": lambda t, x, i: x.gather(0, i),
    "scatter": lambda t, x, i: x.scatter(0, i, x),
    "scatter of a number": lambda t, x, i: x.scatter(0, i, 1.0),
    "scatter_add": lambda t, x, i: x.scatter_add(0, i, x),
    "scatter_reduce": lambda t, x, i: x.scatter_reduce(0, i, x, "amax"),
    "index_select": lambda t, x, i: x.index_select(0, i),
    "take": lambda t, x, i: x.take(i),
}


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64", "float32", "bool"])
@pytest.mark.parametrize("name", EMPTY_INDEX)
def test_an_empty_index_of_any_dtype(name, dtype):
    for length in (0, 1):
        same(
            lambda t, length=length: EMPTY_INDEX[name](
                t, numbers(t, (3,)), t.zeros(length, dtype=getattr(t, dtype))
            )
        )


STRIDED = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.t(),
    "every second": lambda x: x[:, ::2],
    "with an offset": lambda x: x[1:],
    "a column": lambda x: x[:, 1],
    "a part": lambda x: x[1:, 1:3],
}


@pytest.mark.parametrize("offset", [None, 0, 3, 5])
@pytest.mark.parametrize("layout", STRIDED)
def test_as_strided_scatter_of_any_layout(layout, offset):
    def use(t):
        x = STRIDED[layout](numbers(t, (3, 4)))
        extra = () if offset is None else (offset,)
        return x.as_strided_scatter(-t.ones(2, 2), (2, 2), (1, 3), *extra)

    same(use, lenient=True)


@pytest.mark.parametrize("layout", STRIDED)
def test_ravel_shares_memory_where_torch_does(layout):
    def use(t):
        x = numbers(t, (3, 4))
        STRIDED[layout](x).ravel().fill_(-1)
        STRIDED[layout](x)[:1].ravel().add_(1)
        return x

    same(use)
