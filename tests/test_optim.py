"""Optimizers: what a step reads, writes, refuses and tells."""

import copy
import pickle
import threading

import pytest

import rushlight as torch
from rushlight.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

RULES = ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax"]
RULES += ["NAdam", "RAdam", "Rprop", "ASGD"]


def parameter(*values, dtype=torch.float64):
    return torch.nn.Parameter(torch.tensor(values, dtype=dtype))


def filled(rule, p, **options):
    """An optimizer of p, and p with a gradient."""
    p.grad = torch.ones_like(p)
    if rule == "SGD":
        options.setdefault("momentum", 0.9)
    return getattr(torch.optim, rule)([p], lr=0.1, **options)


@pytest.mark.parametrize("rule", RULES)
def test_parameters_without_a_gradient_are_skipped(rule):
    p, q = parameter(1.0), parameter(2.0)
    optimizer = filled(rule, p)
    optimizer.add_param_group({"params": [q]})
    optimizer.step()
    assert q.item() == 2.0
    assert rule == "Adagrad" or q not in optimizer.state


@pytest.mark.parametrize("rule", RULES)
def test_state_is_what_the_next_step_reads(rule):
    p, q = parameter(1.0, 2.0), parameter(1.0, 2.0)
    one, two = filled(rule, p), filled(rule, q)
    for optimizer in (one, two):
        optimizer.step()
    for value in one.state[p].values():
        value.fill_(0.5)
    two.state[q] = {k: torch.full_like(v, 0.5) for k, v in two.state[q].items()}
    for optimizer in (one, two):
        optimizer.step()
    assert p.tolist() == q.tolist()


@pytest.mark.parametrize("rule", RULES)
def test_options_are_read_at_every_step(rule):
    p = parameter(1.0)
    optimizer = filled(rule, p)
    optimizer.step()
    optimizer.param_groups[0]["lr"] = 0.0
    if rule == "Rprop":
        optimizer.state[p]["step_size"].zero_()
        optimizer.param_groups[0]["step_sizes"] = (0.0, 0.0)
    if rule == "ASGD":
        optimizer.state[p]["eta"].zero_()
    before = p.item()
    optimizer.step()
    assert p.item() == before
    optimizer.param_groups[0]["lr"] = "fast"
    with pytest.raises(TypeError, match="'lr' of the parameter group must be a number, got str"):
        optimizer.step()
    del optimizer.param_groups[0]["lr"]
    with pytest.raises(KeyError, match="lr"):
        optimizer.step()


@pytest.mark.parametrize("rule", RULES)
def test_a_step_counts_as_a_write(rule):
    p = parameter(1.0, 2.0)
    optimizer = filled(rule, p)
    optimizer.step()
    state = list(optimizer.state[p].values())
    versions = [t._version for t in (p, *state)]
    optimizer.step()
    assert [t._version for t in (p, *state)] == [v + 1 for v in versions]


@pytest.mark.parametrize("rule", RULES)
def test_a_stale_backward_names_the_step_and_its_line(rule):
    p = torch.nn.Parameter(torch.randn(3, 3))
    optimizer = filled(rule, p)
    loss = (torch.ones(2, 3, requires_grad=True) @ p).sum()
    optimizer.step()  # the line to be named
    line = test_a_stale_backward_names_the_step_and_its_line.__code__.co_firstlineno + 5
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
        loss.backward()
    text = str(caught.value)
    assert f"{rule}.step" in text
    assert f"test_optim.py:{line}" in text


def test_the_two_losses_of_a_gan():
    """Stepping the discriminator before the generator's backward is explained."""
    nn = torch.nn
    generator = nn.Linear(2, 2)
    discriminator = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    optimizer = torch.optim.SGD(discriminator.parameters(), lr=0.1)
    score = discriminator(generator(torch.ones(4, 2))).mean()
    (-score).backward(retain_graph=True)
    optimizer.step()
    line = test_the_two_losses_of_a_gan.__code__.co_firstlineno + 8
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
        score.backward()
    text = str(caught.value)
    assert "parameter '2.weight' of Sequential" in text
    assert f"overwritten by SGD.step at {__file__}:{line}: optimizer.step()" in text
    assert "Fix: call SGD.step() after backward()" in text


