"""Indexing: reading, writing and gradients of x[...], against NumPy over many expressions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight as torch
from support import check, leaf, numerical_grad, randleaf, randn, values

SHAPE = (4, 3, 5)
I64 = np.int64


def on_array(a, index):
    """x[index] in torch's order: ints, slices and None first, then the arrays at once."""
    index = index if isinstance(index, tuple) else (index,)
    taken = sum(i.ndim if is_mask(i) else i is not None and i is not Ellipsis for i in index)
    full = [slice(None)] * (a.ndim - taken)
    if Ellipsis in [i for i in index if not isinstance(i, (np.ndarray, list))]:
        at = next(k for k, i in enumerate(index) if i is Ellipsis)
        index = (*index[:at], *full, *index[at + 1 :])
    else:
        index = (*index, *full)
    first, second = [], []
    for i in index:
        if isinstance(i, (np.ndarray, list)):
            i = np.asarray(i)
            first += [slice(None)] * (i.ndim if is_mask(i) else 1)
            second.append(i)
        else:
            first.append(i)
            if not isinstance(i, int):
                second.append(slice(None))
    return a[tuple(first)][tuple(second)]


def is_mask(i):
    return isinstance(i, np.ndarray) and i.dtype == bool


def on_tensor(index):
    """The same expression with arrays turned into tensors."""
    if isinstance(index, tuple):
        return tuple(on_tensor(i) for i in index)
    return torch.tensor(index) if isinstance(index, np.ndarray) else index


MASK = np.random.default_rng(3).random(SHAPE) > 0.5
EXPRESSIONS = [
    0,
    -1,
    (1, 2, 3),
    (-1, -1, -1),
    slice(None),
    slice(1, 3),
    slice(None, None, 2),
    slice(3, 1),
    slice(-2, None),
    slice(10, 20),
    slice(-100, 100, 3),
    (slice(1, None), 0, slice(None, None, 3)),
    None,
    (None, 0, None),
    Ellipsis,
    (Ellipsis, 0),
    (0, Ellipsis, slice(1, 4, 2)),
    (Ellipsis, None, slice(1, 2), None),
    (),
    [0, 2],
    [0, 0, -1],
    ([0, 1, 2], [2, 1, 0]),
    ([0, 1], slice(None), [2, 3]),
    (slice(None), [0, 2], [1, 4]),
    (slice(None), [0, 2]),
    (Ellipsis, [0, 2]),
    (None, [1, 3], Ellipsis),
    (1, [0, 2], slice(1, 4)),
    (1, slice(None), [0, 2]),
    ([1, 3], 1, [0, 2]),
    ([1, 3], None, [0, 2]),
    np.array([[0, 1], [2, 3]]),
    (np.array([[0], [1]]), np.array([0, 2])),
    (np.array([[0], [1]]), slice(None), np.array([0, 2, 4])),
    (np.array(2), np.array([1])),
    np.zeros((0,), I64),
    (np.zeros((2, 0), I64), 1),
    MASK,
    (MASK[:, 0, 0],),
    (slice(None), MASK[0, :, 0]),
    (Ellipsis, MASK[0, 0, :]),
    (MASK[:, :, 0], slice(1, 3)),
    (MASK[:, :, 0], 1),
    (0, MASK[0]),
    (MASK[:, 0, 0], slice(None), [1]),
    np.zeros(SHAPE, bool),
    (np.zeros(4, bool), Ellipsis),
    np.ones(SHAPE, bool),
]


def selected_positions(index):
    return on_array(np.arange(np.prod(SHAPE)).reshape(SHAPE), index)


