"""Mixed precision: regions and their state, casts and their cache, loss scaling, checkpoints."""

import copy
import gc
import pickle
import threading
import weakref

import numpy as np
import pytest

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.utils.checkpoint import checkpoint
from support import values

bf16, f16, f32, f64 = torch.bfloat16, torch.float16, torch.float32, torch.float64


@pytest.fixture(autouse=True)
def no_region_is_left():
    yield
    assert not torch.is_autocast_enabled("cpu")
    assert torch.get_autocast_dtype("cpu") == bf16
    assert torch.is_autocast_cache_enabled()


def state():
    return torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")


def random(*shape, seed=0):
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


# Regions


def test_products_are_halves_and_losses_float32():
    x, w = random(4, 8), random(8, 3)
    with torch.autocast("cpu"):
        y = x @ w
        assert y.dtype == bf16
        assert (y + y).dtype == bf16
        assert (y + x.sum()).dtype == bf16
        assert F.mse_loss(y, torch.zeros(4, 3)).dtype == f32
        assert torch.cat([y, x], 1).dtype == f32
        assert F.linear(x, w.T, torch.zeros(3)).dtype == bf16
    assert (x @ w).dtype == f32


def test_only_float32_and_halves_are_cast():
    with torch.autocast("cpu"):
        assert (torch.ones(2, 2, dtype=f64) @ torch.ones(2, 2, dtype=f64)).dtype == f64
        assert (torch.ones(2, 2, dtype=torch.int64) @ torch.eye(2, dtype=torch.int64)).tolist() == [
            [1, 1],
            [1, 1],
        ]
        assert (torch.ones(2, 2, dtype=f16) @ torch.ones(2, 2, dtype=f16)).dtype == bf16


def test_written_results_keep_their_dtype():
    a, x = torch.zeros(2, 2), random(2, 2)
    with torch.autocast("cpu"):
        a.addmm_(x, x)
        into = torch.mm(x, x, out=torch.empty(2, 2))
    assert a.dtype == f32
    assert into.dtype == f32
    np.testing.assert_allclose(values(a), values(x) @ values(x), rtol=1e-5)
    np.testing.assert_array_equal(values(a), values(into))


def test_regions_nest_and_restore():
    x = random(2, 2)
    with torch.autocast("cpu"):
        with torch.autocast("cpu", dtype=f16):
            assert state() == (True, f16)
            assert (x @ x).dtype == f16
        assert state() == (True, bf16)
        with torch.autocast("cpu", enabled=False):
            assert (x @ x).dtype == f32
        assert (x @ x).dtype == bf16


def test_one_region_object_may_be_entered_again_inside_itself():
    region = torch.autocast("cpu", dtype=f16)
    with region:
        with torch.autocast("cpu", enabled=False), region:
            assert state() == (True, f16)
        assert state() == (True, f16)
    assert state() == (False, bf16)


def test_an_exception_ends_the_region():
    with pytest.raises(ZeroDivisionError), torch.autocast("cpu"):
        1 / 0
    assert state() == (False, bf16)


def test_as_a_decorator():
    @torch.autocast("cpu", dtype=f16)
    def product(x, *, deep=0):
        """Doc."""
        return product(x, deep=deep - 1) if deep else x @ x

    assert product(random(2, 2), deep=3).dtype == f16
    assert product.__name__ == "product"
    assert product.__doc__ == "Doc."
    with pytest.raises(TypeError, match="requires a callable"):
        torch.autocast("cpu")(3)


def test_each_thread_has_its_own_state():
    seen = []
    with torch.autocast("cpu"):
        thread = threading.Thread(target=lambda: seen.append(state()))
        thread.start()
        thread.join()
        assert state() == (True, bf16)
    assert seen == [(False, bf16)]


def test_a_backward_pass_needs_no_region_and_is_not_cast_by_one():
    x = random(3, 3).requires_grad_()
    y = (x @ x).sum()
    with torch.autocast("cpu"):
        y.backward()
    expected = np.ones((3, 3), np.float32)
    m = values(x)
    np.testing.assert_allclose(values(x.grad), expected @ m.T + m.T @ expected, rtol=1e-5)


