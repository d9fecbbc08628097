"""vmap: batches of samples, nested, with random numbers, writes in place, and what it refuses."""

from typing import ClassVar

import pytest

import rushlight as torch
from rushlight.func import grad, jvp, vmap
from support import check, randn


def slices(f, *batches):
    """What vmap stands for."""
    return torch.stack([f(*rows) for rows in zip(*batches, strict=True)])


def test_arguments_and_results_keep_their_structure():
    x, y = randn(3, 2), randn(3, 2, seed=1)
    out = vmap(lambda d: {"sum": d["a"] + d["b"][0], "pair": (d["a"] * 2,)})({"a": x, "b": [y]})
    check(out["sum"], x + y)
    check(out["pair"][0], x * 2)


def test_named_results_stay_named():
    x = randn(3, 4)
    found = vmap(torch.sort)(x)
    check(found.values, x.sort(1).values)
    assert type(found) is type(torch.sort(x))


def test_in_dims_choose_the_batch_of_each_argument():
    x, y = randn(2, 3), randn(3, 4, seed=1)
    check(vmap(torch.dot, (1, 0))(y.T @ y, y.T @ y), ((y.T @ y).T * (y.T @ y)).sum(1))
    check(vmap(lambda a, b: a * b.sum(), (1, None))(x, y), x.T * y.sum())
    check(vmap(lambda a: a * 2, -1)(x), x.T * 2)
    nested = vmap(lambda pair, c: pair[0] + pair[1] * c, ((0, None), None))
    check(nested((x, x[0]), 2.0), x + x[0] * 2)


def test_out_dims_choose_where_samples_go():
    x = randn(3, 2, 4)
    check(vmap(lambda a: a * 1, out_dims=1)(x), x.movedim(0, 1))
    check(vmap(lambda a: a * 1, out_dims=-1)(x), x.movedim(0, -1))
    a, b = vmap(lambda a: (a, a.sum()), out_dims=(2, 0))(x)
    check(a, x.movedim(0, 2))
    check(b, x.sum((1, 2)))


def test_results_that_do_not_depend_on_the_sample_are_expanded():
    out = vmap(lambda x: torch.ones(2))(randn(3))
    assert out.shape == (3, 2)
    same = vmap(lambda x: torch.ones(2), out_dims=None)(randn(3))
    assert same.shape == (2,)


def test_keyword_arguments_are_batched_along_the_first_dimension():
    x, y = randn(3, 2), randn(3, 2, seed=1)
    check(vmap(lambda a, *, b: a * b)(x, b=y), x * y)


@pytest.mark.parametrize("depth", [2, 3])
def test_nested_batches(depth):
    x = randn(*range(2, 2 + depth), 5)
    f = torch.sin
    for _ in range(depth):
        f = vmap(f)
    check(f(x), torch.sin(x))
    pairs = vmap(vmap(torch.dot, (0, None)), (None, 0))(randn(4, 3), randn(2, 3, seed=1))
    check(pairs, randn(2, 3, seed=1) @ randn(4, 3).T)


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_chunks_give_the_same(size):
    x = randn(5, 3)
    f = lambda a: (a.sum(), a * 2)
    whole, parts = vmap(f)(x), vmap(f, chunk_size=size)(x)
    for a, b in zip(whole, parts, strict=True):
        check(a, b)


def test_an_empty_batch():
    assert vmap(lambda a: a.sum())(torch.zeros(0, 3)).shape == (0,)
    assert vmap(torch.linalg.vector_norm)(torch.zeros(0, 3)).shape == (0,)


def test_types_are_promoted_as_for_one_sample():
    x = torch.ones(3, 2, dtype=torch.float32)
    s = torch.ones(3, dtype=torch.float64)
    assert vmap(lambda a, b: a * b)(x, s).dtype == torch.float32
    assert vmap(lambda a, b: a * b)(x.long(), s).dtype == torch.float64


