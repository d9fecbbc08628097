"""Ops that programs define: signatures, kernels, derivatives, batches, modes."""

import numpy as np
import pytest

import rushlight as torch
from rushlight import Tensor, library
from rushlight.utils._python_dispatch import TorchDispatchMode


@library.custom_op("tests::product", mutates_args=())
def product(x: Tensor, y: Tensor, factor: float = 2.0) -> Tensor:
    return torch.from_numpy(x.numpy() * y.numpy() * factor)


def keep(ctx, inputs, output):
    x, y, factor = inputs
    ctx.save_for_backward(x, y)
    ctx.factor = factor


def gradients_of_product(ctx, grad):
    x, y = ctx.saved_tensors
    needed = ctx.needs_input_grad
    dx = grad * y * ctx.factor if needed[0] else None
    return dx, grad * x * ctx.factor if needed[1] else None, None


product.register_autograd(gradients_of_product, setup_context=keep)


@product.register_fake
def _(x, y, factor=2.0):
    return x.new_empty(torch.broadcast_shapes(x.shape, y.shape))


@library.custom_op("tests::split_sum", mutates_args=())
def split_sum(parts: list[Tensor], shift: int | None = None) -> tuple[Tensor, Tensor]:
    total = sum(parts) + (shift or 0)
    return total.clone(), total * 2


@library.custom_op("tests::no_rules", mutates_args=())
def no_rules(x: Tensor) -> Tensor:
    return x.sin()


def leaves(*shapes):
    random = np.random.default_rng(0)
    return [torch.tensor(random.standard_normal(s), requires_grad=True) for s in shapes]


def test_values_and_names():
    x, y = (t.detach() for t in leaves(3, 3))
    for op in (product, torch.ops.tests.product, torch.ops.tests.product.default):
        assert torch.equal(op(x, y), 2 * x * y)
        assert torch.allclose(op(x, y=y, factor=3.0), 3 * x * y)
    schema = torch.ops.tests.product.default._schema
    assert str(schema) == "tests::product(Tensor x, Tensor y, float factor=2.0) -> Tensor"
    assert str(torch.ops.tests.product.default) == "tests.product.default"


def test_derivatives_of_any_order():
    x, y = leaves(3, 3)
    assert torch.autograd.gradcheck(product, (x, y))
    assert torch.autograd.gradgradcheck(product, (x, y))
    (dx,) = torch.autograd.grad(product(x, y.detach()).sum(), x)
    assert torch.equal(dx, 2 * y)


def test_a_list_of_tensors_and_several_results():
    a, b = leaves(2, 2)
    total, double = split_sum([a.detach(), b.detach()], 1)
    assert torch.equal(total, a + b + 1)
    assert torch.equal(double, 2 * total)

    def backward(ctx, first, second):
        return [first + 2 * second] * 2, None

    library.register_autograd("tests::split_sum", backward)
    total, double = split_sum([a, b])
    (total.sum() + double.sum()).backward()
    assert a.grad.tolist() == b.grad.tolist() == [3, 3]


def test_without_a_derivative_only_backward_raises():
    (x,) = leaves(2)
    out = no_rules(x)
    assert out.requires_grad
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        out.sum().backward()


def test_under_vmap_and_grad():
    x, y = torch.rand(4, 3), torch.rand(3)
    assert torch.equal(torch.vmap(no_rules)(x), x.sin())
    assert torch.allclose(torch.vmap(product, (0, None))(x, y), 2 * x * y)
    found = torch.func.grad(lambda t: product(t, y).sum())(x[0])
    assert torch.allclose(found, 2 * y)
    calls = []

    @library.register_vmap("tests::no_rules")
    def _(info, in_dims, t):
        calls.append(info.batch_size)
        return t.sin(), in_dims[0]

    assert torch.equal(torch.vmap(no_rules, 1)(x), x.sin().T)
    assert calls == [3]
    torch.ops.tests.no_rules.records["default"].vmap_rule = None


def test_shapes_on_the_meta_device():
    x = torch.ones(2, 3, device="meta")
    assert product(x, x).shape == (2, 3)
    with pytest.raises(RuntimeError, match="no fake impl registered for tests::no_rules"):
        no_rules(x)


