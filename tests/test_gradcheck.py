"""gradcheck and gradgradcheck: what they accept, what they catch, and what they say."""

import random
import subprocess
import sys

import pytest

import rushlight as torch
from rushlight.autograd import gradcheck, gradgradcheck
from rushlight.autograd.gradcheck import (
    GradcheckError,
    get_analytical_jacobian,
    get_numerical_jacobian,
    get_numerical_jacobian_wrt_specific_input,
)


def real(*shape, dtype=torch.float64):
    return torch.randn(shape, dtype=dtype, requires_grad=True)


def square_with(factor):
    """x * x, with a backward that is right for factor 2."""

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return factor * x.conj() * g

    return Square.apply


ACCEPTED = {
    "pointwise": (lambda x: x.sin() * x, lambda: (real(2, 3),)),
    "scalar": (lambda x: x.exp(), lambda: (real(),)),
    "empty": (lambda x: x * 2, lambda: (real(0, 3),)),
    "product": (lambda x, y: x @ y, lambda: (real(2, 3), real(3, 2))),
    "several outputs": (lambda x: (x.sum(), x.exp()), lambda: (real(3),)),
    "unused input": (lambda x, y: x.sin(), lambda: (real(2), real(3))),
    "output is a view": (lambda x: x.reshape(-1), lambda: (real(2, 3),)),
    "transposed input": (lambda x: x * x, lambda: (real(3, 2).detach().t().requires_grad_(),)),
    "closed over": (lambda x: x.tanh().sum(0), lambda: (real(4, 2),)),
    "plain number": (lambda x, k: x**k, lambda: (real(3), 3.0)),
    "complex": (lambda z: z * z, lambda: (real(2, dtype=torch.complex128),)),
    "complex to real": (lambda z: z.abs(), lambda: (real(2, dtype=torch.complex128),)),
    "real to complex": (lambda x: x * (1 + 2j), lambda: (real(3),)),
}


@pytest.mark.parametrize("fast_mode", [False, True])
@pytest.mark.parametrize("name", ACCEPTED)
def test_right_derivatives_pass(name, fast_mode):
    func, make = ACCEPTED[name]
    inputs = make()
    assert gradcheck(func, inputs, fast_mode=fast_mode)
    assert gradgradcheck(func, inputs, fast_mode=fast_mode)
    assert gradgradcheck(func, inputs, gen_non_contig_grad_outputs=True, fast_mode=fast_mode)