# -- indexing, views, writes ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "f",
    [
        lambda a: a[0],
        lambda a: a[..., 1:],
        lambda a: a[:, None].squeeze(1),
        lambda a: a[torch.tensor([1, 0])],
        lambda a: a[:, torch.tensor([2, 0])],
        lambda a: a.T.reshape(-1)[::2],
        lambda a: a.unfold(1, 2, 1),
        lambda a: torch.cat([a, a.flip(0)], 1),
        lambda a: a.view(-1).unbind()[3],
        lambda a: a.split([1, 1])[1],
        lambda a: a.expand(4, 2, 3).sum(0),
    ],
)
def test_indexing_and_views(f):
    x = randn(5, 2, 3)
    check(vmap(f)(x), slices(f, x))


def test_an_index_of_each_sample():
    x, i = randn(4, 3, 2), torch.tensor([0, 2, 1, -1])
    check(vmap(lambda a, n: a[n])(x, i), slices(lambda a, n: a[n], x, i))
    check(vmap(lambda a, n: a[:, n], (0, 0))(x, i % 2), slices(lambda a, n: a[:, n], x, i % 2))
    check(vmap(lambda n: x[0][n])(i), x[0][i])


def test_writes_in_place():
    x = randn(3, 2)
    before = x.clone()

    def f(a):
        a = a.mul_(2)
        a[0] = 7
        a.add_(a.sum())
        return a

    expected = slices(f, before)
    check(vmap(f)(x), expected)
    check(x, expected)


def masked(a, value, dim=None):
    b = a.clone()
    b[(a if dim is None else a.sum(dim)) > 0] = value
    return b


@pytest.mark.parametrize(
    "f",
    [
        lambda a: masked(a, 0.0),
        lambda a: masked(a, a.mean()),
        lambda a: masked(a, 7),
        lambda a: masked(a, torch.arange(3.0).double(), 1),
        lambda a: masked(a, a.sum(0), 1),
        lambda a: grad(lambda a: (masked(a, a.sum(0), 1) ** 2).sum())(a),
    ],
)
def test_a_mask_of_each_sample_chooses_what_is_written(f):
    x = randn(4, 2, 3)
    check(vmap(f)(x), slices(f, x))


def test_what_a_mask_of_each_sample_cannot_do():
    x = randn(4, 3)
    for f in (
        lambda a: a[a > 0],
        lambda a: masked(a, torch.ones(2).double()),
        lambda a: a[a.sum() > 0],
    ):
        with pytest.raises(RuntimeError, match="is not possible on a batched tensor"):
            vmap(f)(x)
    shared = torch.zeros(3).double()
    with pytest.raises(RuntimeError, match="in place"):
        vmap(lambda a: shared.__setitem__(a > 0, 1.0))(x)


def test_a_new_tensor_like_a_batched_one_can_be_written():
    def f(a):
        b = torch.zeros_like(a)
        b[1] = a.sum()
        c = a.new_zeros(2)
        c[0] = a[0]
        return b, c

    x = randn(3, 2)
    b, c = vmap(f)(x)
    check(b, slices(lambda a: f(a)[0], x))
    check(c, slices(lambda a: f(a)[1], x))


def test_writing_samples_into_one_tensor_is_refused():
    shared = torch.zeros(2)
    with pytest.raises(RuntimeError, match=r"not batched \(sizes \[2\]\).*in place"):
        vmap(lambda a: shared.add_(a))(torch.ones(3, 2))
    with pytest.raises(RuntimeError, match="in place"):
        vmap(lambda a: shared.copy_(a))(torch.ones(3, 2))
    check(shared, [0.0, 0.0])


# -- random numbers -------------------------------------------------------------------------------


def test_random_numbers_are_an_error_unless_something_is_said():
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(lambda a: a + torch.rand(2))(torch.zeros(3, 2))
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(lambda a: torch.randn_like(a))(torch.zeros(3, 2))
    with pytest.raises(RuntimeError, match="Only allowed values"):
        vmap(torch.sin, randomness="some")


