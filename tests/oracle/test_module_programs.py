"""Module itself: programs that register, name, copy, convert and contain modules, in both."""

import collections
import copy
import io
import pickle

import pytest

from oracle.harness import assert_same_outcome
from oracle.module_net import net

PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


@program
def names_and_printing(t):
    model = net(t)
    return [
        repr(model),
        [n for n, _ in model.named_parameters()],
        [n for n, _ in model.named_parameters(prefix="p", recurse=False)],
        [n for n, _ in model.named_parameters(remove_duplicate=False)],
        [n for n, _ in model.named_buffers()],
        [n for n, _ in model.named_modules()],
        [n for n, _ in model.named_modules(prefix="x", remove_duplicate=False)],
        [n for n, _ in model.named_children()],
        len(list(model.children())), len(list(model.modules())), len(list(model.buffers())),
        list(model.state_dict()),
        list(model.state_dict(prefix="m.")),
        {k: dict(v) for k, v in model.state_dict()._metadata.items()},
        [n for n in dir(model.first) if n in ("linear", "scale", "seen", "nothing", "forward")],
        "empty" in dir(model),
    ]  # fmt: skip


@program
def attributes_change_kind(t):
    m = t.nn.Module()
    m.x = 1
    m.x = t.nn.Parameter(t.ones(2))
    first = list(m._parameters), "x" in m.__dict__
    m.x = None
    second = dict(m._parameters)
    del m.x
    m.x = t.nn.Linear(1, 1)
    m.x = None
    third = dict(m._modules)
    del m.x
    m.register_buffer("x", t.ones(1))
    m.x = t.zeros(2)
    m.x = None
    fourth = dict(m._buffers)
    return first, second, third, fourth, hasattr(m, "x"), hasattr(m, "y")


@program
def buffers_of_their_own_kind(t):
    m = t.nn.Module()
    m.a = t.nn.Buffer(t.ones(2))
    m.b = t.nn.Buffer(t.ones(2), persistent=False)
    return (
        list(m._buffers),
        sorted(m._non_persistent_buffers_set),
        list(m.state_dict()),
        isinstance(m.a, t.nn.Buffer),
        isinstance(t.ones(1), t.nn.Buffer),
        type(m.a).__name__,
    )


@program
def conversions(t):
    model = net(t)
    weight = model.first.linear.weight
    model.first.scale.grad = t.ones(3)
    model.double()
    kept = model.first.linear.weight is weight
    dtypes = [str(p.dtype) for p in model.parameters()], str(model.first.scale.grad.dtype)
    model.to(t.bfloat16)
    more = str(model.first.seen.dtype)
    model.to(t.ones(1, dtype=t.float64))
    model.to("cpu", t.float32, non_blocking=True).half().float().cpu()
    model.type(t.float64)
    return kept, dtypes, more, [str(p.dtype) for p in model.parameters()], model.first.scale.is_leaf


@program
def modes_and_gradients(t):
    model = net(t)
    model.eval()
    flags = [m.training for m in model.modules()]
    model.train().first.eval()
    flags += [m.training for m in model.modules()]
    model.requires_grad_(False).first.requires_grad_()
    wants = [p.requires_grad for p in model.parameters()]
    model.requires_grad_()
    model(t.ones(2, 3)).sum().backward()
    grads = [p.grad for p in model.parameters()]
    model.zero_grad(set_to_none=False)
    zeros = [float(p.grad.abs().sum()) for p in model.parameters()]
    model.zero_grad()
    return flags, wants, grads, zeros, [p.grad for p in model.parameters()]


@program
def finding_parts(t):
    model = net(t)
    linear = model.get_submodule("blocks.0.linear")
    model.set_submodule("blocks.1", t.nn.Tanh())
    model.set_submodule("first.more", t.nn.Tanh())
    return [
        linear is model.blocks[0].linear,
        model.get_submodule("") is model,
        model.get_parameter("first.scale") is model.first.scale,
        model.get_buffer("first.seen") is model.first.seen,
        repr(model.blocks[1]), repr(model.first),
    ]  # fmt: skip