def test_ops_that_write():
    @library.custom_op("tests::fill", mutates_args={"x"})
    def fill(x: Tensor, value: float) -> None:
        x.numpy()[:] = value

    x = torch.zeros(2)
    version = x._version
    fill(x, 3.0)
    assert x.tolist() == [3, 3]
    assert x._version > version
    assert torch.ops.tests.fill.default._schema.is_mutable
    with pytest.raises(RuntimeError, match="writes to requires grad"):
        fill(torch.zeros(2, requires_grad=True), 1.0)
    y = torch.ones(2, requires_grad=True)
    kept = (y * 1) * x
    fill(x, 4.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept.sum().backward()


def test_results_share_no_memory_with_arguments():
    @library.custom_op("tests::same", mutates_args=())
    def same(x: Tensor) -> Tensor:
        return x.view(-1)

    with pytest.raises(RuntimeError, match="may not alias any inputs"):
        same(torch.ones(2))


def test_wrong_arguments():
    with pytest.raises(RuntimeError, match="Expected a value of type 'Tensor' for argument 'x'"):
        product(1, torch.ones(2))
    with pytest.raises(RuntimeError, match="missing value for argument 'y'"):
        product(torch.ones(2))
    with pytest.raises(RuntimeError, match="expected at most 3"):
        product(torch.ones(2), torch.ones(2), 1.0, 2.0)
    with pytest.raises(RuntimeError, match="Unknown keyword argument z"):
        product(torch.ones(2), torch.ones(2), z=1)


class TestLibraries:
    def test_define_and_impl(self):
        with library._scoped_library("tests_lib", "DEF") as lib:
            lib.define("twice(Tensor x, *, int times=2) -> Tensor")
            lib.impl("twice", lambda x, *, times=2: times * x, "CPU")
            assert torch.ops.tests_lib.twice(torch.ones(1), times=3).tolist() == [3]
            with pytest.raises(RuntimeError, match="already a kernel registered"):
                lib.impl("twice", lambda x: x, "CPU")
            with pytest.raises(RuntimeError, match="same name and overload name"):
                lib.define("twice(Tensor x) -> Tensor")
            lib.define("twice.int(int x) -> int")
            lib.impl("twice.int", lambda x: 2 * x, "CompositeImplicitAutograd")
            assert torch.ops.tests_lib.twice(4) == 8
            assert set(torch.ops.tests_lib.twice.overloads()) == {"default", "int"}
        assert not hasattr(torch.ops.tests_lib, "twice")

    def test_composed_ops_differentiate_themselves(self):
        with library._scoped_library("tests_lib", "FRAGMENT") as lib:
            lib.define("square(Tensor x) -> Tensor")
            lib.impl("square", lambda x: x * x, "CompositeImplicitAutograd")
            x = torch.tensor(3.0, requires_grad=True)
            torch.ops.tests_lib.square(x).backward()
            assert x.grad.item() == 6

    def test_a_kernel_of_autograd(self):
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, grad):
                return grad * 10

        with library._scoped_library("tests_lib", "FRAGMENT") as lib:
            lib.define("double(Tensor x) -> Tensor")
            lib.impl("double", lambda x: x * 2, "CPU")
            lib.impl("double", Double.apply, "Autograd")
            x = torch.tensor(1.0, requires_grad=True)
            torch.ops.tests_lib.double(x).backward()
            assert x.grad.item() == 10

    def test_reserved_and_unknown(self):
        with pytest.raises(ValueError, match="reserved namespace"):
            library.Library("aten", "DEF")
        with pytest.raises(RuntimeError, match="cannot be changed from Python"):
            library.Library("aten", "IMPL").impl("add.Tensor", lambda a, b: a, "CPU")
        with pytest.raises(RuntimeError, match="does not exist"):
            library.register_fake("tests::nowhere", lambda x: x)
        with pytest.raises(OSError, match="Could not load this library"):
            torch.ops.load_library("/x/y.so")
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            torch.ops.tests.nothing


def test_opcheck_finds_what_is_wrong():
    x, y = leaves(2, 2)
    assert set(library.opcheck(product, (x, y)).values()) == {"SUCCESS"}

    @library.custom_op("tests::liar", mutates_args=())
    def liar(x: Tensor) -> Tensor:
        x.add_(1)
        return x.clone()

    @liar.register_fake
    def _(x):
        return x.new_empty(7)

    found = library.opcheck(liar, (torch.ones(2),), raise_exception=False)
    assert "was mutated" in str(found["test_schema"])
    assert "gives shape" in str(found["test_faketensor"])
    with pytest.raises(Exception, match="has no derivative"):
        library.opcheck(no_rules, (x,), test_utils="test_autograd_registration")


def test_modes_see_the_op_and_not_its_kernel():
    class Names(TorchDispatchMode):
        def __init__(self):
            self.names = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.names.append(str(func))
            return func(*args, **(kwargs or {}))

    x = torch.ones(2)
    with Names() as mode:
        no_rules(x)
        x + 1
    assert mode.names == ["tests.no_rules.default", "aten.add.Tensor"]


def test_casts_under_autocast():
    @library.custom_op("tests::cast", mutates_args=())
    def cast(x: Tensor) -> Tensor:
        return x.clone()

    library.register_autocast("tests::cast", "cpu", torch.bfloat16)
    with torch.autocast("cpu"):
        assert cast(torch.ones(1)).dtype == torch.bfloat16
    assert cast(torch.ones(1)).dtype == torch.float32


def test_a_context_only_in_fake_impls():
    @library.custom_op("tests::nonzero", mutates_args=())
    def nonzero(x: Tensor) -> Tensor:
        return x.nonzero()

    @nonzero.register_fake
    def _(x):
        return x.new_empty(library.get_ctx().new_dynamic_size(), x.dim())

    with pytest.raises(RuntimeError, match="depends on the data"):
        nonzero(torch.ones(2, device="meta"))
    with pytest.raises(RuntimeError, match="only be called inside"):
        library.get_ctx()


def test_triton_says_why_not():
    with pytest.raises(RuntimeError, match="GPUs"):
        library.triton_op("tests::kernel", mutates_args=())


def test_fake_impls_of_compiled_ops_that_could_not_be_loaded(monkeypatch):
    monkeypatch.setattr(torch.ops, "refused_libraries", set())
    with pytest.raises(OSError, match="compiled for PyTorch"):
        torch.ops.load_library("vision/_C.so")

    @library.register_fake("tests::suppress")
    def _(boxes, limit):
        return boxes.new_empty(boxes.shape[0] // 2, dtype=torch.int64)

    with pytest.raises(AttributeError):
        _ = torch.ops.tests.suppress
    library.define("tests::suppress", "(Tensor boxes, float limit) -> Tensor")
    assert torch.ops.tests.suppress(torch.ones(4, 4, device="meta"), 0.5).shape == (2,)
    monkeypatch.setattr(torch.ops, "refused_libraries", set())
    with pytest.raises(RuntimeError, match="does not exist"):
        library.register_fake("tests::nowhere", lambda x: x)
    with pytest.raises(RuntimeError, match="does not exist"):

        @library.register_fake("tests::nowhere")
        def _(x):
            return x