class TestReading:
    @pytest.mark.parametrize("index", EXPRESSIONS, ids=repr)
    def test_values_match_numpy(self, index):
        a = values(randn(*SHAPE))
        check(torch.tensor(a)[on_tensor(index)], on_array(a, index))

    @pytest.mark.parametrize("index", EXPRESSIONS, ids=repr)
    def test_values_match_numpy_on_a_transposed_tensor(self, index):
        t = randn(*SHAPE[::-1]).permute(2, 1, 0)
        check(t[on_tensor(index)], on_array(values(t), index))

    @pytest.mark.parametrize("index", EXPRESSIONS, ids=repr)
    def test_gradient_scatters_into_the_selected_places(self, index):
        x = randleaf(*SHAPE)
        y = x[on_tensor(index)]
        weight = randn(*y.shape, seed=1)
        (y * weight).sum().backward()
        expected = np.zeros(x.numel())
        np.add.at(expected, selected_positions(index).ravel(), values(weight).ravel())
        check(x.grad, expected.reshape(SHAPE))

    @pytest.mark.parametrize("index", EXPRESSIONS, ids=repr)
    def test_second_derivative(self, index):
        x = randleaf(*SHAPE)
        (g,) = torch.autograd.grad((x[on_tensor(index)] ** 3).sum(), x, create_graph=True)
        (h,) = torch.autograd.grad((g**2).sum(), x)
        count = np.zeros(x.numel())
        np.add.at(count, selected_positions(index).ravel(), 1)
        count = count.reshape(SHAPE)
        check(h, 36 * count**2 * values(x) ** 3)

    def test_basic_indexing_makes_views_and_advanced_indexing_copies(self):
        t = torch.zeros(4, 4)
        for basic in (0, slice(1, 3), None, (Ellipsis, 1), (slice(None), slice(0, 4, 2))):
            assert t[basic]._base is t
        for advanced in ([0, 1], torch.tensor([1]), t > 0, (0, [1])):
            assert t[advanced]._base is None
        assert t[...] is not t
        assert t[...]._base is t

    @pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
    def test_index_tensors_of_either_width(self, dtype):
        t = torch.arange(10, 20)
        assert t[torch.tensor([1, -1], dtype=dtype)].tolist() == [11, 19]

    def test_zero_dimensional_tensors_index_as_numbers(self):
        t = torch.arange(6).reshape(2, 3)
        assert t[torch.tensor(1)].tolist() == [3, 4, 5]
        assert t[torch.tensor(1), torch.tensor(2)].item() == 5
        assert t[torch.tensor(0) : torch.tensor(1)].shape == (1, 3)
        assert t[np.int64(1)].tolist() == [3, 4, 5]

    def test_bool_scalars_add_a_dimension(self):
        t = torch.arange(3)
        assert t[True].shape == (1, 3)
        assert t[False].shape == (0, 3)
        assert torch.tensor(7)[torch.tensor(True)].tolist() == [7]
        assert torch.tensor(7)[...].item() == 7
        assert torch.tensor(7)[None].tolist() == [7]

    def test_bool_lists_are_masks(self):
        assert torch.arange(3)[[True, False, True]].tolist() == [0, 2]

    def test_many_single_reads_of_one_tensor_sum_their_gradients_exactly(self):
        n = 20_000
        x = torch.ones(n, dtype=torch.float64, requires_grad=True)
        total = torch.zeros((), dtype=torch.float64)
        for i in range(n):
            total = total + x[i] * i
        total.backward()
        assert x.grad.tolist() == list(range(n))


READ_ERRORS = [
    (lambda t: t[4], IndexError, "out of bounds|out of range"),
    (lambda t: t[-5], IndexError, "out of bounds|out of range"),
    (lambda t: t[0, 0, 0, 0], IndexError, "too many indices"),
    (lambda t: t[..., 0, 0, 0, 0], IndexError, "too many indices"),
    (lambda t: t[[4]], IndexError, "out of bounds|out of range"),
    (lambda t: t[torch.tensor([-5])], IndexError, "out of bounds|out of range"),
    (lambda t: t[[0, 1], [0, 1, 2]], IndexError, "shape mismatch|broadcast"),
    (lambda t: t[torch.ones(3, dtype=torch.bool)], IndexError, "mask"),
    (lambda t: t[torch.ones(4, 4, dtype=torch.bool)], IndexError, "mask"),
    (lambda t: t[1.5], (IndexError, TypeError), "indices|index"),
    (lambda t: t[torch.tensor([0.5])], IndexError, "long, int, byte or bool"),
    (lambda t: t["a"], (IndexError, TypeError), "str|index"),
    (lambda t: t[::-1], ValueError, "step must be greater than zero"),
    (lambda t: t[::0], ValueError, "zero"),
    (lambda t: t[0.5:], TypeError, "slice indices|integer"),
    (lambda t: t[{}], (IndexError, TypeError), "indices|index"),
    (lambda t: torch.tensor(1)[0], IndexError, "0-dim|0-d"),
]


