"""Sparse tensors: layouts, arithmetic, products, and gradients of any order."""

import copy
import pickle
import weakref

import pytest

import rushlight as torch
from rushlight.autograd import gradcheck, gradgradcheck

I = [[0, 1, 1, 0, 2], [2, 0, 2, 2, 1]]  # noqa: E741  with a place named twice
V = [3.0, -4.0, 5.0, 7.0, 0.5]


def matrix(**options):
    return torch.sparse_coo_tensor(I, V, (3, 4), dtype=torch.float64, **options)


def dense(*shape):
    count = 1
    for n in shape:
        count *= n
    return torch.arange(count, dtype=torch.float64).cos().reshape(shape)


LAYOUTS = {
    "coo": lambda: matrix().coalesce(),
    "uncoalesced": matrix,
    "csr": lambda: matrix().to_sparse_csr(),
    "csc": lambda: matrix().to_sparse_csc(),
    "bsr": lambda: matrix().to_sparse_bsr((1, 2)),
    "bsc": lambda: matrix().to_sparse_bsc((3, 2)),
}


@pytest.fixture(params=LAYOUTS)
def s(request):
    return LAYOUTS[request.param]()


# -- the tensor itself ----------------------------------------------------------------------------


def test_it_is_a_tensor(s):
    assert isinstance(s, torch.Tensor)
    assert torch.is_tensor(s)
    assert s.shape == (3, 4)
    assert s.dim() == 2
    assert s.numel() == 12
    assert s.dtype is torch.float64
    assert s.device.type == "cpu"
    assert not s.is_contiguous()
    assert s.is_leaf


def test_layouts_hold_the_same_elements(s):
    expected = [[0, 0, 10, 0], [-4, 0, 5, 0], [0, 0.5, 0, 0]]
    assert s.to_dense().tolist() == expected
    for layout in (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc):
        assert s.to_sparse(layout=layout).to_dense().tolist() == expected
    assert s.to_sparse_bsr((3, 1)).to_dense().tolist() == expected
    assert s.t().to_dense().tolist() == torch.tensor(expected).t().tolist()


def test_methods_of_the_base_class_and_ops_of_aten_know_sparse_tensors(s):
    plain = s.to_dense()
    assert torch.Tensor.to_dense(s).equal(plain)
    assert torch.ops.aten.to_dense(s).equal(plain)
    assert torch.Tensor.to_sparse_csr(s).layout is torch.sparse_csr
    d = dense(4, 2)
    assert torch.ops.aten._sparse_addmm(dense(3, 2), s, d).equal(dense(3, 2) + s @ d)
    if s.is_sparse:
        assert torch.Tensor.coalesce(s).is_coalesced()


def test_types_of_old():
    made = torch.sparse.DoubleTensor(torch.tensor(I), torch.tensor(V), torch.Size([3, 4]))
    assert made.to_dense().equal(matrix().to_dense())
    assert isinstance(made, torch.sparse.DoubleTensor)
    assert not isinstance(made, torch.sparse.FloatTensor)


def test_copies(s):
    s.requires_grad_()
    for other in (copy.deepcopy(s), pickle.loads(pickle.dumps(s)), s.clone(), copy.copy(s)):
        assert other.layout is s.layout
        assert other.requires_grad
        assert other.to_dense().equal(s.to_dense())
    changed = copy.deepcopy(s)
    changed._raw.zero_()
    assert s.to_dense().abs().sum() > 0


def test_ops_without_a_rule_say_what_to_do(s):
    with pytest.raises(NotImplementedError, match=r"Could not run 'aten::.*x\.to_dense\(\)"):
        torch.fft.fft(s)
    with pytest.raises(NotImplementedError, match=r"makes 1\.0 of the zeros"):
        torch.cos(s)


def test_every_pointwise_op_that_keeps_zero_is_applied_to_the_values(s):
    for name in ("sin", "tanh", "square", "expm1", "silu"):
        found = getattr(torch.nn.functional if name == "silu" else torch, name)(s)
        plain = getattr(torch.nn.functional if name == "silu" else torch, name)(s.to_dense())
        assert found.layout is s.layout
        torch.testing.assert_close(found.to_dense(), plain)