@pytest.mark.parametrize("fast_mode", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_a_wrong_derivative_is_named_by_its_worst_entry(dtype, fast_mode):
    x = torch.tensor([[1.0, 2.0], [5.0, 3.0]], dtype=dtype, requires_grad=True)
    with pytest.raises(GradcheckError) as caught:
        gradcheck(square_with(2.02), x, fast_mode=fast_mode)
    text = str(caught.value)
    assert text.startswith("Jacobian mismatch for output 0 with respect to input 0")
    assert "output[1, 0]" in text
    assert "input[1, 0]" in text
    assert "relative error 9.90e-03" in text
    assert not gradcheck(square_with(2.02), x, fast_mode=fast_mode, raise_exception=False)


def test_a_wrong_second_derivative_is_caught():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * x.detach() ** 2 * g

    x = real(2)
    assert gradcheck(Cube.apply, x)
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradgradcheck(Cube.apply, x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_narrow_dtypes_are_compared_with_wide_differences(dtype):
    x = torch.tensor([1.0, 2.0, -3.0], dtype=dtype, requires_grad=True)
    assert gradcheck(square_with(2.0), x)
    assert gradcheck(lambda t: t.exp(), x)
    with pytest.raises(GradcheckError, match="relative error"):
        gradcheck(square_with(2.02), x)


def test_a_function_of_one_narrow_dtype_is_checked_coarsely():
    def narrow(x):
        if x.dtype != torch.float32:
            raise TypeError("float32 only")
        return x.exp()

    x = torch.tensor([0.5, 1.0], requires_grad=True)
    with pytest.warns(UserWarning, match="is not a double precision floating point"):
        assert gradcheck(narrow, x)


def test_inputs_are_left_as_they_were():
    x = real(3)
    before = x.tolist()
    gradcheck(lambda t: t.exp(), x)
    gradcheck(lambda t: t.exp(), x, fast_mode=True)
    assert x.tolist() == before
    assert x.grad is None

    def stumble(t):
        if t.tolist() != before:
            raise ValueError("moved")
        return t * 2

    with pytest.raises(ValueError, match="moved"):
        gradcheck(stumble, x)
    assert x.tolist() == before


def test_a_random_backward_is_caught():
    rng = random.Random(0)

    class Noisy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, g):
            return (2 + 1e-7 * rng.random()) * g

    with pytest.raises(GradcheckError, match="Backward is not reentrant"):
        gradcheck(Noisy.apply, real(2))
    assert gradcheck(Noisy.apply, real(2), nondet_tol=1e-5)


def test_a_backward_that_invents_gradients_is_caught():
    class Inventive(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return 2 * x

        @staticmethod
        def backward(ctx, g):
            return torch.ones(2, dtype=torch.float64) if g is None else 2 * g

    with pytest.raises(GradcheckError, match="undefined or zero"):
        gradcheck(Inventive.apply, real(2))
    assert gradcheck(Inventive.apply, real(2), check_undefined_grad=False)


def test_a_lost_history_is_caught():
    with pytest.raises(GradcheckError, match="expected to be zero"):
        gradcheck(lambda x: x.detach() * 2, real(2))
    assert gradcheck(lambda x: x.detach() * 0, real(2))


def test_unusable_inputs():
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        gradcheck(lambda x: x, torch.ones(2))
    with pytest.raises(RuntimeError, match="stride 0"):
        gradcheck(lambda x: x * 2, real(1).detach().expand(3).requires_grad_())
    with pytest.raises(AssertionError, match="check_forward_ad or check_backward_ad"):
        gradcheck(lambda x: x * 2, real(2), check_backward_ad=False)


def test_jacobians():
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)

    def func(t):
        return torch.stack([t.sum(), t[0] * t[1], t[0] ** 2])

    wanted = [[1.0, 2.0, 2.0], [1.0, 1.0, 0.0]]
    (found,) = get_numerical_jacobian_wrt_specific_input(func, 0, (x,), (func(x),), 1e-6)
    rounded = [[round(v, 5) for v in row] for row in found.tolist()]
    assert rounded == wanted
    with pytest.warns(FutureWarning):
        (found,) = get_numerical_jacobian(lambda inputs: func(inputs[0]), (x,), eps=1e-6)
    assert [[round(v, 5) for v in row] for row in found.tolist()] == wanted
    with pytest.warns(FutureWarning):
        (found,), *facts = get_analytical_jacobian((x,), func(x))
    assert found.tolist() == wanted
    assert facts == [True, True, True]


def test_importing_the_module_leaves_the_function_in_place():
    program = (
        "import rushlight as torch; import rushlight.autograd.gradcheck\n"
        "from rushlight.autograd.gradcheck import GradcheckError, gradcheck\n"
        "assert torch.autograd.gradcheck is gradcheck\n"
        "assert torch.autograd.gradgradcheck.__name__ == 'gradgradcheck'"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("fast", [True, False])
def test_outputs_keep_their_shape_and_dtype_when_inputs_move(fast):
    x = torch.ones(1, dtype=torch.float64, requires_grad=True)

    def grows(x):
        return torch.cat([x, x]) if (x >= 1).all() else x

    def narrows(x):
        return x.float() if (x >= 1).all() else x

    for function, what in ((grows, "shape"), (narrows, "dtype")):
        with pytest.raises(AssertionError, match=f"same {what} when inputs are perturbed"):
            gradcheck(function, (x,), fast_mode=fast)


def test_forward_mode_hands_over_inputs_that_do_not_require_grad():
    seen = []

    class Watch(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            seen.append((x.requires_grad, y.requires_grad))
            return x.clone(), y.clone()

        @staticmethod
        def backward(ctx, gx, gy):
            return gx, gy

        @staticmethod
        def jvp(ctx, tx, ty):
            return None if tx is None else tx.clone(), None if ty is None else ty.clone()

    x, y = (torch.rand(1, dtype=torch.float64, requires_grad=True) for _ in range(2))
    options = {"check_forward_ad": True, "check_backward_ad": False}
    assert gradcheck(Watch.apply, (x, y), check_batched_forward_grad=True, **options)
    assert (False, False) in seen
    seen.clear()
    x.requires_grad_(False)
    assert gradcheck(Watch.apply, (x, y), **options)
    assert set(seen) <= {(False, False), (False, True)}
    assert gradgradcheck(lambda a, b: a * b * b, (x, y), check_fwd_over_rev=True)


def test_a_tangent_that_is_missing_means_zeros():
    class Added(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.set_materialize_grads(False)
            return x + y

        @staticmethod
        def backward(ctx, g):
            return g, g

        @staticmethod
        def jvp(ctx, tx, ty):
            return tx if ty is None else ty if tx is None else tx + ty

    class Wrong(Added):
        @staticmethod
        def jvp(ctx, tx, ty):
            if tx is None or ty is None:
                return tx if ty is None else ty
            return tx + ty if tx.any() and ty.any() else (tx + ty) * 2

    xs = [torch.rand(2, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    options = {"check_forward_ad": True, "check_backward_ad": False}
    assert gradcheck(Added.apply, xs, **options)
    assert gradcheck(Wrong.apply, xs, check_undefined_grad=False, **options)
    with pytest.raises(GradcheckError, match="Mismatch in tangent values"):
        gradcheck(Wrong.apply, xs, **options)


def test_fast_mode_accepts_what_every_entry_allows():
    class Near(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.sum().expand(30).clone()

        @staticmethod
        def backward(ctx, g):
            return (g.sum() + 0.9e-4 * 30 * g.mean()).expand(40)

    for dtype in (torch.float64, torch.complex128):
        x = torch.ones(40, dtype=dtype, requires_grad=True)
        for fast in (False, True):
            assert gradcheck(Near.apply, (x,), atol=1e-4, rtol=0, fast_mode=fast)


def test_zeros_for_an_edge_have_no_shape_to_follow():
    x, z = (torch.ones(2, requires_grad=True) for _ in range(2))
    edge = torch.autograd.graph.get_gradient_edge(z * 2)
    with pytest.raises(RuntimeError, match="materialize_grads cannot be used"):
        torch.autograd.grad((x * 2).sum(), [x, edge], materialize_grads=True)