@program
def apply_visits_children_first(t):
    seen = []
    net(t).apply(lambda m: seen.append(type(m).__name__))
    return seen


@program
def copies(t):
    model = net(t)
    results = [model(t.ones(2, 3))]
    for other in (copy.deepcopy(model.first), copy.copy(model.first)):
        results += [dict(other.state_dict()), other.linear.weight is model.first.linear.weight]
    other = copy.deepcopy(model)
    return results, other.again is other.first, other(t.ones(2, 3)), repr(other)


@program
def pickles(t):
    model = t.nn.Sequential(t.nn.Linear(2, 3), t.nn.BatchNorm1d(3), t.nn.Linear(3, 1))
    with t.no_grad():
        for p in model.parameters():
            p.fill_(0.5)
    model(t.ones(2, 2))
    results = []
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        file = io.BytesIO()
        pickle.dump(model, file, protocol)
        loaded = pickle.loads(file.getvalue())
        results += [repr(loaded), dict(loaded.state_dict()), loaded.training]
    return results


@program
def containers(t):
    layers = [t.nn.Linear(1, 1) for _ in range(4)]
    s = t.nn.Sequential(*layers[:2])
    s.append(layers[2]).insert(1, t.nn.Tanh())
    s.extend([t.nn.ReLU()])
    results = [repr(s), repr(s[1:3]), len(s), s[-1] is list(s)[-1]]
    del s[1]
    s[0] = t.nn.Sigmoid()
    popped = s.pop(1)
    results += [repr(s), popped is layers[1], repr(s + t.nn.Sequential(t.nn.Tanh())), repr(s * 2)]
    s += t.nn.Sequential(t.nn.ELU())
    s *= 2
    named = t.nn.Sequential(collections.OrderedDict(a=t.nn.Tanh(), b=t.nn.ReLU()))
    results += [repr(s), repr(named), named.b is named[1], repr(named[:1])]
    m = t.nn.ModuleList([t.nn.Linear(1, 2) for _ in range(3)] + [t.nn.Tanh()])
    m.insert(0, t.nn.ReLU())
    m += [t.nn.Tanh()]
    del m[1:3]
    m[0] = t.nn.ELU()
    return [*results, repr(m), repr(m[1:]), repr(m + m[:1]), len(m), repr(t.nn.ModuleList())]


@program
def module_dicts(t):
    d = t.nn.ModuleDict({"b": t.nn.Tanh(), "a": t.nn.ReLU()})
    d.update([("c", t.nn.ELU())])
    d["a"] = t.nn.Sigmoid()
    popped = d.pop("b")
    d.update(t.nn.ModuleDict({"z": popped}))
    return repr(d), list(d), list(d.keys()), len(d), "a" in d, [k for k, _ in d.items()]


@program
def parameter_lists(t):
    p = t.nn.ParameterList([t.ones(2), t.nn.Parameter(t.zeros(1)), "text"])
    p.append(t.ones(3))
    p += [t.ones(1)]
    p[0] = t.zeros(4)
    return (
        repr(p),
        len(p),
        [n for n, _ in p.named_parameters()],
        len(p[1:3]),
        p[-1],
        list(p.state_dict()),
    )


@program
def parameter_dicts(t):
    d = t.nn.ParameterDict({"b": t.ones(2), "a": t.zeros(1)})
    d["c"] = 5
    d.update(collections.OrderedDict(z=t.ones(1), y=t.ones(1)))
    got = d.setdefault("q", t.ones(2)), d.get("none"), d.pop("z"), d.popitem()[0]
    return (
        repr(d),
        list(d),
        len(d),
        got,
        list(d.copy()),
        list(d | t.nn.ParameterDict({"k": 1})),
        list(reversed(d)),
    )


@program
def forward_on_the_instance(t):
    m = t.nn.Tanh()
    m.forward = lambda x: x + 1
    return m(t.ones(1)).item()