def test_written_in_place():
    s = matrix()
    same = s
    s *= 2
    s.add_(matrix()).neg_()
    assert s is same
    assert s.to_dense().tolist() == (matrix().to_dense() * -3).tolist()
    s.zero_()
    assert s._nnz() == 0
    d = torch.ones(3, 4, dtype=torch.float64)
    d += matrix()
    assert d.equal(1 + matrix().to_dense())


def test_indexing(s):
    plain = s.to_dense()
    for index in (1, -1, (1, 2), slice(0, 2), (slice(None), slice(1, 3)), (0, slice(2, None))):
        found = s[index]
        assert found.to_dense().equal(plain[index])
    assert s[:, torch.tensor([2, 0])].to_dense().equal(plain[:, [2, 0]])
    assert s[..., 2].to_dense().equal(plain[..., 2])
    assert s[::2].to_dense().equal(plain[::2])
    with pytest.raises(IndexError):
        s[5]


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 3)])
def test_nothing_stored(shape):
    s = torch.sparse_coo_tensor(shape)
    assert s._nnz() == 0
    assert s.to_dense().equal(torch.zeros(shape))
    assert (s @ torch.ones(shape[1], 2)).equal(torch.zeros(shape[0], 2))
    assert (s + s).to_dense().equal(torch.zeros(shape))
    assert torch.sparse.sum(s).item() == 0
    assert s.to_sparse_csr().to_dense().equal(torch.zeros(shape))


# -- malformed ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("call", "text"), [
    (lambda: torch.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (3,)), "found index 5"),
    (lambda: torch.sparse_coo_tensor([[0, -1]], [1.0, 2.0], (3,)), "found negative index -1"),
    (lambda: torch.sparse_coo_tensor([[0, 1]], [1.0], (3,)), "same nnz"),
    (lambda: torch.sparse_csr_tensor([0, 1, 3], [0, 1], [1.0, 2.0], (2, 2)), "== nnz"),
    (lambda: torch.sparse_csr_tensor([0, 1, 2], [0, 9], [1.0, 2.0], (2, 2)), "0 <= col_indices"),
    (lambda: torch.sparse_csr_tensor([0, 3, 2], [0, 1], [1.0, 2.0], (2, 2)), "is not satisfied"),
    (lambda: matrix() @ torch.ones(5, 2, dtype=torch.float64), "cannot be multiplied"),
    (lambda: matrix() @ torch.ones(4, 2), "same dtype"),
])  # fmt: skip
def test_malformed_parts_are_refused(call, text):
    with pytest.raises(RuntimeError, match=text):
        call()


def test_what_stands_for_the_parts_is_never_shown_or_changed(s):
    """Its own memory is one element: no method may give that away, or give it another shape."""
    ordinary = torch.zeros(3, 4, dtype=torch.float64)
    for call in (
        lambda: s.resize_(2, 2),
        lambda: s.resize_as_(torch.ones(2, 2)),
        lambda: s.set_(torch.ones(2)),
        lambda: s.squeeze_(),
        lambda: s.unsqueeze_(0),
        lambda: ordinary.copy_(s),
        lambda: torch.add(ordinary, 1, out=s),
        lambda: torch.smm(ordinary, ordinary),
        lambda: torch.stack([s, ordinary]),
    ):
        with pytest.raises(RuntimeError):
            call()
    for share in (torch.from_dlpack, torch.to_dlpack, lambda x: x.__dlpack__()):
        with pytest.raises(BufferError, match="layout other than"):
            share(s)
    with pytest.raises(TypeError, match="not str"):
        s.to_sparse(layout="csr")
    assert s.shape == (3, 4)
    assert s.as_subclass(torch.Tensor) is s
    with pytest.warns(UserWarning, match="copy construct"):
        again = torch.tensor(s, dtype=torch.float32, requires_grad=True)
    assert (again.layout, again.dtype, again.requires_grad) == (s.layout, torch.float32, True)
    assert again.detach().double().to_dense().equal(s.to_dense())