@pytest.mark.parametrize(("bad", "error", "text"), READ_ERRORS)
def test_wrong_reads_raise(bad, error, text):
    with pytest.raises(error, match=text):
        bad(torch.zeros(4, 3, 5))


class TestWriting:
    @pytest.mark.parametrize("index", EXPRESSIONS, ids=repr)
    def test_scalar_assignment(self, index):
        t = torch.zeros(SHAPE, dtype=torch.float64)
        t[on_tensor(index)] = 2.5
        expected = np.zeros(t.numel())
        expected[selected_positions(index).ravel()] = 2.5
        check(t, expected.reshape(SHAPE))

    @pytest.mark.parametrize("index", EXPRESSIONS, ids=repr)
    def test_tensor_assignment_and_its_gradients(self, index):
        where = selected_positions(index)
        if len(np.unique(where)) < where.size:
            where, index = selected_positions([0, 2]), [0, 2]
        x, v = randleaf(*SHAPE), randleaf(*where.shape, seed=1)
        t = x * 2
        t[on_tensor(index)] = v
        expected = 2 * values(x).ravel()
        expected[where.ravel()] = values(v).ravel()
        check(t, expected.reshape(SHAPE))
        weight = randn(*SHAPE, seed=2)
        (t * weight).sum().backward()
        kept = 2 * values(weight).ravel()
        kept[where.ravel()] = 0
        check(x.grad, kept.reshape(SHAPE))
        check(v.grad, values(weight).ravel()[where])

    def test_values_broadcast(self):
        t = torch.zeros(3, 4)
        t[1:] = torch.arange(4.0)
        t[:, [0, 3]] = torch.tensor([[9.0], [8.0], [7.0]])
        assert t.tolist() == [[9, 0, 0, 9], [8, 1, 2, 8], [7, 1, 2, 7]]
        t[0] = torch.ones(1, 1, 4)
        assert t[0].tolist() == [1, 1, 1, 1]

    def test_broadcast_value_receives_the_summed_gradient(self):
        v = leaf([3.0])
        t = torch.zeros(2, 3, dtype=torch.float64)
        t[:, [0, 2]] = v
        t.sum().backward()
        assert v.grad.tolist() == [4.0]

    def test_assignment_converts_the_dtype(self):
        t = torch.zeros(2, dtype=torch.int64)
        t[0] = 2.9
        t[1:] = torch.tensor([3.9])
        assert t.tolist() == [2, 3]

    def test_assignment_makes_a_plain_tensor_part_of_the_graph(self):
        v = leaf([1.0, 2.0])
        t = torch.zeros(4, dtype=torch.float64)
        t[1:3] = v * 2
        assert t.requires_grad
        assert not t.is_leaf
        (t * torch.tensor([1.0, 10.0, 100.0, 1000.0], dtype=torch.float64)).sum().backward()
        assert v.grad.tolist() == [20.0, 200.0]

    def test_masked_assignment_takes_one_value_for_each_true(self):
        t = torch.zeros(4)
        t[torch.tensor([True, False, True, False])] = torch.tensor([5.0, 6.0])
        assert t.tolist() == [5, 0, 6, 0]

    def test_augmented_assignment(self):
        t = torch.arange(4.0)
        t[1:3] += 10
        t[[0, 3]] *= 2
        assert t.tolist() == [0, 11, 12, 6]

    def test_repeated_positions_are_written_once_not_accumulated(self):
        t = torch.zeros(3)
        t[[1, 1, 1]] += 1
        assert t.tolist() == [0, 1, 0]

    def test_assignment_bumps_the_version_by_one(self):
        t = torch.zeros(3)
        before = t._version
        t[0] = 1
        assert t._version == before + 1

    def test_overlapping_source_is_read_before_it_is_written(self):
        t = torch.arange(5)
        t[[0, 1]] = t[[1, 0]]
        assert t.tolist() == [1, 0, 2, 3, 4]

    def test_index_put_accumulates_when_told(self):
        t = torch.zeros(3)
        t.index_put_((torch.tensor([1, 1, 2]),), torch.tensor([1.0, 2.0, 3.0]), accumulate=True)
        assert t.tolist() == [0, 3, 3]

    def test_gradient_of_a_chain_of_assignments_is_the_numerical_one(self):
        def f(x):
            t = x * 1.5
            t[0] = t[1].clone() * t[2].clone()
            t[:, 1] = t[:, 0].clone().exp()
            t[[0, 2], [1, 0]] = x[0, :2] ** 2
            return (t**2).sum()

        x = randleaf(3, 3)
        f(x).backward()
        np.testing.assert_allclose(values(x.grad), numerical_grad(f, x), rtol=1e-6, atol=1e-6)


