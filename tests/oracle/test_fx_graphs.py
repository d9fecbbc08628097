"""Graphs are built, changed, matched and printed on rushlight as on PyTorch."""

import copy
import io
import operator
from contextlib import redirect_stderr, redirect_stdout

import pytest
import torch.fx  # noqa: F401

import rushlight.fx  # noqa: F401
from oracle.fx_programs import Programs, filled, net, ramp, texts
from oracle.harness import assert_same_outcome

program = Programs()


@program
def a_graph_by_hand(library):
    graph = library.fx.Graph()
    a = graph.placeholder("a", type_expr=library.Tensor)
    b = graph.placeholder("b", default_value=2)
    w = graph.get_attr("w.inner")
    c = graph.call_function(operator.add, (a, b))
    d = graph.call_method("mul", (c, w), {})
    e = graph.call_module("layer", (d,))
    graph.output({"e": e, "all": [a, (b, d)]}, type_expr=dict)
    module = library.fx.GraphModule(
        {"w.inner": library.ones(2), "layer": library.nn.ReLU()}, graph, class_name="Mine"
    )
    return (
        texts(module),
        module(ramp(library, 2)),
        str(module),
        [n for n, _ in module.named_buffers()],
    )


@program
def missing_targets(library):
    graph = library.fx.Graph()
    graph.output(graph.call_module("absent", ()))
    return library.fx.GraphModule({}, graph)


@program
def insertion_points(library):
    graph = library.fx.Graph()
    a = graph.placeholder("a")
    b = graph.call_function(library.neg, (a,))
    with graph.inserting_before(b):
        graph.call_function(library.sin, (a,))
        graph.call_function(library.cos, (a,))
    with graph.inserting_after(a):
        graph.call_function(library.tan, (a,))
    with graph.inserting_before():
        graph.placeholder("first")
    graph.output(b)
    names = [n.name for n in graph.nodes]
    order = sorted(graph.nodes, reverse=True)
    return names, [n.name for n in order], [n.name for n in reversed(graph.nodes)], len(graph.nodes)


@program
def moving_nodes(library):
    traced = library.fx.symbolic_trace(lambda x, y: (x + 1) * (y + 2))
    nodes = {n.name: n for n in traced.graph.nodes}
    nodes["add"].prepend(nodes["add_1"])
    traced.graph.lint()
    first = [n.name for n in traced.graph.nodes]
    nodes["mul"].append(nodes["add"])
    try:
        traced.graph.lint()
    except RuntimeError as error:
        return first, str(error).splitlines()[0]


@program
def users_and_inputs(library):
    traced = library.fx.symbolic_trace(lambda x, y: library.stack([x, y, x], dim=0) + x)
    nodes = {n.name: n for n in traced.graph.nodes}
    before = {k: list(map(str, n.users)) for k, n in nodes.items()}
    nodes["stack"].replace_input_with(nodes["x"], nodes["y"])
    nodes["add"].update_arg(1, 4)
    nodes["stack"].update_kwarg("dim", 1)
    nodes["stack"].insert_arg(0, 7)
    after = {k: list(map(str, n.users)) for k, n in nodes.items()}
    inputs = [list(map(str, n.all_input_nodes)) for n in nodes.values()]
    return before, after, inputs, str(nodes["stack"].args), str(nodes["stack"].kwargs)


@program
def replacing_uses(library):
    traced = library.fx.symbolic_trace(lambda x: (library.sin(x) + 1, library.sin(x) * 2))
    sin = list(traced.graph.nodes)[1]
    with traced.graph.inserting_after(sin):
        cos = traced.graph.call_function(library.cos, sin.args)
    changed = sin.replace_all_uses_with(cos, lambda user: user.name == "add")
    traced.graph.erase_node(sin)
    traced.recompile()
    return list(map(str, changed)), traced.code


@program
def erasing_a_used_node(library):
    traced = library.fx.symbolic_trace(lambda x: library.sin(x) + 1)
    traced.graph.erase_node(list(traced.graph.nodes)[1])


