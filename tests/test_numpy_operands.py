"""Operators between tensors and what NumPy has: the result is a tensor, either way round."""

import operator as o

import numpy as np
import pytest

import rushlight as torch
from support import check, leaf

ARITHMETIC = [o.add, o.sub, o.mul, o.truediv, o.floordiv, o.mod, o.pow, o.matmul]
COMPARISONS = [o.lt, o.le, o.eq, o.ne, o.gt, o.ge]
BITWISE = [o.and_, o.or_, o.xor, o.lshift, o.rshift]


@pytest.mark.parametrize("operator", ARITHMETIC + COMPARISONS)
@pytest.mark.parametrize("shape", [(3,), (2, 3, 3), ()])
def test_both_ways_round(operator, shape):
    t, a = torch.tensor([1.0, 2.0, 4.0]), np.array([3.0, 2.0, 5.0])
    if operator is o.matmul and shape == ():
        pytest.skip("a product of matrices needs dimensions")
    a = np.broadcast_to(a, shape) if shape else a[0]
    for left, right in ((t, np.array(a)), (np.array(a), t)):
        expected = operator(np.asarray(left), np.asarray(right))
        check(operator(left, right), torch.tensor(expected))


@pytest.mark.parametrize("operator", BITWISE)
def test_bitwise(operator):
    t, a = torch.tensor([1, 2, 3]), np.array([3, 1, 2], np.int32)
    check(operator(t, a), torch.tensor(operator(t.numpy(), a)))
    check(operator(a, t), torch.tensor(operator(a, t.numpy())))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("other", ["float64", "float32", "int64", "int16", "uint16", "complex64"])
def test_the_dtype_is_numpys(dtype, other):
    t, a = torch.ones(2, dtype=getattr(torch, dtype)), np.ones(2, other)
    for result in (t + a, a + t, t / a, a / t):
        assert type(result) is torch.Tensor
    assert str((t + a).dtype) == f"torch.{np.result_type(dtype, other)}"
    assert str((t / a).dtype) == f"torch.{(np.ones(2, dtype) / a).dtype}".replace(
        "float16", "float16" if "float16" in (dtype, other) else "float64"
    )


def test_bfloat16_which_numpy_lacks():
    t = torch.ones(2, dtype=torch.bfloat16)
    assert (t + np.ones(2, np.int64)).dtype == torch.bfloat16
    assert (np.ones(2, np.float32) * t).dtype == torch.float32
    assert (t == np.ones(2)).all()


def test_gradients_flow_to_the_tensor_and_the_array_is_a_constant():
    x, a = leaf([1.0, 2.0]), np.array([3.0, 4.0])
    y = (x * a + a / x + a**x).sum() + (a @ x) + (a - x).sum()
    a[:] = 100  # the graph has its own copy
    y.backward()
    same = leaf([1.0, 2.0])
    b = torch.tensor([3.0, 4.0], dtype=torch.float64)
    ((same * b + b / same + b**same).sum() + (b @ same) + (b - same).sum()).backward()
    check(x.grad, same.grad)


def test_in_place_operators_make_a_new_tensor():
    t = given = torch.ones(2)
    t += np.ones(2)
    assert t.dtype == torch.float64
    assert given.tolist() == [1.0, 1.0]
    t **= np.array([2.0, 3.0])
    assert t.tolist() == [4.0, 8.0]
    a = np.ones(2)
    a += torch.ones(2)
    assert type(a) is torch.Tensor


def test_strides_byte_order_and_empty_arrays():
    t = torch.tensor([1.0, 2.0, 3.0])
    a = np.array([1.0, 2.0, 3.0])
    assert (t + a[::-1]).tolist() == [4, 4, 4]
    assert (t + a.astype(">f4")).tolist() == [2, 4, 6]
    assert (torch.ones(0) + np.ones((3, 0))).shape == (3, 0)
    a.flags.writeable = False
    assert (a - t).tolist() == [0, 0, 0]


def test_shapes_that_do_not_fit():
    with pytest.raises(RuntimeError, match="size of tensor"):
        torch.ones(3) + np.ones(4)