def assign(index, value):
    def run(t):
        t[index] = value

    return run


WRITE_ERRORS = [
    (assign(4, 0), IndexError, "out of bounds|out of range"),
    (assign([0, 9], 0), IndexError, "out of bounds|out of range"),
    (assign(0, torch.zeros(4)), RuntimeError, "expand|broadcast|match"),
    (assign([0, 1], torch.zeros(4)), RuntimeError, "shape mismatch|broadcast"),
    (assign(slice(0, 2), torch.zeros(3, 3, 5)), RuntimeError, "expand|broadcast|match"),
    (assign((0, 0, 0, 0), 1), IndexError, "too many indices"),
    (assign(0, "x"), TypeError, "str|assign"),
    (assign(0, None), TypeError, "NoneType|assign"),
    (assign(slice(None, None, -1), 0), ValueError, "step"),
]


@pytest.mark.parametrize(("bad", "error", "text"), WRITE_ERRORS)
def test_wrong_writes_raise_and_change_nothing(bad, error, text):
    t = torch.zeros(4, 3, 5)
    with pytest.raises(error, match=text):
        bad(t)
    assert t.sum().item() == 0
    assert t._version == 0


def index_for(dim):
    """One index of a random kind that is valid for a dimension of this size."""
    ends = st.none() | st.integers(-dim - 1, dim + 1)
    return st.one_of(
        st.integers(-dim, dim - 1),
        st.builds(slice, ends, ends, st.none() | st.integers(1, 3)),
        st.lists(st.integers(-dim, dim - 1), min_size=2, max_size=2),
        st.lists(st.integers(-dim, dim - 1), min_size=2, max_size=2).map(np.array),
        st.lists(st.integers(-dim, dim - 1), min_size=3, max_size=3).map(
            lambda v: np.array(v)[:, None]
        ),
    )


@st.composite
def expressions(draw):
    count = draw(st.integers(0, 3))
    items = [draw(index_for(SHAPE[k])) for k in range(count)]
    ellipsis_at = draw(st.none() | st.integers(0, count))
    if ellipsis_at is not None:
        keep = SHAPE[3 - (count - ellipsis_at) :]
        tail = [draw(index_for(dim)) for dim in keep]
        items = [*items[:ellipsis_at], Ellipsis, *tail]
    for _ in range(draw(st.integers(0, 2))):
        items.insert(draw(st.integers(0, len(items))), None)
    return tuple(items)


@settings(max_examples=300, deadline=None)
@given(expressions())
def test_random_expressions_read_write_and_differentiate_as_numpy(index):
    a = values(randn(*SHAPE))
    x = torch.tensor(a, requires_grad=True)
    y = x[on_tensor(index)]
    check(y, on_array(a, index))
    where = selected_positions(index).ravel()
    y.sum().backward()
    expected = np.zeros(a.size)
    np.add.at(expected, where, 1)
    check(x.grad, expected.reshape(SHAPE))
    t = torch.tensor(a)
    t[on_tensor(index)] = -7.0
    a = a.ravel().copy()
    a[where] = -7
    check(t, a.reshape(SHAPE))


def test_the_first_of_many_wrong_indices_is_named():
    """Threads look for it in parts."""
    places = torch.zeros(400_000, dtype=torch.int64)
    places[150_000], places[390_000] = 7, 8
    with pytest.raises((IndexError, RuntimeError), match=r"\b7\b"):
        torch.zeros(5).index_add(0, places, torch.ones(400_000))
    with pytest.raises(IndexError, match=r"\b7\b"):
        torch.zeros(5)[places]
