"""Modules: programs that save, load and hook, in both."""

import collections

import pytest

from oracle.harness import assert_same_outcome
from oracle.module_net import net

PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


@program
def loading(t):
    model, other = net(t), net(t)
    state = {k: v * 2 + 1 for k, v in model.state_dict().items()}
    result = other.load_state_dict(state)
    partial = {k: v for k, v in state.items() if "linear" in k}
    partial["foreign"] = t.ones(1)
    missing = net(t).load_state_dict(partial, strict=False)
    return (
        repr(result),
        dict(other.state_dict()),
        list(missing),
        missing.missing_keys,
        repr(missing),
    )


@program
def loading_by_assignment(t):
    layer = t.nn.Linear(2, 2)
    weight = t.ones(2, 2, dtype=t.float64)
    layer.load_state_dict({"weight": weight, "bias": t.zeros(2)}, assign=True)
    return (
        str(layer.weight.dtype), layer.weight.data_ptr() == weight.data_ptr(),
        isinstance(layer.weight, t.nn.Parameter), layer.weight.requires_grad,
    )  # fmt: skip


@program
def loading_scalars_from_vectors(t):
    m = t.nn.Module()
    m.p = t.nn.Parameter(t.zeros(()))
    m.load_state_dict({"p": t.ones(1)})
    return m.p


@program
def state_dict_hooks(t):
    log = []
    model = net(t)
    model.register_state_dict_pre_hook(lambda m, prefix, keep: log.append(("pre", prefix, keep)))
    model.register_state_dict_post_hook(lambda m, s, prefix, meta: s.pop("first.scale") and None)
    model.first._register_state_dict_hook(lambda m, s, prefix, meta: log.append(("post", prefix)))
    state = model.state_dict()
    model.register_load_state_dict_pre_hook(
        lambda m, s, p, meta, strict, missing, extra, errors: log.append(("load", len(s), strict))
    )
    model.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    result = model.load_state_dict(state)
    return list(state), log, repr(result)


@program
def state_dict_hooks_can_be_removed(t):
    m = t.nn.Linear(1, 1)
    handles = [
        m.register_state_dict_pre_hook(lambda *a: 1 / 0),
        m.register_state_dict_post_hook(lambda *a: 1 / 0),
        m.register_load_state_dict_pre_hook(lambda *a: 1 / 0),
        m.register_load_state_dict_post_hook(lambda *a: 1 / 0),
    ]
    for handle in handles:
        handle.remove()
    return repr(m.load_state_dict(m.state_dict()))


@program
def extra_state(t):
    class Counter(t.nn.Module):
        count = 3

        def get_extra_state(self):
            return {"count": self.count}

        def set_extra_state(self, state):
            self.count = state["count"]

    a, b = Counter(), Counter()
    a.count = 9
    state = a.state_dict()
    b.load_state_dict(state)
    missing = Counter().load_state_dict({}, strict=False)
    return dict(state), b.count, missing.missing_keys


@program
def keep_vars(t):
    m = t.nn.Linear(1, 1)
    state = m.state_dict(keep_vars=True)
    own = collections.OrderedDict(x=1)
    same = m.state_dict(destination=own, prefix="a.") is own
    return state["weight"] is m.weight, m.state_dict()["weight"].requires_grad, same, list(own)


@program
def forward_hooks(t):
    log = []
    m = t.nn.Linear(1, 1, bias=False)
    with t.no_grad():
        m.weight.fill_(2.0)
    m.register_forward_pre_hook(lambda m, args: log.append("a"))
    m.register_forward_pre_hook(lambda m, args: (args[0] + 1,), prepend=True)
    m.register_forward_pre_hook(lambda m, args: args[0] * 2)
    first = m.register_forward_hook(lambda m, args, out: log.append((args[0].item(), out.item())))
    m.register_forward_hook(lambda m, args, out: out * 10)
    m.register_forward_hook(lambda m, args, out: log.append("early"), prepend=True)
    x = t.ones(1, 1)
    results = [m(x).item(), list(log)]
    first.remove()
    return results, m(x).item(), log


@program
def hooks_with_keywords(t):
    class Scale(t.nn.Module):
        def forward(self, x, factor=1.0):
            return x * factor

    log = []
    m = Scale()
    m.register_forward_pre_hook(lambda m, a, k: (a, {"factor": k["factor"] + 1}), with_kwargs=True)
    m.register_forward_hook(
        lambda m, a, k, out: log.append((len(a), k, out.item())), with_kwargs=True
    )
    with m.register_forward_hook(lambda m, a, out: out + 100):
        inside = m(t.ones(1), factor=2.0).item()
    return inside, m(t.ones(1), factor=2.0).item(), log