@pytest.mark.parametrize(
    "draw",
    [
        lambda a: torch.rand(50),
        lambda a: torch.randn_like(a),
        lambda a: torch.nn.functional.dropout(a + 1, 0.5),
        lambda a: torch.bernoulli(torch.full_like(a, 0.5)),
        lambda a: torch.normal(a, 1.0),
        lambda a: torch.randperm(50).float(),
        lambda a: torch.zeros_like(a).normal_(),
    ],
)
def test_random_numbers_are_the_same_or_different(draw):
    x = torch.zeros(3, 50)
    same = vmap(draw, randomness="same")(x)
    assert torch.equal(same[0], same[1])
    assert torch.equal(same[0], same[2])
    different = vmap(draw, randomness="different")(x)
    assert not torch.equal(different[0], different[1])
    assert not torch.equal(different[1], different[2])


def test_numbers_of_each_sample_do_not_fit_one_tensor():
    shared = torch.zeros(2)
    with pytest.raises(RuntimeError, match="cannot be filled with numbers that differ"):
        vmap(lambda a: a + shared.uniform_(), randomness="different")(torch.zeros(3, 2))


# -- functions that read numbers ------------------------------------------------------------------

F = torch.nn.functional
IDS = torch.tensor([[0, 1, 2, 3], [2, 3, 0, 0]])
LABELS = torch.tensor([[[1, 2, 3], [2, 1, 4]], [[4, 4, 1], [3, 2, 2]]])


@pytest.mark.parametrize(
    ("f", "batches"),
    [
        (lambda i, w: F.embedding(i, w.clone(), max_norm=0.5), (IDS, randn(2, 6, 3))),
        (lambda i: F.embedding(i, randn(6, 3), max_norm=0.5), (IDS,)),
        (
            lambda i, o: F.embedding_bag(i, randn(6, 3), o),
            (IDS, torch.tensor([[0, 2], [0, 1]])),
        ),
        (
            lambda i: F.embedding_bag(i, randn(6, 3), torch.tensor([0, 2]), padding_idx=0),
            (IDS,),
        ),
        (
            lambda p, t: F.ctc_loss(p.log_softmax(2), t, [6, 6], [3, 2]),
            (randn(2, 6, 2, 5), LABELS),
        ),
        (
            lambda p, n: F.ctc_loss(p.log_softmax(2), LABELS[0], [6, 6], n),
            (randn(2, 6, 2, 5), torch.tensor([[3, 2], [1, 3]])),
        ),
        (
            lambda p, t: grad(lambda p: F.ctc_loss(p.log_softmax(2), t, [6, 6], [3, 2]))(p),
            (randn(2, 6, 2, 5), LABELS),
        ),
    ],
)
def test_functions_that_read_numbers(f, batches):
    check(vmap(f)(*batches), slices(f, *batches))


def test_lengths_that_differ_between_samples_are_refused():
    from rushlight.nn.utils.rnn import pack_padded_sequence

    with pytest.raises(RuntimeError, match="lengths is not possible on a batched tensor"):
        vmap(lambda x, n: pack_padded_sequence(x, n).data)(
            randn(2, 4, 2, 3), torch.tensor([[4, 2], [3, 3]])
        )


# -- derivatives ----------------------------------------------------------------------------------


def test_gradients_of_each_sample():
    w, x, y = randn(4, 3), randn(5, 3, seed=1), torch.tensor([0, 1, 2, 3, 0])

    def loss(w, x, y):
        return torch.nn.functional.cross_entropy(torch.tanh(w @ x), y)

    found = vmap(grad(loss), (None, 0, 0))(w, x, y)
    check(found, torch.stack([grad(loss)(w, a, b) for a, b in zip(x, y, strict=True)]))