def test_steps_inside_backward():
    """A hook may step and drop a gradient as soon as it is complete."""
    p, q = parameter(1.0, 2.0), parameter(3.0)
    for each in (p, q):
        optimizer = torch.optim.SGD([each], lr=0.25)

        def hook(_, optimizer=optimizer):
            optimizer.step()
            optimizer.zero_grad()

        each.register_post_accumulate_grad_hook(hook)
    ((p * p).sum() + q.sum()).backward()
    assert (p.tolist(), q.tolist()) == ([0.5, 1.0], [2.75])
    assert p.grad is None


def test_a_refused_parameter_is_named():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    model(torch.ones(1, 2)).sum().backward()
    model[0].weight.data = torch.zeros(3, 3)
    with pytest.raises(RuntimeError, match=r"SGD\.step.*parameter '0\.weight' of Sequential"):
        torch.optim.SGD(model.parameters()).step()


@pytest.mark.parametrize("rule", RULES)
def test_lazy_copies_are_not_reached(rule):
    p = torch.nn.Parameter(torch.ones(100))
    optimizer = filled(rule, p)
    optimizer.step()
    before = p.detach().clone()
    kept = {k: v.clone() for k, v in optimizer.state[p].items()}
    frozen = {k: v.tolist() for k, v in kept.items()}, before.tolist()
    optimizer.step()
    assert ({k: v.tolist() for k, v in kept.items()}, before.tolist()) == frozen
    assert p.tolist() != before.tolist()


@pytest.mark.parametrize("rule", RULES)
def test_large_parameters_on_threads(rule):
    """The same elements as in small parameters, bit for bit, for any number of threads."""
    values, grads = torch.randn(100_000), torch.randn(100_000)
    results = []
    threads = torch.get_num_threads()
    for count, parts in ((1, 1), (2, 1), (2, 10)):
        torch.set_num_threads(count)
        params = [torch.nn.Parameter(v.clone()) for v in values.chunk(parts)]
        optimizer = getattr(torch.optim, rule)(params, lr=0.01)
        for _ in range(3):
            for p, g in zip(params, grads.chunk(parts), strict=True):
                p.grad = g.clone()
            optimizer.step()
        results.append(torch.cat([p.detach() for p in params]))
    torch.set_num_threads(threads)
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


def test_a_parameter_listed_twice_is_stepped_twice():
    for n in (2, 100_000):
        p = torch.nn.Parameter(torch.zeros(n))
        with pytest.warns(UserWarning, match="duplicate parameters") as caught:
            optimizer = torch.optim.SGD([p, p], lr=1.0)
        assert caught[0].filename == __file__
        p.grad = torch.ones(n)
        optimizer.step()
        assert p.min().item() == p.max().item() == -2.0


def test_parameters_that_share_memory_are_stepped_in_order():
    base = torch.zeros(100_000)
    params = [base[:60_000], base[40_000:]]
    optimizer = torch.optim.SGD(params, lr=1.0)
    for p in params:
        p.grad = torch.ones(60_000)
    optimizer.step()
    assert base[:40_000].unique().tolist() == base[60_000:].unique().tolist() == [-1.0]
    assert base[40_000:60_000].unique().tolist() == [-2.0]


def test_closure():
    p = parameter(2.0)
    optimizer = torch.optim.SGD([p], lr=0.25)

    def closure():
        assert torch.is_grad_enabled()
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with torch.no_grad():
        assert optimizer.step(closure).item() == 4.0
    assert p.item() == 1.0
    assert optimizer.step() is None


@pytest.mark.parametrize("rule", [*RULES, "LBFGS"])
def test_pickle_and_deepcopy(rule):
    p = parameter(1.0, -2.0)
    optimizer = getattr(torch.optim, rule)([p], lr=0.1)

    def step(p, optimizer):
        def closure():
            optimizer.zero_grad()
            loss = (p**2).sum()
            loss.backward()
            return loss

        optimizer.step(closure)

    step(p, optimizer)
    for make in (copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))):
        twin = make(optimizer)
        q = twin.param_groups[0]["params"][0]
        assert q is not p
        assert repr(twin) == repr(optimizer)
        start = p.detach().clone()
        step(q, twin)
        assert p.tolist() == start.tolist()
    step(p, optimizer)
    assert p.tolist() == q.tolist()