@program
def immutable_arguments(library):
    node = library.fx.Graph().create_node("call_function", library.add, ([1, 2],), {"a": [3]})
    kinds = type(node.args[0]).__name__, type(node.kwargs).__name__
    try:
        node.args[0].append(3)
    except TypeError as error:
        return kinds, "does not support mutation" in str(error)


@program
def dead_code(library):
    def f(x):
        library.rand(2)
        library.sin(x)
        x.add_(1)
        library._assert(x is not None, "never")
        y = library.cos(x)
        library.tan(y)
        return x * 2

    traced = library.fx.symbolic_trace(f)
    changed = traced.graph.eliminate_dead_code()
    traced.recompile()
    return changed, traced.code, traced.graph.eliminate_dead_code()


@program
def finding_nodes(library):
    traced = library.fx.symbolic_trace(lambda x: library.sin(library.sin(x)).neg().neg())
    found = traced.graph.find_nodes
    lists = [
        found(op="call_function", target=library.sin),
        found(op="call_method"),
        found(op="call_method", target="abs"),
        found(op="placeholder", target="x"),
    ]
    node = lists[0][0]
    node.target = library.cos
    return [list(map(str, each)) for each in lists], str(
        found(op="call_function", target=library.cos)
    )


@program
def copying_graphs(library):
    traced = library.fx.symbolic_trace(lambda x: library.sin(x) + 1)
    graph = library.fx.Graph()
    y = graph.placeholder("y")
    mapping = {next(iter(traced.graph.nodes)): graph.call_function(library.neg, (y,))}
    out = graph.graph_copy(traced.graph, mapping)
    graph.output(out)
    return library.fx.GraphModule({}, graph).code, str(copy.deepcopy(graph))


@program
def other_code(library):
    class Listed(library.fx.CodeGen):
        def gen_fn_def(self, free_vars, maybe_return_annotation):
            names = ", ".join(free_vars)
            return f"def forward(self, args){maybe_return_annotation}:\n    {names}, = args"

        def process_inputs(self, args):
            return args

        def additional_globals(self):
            return [("List", list)]

    traced = library.fx.symbolic_trace(lambda x, y: x - y)
    traced.graph.set_codegen(Listed())
    traced.recompile()
    other = copy.deepcopy(traced)
    run = library.fx.Interpreter(traced).run([7, 2])
    return traced.code, traced([5, 3]), other([1, 1]), run


@program
def transformed_lines(library):
    traced = library.fx.symbolic_trace(lambda x: x + 1)
    with traced.graph.on_generate_code(lambda old: lambda body: ["x = x * 10\n", *body]):
        traced.recompile()
    first = traced.code, traced(1)
    traced.recompile()
    return first, traced.code


@program
def hooks_of_nodes(library):
    traced = library.fx.symbolic_trace(lambda x: library.sin(x) + 1)
    log = []
    traced._register_create_node_hook(lambda n: log.append(("made", n.name)))
    traced._register_erase_node_hook(lambda n: log.append(("erased", n.name)))
    with traced._set_replace_hook(lambda old, new, user: log.append((str(old), new, str(user)))):
        sin = list(traced.graph.nodes)[1]
        with traced.graph.inserting_after(sin):
            cos = traced.graph.call_function(library.cos, sin.args)
        sin.replace_all_uses_with(cos)
        cos.name = "renamed"
    traced.graph.erase_node(sin)
    return log


@program
def submodules(library):
    traced = library.fx.symbolic_trace(net(library))
    added = traced.add_submodule("a.b.c", library.nn.ReLU())
    refused = traced.add_submodule("second.scale.x", library.nn.ReLU())
    gone = traced.delete_submodule("a.b"), traced.delete_submodule("nope.b")
    traced.add_submodule("unused", library.nn.ReLU())
    traced.delete_all_unused_submodules()
    return added, refused, gone, [n for n, _ in traced.named_modules()]


