"""Programs are traced, copied, pickled and run on rushlight as on PyTorch."""

import collections
import copy
import io
import pickle

import pytest
import torch.fx  # noqa: F401

import rushlight.fx  # noqa: F401
from oracle.fx_programs import Programs, filled, net, ramp, texts
from oracle.harness import assert_same_outcome

program = Programs()


@program
def a_nested_network(library):
    module = net(library)
    traced = library.fx.symbolic_trace(module)
    x = ramp(library, 2, 3).requires_grad_()
    out = traced(x, gain=3.0)
    out.sum().backward()
    state = sorted(traced.state_dict())
    grads = [p.grad for _, p in sorted(traced.named_parameters())]
    return texts(traced), out, module(x, gain=3.0), x.grad, grads, state


@program
def modules_stack_and_scopes(library):
    tracer = library.fx.Tracer()
    graph = tracer.trace(net(library))
    stacks = [
        [(k, v[0], v[1].__name__) for k, v in n.meta.get("nn_module_stack", {}).items()]
        for n in graph.nodes
    ]
    scopes = [(k, v[0], str(v[1] and v[1].__name__)) for k, v in tracer.node_name_to_scope.items()]
    return stacks, scopes, tracer.root_module_name


@program
def training_and_moving(library):
    traced = library.fx.symbolic_trace(net(library))
    traced.eval()
    flags = [m.training for m in traced.modules()]
    traced.train().double()
    return flags, [str(p.dtype) for p in traced.parameters()], traced.training


@program
def a_copy_is_deep(library):
    traced = library.fx.symbolic_trace(net(library))
    traced.meta["note"] = ["mine"]
    other = copy.deepcopy(traced)
    with library.no_grad():
        other.second.scale.zero_()
    other.meta["note"].append("theirs")
    x = ramp(library, 2, 3)
    return texts(other), traced(x), other(x), traced.meta, other.graph is traced.graph


@program
def a_shallow_copy_shares(library):
    traced = library.fx.symbolic_trace(net(library))
    other = copy.copy(traced)
    return other.second.scale is traced.second.scale, texts(other)


@program
def tracing_what_was_traced(library):
    traced = library.fx.symbolic_trace(net(library))
    again = library.fx.symbolic_trace(traced)
    x = ramp(library, 2, 3)
    return texts(again), again(x), type(again).__name__


@program
def a_traced_module_inside_another(library):
    inner = library.fx.symbolic_trace(net(library))
    outer = library.nn.Sequential(inner, library.nn.ReLU())
    traced = library.fx.symbolic_trace(outer)
    return texts(traced), traced(ramp(library, 2, 3))


@program
def pickles(library):
    traced = library.fx.symbolic_trace(
        library.nn.Sequential(library.nn.Linear(3, 3), library.nn.ReLU(), library.nn.Flatten(0))
    )
    filled(library, traced)
    other = pickle.loads(pickle.dumps(traced))
    return texts(other), other(ramp(library, 2, 3)), type(other).__name__


@program
def saved_and_loaded(library):
    traced = filled(
        library,
        library.fx.symbolic_trace(
            library.nn.Sequential(library.nn.Linear(3, 3), library.nn.Tanh())
        ),
    )
    buffer = io.BytesIO()
    library.save(traced, buffer)
    buffer.seek(0)
    other = library.load(buffer, weights_only=False)
    return texts(other), other(ramp(library, 2, 3))


@program
def default_arguments_and_annotations(library):
    def f(x: library.Tensor, k: int = 3, *, s: float = 1.5, t: str | None = None):
        return x * k + s

    traced = library.fx.symbolic_trace(f)
    x = ramp(library, 3)
    return texts(traced)[0], traced(x), traced(x, 1, s=2.0)


@program
def more_annotations(library):
    Pair = tuple[library.Tensor, library.Tensor]

    def f(x: Pair, y: list[library.Tensor], z: dict[str, int], w: "int | None") -> Pair:
        return x[0], y[0]

    return library.fx.symbolic_trace(f).code