@program
def hooks_that_are_always_called(t):
    log = []

    class Fails(t.nn.Module):
        def forward(self, x):
            raise ValueError("no")

    m = Fails()
    m.register_forward_hook(lambda m, a, out: log.append("never"))
    m.register_forward_hook(lambda m, a, out: log.append(out), always_call=True)
    m.register_forward_hook(lambda m, a, out: 1 / 0, always_call=True)
    try:
        m(t.ones(1))
    except ValueError as error:
        log.append(str(error))
    return log


@program
def backward_hooks(t):
    log = []
    model = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.Tanh(), t.nn.Linear(2, 1)).double()
    with t.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_((t.arange(p.numel()).reshape(p.shape) + i) / 4)
    for i, m in enumerate(model):
        m.register_full_backward_hook(lambda m, gi, go, i=i: log.append((i, *gi, *go)))
        m.register_full_backward_pre_hook(lambda m, go, i=i: log.append((i, *go)))
    x = t.ones(3, 2, dtype=t.float64, requires_grad=True)
    model(x).sum().backward()
    return log, x.grad, [p.grad for p in model.parameters()]


@program
def backward_hooks_that_change_gradients(t):
    layer = t.nn.Linear(2, 2, bias=False).double()
    with t.no_grad():
        layer.weight.copy_(t.tensor([[1.0, 2.0], [3.0, 4.0]]))
    layer.register_full_backward_pre_hook(lambda m, go: (go[0] * 2,))
    layer.register_full_backward_hook(lambda m, gi, go: (gi[0] + 1,))
    layer.register_full_backward_hook(lambda m, gi, go: (gi[0] * 3,), prepend=True)
    x = t.ones(1, 2, dtype=t.float64, requires_grad=True)
    layer(x).sum().backward()
    return x.grad, layer.weight.grad


@program
def backward_hooks_with_several_tensors(t):
    class Two(t.nn.Module):
        def forward(self, a, b, n):
            return a * b, "text", a + b * n

    log = []
    m = Two()
    m.register_full_backward_hook(lambda m, gi, go: log.append((gi, go)))
    a = t.tensor([1.0], requires_grad=True)
    b = t.tensor([2.0])
    out = m(a, b, 3)
    (out[0] * 5 + out[2]).sum().backward()
    return log, a.grad, out[1]


@program
def backward_hooks_without_gradients(t):
    log = []
    layer = t.nn.Linear(1, 1)
    layer.register_full_backward_hook(lambda m, gi, go: log.append((gi, len(go))))
    layer(t.ones(1, 1)).sum().backward()
    with t.no_grad():
        layer(t.ones(1, 1))
    return log


@program
def old_backward_hooks(t):
    log = []
    m = t.nn.Tanh()
    m.register_backward_hook(lambda m, gi, go: log.append((gi, go)))
    x = t.ones(2, dtype=t.float64, requires_grad=True)
    m(x).sum().backward()
    return log


@program
def global_hooks(t):
    log = []
    hooks = t.nn.modules.module
    handles = [
        hooks.register_module_forward_pre_hook(lambda m, a: log.append(("pre", type(m).__name__))),
        hooks.register_module_forward_hook(lambda m, a, o: log.append(("post", type(m).__name__))),
        hooks.register_module_full_backward_pre_hook(lambda m, go: log.append("bpre")),
        hooks.register_module_full_backward_hook(lambda m, gi, go: log.append("b")),
        hooks.register_module_buffer_registration_hook(lambda m, n, b: log.append(n)),
        hooks.register_module_module_registration_hook(lambda m, n, b: log.append(n)),
        hooks.register_module_parameter_registration_hook(lambda m, n, b: log.append(n)),
    ]
    model = t.nn.Sequential(t.nn.Linear(1, 1), t.nn.BatchNorm1d(1))
    model(t.ones(2, 1, requires_grad=True)).sum().backward()
    for handle in handles:
        handle.remove()
    count = len(log)
    t.nn.Sequential(t.nn.Tanh())(t.ones(1))
    return log, len(log) == count


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_programs(program):
    assert_same_outcome(program)