@pytest.mark.parametrize("turn", ["t_", "transpose_", "swapaxes_"])
def test_turned_in_place(turn):
    arguments = () if turn == "t_" else (0, -1)
    s, expected = matrix(), matrix().to_dense().t()
    assert getattr(s, turn)(*arguments) is s
    assert s.shape == (4, 3)
    assert s.to_dense().equal(expected)
    with pytest.raises(RuntimeError, match="requires grad can not be turned in place"):
        getattr(matrix(requires_grad=True), turn)(*arguments)
    with pytest.raises(RuntimeError, match="in-place transposition is not supported for SparseCsr"):
        getattr(matrix().to_sparse_csr(), turn)(*arguments)


def test_unchecked_indices_never_crash():
    s = torch.sparse_csr_tensor([0, 1, 2], [0, 10**9], [1.0, 2.0], (2, 2), check_invariants=False)
    with pytest.raises(IndexError, match="out of range"):
        s @ torch.ones(2, 2)
    s = torch.sparse_csr_tensor([0, 10**9, 2], [0, 1], [1.0, 2.0], (2, 2), check_invariants=False)
    with pytest.raises(IndexError, match="do not ascend"):
        s @ torch.ones(2, 2)
    s = torch.sparse_coo_tensor([[0, 7], [0, 0]], [1.0, 2.0], (2, 2), check_invariants=False)
    with pytest.raises(IndexError, match="out of range"):
        s @ torch.ones(2, 2)


def test_invariants_are_checked_on_demand():
    unsorted = ([0, 2], [1, 0], [1.0, 2.0], (1, 2))
    assert torch.sparse_csr_tensor(*unsorted).to_dense().tolist() == [[2, 1]]
    check = torch.sparse.check_sparse_tensor_invariants
    assert not check.is_enabled()
    with check(), pytest.raises(RuntimeError, match="sorted and distinct"):
        torch.sparse_csr_tensor(*unsorted)
    assert not check.is_enabled()


# -- gradients ------------------------------------------------------------------------------------

FUNCTIONS = {
    "mm": lambda s, d: torch.sparse.mm(s, d),
    "reflected": lambda s, d: d.t() @ s.t(),
    "mv": lambda s, d: s @ d[:, 0],
    "addmm": lambda s, d: torch.sparse.addmm(d[:3], s, d, beta=2, alpha=3),
    "of two": lambda s, d: (s @ s.t()).to_dense() * d[0, 0],
    "to_dense": lambda s, d: s.to_dense() * d.t()[:2].repeat(2, 1)[:3],
    "sin": lambda s, d: torch.sin(s).to_dense(),
    "times dense": lambda s, d: (s * d.t()[:1]).to_dense(),
    "times itself": lambda s, d: (s * s).to_dense(),
    "plus": lambda s, d: (s + s * 2).to_dense() * d[0, 1],
    "dense plus": lambda s, d: d[:, :1].t() + s,
    "sum": lambda s, d: s.sum(0).to_dense() if s.sum(0).layout is not torch.strided else s.sum(0),
    "sum of all": lambda s, d: s.sum() * d.sum(),
    "picked": lambda s, d: s.index_select(1, torch.tensor([2, 2, 0])).to_dense(),
    "row": lambda s, d: s[0].to_dense(),
    "transposed": lambda s, d: s.t().to_dense() * d,
    "norm": lambda s, d: s.norm() * d[0, 0],
    "csr": lambda s, d: s.to_sparse_csr().to_sparse_csc() @ d,
    "bsr": lambda s, d: s.to_sparse_bsr((3, 2)) @ d,
}