def test_the_gradient_of_a_batch_sums_over_samples():
    w, x = randn(3).requires_grad_(), randn(5, 3, seed=1)
    vmap(lambda a: (a * w).sin().sum())(x).sum().backward()
    check(w.grad, (x * (x * w).cos()).sum(0))
    assert not hasattr(w.grad, "_batched")


def test_gradients_of_views_when_nothing_batched_is_alive():
    x = randn(2, 5).requires_grad_()
    for view in (lambda a: a[::2], lambda a: a[1], lambda a: a.unsqueeze(0)[:, 2:]):
        (found,) = torch.autograd.grad(vmap(view, 1)(x.T * 1).sum(), x)
        check(found, grad(lambda x, f=view: sum(f(row).sum() for row in x))(x.detach()))


def test_backward_inside_adds_what_every_sample_adds():
    w, x = randn(3).requires_grad_(), randn(5, 3, seed=1)

    def f(a):
        loss = (a * w).sum()
        loss.backward()
        return loss

    vmap(f)(x)
    check(w.grad, x.sum(0))


def test_autograd_grad_inside_gives_each_sample_its_own():
    w, x = randn(3).requires_grad_(), randn(5, 3, seed=1)
    found = vmap(lambda a: torch.autograd.grad((a * w).sin().sum(), w)[0])(x)
    check(found, x * (x * w).cos())


def test_double_backward_through_a_batch():
    x = randn(4, 3).requires_grad_()
    y = vmap(grad(lambda a: (a**3).sum()))(x)
    check(y, 3 * x**2)
    (second,) = torch.autograd.grad(y.sum(), x)
    check(second, 6 * x)


def test_tangents_of_samples():
    x, v = randn(4, 3), randn(4, 3, seed=1)
    value, moved = vmap(lambda a, b: jvp(torch.sin, (a,), (b,)))(x, v)
    check(value, x.sin())
    check(moved, x.cos() * v)
    _, moved = jvp(vmap(torch.sin), (x,), (v,))
    check(moved, x.cos() * v)


# -- custom Functions -----------------------------------------------------------------------------


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        return 3 * ctx.saved_tensors[0] ** 2 * g