def test_what_is_no_number_stays_numpys():
    for strange in (np.array(["a", "b"]), np.array([None, 1], object)):
        with pytest.raises(TypeError):
            torch.ones(2) + strange
    masked = np.ma.array([1.0, 2.0], mask=[True, False])
    assert not isinstance(torch.ones(2).__add__(masked), torch.Tensor)


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "int64", "uint8", "longdouble"])
def test_scalars(kind):
    t, n = torch.tensor([1.0, 2.0]), getattr(np, kind)(3)
    for operator in ARITHMETIC[:-1] + COMPARISONS:
        check(operator(t, n), operator(t, 3.0))
        check(operator(n, t), operator(3.0, t))
    t *= n
    assert t.tolist() == [3.0, 6.0]


def test_bool_and_complex_scalars():
    t = torch.tensor([1.0, 2.0])
    assert (t - np.True_).tolist() == [0.0, 1.0]
    assert (t * np.complex64(2j)).tolist() == [2j, 4j]
    assert (t * np.complex128(2j)).dtype == torch.complex64


def test_strangers_answer_for_themselves():
    class Quantity:
        def __float__(self):
            return 1.0

        def __radd__(self, other):
            return "radd"

        def __rmatmul__(self, other):
            return "rmatmul"

        def __eq__(self, other):
            return "eq"

        __hash__ = None

    t = torch.ones(2)
    assert (t + Quantity(), t @ Quantity(), t == Quantity()) == ("radd", "rmatmul", "eq")
    with pytest.raises(TypeError, match="unsupported operand"):
        t * Quantity()


UFUNCS = [np.add, np.subtract, np.multiply, np.divide, np.power, np.matmul, np.less, np.equal]


@pytest.mark.parametrize("ufunc", UFUNCS)
def test_universal_functions_are_the_operators(ufunc):
    t, a = torch.tensor([1.0, 2.0, 4.0]), np.array([3.0, 2.0, 5.0])
    for left, right in ((t, a), (a, t), (t, t)):
        expected = torch.tensor(ufunc(np.asarray(left), np.asarray(right)))
        result = ufunc(left, right)
        check(result, expected)
        assert result.dtype == expected.dtype
    with pytest.raises(TypeError, match="did not contain a loop"):
        np.add(t, np.array(["a"]))


@pytest.mark.parametrize("name", ["sin", "exp", "sqrt", "absolute", "arctan", "negative", "square",
                                  "log1p", "reciprocal", "conjugate", "sign"])  # fmt: skip
def test_functions_of_an_element_have_gradients(name):
    x = leaf([0.3, 0.7])
    y = getattr(np, name)(x)
    check(y.detach(), torch.tensor(getattr(np, name)(x.detach().numpy())))
    assert y.requires_grad
    assert torch.autograd.gradcheck(getattr(np, name), (x,))


@pytest.mark.parametrize("name", ["maximum", "hypot", "arctan2", "logaddexp", "copysign", "fmin",
                                  "add", "divide", "power"])  # fmt: skip
def test_functions_of_two_elements_have_gradients(name):
    function, a = getattr(np, name), np.array([0.5, 1.5], np.float32)
    x = leaf([0.3, 0.7])
    for call in (lambda x: function(x, a), lambda x: function(a, x), lambda x: function(x, 2 * x),
                 lambda x: function(x, 0.4)):  # fmt: skip
        expected = call(x.detach().numpy())
        check(call(x).detach(), torch.tensor(expected))
        assert torch.autograd.gradcheck(call, (x,))