@program
def variadic_arguments(library):
    def f(x, *args, **kwargs):
        return x + args[0] * kwargs["k"]

    traced = library.fx.symbolic_trace(f)
    return traced.code, traced(1, 2, k=3)


@program
def variadic_arguments_of_a_module(library):
    class M(library.nn.Module):
        def forward(self, *args, scale=2, **kwargs):
            return args[0] * scale + kwargs["b"]

    traced = library.fx.symbolic_trace(M())
    return traced.code, traced(3, scale=4, b=1)


@program
def concrete_values(library):
    def f(a, b, c=None):
        return a if b else a * 2

    traced = library.fx.symbolic_trace(f, concrete_args={"b": False, "c": None})
    return traced.code, traced(3, False), str(traced.graph)


@program
def concrete_values_that_differ(library):
    traced = library.fx.symbolic_trace(lambda a, b: a if b else -a, concrete_args={"b": True})
    return traced(3, False)


@program
def containers_as_arguments(library):
    PH = library.fx.PH

    def f(x, flag):
        out = 0
        for v in x["items"]:
            out = out + v
        return {"sum": out, "pair": (x["one"], out)} if flag else out

    given = {"x": {"items": [PH, PH], "one": PH}, "flag": True}
    traced = library.fx.symbolic_trace(f, concrete_args=given)
    result = traced({"items": [1, 2], "one": 5}, True)
    run = library.fx.Interpreter(traced).run({"items": [1, 2], "one": 5}, True)
    return traced.code, result, run


@program
def containers_of_a_module(library):
    class M(library.nn.Module):
        def forward(self, pair):
            return pair[0] + pair[1], [pair[0]]

    PH = library.fx.PH
    traced = library.fx.symbolic_trace(M(), concrete_args={"pair": (PH, PH)})
    other = copy.deepcopy(traced)
    return traced.code, traced((1, 2)), other((3, 4))


@program
def a_transform_of_containers(library):
    PH = library.fx.PH
    traced = library.fx.symbolic_trace(lambda p: [p[0] * p[1]], concrete_args={"p": (PH, PH)})
    other = library.fx.Transformer(traced).transform()
    return other.code, other((3, 4))


@program
def unpacking_a_known_number(library):
    def f(x):
        a, b = x.chunk(2)
        (c, d), e = library.max(a, 0), b
        return a + b, c, d, e

    traced = library.fx.symbolic_trace(f)
    return traced.code, traced(ramp(library, 4))


@program
def in_place_operators(library):
    def f(x, y):
        x += y
        x *= 2
        x.add_(1)
        y[0] = 3.0
        return x, y

    traced = library.fx.symbolic_trace(f)
    return traced.code


@program
def item_assignment_raises(library):
    def f(x):
        x[0] = 1
        return x

    return library.fx.symbolic_trace(f).code


@program
def an_unused_value_is_let_go(library):
    def f(x):
        x.sum()
        return x

    return library.fx.symbolic_trace(f).code


@program
def nothing_is_returned(library):
    def f(x):
        x + 1

    return library.fx.symbolic_trace(f).code


@program
def no_arguments(library):
    return library.fx.symbolic_trace(lambda: library.ones(2)).code


@program
def names_that_are_taken(library):
    def f(input, list, torch, inf, self_1, x_1):
        add = input + list
        return torch * inf + add + self_1 + x_1

    return library.fx.symbolic_trace(f).code


@program
def stack_traces(library):
    class M(library.nn.Module):
        def forward(self, x):
            y = x + 1
            return y.relu()

    tracer = library.fx.Tracer()
    tracer.record_stack_traces = True
    graph = tracer.trace(M())
    expected = {"add": "y = x + 1", "relu": "return y.relu()"}
    return [expected.get(n.name, "") in (n.stack_trace or "") for n in graph.nodes]