def test_second_derivatives_pass_through_casts():
    x = random(3, 3).requires_grad_()
    with torch.autocast("cpu"):
        y = (x @ x @ x).float().sum()
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    assert g.dtype == h.dtype == f32
    assert bool(h.isfinite().all())


# Bad input


def test_unsupported_devices_and_dtypes():
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        torch.autocast(torch.device("cpu"))
    with pytest.raises(RuntimeError, match="unsupported autocast device_type 'meta'"):
        torch.autocast("meta")
    with pytest.raises(RuntimeError, match="device type at start of device string: foo"):
        torch.autocast("foo")
    with pytest.warns(UserWarning, match="target dtype is not supported. Disabling autocast"):
        region = torch.autocast("cpu", dtype=f64)
    with region:
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == f32
    with pytest.raises(TypeError, match=r"dtype must be a torch.dtype"):
        torch.autocast("cpu", dtype="half")


def test_cuda_without_a_gpu_warns_and_does_nothing():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.warns(UserWarning, match="CUDA is not available"):
        region = torch.autocast("cuda")
    with region:
        assert not torch.is_autocast_enabled("cuda")
        assert not torch.is_autocast_enabled()
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == f32
    torch.autocast("cuda", enabled=False)
    with pytest.warns(UserWarning, match="GradScaler is enabled, but CUDA is not available"):
        assert not torch.GradScaler().is_enabled()
    with pytest.warns(FutureWarning, match=r"torch.amp.autocast\('cuda', args...\)"):
        torch.cuda.amp.autocast(enabled=False)
    with pytest.warns(FutureWarning, match="torch.amp.GradScaler"):
        assert not torch.cuda.amp.GradScaler(enabled=False).is_enabled()
    assert torch.cuda.amp.common.amp_definitely_not_available()


def test_older_names_of_the_cpu():
    with pytest.warns(FutureWarning, match=r"torch.amp.autocast\('cpu', args...\)"):
        region = torch.cpu.amp.autocast()
    with region:
        assert state() == (True, bf16)
    with pytest.warns(FutureWarning):
        assert torch.cpu.amp.GradScaler(init_scale=2.0).get_scale() == 2.0
    with pytest.warns(DeprecationWarning, match="is deprecated"):
        assert torch.is_autocast_cpu_enabled() is False
    with pytest.warns(DeprecationWarning, match="is deprecated"):
        assert torch.get_autocast_cpu_dtype() == bf16
    with pytest.warns(DeprecationWarning, match="is deprecated"):
        assert torch.get_autocast_gpu_dtype() == f16


def test_switches():
    torch.set_autocast_enabled("cpu", True)
    torch.set_autocast_dtype("cpu", f16)
    assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == f16
    torch.set_autocast_dtype("cpu", bf16)
    torch.set_autocast_enabled("cpu", False)
    torch.set_autocast_enabled(True)
    assert torch.is_autocast_enabled()
    assert not torch.is_autocast_enabled("cpu")
    torch.set_autocast_enabled("cuda", False)
    assert torch.autocast_increment_nesting() == 1
    assert torch.autocast_decrement_nesting() == 0
    with pytest.raises(TypeError, match="must be bool, not int"):
        torch.set_autocast_enabled("cpu", 1)
    with pytest.raises(TypeError, match=r"must be torch.dtype, not int"):
        torch.set_autocast_dtype("cpu", 1)
    with pytest.raises(RuntimeError, match="floating-point"):
        torch.set_autocast_dtype("cpu", torch.int64)
    with pytest.raises(TypeError, match="must be str, not int"):
        torch.is_autocast_enabled(3)
    with pytest.raises(AttributeError, match="has no attribute 'set_autocast_nothing'"):
        torch.set_autocast_nothing()


# The cache of casts