def test_step_hooks_in_order():
    seen = []
    p = parameter(1.0)
    optimizer = torch.optim.SGD([p], lr=0.1)

    def hook(name):
        return lambda o, args, kwargs: seen.append((name, o is optimizer, args[0] is optimizer))

    handles = [
        optimizer.register_step_post_hook(hook("post")),
        optimizer.register_step_pre_hook(hook("pre")),
        register_optimizer_step_pre_hook(hook("global pre")),
        register_optimizer_step_post_hook(hook("global post")),
    ]
    optimizer.step()
    assert [s[0] for s in seen] == ["global pre", "pre", "post", "global post"]
    assert all(s[1] and s[2] for s in seen)
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(seen) == 4


def test_a_pre_hook_may_change_the_arguments():
    p = parameter(1.0)
    optimizer = torch.optim.SGD([p], lr=0.1)
    optimizer.register_step_pre_hook(lambda o, args, kwargs: ((o, lambda: 7), kwargs))
    assert optimizer.step() == 7
    optimizer.register_step_pre_hook(lambda o, args, kwargs: 3)
    with pytest.raises(RuntimeError, match="must return None or a tuple"):
        optimizer.step()


def test_subclasses_run_hooks_once():
    class Logged(torch.optim.SGD):
        def step(self, closure=None):
            seen.append("step")
            return super().step(closure)

    class Own(torch.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {})

        def step(self, closure=None):
            seen.append("own")
            return 3

    seen = []
    optimizer = Logged([parameter(1.0)], lr=0.1)
    optimizer.register_step_pre_hook(lambda *args: seen.append("pre"))
    optimizer.step()
    assert seen == ["pre", "step"]
    seen.clear()
    own = Own([parameter(1.0)])
    own.register_step_post_hook(lambda *args: seen.append("post"))
    assert own.step() == 3
    assert seen == ["own", "post"]
    with pytest.raises(NotImplementedError, match="must define step"):
        torch.optim.Optimizer([parameter(1.0)], {}).step()


def test_state_dict_hooks():
    p = parameter(1.0)
    optimizer = torch.optim.SGD([p], lr=0.1)
    seen = []
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("second"))
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("first"), prepend=True)
    optimizer.register_state_dict_post_hook(lambda o, d: {**d, "extra": 1})
    saved = optimizer.state_dict()
    assert seen == ["first", "second"]
    assert saved["extra"] == 1

    def half(o, d):
        d["param_groups"] = [{**g, "lr": g["lr"] / 2} for g in d["param_groups"]]
        return d

    optimizer.register_load_state_dict_pre_hook(half)
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append("loaded"))
    optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0]["lr"] == 0.05
    assert saved["param_groups"][0]["lr"] == 0.1
    assert seen[-1] == "loaded"


def test_state_dicts_of_another_model_are_refused():
    one = torch.optim.Adam([parameter(1.0), parameter(2.0)])
    with pytest.raises(ValueError, match="different number of parameter groups"):
        one.load_state_dict({"state": {}, "param_groups": []})
    other = torch.optim.Adam([parameter(1.0)])
    with pytest.raises(ValueError, match="doesn't match the size of optimizer's group"):
        one.load_state_dict(other.state_dict())
    wide = parameter(1.0, 2.0, 3.0)
    source = filled("Adam", wide)
    source.step()
    target = filled("Adam", parameter(1.0))
    target.load_state_dict(source.state_dict())
    with pytest.raises(RuntimeError, match=r"state 'exp_avg' \[3\].*must match the size.*\[1\]"):
        target.step()


def test_old_state_dicts_with_numbers():
    p = parameter(1.0)
    optimizer = filled("Adam", p)
    optimizer.step()
    saved = optimizer.state_dict()
    saved["state"][0]["step"] = 1
    del saved["param_groups"][0]["amsgrad"]
    optimizer.load_state_dict(saved)
    assert optimizer.state[p]["step"].item() == 1.0
    optimizer.step()
    assert optimizer.state[p]["step"].item() == 2.0
    optimizer.state[p]["step"] = 3
    with pytest.raises(RuntimeError, match="must contain a list of singleton tensors"):
        optimizer.step()


