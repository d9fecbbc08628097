"""Regions that keep a part of what they save: chosen by a policy, or by a budget."""

import functools
import itertools
import weakref

import numpy as np
import pytest

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.overrides import TorchFunctionMode
from rushlight.utils.checkpoint import (
    SAC_IGNORED_OPS,
    CheckpointError,
    CheckpointPolicy,
    SelectiveCheckpointContext,
    checkpoint,
    create_selective_checkpoint_contexts,
    noop_context_fn,
)
from rushlight.utils.checkpoint._budget import choose
from support import check, randleaf, values

BUDGETS = [0.0, 0.1, 0.25, 0.5, 0.75, 1.0]


class Names(TorchFunctionMode):
    """Collects the names of the ops that run."""

    def __init__(self):
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func.__name__ not in SAC_IGNORED_OPS:
            self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


def keeping(*ops, **options):
    return functools.partial(create_selective_checkpoint_contexts, list(ops), **options)


def with_policy(policy):
    return functools.partial(create_selective_checkpoint_contexts, policy)


# Programs of one tensor (4, 6); together they use views, writes, noise, side results and joins.


def chain(x):
    return ((x.sin() * x).exp() + x.cos()).tanh()


def layer(x):
    w = torch.ones(6, 6, dtype=x.dtype).tril() * 0.1
    h = F.gelu(F.linear(F.layer_norm(x, (6,)), w))
    return x + F.dropout(h @ w, 0.25)


def layers(x):
    for _ in range(4):
        x = layer(x)
    return x


def views(x):
    y = x.exp().view(2, 2, 6).transpose(0, 1)
    a, b = y.reshape(4, 6).split(3, dim=1)
    z = torch.cat([a.T, b.mT.sin()])
    return z[1:].square() * z[None, :-1].expand(2, 5, 4)


def writes(x):
    y = x * 2
    y.add_(0.5).relu_()
    z = y + 0
    z[0] = y[1].sin()
    z[1:].add_(1)
    return (z.tanh() * y).clone().sigmoid_()


def joins(x):
    values, indices = x.sort(dim=1)
    top = values.topk(2, dim=1)
    return torch.stack([top.values, x.gather(1, indices)[:, :2]]).softmax(-1).log()


def without_grad(x):
    with torch.no_grad():
        scale = x.abs().amax()
    return (x / scale).exp() * x.detach().cos()


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x * x * g


def custom(x):
    return Cube.apply(x.sin()).exp() * x


def branch(x):
    h = x.exp()
    return h.sin() if h.sum().item() > 0 else h.cos()


def regions(x):
    return checkpoint(chain, checkpoint(layer, x.sin())) * x


def hooks_inside(x):
    def pack(t):
        return t.detach() * 2

    y = x.exp()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t / 2):
        y = (y.sin() * y).tanh()
    return y.cos()


def fills_a_buffer(x):
    rows = x.new_zeros(4, *x.shape)
    for i in range(4):
        rows[i] = F.dropout(x * i, 0.25)
        x = x + rows[i].sin()
    return x


def changed_list(x):
    shape = [2, 12]
    y = x.exp().view(shape)
    shape[0] = 5
    return y.sin()


def noise(x):
    kept = torch.empty(x.shape, dtype=x.dtype).uniform_(0.5, 1)
    torch.rand(x.shape, dtype=x.dtype, out=kept)
    return (x * kept).exp() * torch.bernoulli(kept)


def gradient_inside(x):
    y = (x.sin() * x).exp()
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    return (g * y).tanh()


PROGRAMS = [
    chain,
    layer,
    layers,
    views,
    writes,
    joins,
    without_grad,
    custom,
    branch,
    regions,
    hooks_inside,
    fills_a_buffer,
    changed_list,
    noise,
    gradient_inside,
]


def gradients(f):
    torch.manual_seed(0)
    x = randleaf(4, 6)
    y = f(x)
    torch.rand(3)
    return values(y), values(torch.autograd.grad(y.sum(), x)[0]), torch.rand(2).tolist()