@pytest.mark.parametrize("kind", ["coo", "csr", "bsr"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_any_order(name, kind):
    s = LAYOUTS[kind]()
    d = dense(4, 2).requires_grad_()
    d = dense(4, 3).requires_grad_() if name == "transposed" else d
    s.requires_grad_()
    assert gradcheck(FUNCTIONS[name], (s, d), masked=True)
    assert gradgradcheck(FUNCTIONS[name], (s, d), masked=True)


def test_forward_mode_and_vmap_of_products():
    rows, columns = torch.tensor(I)
    v, d = torch.tensor(V, dtype=torch.float64), dense(4, 2)

    def f(v, d):
        return torch.sparse_coo_tensor(torch.tensor(I), v, (3, 4)) @ d

    product = torch._C._namespaces[""]["_spmm"]
    plain = product(rows, columns, v, d, 3, False, False)
    torch.testing.assert_close(plain, f(v, d))
    _, moved = torch.func.jvp(
        lambda v: product(rows, columns, v, d, 3, False, False), (v,), (torch.ones_like(v),)
    )
    torch.testing.assert_close(moved, f(torch.ones_like(v), d))
    several = torch.vmap(lambda v: product(rows, columns, v, d, 3, False, False))
    vs = torch.stack([v, 2 * v])
    torch.testing.assert_close(several(vs), torch.stack([plain, 2 * plain]))


def test_gradients_are_sparse_and_accumulate(s):
    s.requires_grad_()
    (s @ dense(4, 2)).sum().backward()
    first = s.grad
    assert first.layout is s.layout
    assert first.shape == s.shape
    (s @ dense(4, 2)).sum().backward()
    assert s.grad is first
    stored = s._pattern.merged()[0] if s.is_sparse else s._pattern
    stored = stored.make(torch.ones_like(s.grad._raw))
    expected = 2 * dense(4, 2).sum(1).expand(3, 4) * stored.to_dense()
    torch.testing.assert_close(s.grad.to_dense(), expected.detach())


def test_autograd_grad_hooks_and_retained_gradients():
    s = LAYOUTS["coo"]().requires_grad_()
    seen = []
    s.register_hook(lambda g: seen.append(g.layout))
    twice = s * 2
    twice.retain_grad()
    (grad,) = torch.autograd.grad((twice @ dense(4, 2)).sum(), s, retain_graph=True)
    assert grad.layout is torch.sparse_coo
    assert seen == [torch.sparse_coo]
    (twice @ dense(4, 2)).sum().backward()
    assert twice.grad.layout is torch.sparse_coo
    torch.testing.assert_close(twice.grad.to_dense(), s.grad.to_dense())  # of both passes
    s.grad = None
    replaced = s.register_hook(lambda g: g * 10)
    s.to_dense().sum().backward()
    assert set(s.grad.values().tolist()) == {10.0}
    replaced.remove()


def test_a_function_of_ones_own_takes_and_gives_sparse_tensors():
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        def backward(ctx, grad):
            a, b = ctx.saved_tensors
            return (grad @ b.t()).sparse_mask(a), a.t() @ grad

    a, b = LAYOUTS["coo"]().requires_grad_(), dense(4, 2).requires_grad_()
    Product.apply(a, b).sum().backward()
    other, d = LAYOUTS["coo"]().requires_grad_(), dense(4, 2).requires_grad_()
    (other @ d).sum().backward()
    torch.testing.assert_close(a.grad.to_dense(), other.grad.to_dense())
    torch.testing.assert_close(b.grad, d.grad)


def test_embeddings_with_sparse_gradients():
    weight = torch.ones(5, 2, requires_grad=True)
    ids = torch.tensor([[1, 3], [1, 0]])
    embed = torch.nn.functional.embedding
    embed(ids, weight, sparse=True).sum().backward()
    assert weight.grad.is_sparse
    assert weight.grad._indices().tolist() == [[1, 3, 1, 0]]
    assert weight.grad.to_dense()[:, 0].tolist() == [1, 2, 0, 1, 0]
    (weight**2).sum().backward()
    assert not weight.grad.is_sparse
    assert weight.grad[:, 0].tolist() == [3, 4, 2, 3, 2]
    weight.grad = None
    with torch.autograd.set_detect_anomaly(True):
        (embed(ids, weight * 2, sparse=True).sum() + weight.sum()).backward()
    assert weight.grad[:, 0].tolist() == [3, 5, 1, 3, 1]
    with pytest.raises(RuntimeError, match="scale_grad_by_freq not supported with sparse"):
        embed(ids, weight, sparse=True, scale_grad_by_freq=True).sum().backward()


def test_sparse_gradients_of_gradients():
    weight = torch.ones(4, 2, dtype=torch.float64, requires_grad=True)
    ids = torch.tensor([1, 3, 1])
    rows = torch.nn.functional.embedding(ids, weight, sparse=True)
    (grad,) = torch.autograd.grad((rows**3).sum(), weight, create_graph=True)
    assert grad.is_sparse
    assert grad.requires_grad
    (second,) = torch.autograd.grad((grad.to_dense() ** 2).sum(), weight)
    counts = torch.tensor([0, 2, 0, 1.0], dtype=torch.float64)
    assert second.to_dense()[:, 0].tolist() == (counts**2 * 36).tolist()


def test_optimizers_say_when_they_do_not_take_sparse_gradients():
    table = torch.nn.Embedding(3, 2, sparse=True)
    table(torch.tensor([0])).sum().backward()
    for name in ("Adam", "RMSprop", "Adadelta"):
        with pytest.raises(RuntimeError, match="does not support sparse gradients"):
            getattr(torch.optim, name)(table.parameters()).step()


def test_gradients_are_clipped():
    weight = torch.ones(4, 2, requires_grad=True)
    torch.nn.functional.embedding(torch.tensor([1, 2, 1]), weight, sparse=True).sum().backward()
    norm = torch.nn.utils.clip_grad_norm_([weight], 1.0)
    assert norm.item() == pytest.approx((2 * 4 + 2) ** 0.5)
    assert weight.grad.is_sparse
    assert weight.grad.norm().item() == pytest.approx(1.0, rel=1e-4)


def test_parameters_may_be_sparse():
    module = torch.nn.Module()
    module.weight = torch.nn.Parameter(matrix().coalesce())
    assert isinstance(module.weight, torch.nn.Parameter)
    assert module.weight.is_sparse
    assert [n for n, _ in module.named_parameters()] == ["weight"]
    (module.weight @ dense(4, 2)).sum().backward()
    torch.optim.SGD(module.parameters(), lr=0.1).step()
    expected = matrix().to_dense() - 0.1 * module.weight.grad.to_dense()
    torch.testing.assert_close(module.weight.detach().to_dense(), expected)


def test_graphs_are_freed():
    s = LAYOUTS["coo"]().requires_grad_()
    y = (s * 2) @ dense(4, 2)
    node = weakref.ref(y.grad_fn)
    y.sum().backward()
    del y
    assert node() is None


def test_results_do_not_depend_on_threads():
    torch.manual_seed(0)
    a = (torch.rand(400, 300) * (torch.rand(400, 300) < 0.05)).to_sparse_csr()
    b = torch.rand(300, 70)
    results = []
    for n in (1, 2, 3):
        before = torch.get_num_threads()
        torch.set_num_threads(n)
        results.append(a @ b)
        torch.set_num_threads(before)
    assert all(r.equal(results[0]) for r in results)
    torch.testing.assert_close(results[0], a.to_dense() @ b)


@pytest.mark.parametrize("width", [1, 3, 16, 64, 65, 130])
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.complex64, torch.int64, torch.bfloat16]
)
def test_products_of_every_width_and_dtype(width, dtype):
    a = ((torch.arange(63) * 5) % 7 - 3).reshape(9, 7).to(dtype) * (
        torch.arange(63).reshape(9, 7) % 3 == 0
    )
    b = (torch.arange(7 * width) % 5 - 2).reshape(7, width).to(dtype)
    if dtype.is_complex:
        b = b * (1 + 2j)
    a = a.to(dtype)
    for sparse in (a.to_sparse(), a.to_sparse_csr(), a.to_sparse_csc()):
        assert (sparse @ b).equal(a @ b)
        assert (b.t() @ sparse.t()).equal((a @ b).t())