def test_a_parameter_is_cast_once_in_a_region():
    x, w = random(2, 2), random(2, 2).requires_grad_()
    with torch.autocast("cpu"):
        a, b = x.mm(w), x.mm(w)
        with torch.autocast("cpu"):
            c = x.mm(w)
        d = x.mm(w)
        assert len({t.grad_fn.next_functions[1][0] for t in (a, b, c, d)}) == 1
        with torch.autocast("cpu", cache_enabled=False):
            e = x.mm(w)
        assert e.grad_fn.next_functions[1][0] is not a.grad_fn.next_functions[1][0]
    with torch.autocast("cpu"):
        assert x.mm(w).grad_fn.next_functions[1][0] is not a.grad_fn.next_functions[1][0]


def test_a_cast_made_without_grad_serves_a_later_use_with_grad():
    x, w = random(2, 2), random(2, 2).requires_grad_()
    with torch.autocast("cpu"):
        with torch.no_grad():
            assert not x.mm(w).requires_grad
        x.mm(w).float().sum().backward()
    assert w.grad is not None


def test_a_parameter_written_to_in_a_region_is_cast_again():
    x, w = torch.ones(2, 2), torch.ones(2, 2, requires_grad=True)
    with torch.autocast("cpu"):
        assert x.mm(w)[0, 0].item() == 2
        with torch.no_grad():
            w.mul_(3)
        assert x.mm(w)[0, 0].item() == 6


def test_the_cache_dies_with_the_outermost_region():
    w = torch.ones(64, 64, requires_grad=True)
    alive = weakref.ref(w)
    with torch.autocast("cpu"):
        with torch.autocast("cpu"):
            w.mm(w)
        del w
        gc.collect()
        assert alive() is not None
    gc.collect()
    assert alive() is None


def test_a_thread_may_end_with_casts_in_its_cache():
    w = torch.ones(8, 8, requires_grad=True)
    alive = weakref.ref(w)

    def work(w):
        torch.set_autocast_enabled("cpu", True)
        w.mm(w)

    for _ in range(20):
        thread = threading.Thread(target=work, args=(w,))
        thread.start()
        thread.join()
    del w, thread
    gc.collect()
    assert alive() is None


def test_inference_mode_leaves_nothing_in_the_cache():
    x, w = random(2, 2), random(2, 2).requires_grad_()
    with torch.autocast("cpu"):
        with torch.inference_mode():
            x.mm(w)
        x.mm(w).float().sum().backward()
    assert w.grad.dtype == f32


# Functions


class Cube(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=f32)
    def forward(ctx, x, extra):
        assert not torch.is_autocast_enabled("cpu")
        assert all(t.dtype == f32 for t in extra)
        ctx.save_for_backward(x)
        return x @ x @ x

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        assert not torch.is_autocast_enabled("cpu")
        (x,) = ctx.saved_tensors
        a, b = x @ x, x.T
        return g @ a.T + b @ g @ b + a.T @ g, None


