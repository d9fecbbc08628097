"""Views: they share the storage, know their base, and carry the right strides and offset."""

import numpy as np
import pytest

import rushlight as torch
from support import check, numerical_grad, randleaf, randn, values


def base():
    return torch.arange(24, dtype=torch.float64).reshape(2, 3, 4)


def numpy_base():
    return np.arange(24, dtype=np.float64).reshape(2, 3, 4)


# name -> (on a tensor, on an array)
VIEWS = {
    "view": (lambda t: t.view(4, 6), lambda a: a.reshape(4, 6)),
    "view_minus_one": (lambda t: t.view(-1, 2), lambda a: a.reshape(-1, 2)),
    "view_tuple": (lambda t: t.view((2, 12)), lambda a: a.reshape(2, 12)),
    "view_as": (lambda t: t.view_as(torch.zeros(6, 4)), lambda a: a.reshape(6, 4)),
    "reshape": (lambda t: t.reshape(3, 8), lambda a: a.reshape(3, 8)),
    "permute": (lambda t: t.permute(2, 0, 1), lambda a: a.transpose(2, 0, 1)),
    "permute_negative": (lambda t: t.permute(-1, 0, -2), lambda a: a.transpose(2, 0, 1)),
    "transpose": (lambda t: t.transpose(0, 2), lambda a: a.swapaxes(0, 2)),
    "transpose_negative": (lambda t: t.transpose(-1, -2), lambda a: a.swapaxes(1, 2)),
    "swapaxes": (lambda t: t.swapaxes(0, 1), lambda a: a.swapaxes(0, 1)),
    "mT": (lambda t: t.mT, lambda a: a.swapaxes(1, 2)),
    "t": (lambda t: t[0].t(), lambda a: a[0].T),
    "T": (lambda t: t[0].T, lambda a: a[0].T),
    "expand": (lambda t: t.expand(5, 2, 3, 4), lambda a: np.broadcast_to(a, (5, 2, 3, 4))),
    "expand_minus_one": (
        lambda t: t[:, :1].expand(-1, 6, -1),
        lambda a: np.broadcast_to(a[:, :1], (2, 6, 4)),
    ),
    "squeeze": (lambda t: t[:1, :, :1].squeeze(), lambda a: a[:1, :, :1].squeeze()),
    "squeeze_dim": (lambda t: t[:1].squeeze(0), lambda a: a[0]),
    "squeeze_dims": (lambda t: t[:1, :, :1].squeeze((0, 2)), lambda a: a[0, :, 0]),
    "squeeze_large_dim": (lambda t: t.squeeze(1), lambda a: a),
    "unsqueeze": (lambda t: t.unsqueeze(1), lambda a: a[:, None]),
    "unsqueeze_negative": (lambda t: t.unsqueeze(-1), lambda a: a[..., None]),
    "select": (lambda t: t.select(1, 2), lambda a: a[:, 2]),
    "select_negative": (lambda t: t.select(-1, -1), lambda a: a[..., -1]),
    "narrow": (lambda t: t.narrow(2, 1, 2), lambda a: a[:, :, 1:3]),
    "narrow_negative": (lambda t: t.narrow(-1, -2, 2), lambda a: a[:, :, -2:]),
    "slice": (lambda t: t[:, 1:, ::2], lambda a: a[:, 1:, ::2]),
    "split": (lambda t: t.split(2, dim=1)[1], lambda a: a[:, 2:]),
    "split_sizes": (lambda t: t.split([1, 3], dim=2)[1], lambda a: a[:, :, 1:]),
    "chunk": (lambda t: t.chunk(3, dim=-1)[0], lambda a: a[:, :, :2]),
    "unbind": (lambda t: t.unbind(1)[2], lambda a: a[:, 2]),
    "diagonal": (lambda t: t[0].diagonal(), lambda a: a[0].diagonal()),
    "diagonal_offset": (
        lambda t: t.diagonal(1, dim1=1, dim2=2),
        lambda a: a.diagonal(1, axis1=1, axis2=2),
    ),
    "diagonal_below": (
        lambda t: t.diagonal(-1, 0, 2),
        lambda a: a.diagonal(-1, axis1=0, axis2=2),
    ),
    "unfold": (
        lambda t: t.unfold(2, 2, 1),
        lambda a: np.lib.stride_tricks.sliding_window_view(a, 2, axis=2),
    ),
    "as_strided": (
        lambda t: t.as_strided((3, 2), (5, 1), 2),
        lambda a: a.reshape(-1)[[[2, 3], [7, 8], [12, 13]]],
    ),
    "movedim": (lambda t: t.movedim(0, -1), lambda a: np.moveaxis(a, 0, -1)),
    "movedim_many": (
        lambda t: t.movedim((0, 1), (2, 0)),
        lambda a: np.moveaxis(a, (0, 1), (2, 0)),
    ),
    "flatten": (lambda t: t.flatten(), lambda a: a.reshape(-1)),
    "flatten_part": (lambda t: t.flatten(1, 2), lambda a: a.reshape(2, 12)),
    "flatten_start": (lambda t: t.flatten(start_dim=-2), lambda a: a.reshape(2, 12)),
    "unflatten": (lambda t: t.unflatten(2, (2, -1)), lambda a: a.reshape(2, 3, 2, 2)),
}