class ThroughNumbers(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.tensor([v * v for v in x.tolist()], dtype=x.dtype)

    @staticmethod
    def backward(ctx, g):
        return 2 * ctx.saved_tensors[0] * g


class WithRule(torch.autograd.Function):
    seen: ClassVar[list] = []

    @staticmethod
    def forward(ctx, x, y):
        return x * y

    @staticmethod
    def vmap(info, in_dims, x, y):
        WithRule.seen.append((info.batch_size, info.randomness, in_dims))
        return WithRule.apply(x, y if in_dims[1] == 0 else y.expand_as(x)), 0


def test_a_function_runs_on_batches_as_it_stands():
    x = randn(4, 3)
    check(vmap(Cube.apply)(x), x**3)
    check(vmap(grad(lambda a: Cube.apply(a).sum()))(x), 3 * x**2)


def test_a_function_that_reads_numbers_runs_sample_by_sample_with_one_note():
    x = randn(4, 3)
    with pytest.warns(UserWarning, match="ThroughNumbers.*sample by sample"):
        check(vmap(ThroughNumbers.apply)(x), x * x)
    check(vmap(grad(lambda a: ThroughNumbers.apply(a).sum()))(x), 2 * x)


def test_a_function_with_a_rule_of_its_own():
    x, y = randn(4, 3), randn(3, seed=1)
    WithRule.seen.clear()
    check(vmap(WithRule.apply, (0, None), randomness="same")(x, y), x * y)
    assert WithRule.seen == [(4, "same", (0, None))]


def test_two_rules_are_one_too_many():
    class Both(WithRule):
        generate_vmap_rule = True

    with pytest.raises(RuntimeError, match="generate_vmap_rule=True and an overriden vmap"):
        vmap(Both.apply)(randn(2, 3), randn(2, 3))


# -- what cannot be batched -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "text"),
    [
        (lambda a: a.sum().item(), r"\.item\(\)"),
        (lambda a: a if a.sum() > 0 else -a, "data-dependent control flow"),
        (lambda a: a.tolist(), "tolist"),
        (lambda a: a.numpy(), "memory"),
        (lambda a: torch.nonzero(a > 0), "nonzero"),
    ],
)
def test_what_needs_one_value_for_all_samples_is_refused(f, text):
    with pytest.raises(RuntimeError, match=text):
        vmap(f)(torch.tensor([[1.0, -1.0], [-1.0, -2.0]]))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: vmap(torch.sin)(), "got no inputs"),
        (lambda: vmap(torch.sin, "0")(randn(2)), "expected `in_dims` to be int"),
        (lambda: vmap(torch.add)(randn(2), randn(3)), r"same size.*\[2, 3\]"),
        (lambda: vmap(torch.sin, 2)(randn(2)), "in_dim=2 .*dimensionality 1"),
        (lambda: vmap(torch.sin, None)(randn(2)), "expected `in_dims`"),
        (lambda: vmap(torch.add, (None, None))(randn(2), 1), "at least one"),
        (lambda: vmap(lambda x: 1)(randn(2)), "must only return Tensors"),
        (lambda: vmap(torch.mul)(randn(2), 3.0), "non-Tensor"),
        (lambda: vmap(torch.sin, (0, 0))(randn(2)), "not compatible with the structure"),
        (lambda: vmap(torch.sin, out_dims=(0, 0))(randn(2)), "out_dims is not compatible"),
        (lambda: vmap(torch.sin, out_dims=None)(randn(2)), "BatchedTensor when out_dim is None"),
        (lambda: vmap(torch.sin, chunk_size=0), "chunk_size"),
    ],
)
def test_bad_arguments(call, text):
    with pytest.raises(ValueError, match=text):
        call()