@program
def leaf_modules(library):
    class Whole(library.fx.Tracer):
        def is_leaf_module(self, m, name):
            return name == "first" or super().is_leaf_module(m, name)

    graph = Whole().trace(net(library))
    return library.fx.GraphModule(net(library), graph).code


@program
def everything_inlined(library):
    class Through(library.fx.Tracer):
        def is_leaf_module(self, m, name):
            return False

    module = library.nn.Sequential(
        library.nn.Linear(3, 3), library.nn.ReLU(), library.nn.LayerNorm(3), library.nn.GELU()
    )
    filled(library, module)
    graph = Through().trace(module)
    traced = library.fx.GraphModule(module, graph)
    x = ramp(library, 2, 3)
    return traced.code, traced(x), module(x)


@program
def buffers_as_proxies(library):
    class Proxied(library.fx.Tracer):
        proxy_buffer_attributes = True

    return library.fx.GraphModule(net(library), Proxied().trace(net(library))).code


@program
def known_shapes_of_parameters(library):
    class M(library.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = library.nn.Parameter(library.ones(2, 3))

        def forward(self, x):
            if self.w.shape[0] == 2 and self.w.dim() == 2 and self.w.numel() == 6:
                return x * self.w
            return x

    tracer = library.fx.Tracer(param_shapes_constant=True)
    return library.fx.GraphModule(M(), tracer.trace(M())).code


@program
def named_tuples(library):
    def f(x):
        return Point(x, x + 1)

    traced = library.fx.symbolic_trace(f)
    return [str(n.args) for n in traced.graph.nodes], traced(1).y


Point = collections.namedtuple("Point", "x y")


@program
def constants(library):
    c = library.tensor([1.0, 2.0])

    def f(x):
        return x + c + library.tensor([3.0, 4.0]) + c

    traced = library.fx.symbolic_trace(f)
    return traced.code, traced(library.zeros(2)), [n for n, _ in traced.named_buffers()]


@program
def parameters_of_others(library):
    p = library.nn.Parameter(library.ones(2))
    library.fx.symbolic_trace(lambda x: x + p)


@program
def unknown_arguments(library):
    library.fx.symbolic_trace(lambda x: library.nn.functional.relu(x, object()))


@program
def proxies_as_keys(library):
    library.fx.symbolic_trace(lambda x: {x: 1})


@program
def several_tracers(library):
    a = library.fx.Proxy(library.fx.Graph().placeholder("a"))
    b = library.fx.Proxy(library.fx.Graph().placeholder("b"))
    library.add(a, b)


@program
def proxies_by_hand(library):
    graph = library.fx.Graph()
    x = library.fx.Proxy(graph.placeholder("x"))
    graph.output((library.relu(x + 1).sum(dim=0) * x.shape[0]).node)
    module = library.fx.GraphModule({}, graph)
    return module.code, module(ramp(library, 3, 2)), repr(x)


@program
def control_flow(library):
    library.fx.symbolic_trace(lambda x: x if x.sum() > 0 else -x)


@program
def asserts(library):
    class Asserting(library.fx.Tracer):
        def to_bool(self, proxy):
            return True

    def f(x):
        assert x.sum() > 0
        return x

    return str(Asserting().trace(f))


@program
def loss_of_a_traced_program(library):
    def f(x, w):
        y = library.nn.functional.layer_norm(x @ w, (3,))
        y = library.nn.functional.gelu(y).clamp(min=-0.1)
        return library.nn.functional.cross_entropy(y, library.tensor([0, 2]))

    x, w = ramp(library, 2, 4).requires_grad_(), ramp(library, 4, 3).requires_grad_()
    traced = library.fx.symbolic_trace(f)
    loss = traced(x, w)
    first = library.autograd.grad(loss, (x, w), create_graph=True)
    second = library.autograd.grad(first[0].pow(2).sum(), (x, w))
    return traced.code, loss, first, second


@pytest.mark.parametrize("function", program)
def test_a_program(function):
    assert_same_outcome(function)