@program
def interpreting(library):
    class Swap(library.fx.Interpreter):
        def call_function(self, target, args, kwargs):
            if target is library.sigmoid:
                return library.neg(*args, **kwargs)
            return super().call_function(target, args, kwargs)

        def call_method(self, target, args, kwargs):
            if target == "neg":
                return args[0].sigmoid()
            return super().call_method(target, args, kwargs)

    traced = library.fx.symbolic_trace(lambda x, k=2: library.sigmoid(x).neg() * k)
    x = ramp(library, 3)
    boxed = [x, 3]
    whole = library.fx.Interpreter(traced, garbage_collect_values=False)
    whole.run(x)
    return (
        Swap(traced).run(x),
        library.fx.Interpreter(traced).boxed_run(boxed),
        boxed,
        [str(n) for n in whole.env],
    )


@program
def interpreting_with_values(library):
    traced = library.fx.symbolic_trace(lambda x: library.sin(x) + 1)
    sin = list(traced.graph.nodes)[1]
    return library.fx.Interpreter(traced).run(0, initial_env={sin: library.ones(2)})


@program
def interpreting_too_few_arguments(library):
    library.fx.Interpreter(library.fx.symbolic_trace(lambda x, y: x + y)).run(1)


@program
def an_error_while_interpreting(library):
    traced = library.fx.symbolic_trace(lambda x: library.matmul(x, x))
    try:
        library.fx.Interpreter(traced).run(library.ones(2, 3))
    except RuntimeError as error:
        return "While executing %matmul" in str(error)


@program
def an_error_in_generated_code(library):
    traced = library.fx.symbolic_trace(lambda x: library.matmul(x, x))
    text = io.StringIO()
    try:
        with redirect_stderr(text):
            traced(library.ones(2, 3))
    except RuntimeError:
        return "Call using an FX-traced Module, line 5 of the traced Module's" in text.getvalue()


@program
def transforming(library):
    class Swap(library.fx.Transformer):
        def call_function(self, target, args, kwargs):
            if target is library.sin:
                target = library.cos
            return super().call_function(target, args, kwargs)

        def call_module(self, target, args, kwargs):
            if isinstance(self.submodules[target], library.nn.ReLU):
                return args[0] + 1
            return super().call_module(target, args, kwargs)

    class M(library.nn.Module):
        def __init__(self):
            super().__init__()
            self.act = library.nn.ReLU()
            self.w = library.nn.Parameter(library.ones(2))

        def forward(self, x, k=1):
            return self.act(library.sin(x)) * self.w, k

    out = Swap(library.fx.symbolic_trace(M())).transform()
    return out.code, out(ramp(library, 2))


@program
def patterns(library):
    class M(library.nn.Module):
        def forward(self, x, w1, w2):
            m1 = library.cat([w1, w2]).sum()
            m2 = library.cat([w1, w2]).sum()
            return x + library.max(m1) + library.max(m2)

    traced = library.fx.symbolic_trace(M())
    found = library.fx.replace_pattern(
        traced,
        lambda w1, w2: library.cat([w1, w2]).sum(),
        lambda w1, w2: library.stack([w1, w2]).mean(),
    )
    return traced.code, [(str(m.anchor), sorted(map(str, m.nodes_map.values()))) for m in found]


@program
def patterns_in_a_chain(library):
    def f(x):
        for _ in range(3):
            x = library.relu(library.add(x, x))
        return library.relu(x)

    traced = library.fx.symbolic_trace(f)
    library.fx.replace_pattern(
        traced, lambda a: library.relu(library.add(a, a)), lambda a: library.mul(a, 2).neg()
    )
    return traced.code, traced(ramp(library, 3))


@program
def patterns_with_several_results(library):
    traced = library.fx.symbolic_trace(lambda x: library.sin(x) * 2 - library.cos(x))
    found = library.fx.replace_pattern(
        traced,
        lambda a: (library.sin(a), library.cos(a)),
        lambda a: (library.neg(a), library.abs(a)),
    )
    return traced.code, len(found)


@program
def patterns_that_leak(library):
    def f(x):
        y = library.add(x, 1)
        return library.relu(y) + y

    traced = library.fx.symbolic_trace(f)
    found = library.fx.replace_pattern(
        traced, lambda a: library.relu(library.add(a, 1)), lambda a: library.neg(a)
    )
    return traced.code, found