def test_a_missing_state_is_a_key_error():
    p = parameter(1.0)
    optimizer = filled("Adam", p)
    optimizer.step()
    before = p.item()
    optimizer.param_groups[0]["amsgrad"] = True
    with pytest.raises(KeyError, match="max_exp_avg_sq"):
        optimizer.step()
    assert p.item() == before


def test_a_refused_step_changes_nothing():
    p, q = parameter(1.0), parameter(1.0, 2.0)
    optimizer = torch.optim.SGD([p, q], lr=0.1, momentum=0.9)
    p.grad, q.grad = torch.ones_like(p), torch.ones_like(q)
    q.data = torch.zeros(3, dtype=torch.float64)
    with pytest.raises(RuntimeError, match=r"size of the gradient \[2\].*parameter \[3\]"):
        optimizer.step()
    assert p.item() == 1.0
    assert not optimizer.state[p]
    with torch.inference_mode():
        frozen = torch.ones(2)
    optimizer = torch.optim.SGD([frozen], lr=0.1)
    frozen.grad = None
    optimizer.step()


def test_momentum_added_later_starts_from_the_gradient():
    p = parameter(0.0)
    optimizer = torch.optim.SGD([p], lr=1.0)
    p.grad = torch.ones_like(p)
    optimizer.step()
    assert p not in optimizer.state
    optimizer.param_groups[0].update(momentum=0.5, dampening=0.5)
    optimizer.step()
    assert optimizer.state[p]["momentum_buffer"].item() == 1.0
    optimizer.state[p]["momentum_buffer"] = None
    optimizer.step()
    assert optimizer.state[p]["momentum_buffer"].item() == 1.0
    assert p.item() == -3.0


def test_named_parameters():
    p, q = parameter(1.0), parameter(2.0)
    optimizer = torch.optim.SGD([("first", p), ("second", q)], lr=0.1)
    assert optimizer.param_groups[0]["param_names"] == ["first", "second"]
    assert optimizer.param_groups[0]["params"] == [p, q]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["first", "second"]
    with pytest.raises(ValueError, match="cannot add param group without names"):
        optimizer.add_param_group({"params": [parameter(3.0)]})


def test_zero_grad():
    p = parameter(1.0, 2.0)
    optimizer = torch.optim.SGD([p], lr=0.1)
    (p * p).sum().backward(create_graph=True)
    grad = p.grad
    assert grad.requires_grad
    optimizer.zero_grad(set_to_none=False)
    assert p.grad is grad
    assert not grad.requires_grad
    assert grad.tolist() == [0.0, 0.0]
    optimizer.zero_grad()
    assert p.grad is None


def test_parameters_with_tangents_take_the_formula():
    """Forward mode goes through a step: p - lr * g moves with p."""
    import rushlight.autograd.forward_ad as fwad

    for rule in RULES:
        with fwad.dual_level():
            p = fwad.make_dual(torch.ones(2), torch.full((2,), 3.0))
            p.grad = torch.ones(2)
            optimizer = getattr(torch.optim, rule)([p], lr=0.1)
            optimizer.step()
            moved = fwad.unpack_dual(p)
            assert moved.primal.tolist() != [1.0, 1.0], rule
            assert moved.tangent[0].item() == pytest.approx(3.0, rel=0.1), rule