def assert_same(ours, expected):
    for a, b in zip(ours, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("memory_budget", BUDGETS)
def test_any_budget_gives_the_plain_gradients(program, memory_budget):
    ours = gradients(lambda x: checkpoint(program, x, memory_budget=memory_budget))
    assert_same(ours, gradients(program))


@pytest.mark.parametrize("program", [p for p in PROGRAMS if p not in (writes, noise)])
@pytest.mark.parametrize("period", [1, 2, 3])
def test_any_policy_gives_the_plain_gradients(program, period):
    count = itertools.count()
    policy = with_policy(lambda ctx, op, *args, **kwargs: next(count) % period == 0)
    assert_same(gradients(lambda x: checkpoint(program, x, context_fn=policy)), gradients(program))


@pytest.mark.parametrize("program", [chain, layer, views])
@pytest.mark.parametrize("options", [{"memory_budget": 0.3}, {"context_fn": keeping(torch.exp)}])
def test_second_derivatives_and_several_backward_passes(program, options):
    x = randleaf(4, 6)
    torch.manual_seed(0)
    plain = torch.autograd.grad(program(x).square().sum(), x, create_graph=True)[0]
    torch.manual_seed(0)
    y = checkpoint(program, x, **options).square().sum()
    check(torch.autograd.grad(y, x, retain_graph=True)[0], plain)
    ours = torch.autograd.grad(y, x, create_graph=True)[0]
    check(ours, plain)
    check(torch.autograd.grad(ours.sum(), x)[0], torch.autograd.grad(plain.sum(), x)[0])


# ---- policies


def ops_of_backward(f, x):
    y = f(x).sum()
    with Names() as ran:
        y.backward()
    return ran.names


def test_what_is_kept_is_not_computed_again():
    x, w = randleaf(3, 3), randleaf(3, 3, seed=1)

    def f(t):
        return torch.mm(torch.mm(t, w).exp(), w).sin()

    everything = ops_of_backward(lambda t: checkpoint(f, t, context_fn=keeping()), x)
    assert sorted(everything) == ["exp", "mm", "mm"]
    kept = ops_of_backward(lambda t: checkpoint(f, t, context_fn=keeping(torch.mm)), x)
    assert kept == ["exp"]
    kept = ops_of_backward(lambda t: checkpoint(f, t, context_fn=keeping(torch.exp)), x)
    assert kept == ["mm"]
    policy = with_policy(lambda ctx, op, *args, **kwargs: True)
    assert ops_of_backward(lambda t: checkpoint(f, t, context_fn=policy), x) == []


@pytest.mark.parametrize("policy", CheckpointPolicy)
def test_policies(policy):
    asked = []

    def decide(ctx, op, *args, **kwargs):
        assert isinstance(ctx, SelectiveCheckpointContext)
        assert not ctx.is_recompute
        asked.append((op.__name__, len(args)))
        return policy

    x = randleaf(3)
    f = functools.partial(checkpoint, lambda t: t.exp().sin() * t, context_fn=with_policy(decide))
    again = ops_of_backward(f, x)
    assert asked == [("exp", 1), ("sin", 1), ("mul", 2)]
    assert bool(again) == ("RECOMPUTE" in policy.name)


def test_a_policy_in_a_context_of_the_users_own():
    entered = []

    class Both:
        def __init__(self, inner):
            self.inner = inner

        def __enter__(self):
            entered.append(1)
            return self.inner.__enter__()

        def __exit__(self, *error):
            return self.inner.__exit__(*error)

    def contexts():
        forward, recompute = create_selective_checkpoint_contexts([torch.exp])
        return Both(forward), Both(recompute)

    x = randleaf(3)
    assert (
        ops_of_backward(lambda t: checkpoint(lambda u: u.exp().sin(), t, context_fn=contexts), x)
        == []
    )
    assert entered == [1]


def test_other_contexts_surround_both_runs():
    log = []

    class Note:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            log.append(self.name)

        def __exit__(self, *error):
            log.append("end of " + self.name)

    y = checkpoint(torch.exp, randleaf(2), context_fn=lambda: (Note("forward"), Note("again")))
    assert log == ["forward", "end of forward"]
    y.sum().backward()
    assert log[2:] == ["again", "end of again"]


def test_mutation_of_a_kept_result():
    def f(x):
        y = x.exp()
        y.add_(1)
        return y.sin()

    x = randleaf(3)
    y = checkpoint(lambda t: f(t * 1), x, context_fn=keeping(torch.exp))
    with pytest.raises(RuntimeError, match="selective activation checkpoint has been mutated"):
        y.sum().backward()
    allowed = keeping(torch.exp, allow_cache_entry_mutation=True)
    checkpoint(lambda t: f(t * 1), x, context_fn=allowed).sum().backward()


@pytest.mark.parametrize("options", [{"memory_budget": 0.5}, {"context_fn": keeping(torch.sin)}])
def test_a_parameter_changed_before_backward(options):
    w = randleaf(3)
    y = checkpoint(lambda x: (x.sin() * w).exp().cos(), randleaf(3, seed=1), **options).sum()
    with torch.no_grad():
        w += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_wrong_arguments():
    with pytest.raises(TypeError, match="must be either a function or a list of ops"):
        create_selective_checkpoint_contexts(3)
    with pytest.raises(ValueError, match="Expected op in `op_list`"):
        create_selective_checkpoint_contexts(["mm"])
    with pytest.raises(ValueError, match="either context_fn or memory_budget"):
        checkpoint(chain, randleaf(2), context_fn=keeping(), memory_budget=0.5)
    for share in (-0.1, 1.5):
        with pytest.raises(ValueError, match="from 0 to 1"):
            checkpoint(chain, randleaf(2), memory_budget=share)


def test_without_grad_nothing_is_watched():
    asked = []
    with torch.no_grad():
        checkpoint(chain, randleaf(2), context_fn=with_policy(lambda *a, **k: asked.append(1)))
        checkpoint(chain, randleaf(2), memory_budget=0.5)
    assert not asked


def test_ignored_ops_and_the_default_contexts():
    assert "detach" in SAC_IGNORED_OPS
    forward, again = noop_context_fn()
    with forward, again:
        pass


# ---- budgets


def saved_bytes(f, x):
    """The bytes alive after the forward pass beyond those before, without the result's own."""
    before = torch.memory_stats()["allocated_bytes"]
    y = f(x)
    return torch.memory_stats()["allocated_bytes"] - before - y.nbytes


def wide(x):
    for _ in range(12):
        x = (x.sin() * 1.1).exp().tanh()
    return x + 1


@pytest.mark.parametrize("memory_budget", BUDGETS)
def test_kept_bytes_stay_within_the_budget(memory_budget):
    x = torch.randn(64, 256, requires_grad=True)
    plain = saved_bytes(wide, x)
    kept = saved_bytes(lambda t: checkpoint(wide, t, memory_budget=memory_budget), x)
    assert kept <= memory_budget * plain + 4096
    assert kept >= memory_budget * plain - x.nbytes


def test_the_forward_pass_stays_within_the_budget_too():
    x = torch.randn(64, 1024, requires_grad=True)

    def peak(f):
        before = torch.memory_stats()["allocated_bytes"]
        torch.reset_peak_memory_stats()
        y = f(x)
        forward = torch.memory_stats()["peak_allocated_bytes"] - before
        torch.autograd.grad(y.sum(), x)
        return forward, torch.memory_stats()["peak_allocated_bytes"] - before

    plain, plain_step = peak(wide)
    ours, step = peak(lambda t: checkpoint(wide, t, memory_budget=0.25))
    assert ours < 0.45 * plain
    assert step < 0.6 * plain_step  # backward recomputes it stretch by stretch


def test_products_are_dearer_than_pointwise_work():
    w = torch.randn(256, 256, requires_grad=True)

    def f(x):
        for _ in range(4):
            x = F.gelu(torch.mm(x, w))
        return x

    x = torch.randn(64, 256, requires_grad=True)
    names = ops_of_backward(lambda t: checkpoint(f, t, memory_budget=0.6), x)
    assert "mm" not in names
    assert "gelu" in names


def test_side_branches_of_a_long_chain_cost_one_walk():
    """The sums are not saved themselves: each is computed once, not once per branch."""

    def f(x):
        found = 0
        for _ in range(20):
            x = x + 1
            found = found + x.exp()
        return found

    names = ops_of_backward(lambda t: checkpoint(f, t, memory_budget=0.0), randleaf(3))
    assert names.count("exp") == 20
    assert names.count("add") == 20


def test_nothing_is_left_afterwards():
    alive = []

    def f(x):
        h = x.exp()
        alive.append(weakref.ref(h))
        return F.dropout(h.sin(), 0.5)

    for options in ({"memory_budget": 0.5}, {"context_fn": keeping(torch.exp)}):
        before = torch.memory_stats()["live_blocks"]
        x = torch.randn(100, requires_grad=True)
        y = checkpoint(f, x, **options)
        assert alive.pop()() is None
        y.sum().backward()
        del x, y
        assert torch.memory_stats()["live_blocks"] == before


def test_kept_tensors_go_as_backward_passes_them():
    held = []
    x = torch.randn(64, 256, requires_grad=True)
    h = x * 1
    h.register_hook(lambda g: held.append(torch.memory_stats()["allocated_bytes"]))
    y = checkpoint(wide, h, memory_budget=1.0)
    full = torch.memory_stats()["allocated_bytes"]
    y.sum().backward()
    assert held[0] < full - 20 * x.nbytes


def test_values_are_compared_on_demand():
    w = torch.ones(3)
    y = checkpoint(lambda x: (x * w).exp().sin(), torch.ones(3, requires_grad=True),
                   memory_budget=0.0, determinism_check="values")  # fmt: skip
    y.sum().backward(retain_graph=True)
    w.data.numpy()[:] = 2  # a write that no version counts
    with pytest.raises(CheckpointError, match="differ from those of the forward pass"):
        y.sum().backward()


def brute_force(items, capacity):
    subsets = itertools.chain.from_iterable(
        itertools.combinations(items, n) for n in range(len(items) + 1)
    )
    return max(sum(v for _, v in s) for s in subsets if sum(b for b, _ in s) <= capacity)


@pytest.mark.parametrize("seed", range(10))
def test_the_choice_is_the_best_one(seed):
    generator = np.random.default_rng(seed)
    items = [(int(b), float(v)) for b, v in zip(generator.integers(1, 50, 10),
                                                generator.random(10), strict=True)]  # fmt: skip
    for capacity in (0, 30, 120, 1000):
        chosen = [items[i] for i in choose(items, capacity)]
        assert sum(b for b, _ in chosen) <= capacity
        assert sum(v for _, v in chosen) == pytest.approx(brute_force(items, capacity))


def test_the_choice_among_many_fits():
    items = [(i % 7 + 1, float(i % 5)) for i in range(1000)]
    chosen = choose(items, 500)
    assert 490 <= sum(items[i][0] for i in chosen) <= 500