@program
def patterns_with_modules(library):
    class Old(library.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = library.nn.Linear(2, 2)
            self.act = library.nn.ReLU()

        def forward(self, x):
            return self.act(self.lin(x))

    class Pattern(library.nn.Module):
        def __init__(self):
            super().__init__()
            self.act = library.nn.ReLU()

        def forward(self, x):
            return self.act(x)

    class New(library.nn.Module):
        def __init__(self):
            super().__init__()
            self.tanh = library.nn.Tanh()

        def forward(self, x):
            return self.tanh(x)

    trace = library.fx.symbolic_trace
    traced = trace(Old())
    library.fx.replace_pattern(traced, trace(Pattern()), trace(New()))
    return traced.code, [n for n, _ in traced.named_modules()]


@program
def patterns_with_filters(library):
    from importlib import import_module

    rewriter = import_module(f"{library.__name__}.fx.subgraph_rewriter")
    traced = library.fx.symbolic_trace(lambda x: library.add(library.add(x, 1), 2) * 3)

    def build(match, graph, pattern):
        new = library.fx.Graph()
        x = new.placeholder("x")
        new.output(new.call_function(library.sub, (x, match.returning_nodes[0].args[1])))
        return new

    found = rewriter.replace_pattern_with_filters(
        traced,
        lambda x: library.add(x, 0),
        match_filters=[lambda m, g, p: m.returning_nodes[0].args[1] == 2],
        ignore_literals=True,
        replacement_callback=build,
    )
    return traced.code, [list(map(str, each.replacements)) for each in found]


@program
def shapes(library):
    from importlib import import_module

    ShapeProp = import_module(f"{library.__name__}.fx.passes.shape_prop").ShapeProp
    traced = library.fx.symbolic_trace(
        library.nn.Sequential(library.nn.Conv2d(1, 2, 3), library.nn.Flatten())
    )
    ShapeProp(traced).propagate(library.ones(1, 1, 4, 4))
    metas = [str(tuple(n.meta["tensor_meta"])) for n in traced.graph.nodes]
    readable = traced.print_readable(print_output=False)
    stack = [n.meta["type"].__name__ for n in traced.graph.nodes]
    return metas, readable, stack


@program
def boxed_code(library):
    from importlib import import_module

    boxed = import_module(f"{library.__name__}.fx.graph")._BoxedCodeGen()
    traced = library.fx.symbolic_trace(lambda x, y: x - y)
    traced.graph.set_codegen(boxed)
    traced.recompile()
    given = [5, 3]
    return traced.code, traced(given), given


@program
def fusing_layers(library):
    from importlib import import_module

    fuse = import_module(f"{library.__name__}.fx.experimental.optimization").fuse
    nn = library.nn
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU()).eval()
    filled(library, module)
    fused = fuse(module)
    x = ramp(library, 1, 1, 4, 4)
    return fused.code, fused(x), module(x)


@program
def printing(library):
    traced = library.fx.symbolic_trace(net(library))
    text = io.StringIO()
    with redirect_stdout(text):
        traced.print_readable()
        print(traced)
        print([n.format_node() for n in traced.graph.nodes])
        print(traced.graph.python_code("m").src)
        print(traced.graph.python_code("self", expanded_def=True).src)
    return text.getvalue()


@program
def normalized(library):
    def f(x):
        y = library.nn.functional.relu(x)
        return library.flatten(y, 1)

    class M(library.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = library.nn.Linear(2, 2)

        def forward(self, x):
            return self.lin(library.nn.functional.softmax(x, 1))

    traced = library.fx.symbolic_trace(M())
    nodes = list(traced.graph.nodes)
    softmax = nodes[1].normalized_arguments(traced, normalize_to_only_use_kwargs=True)
    linear = nodes[2].normalized_arguments(traced, normalize_to_only_use_kwargs=True)
    return list(softmax.kwargs), {k: str(v) for k, v in linear.kwargs.items()}


@pytest.mark.parametrize("function", program)
def test_a_program(function):
    assert_same_outcome(function)