ARRAYS = [
    lambda x: np.concatenate([x, np.ones((1, 3)), x]), lambda x: np.concatenate([x, x], axis=None),
    lambda x: np.stack([x, x], axis=1), lambda x: np.vstack([x, np.ones(3)]),
    lambda x: np.hstack([x, x]), lambda x: np.where(np.array([True, False, True]), x, 0.0),
    lambda x: np.sum(x, axis=0), lambda x: np.sum(x), lambda x: np.mean(x, axis=1, keepdims=True),
    lambda x: np.std(x, ddof=1), lambda x: np.max(x, axis=1), lambda x: np.prod(x, axis=-1),
    lambda x: np.dot(x, np.ones((3, 2))), lambda x: np.dot(x, np.ones(3)),
    lambda x: np.einsum("ij,kj->ik", x, x), lambda x: np.tensordot(x, np.ones((2, 3)), 2),
    lambda x: np.reshape(x, (3, 2)), lambda x: np.reshape(x, 6), lambda x: np.transpose(x),
    lambda x: np.cumsum(x), lambda x: np.cumsum(x, axis=1), lambda x: np.clip(x, 0.4, 0.8),
    lambda x: np.linalg.norm(x), lambda x: np.linalg.det(x[:, :2]), lambda x: np.outer(x, x),
    lambda x: np.squeeze(x[None], 0), lambda x: np.tile(x, 2), lambda x: np.repeat(x, 2, axis=0),
    lambda x: np.trace(x), lambda x: np.flip(x, 1), lambda x: np.roll(x, 1), lambda x: np.diff(x),
    lambda x: np.linalg.solve(x[:, :2], np.ones(2)), lambda x: np.linalg.inv(x[:, :2]),
    lambda x: np.moveaxis(x, 0, 1), lambda x: np.swapaxes(x, 0, 1), lambda x: np.ravel(x),
    lambda x: np.broadcast_to(x, (2, 2, 3)), lambda x: np.inner(x, np.ones((2, 3))),
    lambda x: np.expand_dims(x, 0), lambda x: np.diagonal(x), lambda x: np.var(x, axis=(0, 1)),
]  # fmt: skip


@pytest.mark.parametrize("function", ARRAYS)
def test_functions_of_arrays_have_gradients(function):
    x = leaf([[0.3, 0.7, 0.9], [0.5, 0.2, 0.6]])
    expected = function(x.detach().numpy())
    check(function(x).detach(), torch.tensor(np.array(expected)))
    assert torch.autograd.gradcheck(function, (x,))


def test_without_gradients_numpys_functions_of_arrays_give_arrays():
    x = torch.tensor([[0.3, 0.7], [0.5, 0.2]])
    assert type(np.concatenate([x, x])) is np.ndarray
    assert type(np.where(x > 0.4, 1, 0)) is np.ndarray
    assert np.allclose(x, x.numpy())
    with torch.no_grad():
        assert type(np.stack([x.requires_grad_(), x])) is np.ndarray


def test_what_has_no_gradient_is_refused():
    x = leaf([0.3, 0.7])
    for call in (lambda: np.median(x), lambda: np.frexp(x), lambda: np.sum(x, where=[True, False]),
                 lambda: np.add.reduce(x), lambda: np.add(x, 1, where=[True, False])):  # fmt: skip
        with pytest.raises((RuntimeError, TypeError)):
            call()


def test_results_that_are_given():
    t, a, out = torch.tensor([1.0, 2.0]), np.ones(2), np.zeros(2)
    assert np.add(a, t, out=out) is out
    assert out.tolist() == [2, 3]
    with pytest.raises(TypeError, match="NotImplemented"):
        np.add(a, a, out=t)
    with pytest.raises(RuntimeError, match="requires grad"):
        np.add(a, leaf([1.0, 2.0]), out=out)


def test_methods_of_universal_functions():
    t = torch.tensor([1.0, 2.0, 4.0])
    assert np.add.reduce(t).item() == 7
    assert np.multiply.accumulate(t).tolist() == [1, 2, 8]
    assert [part.tolist() for part in np.divmod(t, 2)] == [[0, 1, 2], [1, 0, 0]]


def test_other_arrays_answer_for_themselves():
    class Duck:
        def __array_function__(self, func, types, args, kwargs):
            return "duck"

        def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
            return "duck"

    t = torch.ones(2)
    assert np.concatenate([t, Duck()]) == "duck"
    assert np.add(Duck(), t) == "duck"