def test_subclasses_of_tensor_see_the_operations():
    seen = []

    class Seen(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(getattr(func, "__name__", ""))
            return super().__torch_function__(func, types, args, kwargs or {})

    p = torch.ones(2).as_subclass(Seen)
    p.grad = torch.ones(2)
    torch.optim.SGD([p], lr=0.25).step()
    assert p.tolist() == [0.75, 0.75]
    assert "sub_" in seen


def test_steps_of_several_threads():
    params = [torch.nn.Parameter(torch.zeros(50_000)) for _ in range(4)]
    for p in params:
        p.grad = torch.ones(50_000)
    optimizers = [torch.optim.SGD([p], lr=1.0) for p in params]

    def work(optimizer):
        for _ in range(20):
            optimizer.step()

    threads = [threading.Thread(target=work, args=(o,)) for o in optimizers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(p.min().item() == p.max().item() == -20.0 for p in params)


LEARNED = {
    "SGD": ["lr", "weight_decay"],
    "Adam": ["lr", "weight_decay", "beta1", "beta2"],
    "AdamW": ["lr", "weight_decay", "beta1", "beta2"],
    **{rule: ["lr"] for rule in ("RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam")},
}


@pytest.mark.parametrize(("rule", "option"), [(r, o) for r in LEARNED for o in LEARNED[r]])
def test_derivatives_for_options(rule, option):
    """Of the loss after three steps, for the option itself."""

    def after(value):
        options = {"lr": 0.1, "weight_decay": 0.1, "differentiable": True}
        if option.startswith("beta"):
            betas = [torch.tensor(0.8, dtype=torch.float64) for _ in range(2)]
            betas[int(option[-1]) - 1] = value
            options["betas"] = tuple(betas)
        else:
            options[option] = value
        p = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True).clone()
        optimizer = getattr(torch.optim, rule)([p], **options)
        for _ in range(3):
            (p.grad,) = torch.autograd.grad((p.clone() ** 3).sum(), p, create_graph=True)
            optimizer.step()
        return (p * p).sum()

    start = 0.7 if option.startswith("beta") else 0.1
    value = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(after, (value,))


def test_integers_are_refused():
    p = torch.tensor([1, 2])
    p.grad = torch.tensor([1, 1])
    with pytest.raises(RuntimeError, match="floating point or complex dtype, got int64"):
        torch.optim.SGD([p]).step()


def test_gradients_and_state_of_another_dtype():
    p = torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
    p.grad_dtype = None
    p.grad = torch.full((3,), 0.5)
    optimizer = torch.optim.SGD([p], lr=1.0, momentum=0.5)
    optimizer.state[p] = {"momentum_buffer": torch.zeros(3)}
    optimizer.step()
    assert p.tolist() == [0.5, 0.5, 0.5]
    assert optimizer.state[p]["momentum_buffer"].dtype is torch.float32
    assert optimizer.state[p]["momentum_buffer"].tolist() == [0.5, 0.5, 0.5]


def test_parameters_given_twice_are_named():
    model = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Linear(1, 1))
    loose = parameter(1.0)
    with pytest.raises(ValueError, match=r"parameter group: 1.weight, 1.bias$"):
        torch.optim.SGD([{"params": model.parameters()}, {"params": model[1].parameters()}])
    with pytest.warns(UserWarning, match=r"information: 0.bias, a tensor of shape \[1\]$"):
        torch.optim.SGD([model[0].bias, loose, model[0].bias, loose])


def test_a_dict_of_something_else_is_not_loaded():
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters())
    with pytest.raises(KeyError, match=r"'param_groups' is missing.* this one has \['weight', "):
        optimizer.load_state_dict(model.state_dict())


def test_optimizing_nothing_is_refused():
    with pytest.raises(ValueError, match="optimizer got an empty parameter list"):
        torch.optim.Adam([])
    with pytest.raises(ValueError, match="more than one parameter group"):
        p = parameter(1.0)
        torch.optim.Adam([{"params": [p]}, {"params": p}])


def test_options_that_run_code_while_they_are_read():
    """Nothing that goes away meanwhile is used."""
    p = parameter(1.0)
    optimizer = filled("Adam", p)

    class Fickle:
        def __float__(self):
            optimizer.param_groups[0].clear()
            optimizer.param_groups.clear()
            return 0.5

    optimizer.param_groups[0]["lr"] = Fickle()
    with pytest.raises((KeyError, RuntimeError)):
        optimizer.step()
    assert p.item() == 1.0


@pytest.mark.parametrize("betas", [(0.9,), 0.9, ("a", "b"), (0.9, 0.9, 0.9)])
def test_pairs_of_another_kind_are_refused(betas):
    optimizer = filled("Adam", parameter(1.0))
    optimizer.param_groups[0]["betas"] = betas
    with pytest.raises((TypeError, ValueError)):
        optimizer.step()


def test_a_state_without_elements_is_refused():
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adagrad([p])
    optimizer.state[p]["sum"] = torch.zeros(3, device="meta")
    p.sum().backward()
    with pytest.raises(RuntimeError, match=r"Adagrad.*'sum' of its state is on meta"):
        optimizer.step()
    assert p.tolist() == [1.0] * 3