class Follows(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x @ x

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        Follows.seen = (state(), (g @ g).dtype)
        (x,) = ctx.saved_tensors
        return g @ x.T + x.T @ g


def test_custom_forward_casts_its_inputs_and_runs_in_full():
    x = random(3, 3).to(bf16).requires_grad_()
    with torch.autocast("cpu"):
        y = Cube.apply(x, [torch.ones(2, dtype=bf16)])
    assert y.dtype == f32
    y.sum().backward()
    assert x.grad.dtype == bf16
    z = Cube.apply(x.detach().double(), [])
    assert z.dtype == f64


def test_custom_backward_runs_under_the_precision_of_its_forward():
    x = random(3, 3).requires_grad_()
    with torch.autocast("cpu", dtype=f16):
        y = Follows.apply(x)
    assert y.dtype == f16
    y.float().sum().backward()
    assert Follows.seen == ((True, f16), f16)
    Follows.apply(x).sum().backward()
    assert Follows.seen == ((False, bf16), f32)
    with pytest.raises(ValueError, match="device_type"):
        torch.amp.custom_fwd(lambda ctx: None, device_type=0)


# Checkpoints


def block(x, w):
    return torch.tanh(x @ w) @ w


@pytest.mark.parametrize("inside", [False, True], ids=["outside", "inside"])
@pytest.mark.parametrize("options", [{}, {"memory_budget": 0.3}, {"determinism_check": "none"}])
def test_a_recomputation_casts_as_the_forward_pass_did(options, inside):
    def gradients(f):
        x, w = random(4, 4).requires_grad_(), random(4, 4, seed=1).requires_grad_()
        with torch.autocast("cpu", dtype=f16):
            loss = f(x, w).float().sum()
            if inside:
                loss.backward()
        if not inside:
            with torch.autocast("cpu", dtype=bf16):
                loss.backward()
        return values(x.grad), values(w.grad)

    plain = gradients(block)
    ours = gradients(lambda x, w: checkpoint(block, x, w, use_reentrant=False, **options))
    for a, b in zip(ours, plain, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_region_without_casts_is_recomputed_without():
    x, w = random(4, 4).requires_grad_(), random(4, 4, seed=1).requires_grad_()
    y = checkpoint(block, x, w, use_reentrant=False)
    with torch.autocast("cpu"):
        y.sum().backward()
    assert x.grad.dtype == f32
    expected = torch.autograd.grad(block(x, w).sum(), x)[0]
    np.testing.assert_allclose(values(x.grad), values(expected), rtol=1e-5)


# Loss scaling


class Descent:
    """An optimizer as far as a scaler needs it."""

    def __init__(self, *params):
        self.param_groups = [{"params": list(params)}]
        self.steps = 0

    def step(self):
        self.steps += 1
        return "stepped"


def ready(scale=8.0, **options):
    w = torch.ones(2, requires_grad=True)
    scaler = torch.GradScaler("cpu", init_scale=scale, **options)
    scaler.scale(w.sum()).backward()
    return scaler, Descent(w), w


def test_gradients_are_unscaled_once():
    scaler, optimizer, w = ready()
    assert w.grad.tolist() == [8, 8]
    scaler.unscale_(optimizer)
    assert w.grad.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match=r"unscale_\(\) has already been called on this optim"):
        scaler.unscale_(optimizer)
    assert scaler.step(optimizer) == "stepped"
    assert w.grad.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match=r"unscale_\(\) is being called after step\(\)"):
        scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match=r"step\(\) has already been called since the last up"):
        scaler.step(optimizer)
    scaler.update()
    scaler.step(optimizer)


def test_a_step_with_infinite_gradients_is_skipped():
    scaler, optimizer, w = ready()
    w.grad[1] = float("nan")
    assert scaler.step(optimizer) is None
    assert optimizer.steps == 0
    scaler.update()
    assert scaler.get_scale() == 4.0


def test_the_scale_grows_after_good_steps_and_stays_finite():
    scaler, optimizer, _w = ready(growth_interval=2, growth_factor=4.0)
    for expected in (8.0, 32.0, 32.0, 128.0):
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == expected
    scaler.update(3e38)
    for _ in range(2):
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() == pytest.approx(3e38)
    scaler.update(torch.tensor(5.0))
    assert scaler.get_scale() == 5.0
    with pytest.raises(AssertionError, match="new_scale should be a float or a 1-element"):
        scaler.update(torch.ones(2))


def test_a_step_without_gradients_says_which_parameters_and_why():
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    model[0].requires_grad_(False)
    loose = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.SGD([*model.parameters(), loose], lr=0.1)
    scaler = torch.GradScaler("cpu")
    scaler.scale(loose.sum())
    with pytest.raises(AssertionError) as caught:
        scaler.step(optimizer)
    first, frozen, missed = str(caught.value).split("\n")
    assert first.startswith("No inf checks were recorded for this optimizer")
    assert frozen.startswith("  0.weight, 0.bias: it does not require grad")
    assert missed.startswith("  1.weight, 1.bias, parameter 4 of group 0, of shape [2]: ")
    assert "backward() was not called" in missed
    many = torch.nn.Sequential(*[torch.nn.Linear(1, 1) for _ in range(9)])
    named = torch.optim.SGD(many.named_parameters(), lr=0.1)
    with pytest.raises(AssertionError, match=r"  0.weight, .*, 3.bias and 10 more: "):
        scaler.step(named)