class TestEveryView:
    @pytest.mark.parametrize("name", VIEWS)
    def test_values_are_numpys(self, name):
        on_tensor, on_array = VIEWS[name]
        check(on_tensor(base()), on_array(numpy_base()))

    @pytest.mark.parametrize("name", VIEWS)
    def test_view_shares_storage_base_and_version(self, name):
        t = base().clone()
        v = VIEWS[name][0](t)
        assert v._is_view()
        assert v._base is t
        assert v.untyped_storage().data_ptr() == t.untyped_storage().data_ptr()
        assert v.data_ptr() == t.data_ptr() + v.storage_offset() * v.element_size()
        before = v._version
        t.add_(100)
        assert v._version == before + 1 == t._version
        check(v, VIEWS[name][1](numpy_base() + 100))

    @pytest.mark.parametrize("name", VIEWS)
    def test_strides_are_those_of_the_numpy_view(self, name):
        v = VIEWS[name][0](base())
        if name == "as_strided":
            assert v.stride() == (5, 1)
            assert v.storage_offset() == 2
            return
        a = VIEWS[name][1](numpy_base())
        for dim, size in enumerate(a.shape):
            if size > 1:
                assert v.stride(dim) * 8 == a.strides[dim]

    @pytest.mark.parametrize("name", VIEWS)
    def test_gradient_is_the_numerical_one(self, name):
        weights = randn(*VIEWS[name][0](base()).shape, seed=1)

        def f(t):
            return (VIEWS[name][0](t) ** 2 * weights).sum()

        x = randleaf(2, 3, 4)
        f(x).backward()
        np.testing.assert_allclose(values(x.grad), numerical_grad(f, x), atol=1e-6)

    @pytest.mark.parametrize("name", VIEWS)
    def test_second_derivative_flows_through_the_view(self, name):
        x = randleaf(2, 3, 4)
        y = (VIEWS[name][0](x) ** 3).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), x)
        counts = torch.zeros(2, 3, 4, dtype=torch.float64, requires_grad=True)
        VIEWS[name][0](counts).sum().backward()
        check(h, values(counts.grad) * 6 * values(x))


