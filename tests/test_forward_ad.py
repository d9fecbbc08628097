"""Forward mode: levels, duals, views, writes, custom Functions, and what it refuses."""

import threading
import warnings
import weakref

import pytest

import rushlight as torch
import rushlight.autograd.forward_ad as fwAD
from rushlight.autograd import Function, gradcheck, gradgradcheck
from rushlight.utils.checkpoint import checkpoint
from support import check, randn


def vector(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def tangent(t):
    return fwAD.unpack_dual(t).tangent


def derivative(f):
    """The derivative of a function of one number."""

    def df(x):
        with fwAD.dual_level():
            t = tangent(f(fwAD.make_dual(x, torch.ones_like(x))))
            return torch.zeros_like(x) if t is None else t

    return df


@pytest.fixture
def dual():
    """[1, 2, 3] with the tangent [1, 10, 100]."""
    with fwAD.dual_level():
        yield fwAD.make_dual(vector(1, 2, 3), vector(1, 10, 100))


# ---- levels and duals


def test_a_dual_is_a_view_with_a_tangent():
    x, v = vector(1, 2), vector(3, 4)
    with fwAD.dual_level() as level:
        assert level == 0
        d = fwAD.make_dual(x, v)
        primal, t = fwAD.unpack_dual(d)
        assert t is v
        assert d is not x
        assert d._is_same_storage(x)
        assert primal._is_same_storage(x)
        assert [tangent(x), tangent(primal)] == [None, None]
        assert repr(fwAD.make_dual(x, v)).endswith("tangent=tensor([3., 4.], dtype=torch.float64))")


def test_leaving_a_level_takes_the_tangents_and_their_memory():
    x = vector(1, 2)
    with fwAD.dual_level():
        v = vector(3, 4)
        d = fwAD.make_dual(x, v)
        y = d * d
        freed = [weakref.ref(v), weakref.ref(tangent(y))]
        del v
        assert freed[0]() is not None
    assert [r() for r in freed] == [None, None]
    assert fwAD.unpack_dual(y) == (y, None)
    with fwAD.dual_level():
        assert [tangent(t) for t in (d, y, d * d)] == [None, None, None]


def test_a_level_is_left_when_an_exception_passes():
    with pytest.raises(ZeroDivisionError), fwAD.dual_level():
        raise ZeroDivisionError
    assert fwAD._current_level == -1


def test_dual_level_decorates():
    @fwAD.dual_level()
    def slope(x):
        return tangent(fwAD.make_dual(x, torch.ones_like(x)) ** 2)

    check(slope(vector(3)), [6])
    assert fwAD._current_level == -1


def test_levels_nest_to_any_order():
    f, order = torch.sin, [torch.sin, torch.cos, lambda x: -x.sin(), lambda x: -x.cos()]
    x = vector(0.3, 1.2)
    for k in range(6):
        check(f(x), order[k % 4](x))
        f = derivative(f)


def test_perturbations_of_two_levels_are_not_confused():
    # d/dx (x * d/dy (x + y)) = 1
    def outer(x):
        return x * derivative(lambda y: x + y)(torch.ones_like(x))

    check(derivative(outer)(vector(5)), [1])


def test_mixed_levels_unpack_in_either_order():
    x, a, b = vector(0.7), vector(2), vector(3)
    with fwAD.dual_level() as outer, fwAD.dual_level() as inner:
        d = fwAD.make_dual(fwAD.make_dual(x, a, level=outer), b, level=inner)
        e = fwAD.make_dual(fwAD.make_dual(x, b, level=inner), a, level=outer)
        for y in (torch.exp(d), torch.exp(e)):
            for first, second in ((outer, inner), (inner, outer)):
                primal, t = fwAD.unpack_dual(y, level=first)
                check(fwAD.unpack_dual(t, level=second).tangent, x.exp() * 6)
                assert fwAD.unpack_dual(primal, level=first).tangent is None
                check(
                    fwAD.unpack_dual(primal, level=second).tangent,
                    x.exp() * (3 if second == inner else 2),
                )


def test_an_inner_level_may_end_before_an_outer_one():
    x = vector(2)
    with fwAD.dual_level():
        d = fwAD.make_dual(x, vector(1))
        with fwAD.dual_level():
            slope = tangent(fwAD.make_dual(d, torch.ones_like(x)) ** 3)
        check(slope, [12])
        check(tangent(slope), [12])


def test_a_tangent_that_requires_grad():
    x, v = vector(0.4), vector(2).requires_grad_()
    with fwAD.dual_level():
        slope = tangent(fwAD.make_dual(x, v).sin())
        check(torch.autograd.grad(slope, v)[0], x.cos())


def test_a_leaf_under_a_dual_gets_its_gradient():
    x = vector(0.4).requires_grad_()
    with fwAD.dual_level():
        y = fwAD.make_dual(x, vector(3)).exp()
        assert y.requires_grad
        (g,) = torch.autograd.grad(y, x, retain_graph=True)
        check(g, x.exp())
        check(tangent(g), 3 * x.exp())
        assert not g.requires_grad
        y.backward()
        check(tangent(x.grad), 3 * x.exp())
        fwAD.make_dual(x, vector(2)).exp().backward()
        check(tangent(x.grad), 5 * x.exp())
    assert not fwAD._C._is_dual(x.grad)


def test_the_gradient_of_a_tangent_has_no_tangent_of_the_same_level():
    x = vector(0.4).requires_grad_()
    with fwAD.dual_level():
        slope = tangent(fwAD.make_dual(x, vector(3)).sin())
        (g,) = torch.autograd.grad(slope, x, create_graph=True)
        check(g, -3 * x.sin())
        assert [tangent(g), tangent(slope)] == [None, None]


def test_modes():
    x, v = vector(1), vector(2)
    with fwAD.dual_level():
        d = fwAD.make_dual(x, v)
        with torch.no_grad():
            check(tangent(d * 3), [6])
        with torch.inference_mode():
            assert [tangent(d), tangent(d * 3)] == [None, None]
            assert tangent(fwAD.make_dual(x, v)) is None
        with fwAD._set_fwd_grad_enabled(False):
            assert not fwAD._is_fwd_grad_enabled()
            assert tangent(d * 3) is None
        check(tangent(d), v)
        for plain in (d.detach(), d.data, torch.zeros_like(d), d.long(), d > 0, d.argmax()):
            assert tangent(plain) is None


def test_levels_are_seen_by_all_threads_but_switched_by_one():
    seen = []
    with fwAD.dual_level():
        d = fwAD.make_dual(vector(2), vector(1))
        with fwAD._set_fwd_grad_enabled(False):
            thread = threading.Thread(target=lambda: seen.append(tangent(d**2)))
            thread.start()
            thread.join()
            assert tangent(d**2) is None
    check(seen[0], [4])


# ---- what is refused


def test_refusals():
    x, v = vector(1, 2), vector(1, 2)
    with pytest.raises(RuntimeError, match="no level exists, make sure to enter_dual_level"):
        fwAD.make_dual(x, v)
    with pytest.raises(RuntimeError, match="must be a positive number"):
        fwAD.exit_dual_level()
    assert fwAD.unpack_dual(x) == (x, None)
    with fwAD.dual_level():
        with pytest.raises(RuntimeError, match=r"size \[2\] while .* is of size \[3\]"):
            fwAD.make_dual(x, vector(1, 2, 3))
        with pytest.raises(ValueError, match="Expected primal to be floating point or complex"):
            fwAD.make_dual(torch.tensor([1]), v)
        with pytest.raises(ValueError, match="Expected tangent to be floating point or complex"):
            fwAD.make_dual(x, torch.tensor([1, 2]))
        with pytest.raises(RuntimeError, match="tangent of a real tensor is real"):
            fwAD.make_dual(x, v * 1j)
        with pytest.raises(TypeError, match="tangent must be Tensor, not float"):
            fwAD.make_dual(x, 1.0)
        with pytest.raises(RuntimeError, match="Invalid level"):
            fwAD.make_dual(x, v, level=3)
        with pytest.raises(RuntimeError, match="not the last one that was created"):
            fwAD.exit_dual_level(level=1)
        d = fwAD.make_dual(x, v)
        with pytest.raises(RuntimeError, match="already has a forward gradient at the same level"):
            fwAD.make_dual(d, v)
        with pytest.raises(RuntimeError, match="itself has a forward gradient at the same level"):
            fwAD.make_dual(x, d)
        with pytest.raises(NotImplementedError, match=r"sin_out .* it is an out= function"):
            torch.sin(d, out=torch.empty(2, dtype=torch.float64))
        with pytest.raises(NotImplementedError, match="out= function"):
            torch.cat([x, d], out=torch.empty(4, dtype=torch.float64))
        with pytest.raises(NotImplementedError, match="out= function"):
            torch.sin(x, out=d)
        with pytest.raises(RuntimeError, match="has a forward grad"):
            d.resize_(1)
        with pytest.raises(NotImplementedError, match="is not implemented"):
            torch.unique(d)


# ---- operations at the edges


def test_the_tangent_has_the_shape_and_the_dtype_of_the_result(dual):
    row = fwAD.make_dual(torch.ones(1, 3), torch.ones(1, 3))
    for y in (dual + torch.zeros(2, 3), row + dual, dual * 2.0, dual.sum(), row.expand(4, 3)):
        assert (tangent(y).shape, tangent(y).dtype) == (y.shape, y.dtype)
    y = dual.to(torch.float32)
    assert tangent(y).dtype == torch.float32
    empty = fwAD.make_dual(torch.ones(0, 3), torch.ones(0, 3))
    assert tangent((empty * empty).sum(1)).shape == (0,)
    check(tangent(fwAD.make_dual(vector(2)[0], vector(5)[0]) ** 2), 20)


def test_integers_and_constants_take_part(dual):
    number = torch.tensor([2, 2, 2])
    check(tangent(dual * number), [2, 20, 200])
    check(tangent(torch.cat([dual, number])), [1, 10, 100, 0, 0, 0])
    check(tangent(torch.where(dual > 1.5, dual, 7.0)), [0, 10, 100])
    check(tangent(dual.masked_fill(dual > 2.5, 4)), [1, 10, 0])
    check(tangent(torch.nn.functional.pad(dual, (1, 0), value=3)), [0, 1, 10, 100])
    check(tangent(dual.index_fill(0, torch.tensor([1]), 9)), [1, 0, 100])
    check(tangent(dual.scatter(0, torch.tensor([0]), 9.0)), [0, 10, 100])


def test_complex_tangents():
    z, w = torch.tensor([3 + 4j, 1j]), torch.tensor([1 - 1j, 2.0])
    with fwAD.dual_level():
        d = fwAD.make_dual(z, w)
        check(tangent(d * d), 2 * z * w, rtol=1e-6)
        check(tangent(d.abs()), (z.conj() * w).real / z.abs(), rtol=1e-6)
        check(tangent(d.real), w.real)
        check(tangent(d.conj()), w.conj())
        check(tangent(torch.view_as_real(d)), torch.view_as_real(w))
        check(tangent(torch.view_as_complex(torch.view_as_real(d) * 1)), w)


OF_COMPLEX_NUMBERS = {
    "quotient": lambda z, w: z / w,
    "power": lambda z, w: z**w + z**3,
    "var": lambda z, w: (z * w).var(0),
    "std": lambda z, w: torch.std(z - w, dim=1, correction=0),
    "var_mean": lambda z, w: torch.var_mean(z * w),
    "norm": lambda z, w: torch.linalg.vector_norm(z * w, 3, dim=1),
    "norm 1": lambda z, w: torch.linalg.vector_norm(z, 1) * w,
    "largest": lambda z, w: torch.linalg.vector_norm(z * w, float("inf")),
    "dist": lambda z, w: torch.dist(z, w, 2),
    "sgn": lambda z, w: torch.sgn(z) * w,
    "angle": lambda z, w: torch.angle(z * w),
    "polar": lambda z, w: torch.polar(z.real, w.imag),
    "parts": lambda z, w: torch.complex(z.imag * w.real, z.abs()),
    "views": lambda z, w: torch.view_as_complex(torch.view_as_real(z) * torch.view_as_real(w)),
    "conj": lambda z, w: z.conj() * w.conj().T,
    "vdot": lambda z, w: torch.vdot(z.flatten(), w.flatten()),
    "logsumexp": lambda z, w: torch.logsumexp(z * w, 1),
    "cumprod": lambda z, w: torch.cumprod(z * w, 1),
    "prod": lambda z, w: torch.prod(z * w, 0),
    "addmm": lambda z, w: torch.addmm(z, w, z, beta=2, alpha=3),
    "linear": lambda z, w: torch.nn.functional.linear(z, w, w[0]),
    "to real": lambda z, w: (z * w).real + 0j * w,
}


@pytest.mark.parametrize("name", OF_COMPLEX_NUMBERS)
def test_complex_derivatives_are_differences(name):
    z = torch.complex(randn(2, 2), randn(2, 2, seed=1)).requires_grad_()
    w = torch.complex(randn(2, 2, seed=2) + 3, randn(2, 2, seed=3)).requires_grad_()
    assert gradcheck(OF_COMPLEX_NUMBERS[name], (z, w), check_forward_ad=True)
    assert gradgradcheck(OF_COMPLEX_NUMBERS[name], (z, w), check_fwd_over_rev=True, atol=1e-4)


def test_random_numbers_do_not_move(dual):
    check(tangent(torch.bernoulli(dual / 4)), [0, 0, 0])
    check(tangent(torch.normal(dual, 1.0)), [0, 0, 0])
    y = dual * 1
    y.normal_()
    check(tangent(y), [0, 0, 0])
    assert tangent(torch.rand_like(dual)) is None
    y = torch.nn.functional.dropout(dual, 0.5)
    check(tangent(y), values_times(y / dual))


def values_times(factor):
    return [f * t for f, t in zip(factor.tolist(), (1, 10, 100), strict=True)]


# ---- views and writes


def test_views_of_a_dual_have_views_of_the_tangent():
    x, v = randn(3, 4), randn(3, 4, seed=1)
    views = [
        lambda t: t[1],
        lambda t: t[:, ::2],
        lambda t: t.t()[1:],
        lambda t: t.diagonal(),
        lambda t: t.reshape(2, 6)[1],
        lambda t: t.unsqueeze(0).expand(2, 3, 4)[1, 2],
        lambda t: t.unfold(1, 2, 1),
        lambda t: t.unbind(1)[2],
        lambda t: t.as_strided((2, 2), (4, 1), 1),
    ]
    with fwAD.dual_level():
        for dual in (fwAD.make_dual(x, v), fwAD.make_dual(x.t(), v.t()).t()):
            for view in views:
                check(tangent(view(dual)), view(v))
                check(tangent(view(dual * 1)), view(v))


def test_a_dual_of_elements_that_share_memory():
    with fwAD.dual_level():
        d = fwAD.make_dual(vector(1).expand(3), vector(1, 2, 3))
        check(tangent(d[1]), 2)
        check(tangent(d * d), [2, 4, 6])


def test_writes_change_the_tangent(dual):
    y = dual * 1
    y.mul_(dual)
    check(tangent(y), [2, 40, 600])
    y.add_(1)
    check(tangent(y), [2, 40, 600])
    y.sin_()
    check(tangent(y), (1 + vector(1, 4, 9)).cos() * vector(2, 40, 600))
    y.copy_(torch.ones(3))
    check(tangent(y), [0, 0, 0])
    y.copy_(dual[0])
    check(tangent(y), [1, 1, 1])
    y.fill_(dual[2])
    check(tangent(y), [100, 100, 100])
    y.zero_()
    check(tangent(y), [0, 0, 0])
    y += dual
    check(tangent(y), [1, 10, 100])
    y.cumprod_(0)
    check(tangent(y), [1, 12, 236])
    y.gt_(0)
    check(tangent(y), [0, 0, 0])


def test_writing_a_dual_into_a_plain_tensor_makes_it_one(dual):
    y = torch.zeros(2, 3, dtype=torch.float64)
    row = y[1]
    y[1] = dual
    check(tangent(y), [[0, 0, 0], [1, 10, 100]])
    check(tangent(row), [1, 10, 100])
    y[torch.tensor([0, 1]), torch.tensor([2, 0])] = dual[:2]
    check(tangent(y), [[0, 0, 1], [10, 10, 100]])
    y[:, 1].mul_(2)
    check(tangent(y), [[0, 0, 1], [10, 20, 100]])
    y[0] = 5
    check(tangent(y), [[0, 0, 0], [10, 20, 100]])
    check(tangent(row), [10, 20, 100])


@pytest.mark.parametrize("through_view", [True, False])
def test_a_view_and_its_base_see_each_others_writes(dual, through_view):
    base = dual * 1
    view = base[1:]
    if through_view:
        view.mul_(base[1:].detach())
    else:
        base.mul_(vector(1, 2, 3))
    check(base, [1, 4, 9])
    check(tangent(base), [1, 20, 300])
    check(tangent(view), [20, 300])


def test_a_write_to_the_real_part_of_a_complex_tensor():
    with fwAD.dual_level():
        z = fwAD.make_dual(torch.tensor([1 + 2j]), torch.tensor([3 + 4j])) * 1
        z.real.mul_(2)
        check(tangent(z), torch.tensor([6 + 4j]))
        torch.view_as_real(z)[0, 1] = 0
        check(tangent(z), torch.tensor([6 + 0j]))


def test_changes_of_shape_in_place(dual):
    y = torch.stack([dual, 2 * dual])
    y.t_()
    check(tangent(y), [[1, 2], [10, 20], [100, 200]])
    y.unsqueeze_(0)
    assert tangent(y).shape == (1, 3, 2)


def test_writes_do_not_reach_the_given_tangent_or_an_earlier_result():
    x, v = vector(1, 2), vector(3, 4)
    with fwAD.dual_level():
        d = fwAD.make_dual(x, v)
        before = tangent(d)
        d.mul_(2)
        check(x, [2, 4])
        check(v, [3, 4])
        check(before, [3, 4])
        check(tangent(d), [6, 8])


def test_writes_in_both_modes_at_once():
    x = vector(1, 2, 3).requires_grad_()

    def f(x):
        y = x * 1
        y[1:].mul_(x[:2])
        y[0] = y[1].clone() * x[2]
        return y.exp_()

    assert gradcheck(f, (x,), check_forward_ad=True)
    assert gradgradcheck(f, (x,), check_fwd_over_rev=True)


def test_detach_in_place(dual):
    y = dual * 2
    y.detach_()
    assert tangent(y) is None


# ---- with what surrounds it


def test_gradcheck_finds_a_wrong_jvp():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

        @staticmethod
        def jvp(ctx, t):
            return t * 2.1

    x = vector(1, 2).requires_grad_()
    assert gradcheck(Wrong.apply, (x,))
    for fast_mode in (False, True):
        with pytest.raises(RuntimeError, match="forward mode"):
            gradcheck(Wrong.apply, (x,), check_forward_ad=True, fast_mode=fast_mode)


def test_saved_tensor_hooks_keep_tangents():
    x = vector(0.5).requires_grad_()

    class Box:
        def __init__(self, t):
            self.t = t.clone()

    for pack, unpack in ((lambda t: t, lambda t: t), (Box, lambda box: box.t)):
        with fwAD.dual_level(), torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = fwAD.make_dual(x, vector(2)).sin().exp()
            (g,) = torch.autograd.grad(y, x)
            check(g, y * x.cos())
            check(tangent(g), 2 * y * (x.cos() ** 2 - x.sin()))


def test_hooks_and_accumulation_see_tangents():
    x = vector(1, 2).requires_grad_()
    seen = []
    with fwAD.dual_level():
        d = fwAD.make_dual(x, vector(1, 1))
        y = d * d
        y.register_hook(lambda g: seen.append(g) or g * 2)
        (g,) = torch.autograd.grad((y * d + y).sum(), x)
        check(tangent(seen[0]), [1, 1])
        check(tangent(g), tangent(4 * d * (d + 1) + d * d))


def test_no_warning_is_needed():
    with warnings.catch_warnings(), fwAD.dual_level():
        warnings.simplefilter("error")
        fwAD.make_dual(vector(1), vector(1)).sin()


def test_a_checkpoint_in_both_modes():
    x, v = vector(0.3, 0.7).requires_grad_(), vector(1, -2)

    def f(x):
        return (x.sin().exp() * x.sigmoid()).tanh()

    def second(g):
        with fwAD.dual_level():
            d = fwAD.make_dual(x, v)
            y = g(d)
            (gradient,) = torch.autograd.grad(y.sum(), x)
            return tangent(y), tangent(gradient)

    for found, expected in zip(second(lambda d: checkpoint(f, d)), second(f), strict=True):
        check(found, expected)


def test_mutation_of_saved_tensors_is_refused_where_it_would_drop_a_tangent():
    x = vector(1).requires_grad_()
    allow = torch.autograd.graph.allow_mutation_on_saved_tensors
    refused = pytest.raises(NotImplementedError, match="inside a dual level")
    with fwAD.dual_level(), allow(), refused:
        fwAD.make_dual(x, vector(1)).exp()


def test_a_tangent_can_be_written_to():
    with fwAD.dual_level():
        y = fwAD.make_dual(randn(2, 1), torch.ones(2, 1, dtype=torch.float64)) + randn(3)
        t = tangent(y)
        t.mul_(2)[0, 0] = 7
    check(t, [[7.0, 2.0, 2.0], [2.0, 2.0, 2.0]])