def test_misuse_of_a_scaler_is_named():
    w = torch.ones(2, requires_grad=True)
    optimizer = Descent(w)
    scaler = torch.GradScaler("cpu")
    for call in (scaler.step, scaler.unscale_):
        with pytest.raises(AssertionError, match=r"_scale is None.  This may indicate"):
            call(optimizer)
    with pytest.raises(AssertionError, match="Attempted update but _scale is None"):
        scaler.update()
    loss = scaler.scale(w.sum())
    with pytest.raises(AssertionError, match="No inf checks were recorded for this optimizer"):
        scaler.step(optimizer)
    with pytest.raises(AssertionError, match="No inf checks were recorded prior to update"):
        scaler.update()
    loss.backward()
    with pytest.raises(RuntimeError, match="Closure use is not currently supported"):
        scaler.step(optimizer, closure=lambda: None)
    with pytest.raises(ValueError, match="outputs must be a Tensor or an iterable"):
        scaler.scale(3)
    half = torch.ones(2, dtype=f16, requires_grad=True)
    half.sum().backward()
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
        scaler.unscale_(Descent(half))
    with pytest.raises(AssertionError, match=r"growth factor must be > 1.0"):
        torch.GradScaler("cpu", growth_factor=1.0)
    with pytest.raises(AssertionError, match=r"backoff factor must be < 1.0"):
        torch.GradScaler("cpu", backoff_factor=1.0)


def test_outputs_may_be_nested():
    scaler = torch.GradScaler("cpu", init_scale=2.0)
    a, (b, c) = scaler.scale([torch.ones(()), (torch.ones(2), torch.zeros(1))])
    assert (a.item(), b.tolist(), c.tolist()) == (2, [2, 2], [0])
    assert [t.item() for t in scaler.scale(iter([torch.ones(())]))] == [2]


def test_a_disabled_scaler_does_nothing():
    scaler = torch.GradScaler("cpu", enabled=False)
    optimizer, x = Descent(), torch.ones(2)
    assert scaler.scale(x) is x
    assert scaler.get_scale() == 1.0
    assert scaler.state_dict() == {}
    scaler.unscale_(optimizer)
    assert scaler.step(optimizer) == "stepped"
    scaler.update()
    scaler.load_state_dict({})


def test_state_is_saved_loaded_copied_and_pickled():
    scaler, optimizer, _ = ready(growth_interval=10)
    with pytest.raises(AssertionError, match="may only be pickled at the beginning"):
        scaler.unscale_(optimizer)
        pickle.dumps(scaler)
    scaler.step(optimizer)
    scaler.update()
    saved = scaler.state_dict()
    assert saved == {
        "scale": 8.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 10,
        "_growth_tracker": 1,
    }  # fmt: skip
    other = torch.GradScaler("cpu")
    other.load_state_dict(saved)
    assert other.state_dict() == saved
    assert pickle.loads(pickle.dumps(scaler)).state_dict() == saved
    assert copy.deepcopy(scaler).state_dict() == saved
    with pytest.raises(RuntimeError, match="The source state dict is empty"):
        other.load_state_dict({})


def test_factors_can_be_changed():
    scaler = torch.GradScaler("cpu")
    scaler.set_growth_factor(3.0)
    scaler.set_backoff_factor(0.25)
    scaler.set_growth_interval(7)
    found = scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval()
    assert found == (3.0, 0.25, 7)


def test_an_optimizer_may_unscale_by_itself():
    class Fused(Descent):
        _step_supports_amp_scaling = True

        def step(self):
            self.seen = self.grad_scale.item(), self.found_inf.item()

    scaler, _optimizer, w = ready()
    fused = Fused(w)
    scaler.step(fused)
    assert fused.seen == (8.0, 0.0)
    assert w.grad.tolist() == [8, 8]
    assert not hasattr(fused, "grad_scale")