def test_a_failing_function_leaves_no_level_behind():
    from rushlight import _C

    with pytest.raises(ZeroDivisionError):
        vmap(lambda a: 1 // 0)(randn(3))
    assert _C._vmap_depth() == 0


def test_a_batched_tensor_that_escapes_still_explains_itself():
    kept = []
    vmap(lambda a: kept.append(a) or a)(randn(3))
    with pytest.raises(RuntimeError, match="batched tensor"):
        kept[0].item()
    assert "batched" in repr(kept[0])


class TestWritesReachTheOutside:
    def test_the_argument_changes(self):
        for in_dims in (0, 1):
            x = torch.zeros(3, 2)
            result = vmap(lambda u: u.add_(1), in_dims=in_dims)(x)
            check(x, [[1.0, 1.0]] * 3)
            assert result.tolist() == (x if in_dims == 0 else x.t()).tolist()

    def test_a_part_of_it(self):
        x = torch.zeros(3, 2)
        vmap(lambda u: u[0].add_(1))(x)
        check(x, [[1.0, 0.0]] * 3)
        view = torch.zeros(3, 4)
        vmap(lambda u: u.fill_(5))(view[:, ::2])
        check(view, [[5.0, 0.0, 5.0, 0.0]] * 3)

    @pytest.mark.parametrize("in_dims", [0, 1])
    def test_every_sample_is_set_to_zero(self, in_dims):
        x = torch.ones(3, 4)
        vmap(lambda u: u.zero_(), in_dims=in_dims)(x.t())
        check(x, [[0.0] * 4] * 3)
        x = torch.ones(3, 4)
        vmap(lambda u: u[1:].zero_())(x)
        check(x, [[1.0, 0.0, 0.0, 0.0]] * 3)

    def test_nested_regions(self):
        x = torch.zeros(2, 3, 2)
        vmap(vmap(lambda u: u.add_(1)))(x)
        assert x.sum() == 12
        assert x._version == 1

    @pytest.mark.parametrize("in_dims", [0, 1])
    def test_history(self, in_dims):
        x = randn(3, 2).requires_grad_()
        z = x * 1
        vmap(lambda u: u.mul_(2).add_(1), in_dims=in_dims)(z)
        (z * z).sum().backward()
        check(x.grad, 4 * (2 * x + 1))

    def test_values_with_a_history_written_to_a_plain_tensor(self):
        x, y = torch.zeros(3, 2, dtype=torch.float64), randn(3, 2).requires_grad_()

        def write(u, v):
            u[1:].copy_(v[:1])
            return u * 2

        result = vmap(write)(x, y)
        assert x.requires_grad
        (x.sum() + result.sum()).backward()
        check(y.grad, [[3.0, 0.0]] * 3)

    def test_a_leaf_is_refused(self):
        x = torch.zeros(3, 2, requires_grad=True)
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            vmap(lambda u: u.add_(1))(x)
        check(x, [[0.0, 0.0]] * 3)

    def test_memory_that_samples_share_is_refused(self):
        with pytest.raises(RuntimeError, match="single memory location"):
            vmap(lambda u: u.add_(1))(torch.zeros(2).expand(3, 2))

    def test_what_was_saved_is_checked(self):
        x = randn(3, 2).requires_grad_()
        z = x * 1
        y = (z[1] * z[1]).sum()
        vmap(lambda u: u.add_(1))(z)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()

    def test_a_result_that_is_an_argument_shows_it(self):
        x = randn(3, 2).requires_grad_()
        z = x * 1
        result = vmap(lambda u: u[:1])(z)
        result.mul_(5)
        z.sum().backward()
        check(x.grad, [[5.0, 1.0]] * 3)

    def test_tangents(self):
        x = randn(3, 2)

        def write(t):
            z = t * 1
            vmap(lambda u: u.mul_(u + 1))(z)
            return z

        _, tangent = jvp(write, (x,), (torch.ones_like(x),))
        check(tangent, 2 * x + 1)

    def test_logical_operations(self):
        x = randn(3, 2).requires_grad_()
        z = x * 1
        vmap(lambda u: u.logical_and_(torch.ones(2)))(z)
        z.sum().backward()
        check(x.grad, [[0.0, 0.0]] * 3)


def test_gradients_over_no_samples():
    weight = randn(2, 2, 3).requires_grad_()
    y = vmap(lambda u: torch.conv1d(u, weight))(torch.empty(0, 1, 2, 5, dtype=torch.float64))
    assert y.shape == (0, 1, 2, 3)
    (g,) = torch.autograd.grad(y.sum(), weight)
    check(g, torch.zeros(2, 2, 3, dtype=torch.float64))


def test_as_strided_of_samples_with_gaps():
    rows = torch.arange(12.0).view(6, 2)

    def run(u):
        return torch.as_strided(u, (2, 3), (1, 1))

    assert vmap(run, in_dims=1)(rows).tolist() == [[[0, 1, 2], [1, 2, 3]], [[1, 2, 3], [2, 3, 4]]]
    with pytest.raises(RuntimeError, match="reaches outside of its input"):
        vmap(run, in_dims=1)(rows.requires_grad_() * 1)


def test_a_graph_of_samples_leaves_other_backward_passes_alone():
    """While it lived, all of them took the way of gradients that are differentiated."""
    b = torch.rand(3, requires_grad=True)
    kept = torch.func.vmap(lambda u: u * b)(torch.rand(2, 2, 3))
    x = torch.ones(3, 4, requires_grad=True)
    loss = torch.nn.functional.nll_loss(x, torch.tensor([3, 0, 2])) * float("nan")
    for recorded in (False, True):
        x.grad = None
        loss.backward(retain_graph=True, create_graph=recorded)
        assert int(x.grad.isnan().sum()) == 3
    kept.sum().backward()
    assert b.grad.shape == (3,)
