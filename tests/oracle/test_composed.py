"""Functions that are made of others, where PyTorch's own samples do not go."""

import numpy as np
import pytest
import torch

import rushlight
from oracle.derivatives import assert_same_derivatives, normal
from rushlight import _copies

COPIES = [n for n in _copies.__all__ if n.endswith("_copy") and hasattr(torch, n)]


def test_nanmedian_equals_pytorchs():
    x = np.array([[5.0, np.nan, 1.0, 3.0], [np.nan, 2.0, 4.0, 0.5]])
    assert_same_derivatives(lambda t, a: t.nanmedian(a, 1)[0], x)
    assert_same_derivatives(lambda t, a: t.nanmedian(a), x)
    ours, theirs = (t.nanmedian(t.tensor(x), 1, True) for t in (rushlight, torch))
    assert ours.indices.tolist() == theirs.indices.tolist()


@pytest.mark.parametrize("name", COPIES)
def test_copies_share_nothing(name):
    arguments = {
        "as_strided_copy": ((2, 2), (1, 2)), "expand_copy": ((3, 2, 3),), "narrow_copy": (1, 0, 2),
        "permute_copy": ((1, 0),), "select_copy": (0, 1), "slice_copy": (1, 0, 3, 2),
        "split_copy": (1,), "split_with_sizes_copy": ([1, 1],), "transpose_copy": (0, 1),
        "unfold_copy": (1, 2, 1), "unsqueeze_copy": (0,), "view_copy": ((6,),),
    }.get(name, ())  # fmt: skip
    x = normal(2, 3)
    if name == "view_as_complex_copy":
        x = normal(3, 2)
    if name == "view_as_real_copy":
        x = x + 1j
    results = []
    for library in (rushlight, torch):
        t = library.tensor(x)
        y = getattr(library, name)(t, *arguments)
        parts = y if isinstance(y, (tuple, list)) else [y]
        results.append([p.numpy().copy() for p in parts])
        before = t.clone()
        for p in parts:
            p.zero_()
        assert library.equal(t, before)
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["gcd", "lcm"])
def test_divisors_and_multiples(name):
    a = np.array([[12, -18, 0, 7], [0, 5, 36, 100]])
    b = np.array([8, 27, 0, -7])
    ours, theirs = (getattr(t, name)(t.tensor(a), t.tensor(b)) for t in (rushlight, torch))
    assert ours.tolist() == theirs.tolist()


def test_where_sums_and_diagonals():
    assert_same_derivatives(
        lambda t, x, y: x.where(x > 0, y) + x.sum_to_size(1, 3), normal(2, 3), normal(2, 3)
    )
    for shape, wrap in (((3, 3), False), ((7, 3), True), ((7, 3), False), ((2, 5), True)):
        ours, theirs = (t.zeros(shape).fill_diagonal_(2, wrap) for t in (rushlight, torch))
        assert ours.tolist() == theirs.tolist()
    ours, theirs = (t.zeros(3, 3, 3).fill_diagonal_(2) for t in (rushlight, torch))
    assert ours.tolist() == theirs.tolist()


def test_histograms_and_places():
    x = normal(50)
    for options in ({"bins": 5}, {"bins": 4, "range": (-1.0, 1.0), "density": True}):
        ours, theirs = (t.histogram(t.tensor(x), **options) for t in (rushlight, torch))
        np.testing.assert_allclose(ours.hist.numpy(), theirs.hist.numpy())
        np.testing.assert_allclose(ours.bin_edges.numpy(), theirs.bin_edges.numpy())
    for t in (rushlight, torch):
        with pytest.raises(RuntimeError, match="min should not exceed max"):
            t.histogram(t.arange(3.0), 3, range=(2.0, 1.0))
        with pytest.raises(RuntimeError, match=r"range .* is not finite"):
            t.histogram(t.tensor([1.0, float("nan")]), 3)
        with pytest.raises(RuntimeError, match="equal to the innermost dimension"):
            t.histogramdd(t.ones(3, 2), [3])
        assert [i.tolist() for i in t.unravel_index(t.tensor([5, 7]), (3, 4))] == [[1, 1], [1, 3]]
        assert t.nonzero_static(t.tensor([0, 3, 4]), size=3).tolist() == [[1], [2], [-1]]