class TestStrides:
    def test_contiguity(self):
        t = torch.zeros(2, 3, 4)
        assert t.is_contiguous()
        assert t.stride() == (12, 4, 1)
        assert t.stride(-1) == 1
        assert not t.transpose(0, 1).is_contiguous()
        assert t[1].is_contiguous()
        assert t[1].storage_offset() == 12
        assert not t[:, 0].is_contiguous()
        assert t[:1, :, :].is_contiguous()
        assert torch.zeros(3, 0, 2).transpose(0, 2).is_contiguous()
        assert torch.zeros(1, 5).t().is_contiguous()

    def test_contiguous_is_the_same_object_or_a_packed_copy(self):
        t = torch.arange(6).reshape(2, 3)
        assert t.contiguous() is t
        u = t.t().contiguous()
        assert u.is_contiguous()
        assert u.data_ptr() != t.data_ptr()
        assert not u._is_view()
        assert u.tolist() == [[0, 3], [1, 4], [2, 5]]

    def test_clone_keeps_a_dense_layout_and_packs_others(self):
        t = torch.arange(6.0).reshape(2, 3)
        assert t.t().clone().stride() == (1, 3)
        assert t[:, ::2].clone().stride() == (2, 1)
        assert t[:1].expand(4, 3).clone().stride() == (3, 1)
        assert t.clone().data_ptr() != t.data_ptr()
        assert t.t().clone(memory_format=torch.contiguous_format).stride() == (2, 1)

    def test_expand_has_stride_zero(self):
        assert torch.zeros(3, 1).expand(3, 4).stride() == (1, 0)
        assert torch.zeros(()).expand(2, 2).stride() == (0, 0)
        assert torch.zeros(1).expand_as(torch.zeros(5)).stride() == (0,)
        assert torch.broadcast_to(torch.zeros(1), (5,)).stride() == (0,)

    def test_reshape_copies_only_when_it_must(self):
        t = torch.arange(6).reshape(2, 3)
        assert t.reshape(6).data_ptr() == t.data_ptr()
        moved = t.t().reshape(6)
        assert moved.data_ptr() != t.data_ptr()
        assert moved.tolist() == [0, 3, 1, 4, 2, 5]
        assert t.t().reshape(3, 2, 1).data_ptr() == t.data_ptr()

    def test_view_of_empty_and_zero_dimensional_tensors(self):
        assert torch.zeros(0, 3).view(3, 0).shape == (3, 0)
        assert torch.tensor(1.0).view(1, 1).shape == (1, 1)
        assert torch.zeros(1).view(()).shape == ()

    def test_view_of_a_view_has_the_root_as_base(self):
        t = torch.zeros(4, 4)
        assert t[1:].t()[0]._base is t
        assert t.detach()._base is None
        assert not t.detach()._is_view()
        assert not t._is_view()
        assert t._base is None

    def test_detach_shares_storage_and_version_but_not_history(self):
        x = randleaf(3)
        d = (x * 2).detach()
        assert d.is_leaf
        assert not d.requires_grad
        assert d.grad_fn is None
        t = torch.zeros(3)
        t.detach().add_(1)
        assert t.tolist() == [1, 1, 1]
        assert t._version == 1

    def test_data_shares_storage_with_a_version_of_its_own(self):
        t = torch.zeros(3)
        t.data.add_(1)
        assert t.tolist() == [1, 1, 1]
        assert t._version == 0

    def test_views_view_as_real_dtype(self):
        bits = torch.tensor([1.0]).view(torch.int32)
        assert bits.item() == 0x3F800000

    def test_split_and_chunk_cover_the_dimension(self):
        t = torch.arange(10)
        assert [p.tolist() for p in t.split(4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        assert [len(p) for p in t.chunk(4)] == [3, 3, 3, 1]
        assert [len(p) for p in torch.chunk(t, 6)] == [2, 2, 2, 2, 2]
        assert [len(p) for p in torch.split(t, [0, 7, 3])] == [0, 7, 3]
        assert isinstance(t.split(4), tuple)
        assert isinstance(t.unbind(), tuple)

    def test_writes_through_a_view_reach_the_base(self):
        t = torch.zeros(3, 3)
        t.diagonal().fill_(1)
        t.t()[0, 2] = 5
        assert t.tolist() == [[1, 0, 0], [0, 1, 0], [5, 0, 1]]

    def test_function_and_method_forms_agree(self):
        t = base()
        assert torch.transpose(t, 0, 1).stride() == t.transpose(0, 1).stride()
        assert torch.permute(t, (2, 1, 0)).stride() == t.permute(2, 1, 0).stride()
        assert torch.unsqueeze(t, 0).shape == (1, 2, 3, 4)
        assert torch.movedim(t, 0, 2).shape == torch.moveaxis(t, 0, 2).shape == (3, 4, 2)
        assert torch.narrow(t, 0, 1, 1)._base is t._base
        assert torch.select(t, dim=0, index=1).shape == (3, 4)


ERRORS = [
    (lambda t: t.view(5, 5), RuntimeError, "invalid for input of size"),
    (lambda t: t.view(-1, -1), RuntimeError, "only one dimension can be inferred"),
    (lambda t: t.view(-1, 0), RuntimeError, "ambiguous|invalid"),
    (lambda t: t.transpose(0, 2).view(24), RuntimeError, "view size is not compatible"),
    (lambda t: t.reshape(7, -1), RuntimeError, "invalid for input of size"),
    (lambda t: t.permute(0, 1), RuntimeError, "number of dimensions"),
    (lambda t: t.permute(0, 0, 1), RuntimeError, "duplicate|repeated|unique"),
    (lambda t: t.permute(0, 1, 3), IndexError, "Dimension out of range"),
    (lambda t: t.transpose(0, 3), IndexError, "Dimension out of range"),
    (lambda t: t.t(), RuntimeError, "<= 2"),
    (lambda t: t.expand(2, 3), RuntimeError, "expand"),
    (lambda t: t.expand(2, 5, 4), RuntimeError, "must match the existing size"),
    (lambda t: t.expand(-1, 2, 3, 4), RuntimeError, "-1"),
    (lambda t: t.unsqueeze(5), IndexError, "Dimension out of range"),
    (lambda t: t.squeeze(3), IndexError, "Dimension out of range"),
    (lambda t: t.select(1, 3), IndexError, "out of range"),
    (lambda t: t.select(1, -4), IndexError, "out of range"),
    (lambda t: t.narrow(0, 1, 2), RuntimeError, "exceeds dimension size"),
    (lambda t: t.narrow(0, 0, -1), RuntimeError, "non-negative"),
    (lambda t: t.split([1, 1], dim=1), RuntimeError, "sum exactly"),
    (lambda t: t.split(-1), RuntimeError, "non-negative"),
    (lambda t: t.chunk(0), RuntimeError, "greater than 0|positive"),
    (lambda t: t.diagonal(0, 1, 1), RuntimeError, "identical"),
    (lambda t: t.unfold(0, 3, 1), RuntimeError, "maximum size"),
    (lambda t: t.unfold(0, 1, 0), RuntimeError, "step"),
    (lambda t: t.as_strided((30,), (1,)), RuntimeError, "out of bounds"),
    (lambda t: t.as_strided((2,), (1, 1)), RuntimeError, "mismatch"),
    (lambda t: t.movedim((0, 0), (1, 2)), RuntimeError, "(?i)repeated|unique"),
    (lambda t: t.flatten(2, 1), RuntimeError, "start_dim"),
    (lambda t: t.mT.view(2, 12), RuntimeError, "view size is not compatible"),
    (lambda t: t[0, 0].mT, RuntimeError, "mT"),
    (lambda t: t.view("x"), TypeError, "view"),
    (lambda t: t.permute(), (RuntimeError, TypeError), "permute"),
    (lambda t: torch.zeros(()).unbind(), IndexError, "no dimensions"),
]


@pytest.mark.parametrize(("bad", "error", "text"), ERRORS)
def test_wrong_views_raise(bad, error, text):
    with pytest.raises(error, match=text):
        bad(base())


def test_ravel_copies_what_has_gaps():
    x = torch.arange(6.0)
    x[::2].ravel().zero_()
    assert x.tolist() == [0, 1, 2, 3, 4, 5]
    m = torch.zeros(2, 6)
    m[:1, ::2].ravel().fill_(1)
    assert m.sum().item() == 0
    m[:1].ravel().fill_(1)
    assert m.sum().item() == 6
    assert torch.zeros(1).expand(3).ravel().stride() == (1,)


def test_t_of_a_vector_is_another_tensor():
    for x in (torch.zeros(3), torch.zeros(())):
        assert x.T is not x
        assert x.T._is_view()
        assert x.T.shape == x.shape
        assert x.T.data_ptr() == x.data_ptr()


def as_strided_gradient(make, size, stride, offset):
    """The gradient of a weighted sum of base[...].as_strided(...) in the base, two ways."""
    base = torch.arange(12.0, dtype=torch.float64).requires_grad_()
    read = make(base).as_strided(size, stride, offset)
    weight = torch.arange(1.0, read.numel() + 1, dtype=torch.float64).reshape(read.shape)
    (found,) = torch.autograd.grad((read * weight).sum(), base)
    places = torch.arange(12).as_strided(size, stride, offset)
    expected = torch.zeros(12, dtype=torch.float64)
    expected.index_add_(0, places.reshape(-1), weight.reshape(-1))
    return found.tolist(), expected.tolist()


LAYOUTS = {
    "a slice": lambda x: x[1:3],
    "every second": lambda x: x[::2],
    "a matrix": lambda x: x.view(3, 4),
    "transposed": lambda x: x.view(3, 4).t(),
    "a column": lambda x: x.view(3, 4)[:, 1],
    "a part": lambda x: x.view(3, 4)[1:, 1:3],
    "expanded": lambda x: x[:1].expand(5),
    "a number": lambda x: x[7],
    "nothing": lambda x: x[5:5],
}
REGIONS = [((3,), (1,), 3), ((3,), (1,), 0), ((2, 2), (1, 5), 1), ((2, 3), (0, 2), 2), ((), (), 11)]


@pytest.mark.parametrize(("size", "stride", "offset"), REGIONS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_as_strided_of_a_view_reads_its_base(layout, size, stride, offset):
    found, expected = as_strided_gradient(LAYOUTS[layout], size, stride, offset)
    assert found == expected


def test_as_strided_beyond_a_leaf_reads_constants():
    memory = torch.arange(6.0, dtype=torch.float64)
    leaf = memory[1:5:2].requires_grad_()
    read = leaf.as_strided((4,), (1,), 1)
    assert read.tolist() == [1, 2, 3, 4]
    (read * torch.tensor([1.0, 2, 3, 4])).sum().backward()
    assert leaf.grad.tolist() == [1, 3]


def test_as_strided_scatter_of_a_view_has_a_gradient():
    base = torch.arange(6.0, dtype=torch.float64).requires_grad_()
    src = torch.ones(2, dtype=torch.float64).requires_grad_()
    result = base[::2].as_strided_scatter(src, (2,), (1,), 2)
    assert result.tolist() == [0, 1, 4]
    (result * torch.tensor([1.0, 2, 3])).sum().backward()
    assert base.grad.tolist() == [1, 0, 0, 0, 3, 0]
    assert src.grad.tolist() == [2, 0]


def test_as_strided_scatter_leaves_other_elements_alone():
    x = torch.arange(12.0)
    assert x[::2].as_strided_scatter(-torch.ones(2), (2,), (2,), 4).tolist() == [
        0,
        2,
        -1,
        -1,
        8,
        10,
    ]
    assert x[3:].as_strided_scatter(-torch.ones(2), (2,), (2,)).tolist()[:3] == [-1, 4, -1]
    assert x.tolist() == list(range(12))