@program
def own_getattr_and_setattr(t):
    class Wrapper(t.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner
            self.log = []

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(super().__getattr__("inner"), name)

        def __setattr__(self, name, value):
            if name == "twice":
                value = value * 2
            super().__setattr__(name, value)

    w = Wrapper(t.nn.Linear(3, 4))
    w.twice = 5
    object.__setattr__(w, "hidden", t.nn.Linear(1, 1))
    return (
        w.weight.shape[0],
        w.in_features,
        w.twice,
        list(w._modules),
        w.hidden.in_features,
        hasattr(w, "nope"),
    )


@program
def own_call(t):
    class Loud(t.nn.Module):
        def __call__(self, *args):
            return super().__call__(*args) + 1

        def forward(self, x):
            return x * 2

    return Loud()(t.ones(1)).item()


@program
def mixins_and_generics(t):
    import typing

    T = typing.TypeVar("T")

    class Mixin:
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.mixed = True

    class M(Mixin, t.nn.Module, typing.Generic[T]):
        def forward(self, x):
            return x

    return M()(t.ones(1)).item(), M().mixed


@program
def slots(t):
    class S(t.nn.Module):
        __slots__ = ("x",)

        def __init__(self):
            super().__init__()
            self.x = 3

    return S().x


@program
def shared_parameters(t):
    a, b = t.nn.Linear(2, 2), t.nn.Linear(2, 2)
    b.weight = a.weight
    model = t.nn.ModuleList([a, b])
    again = copy.deepcopy(model)
    return len(list(model.parameters())), again[0].weight is again[1].weight


@program
def lazy_modules(t):
    model = t.nn.Sequential(
        t.nn.LazyLinear(3), t.nn.LazyBatchNorm1d(), t.nn.LazyLinear(1, bias=False)
    )
    before = (
        repr(model),
        [p.__class__.__name__ for p in model.parameters()],
        list(model.state_dict()),
    )
    model(t.ones(4, 5))
    return (
        before,
        repr(model),
        [tuple(p.shape) for p in model.parameters()],
        [type(m).__name__ for m in model],
    )


@program
def lazy_convolutions(t):
    model = t.nn.Sequential(t.nn.LazyConv2d(3, 2, padding=1), t.nn.LazyConvTranspose2d(2, 2, 2))
    model.load_state_dict(
        {
            "0.weight": t.ones(3, 4, 2, 2), "0.bias": t.zeros(3), "1.weight": t.ones(3, 2, 2, 2),
            "1.bias": t.zeros(2),
        }
    )  # fmt: skip
    return model(t.ones(1, 4, 3, 3)), repr(model)


@program
def errors_of_loading(t):
    model = net(t)
    state = dict(model.state_dict())
    state.pop("first.scale")
    state["other"] = t.ones(1)
    state["first.seen"] = t.ones(5)
    state["blocks.0.scale"] = "text"
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        return str(error)


def raising(t, call):
    m = t.nn.Linear(2, 2)
    m.register_buffer("buffer", t.ones(1))
    m.plain = 1

    class Bare(t.nn.Module):
        def __init__(self):
            pass

    return call(t, m, Bare)


ERRORS = [
    lambda t, m, Bare: m.register_parameter("a.b", None),
    lambda t, m, Bare: m.register_parameter("", None),
    lambda t, m, Bare: m.register_parameter(3, None),
    lambda t, m, Bare: m.register_parameter("plain", None),
    lambda t, m, Bare: m.register_parameter("x", t.ones(1)),
    lambda t, m, Bare: m.register_parameter("x", 3),
    lambda t, m, Bare: m.register_buffer("x", 3),
    lambda t, m, Bare: m.register_buffer("weight", t.ones(1)),
    lambda t, m, Bare: m.add_module("x", 3),
    lambda t, m, Bare: m.add_module("plain", t.nn.Tanh()),
    lambda t, m, Bare: m.add_module("a.b", t.nn.Tanh()),
    lambda t, m, Bare: setattr(m, "weight", t.ones(2, 2)),
    lambda t, m, Bare: setattr(m, "buffer", 3),
    lambda t, m, Bare: setattr(t.nn.Sequential(m), "0", 3),
    lambda t, m, Bare: setattr(Bare(), "x", t.nn.Tanh()),
    lambda t, m, Bare: setattr(Bare(), "x", t.nn.Parameter(t.ones(1))),
    lambda t, m, Bare: Bare().register_buffer("x", t.ones(1)),
    lambda t, m, Bare: m.nothing,
    lambda t, m, Bare: delattr(m, "nothing"),
    lambda t, m, Bare: t.nn.Module()(t.ones(1)),
    lambda t, m, Bare: t.nn.Module(3),
    lambda t, m, Bare: t.nn.Module(x=3),
    lambda t, m, Bare: m.train("yes"),
    lambda t, m, Bare: m.to(t.int64),
    lambda t, m, Bare: m.to(x=3),
    lambda t, m, Bare: m.load_state_dict(3),
    lambda t, m, Bare: m.load_state_dict({}),
    lambda t, m, Bare: m.get_submodule("x.y"),
    lambda t, m, Bare: m.get_submodule("plain"),
    lambda t, m, Bare: m.get_parameter("buffer"),
    lambda t, m, Bare: m.get_buffer("weight"),
    lambda t, m, Bare: m.set_submodule("", t.nn.Tanh()),
    lambda t, m, Bare: m.set_submodule("x", 3),
    lambda t, m, Bare: m.set_submodule("x", t.nn.Tanh(), strict=True),
    lambda t, m, Bare: m.set_submodule("plain", t.nn.Tanh()),
    lambda t, m, Bare: (
        m.register_backward_hook(print), m.register_full_backward_hook(print),
    ),
    lambda t, m, Bare: (
        m.register_full_backward_hook(print), m.register_backward_hook(print),
    ),
    lambda t, m, Bare: t.nn.Sequential(m)[3],
    lambda t, m, Bare: t.nn.Sequential(m) + m,
    lambda t, m, Bare: t.nn.Sequential(m) * 0,
    lambda t, m, Bare: t.nn.Sequential(m) * 1.5,
    lambda t, m, Bare: t.nn.Sequential(m).insert(5, m),
    lambda t, m, Bare: t.nn.Sequential(3),
    lambda t, m, Bare: t.nn.ModuleList([3]),
    lambda t, m, Bare: t.nn.ModuleList(3),
    lambda t, m, Bare: t.nn.ModuleList([m])[1],
    lambda t, m, Bare: t.nn.ModuleList([m])(t.ones(1)),
    lambda t, m, Bare: t.nn.ModuleDict([1]),
    lambda t, m, Bare: t.nn.ModuleDict([(1, 2, 3)]),
    lambda t, m, Bare: t.nn.ModuleDict({"x": 3}),
    lambda t, m, Bare: t.nn.ModuleDict()["x"],
    lambda t, m, Bare: t.nn.ParameterList(t.ones(1)),
    lambda t, m, Bare: t.nn.ParameterList([t.ones(1)])(),
    lambda t, m, Bare: t.nn.ParameterDict()[3],
    lambda t, m, Bare: t.nn.ParameterDict()["x"],
    lambda t, m, Bare: t.nn.Conv1d(2, 4, (1, 2), padding="same")(t.ones(1, 2, 5)),
    lambda t, m, Bare: t.nn.Conv2d(2, 4, (3,), padding="same")(t.ones(1, 2, 5, 5)),
    lambda t, m, Bare: t.nn.LazyLinear(3).weight.shape,
    lambda t, m, Bare: t.nn.LazyLinear(3).weight + 1,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_programs(program):
    assert_same_outcome(program)


@pytest.mark.parametrize("call", ERRORS)
def test_errors(call):
    assert_same_outcome(lambda t: raising(t, call))