def test_conv_tbc_and_grid_sampler():
    assert_same_derivatives(
        lambda t, x, w, b: t.conv_tbc(x, w, b, 1), normal(5, 2, 3), normal(2, 3, 4), normal(4)
    )
    assert_same_derivatives(
        lambda t, x, g: t.grid_sampler_2d(x, g.tanh(), 0, 1, True), normal(1, 2, 4, 5),
        normal(1, 3, 2, 2),
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore:index_reduce.. is in beta")
@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_index_reduce(reduce, include_self):
    index = np.array([0, 2, 0, 1])

    def call(t, x, source):
        places = t.tensor(index)
        return t.index_reduce(x, 1, places, source, reduce, include_self=include_self)

    assert_same_derivatives(call, 2 + normal(2, 3), 3 + normal(2, 4), second=False)


def test_mantissas_and_exponents():
    x = np.array([3.0, -0.25, 0.0, 1.0, 1e300, 5e-324, -7.9, np.inf, 0.5])
    ours, theirs = (t.frexp(t.tensor(x)) for t in (rushlight, torch))
    finite = np.isfinite(x)
    np.testing.assert_array_equal(ours.mantissa.numpy()[finite], theirs.mantissa.numpy()[finite])
    np.testing.assert_array_equal(ours.exponent.numpy()[finite], theirs.exponent.numpy()[finite])
    assert_same_derivatives(lambda t, a: t.frexp(a).mantissa, normal(6), second=False)


def test_histograms_of_points():
    x = normal(40, 2)
    for options in ({"bins": [3, 4]}, {"bins": 2, "range": [-1.0, 1.0, 0.0, 1.0], "density": True}):
        ours, theirs = (t.histogramdd(t.tensor(x), **options) for t in (rushlight, torch))
        np.testing.assert_allclose(ours.hist.numpy(), theirs.hist.numpy())
        for a, b in zip(ours.bin_edges, theirs.bin_edges, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy())


@pytest.mark.parametrize(("modes", "text"), [((7, 0), "interpolation"), ((0, -1), "padding")])
def test_modes_of_grid_sampler_have_a_range(modes, text):
    """PyTorch gives what was in memory."""
    x, grid = rushlight.ones(1, 1, 2, 2), rushlight.zeros(1, 2, 2, 2)
    with pytest.raises(ValueError, match=rf"{text}_mode must be one of 0 \("):
        rushlight.grid_sampler_2d(x, grid, *modes, False)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int64", "bool"])
@pytest.mark.parametrize("shape", [(), (5,), (2, 7), (3, 4, 2)])
def test_hashes(shape, dtype):
    def hashes(t):
        size = int(np.prod(shape))
        x = (t.arange(size) * 37 % 101 - 20).reshape(shape)
        x = x.to(t.int64).to(getattr(t, dtype))
        found = [t.hash_tensor(x), x.hash_tensor(mode=0)]
        for dim in range(len(shape)):
            found += [t.hash_tensor(x, dim), t.hash_tensor(x, dim - len(shape), keepdim=True)]
        if len(shape) > 1:
            found.append(t.hash_tensor(x, (0, 1)))
        return [(each.tolist(), str(each.dtype)) for each in found]

    assert hashes(rushlight) == hashes(torch)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda t: t.hash_tensor(t.ones(2, 2), 5),
        lambda t: t.hash_tensor(t.ones(0)),
        lambda t: t.hash_tensor(t.ones(0, 3), 0),
        lambda t: t.hash_tensor(t.ones(2), mode=1),
        lambda t: t.hash_tensor(t.ones(2, dtype=t.complex64)),
    ],
)
def test_what_has_no_hash(wrong):
    with pytest.raises(Exception) as theirs:
        wrong(torch)
    with pytest.raises(theirs.type):
        wrong(rushlight)


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_older_methods(tmp_path):
    def answers(t, file):
        x = t.arange(6.0)
        file.write_bytes(bytes(range(16)))
        mapped = t.from_file(str(file), shared=True, size=3, dtype=t.int16)
        mapped[0] = 7
        with pytest.raises(RuntimeError, match="unable to open file"):
            t.from_file(str(file.parent / "nowhere"), size=1)
        with pytest.raises(RuntimeError):
            t.from_file(str(file), size=100)
        with pytest.warns(UserWarning, match="non-inplace resize is deprecated"):
            resized = x.resize(2, 3)
        with pytest.warns(UserWarning, match="volatile was removed"):
            assert x.volatile is False
        loaded = t.zeros(6, requires_grad=True).detach().module_load(x)
        return [
            mapped.tolist(), file.read_bytes(), resized.tolist(), loaded.tolist(),
            t.ones(6).module_load(x, assign=True).data_ptr() == x.data_ptr(), x.name,
            x.const_data_ptr() == x.data_ptr(), str(x.storage_type()),
            t.utils.dlpack.DLDeviceType.kDLCPU == x.__dlpack_device__()[0],
        ]  # fmt: skip

    ours, theirs = (answers(t, tmp_path / t.__name__) for t in (rushlight, torch))
    assert ours == theirs
