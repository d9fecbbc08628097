"""Traced programs: where errors point, what is put back, other processes, other names."""

import copy
import math
import pickle
import subprocess
import sys
import textwrap
import threading
import timeit

import pytest

import rushlight as torch
from rushlight import fx, nn


@fx.wrap
def chosen(x, k):
    return x if k > 0 else -x


fx.wrap("len")


def use_wrapped(x, k):
    return chosen(x, k) + len(x) + math.sqrt(k)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("table", torch.arange(12.0).reshape(4, 3))

    def forward(self, x, scale=2.0):
        return self.layer(x).relu() * scale + self.table[: x.size(0)]


def test_functions_of_this_module_stay_whole():
    traced = fx.symbolic_trace(use_wrapped)
    assert [n.name for n in traced.graph.nodes if n.op == "call_function"] == [
        "chosen", "len_1", "add", "sqrt", "add_1"
    ]  # fmt: skip
    x = torch.tensor([1.0, 2.0])
    assert traced(x, 4).tolist() == use_wrapped(x, 4).tolist()
    assert traced(x, -0.0).tolist() == [-1.0 + 2, -2.0 + 2]


def test_functions_are_put_back_after_tracing():
    before = chosen, math.sqrt, dict(vars(torch.Tensor)), nn.Module.__call__, vars(nn.Module).copy()
    fx.symbolic_trace(use_wrapped)
    with pytest.raises(fx.proxy.TraceError):
        fx.symbolic_trace(lambda x: list(x))
    after = chosen, math.sqrt, dict(vars(torch.Tensor)), nn.Module.__call__, vars(nn.Module).copy()
    assert before == after
    assert "len" not in globals()


def test_modules_are_as_quick_after_tracing():
    def cost(function):
        return min(timeit.repeat(function, number=2000, repeat=15))

    class Own(nn.Linear):
        pass

    layer = Own(2, 2)
    before = cost(lambda: layer.weight)
    fx.symbolic_trace(nn.Sequential(layer))
    assert cost(lambda: layer.weight) < 3 * before


def test_classes_are_not_made_twice_by_tracing():
    made = []

    class Registered:
        def __init_subclass__(cls, **kwargs):
            made.append(cls.__name__)
            super().__init_subclass__(**kwargs)

    class Behind(nn.Module, Registered):
        pass

    class Before(Registered, nn.Module):
        pass

    assert made == ["Behind", "Before"]
    fx.symbolic_trace(nn.ReLU())
    assert made == ["Behind", "Before"]
    assert isinstance(Behind(), nn.Module)
    assert isinstance(Before(), nn.Module)


def test_wrap_belongs_to_the_top_level():
    with pytest.raises(NotImplementedError, match="top level of a module"):
        fx.wrap("chosen")
    with pytest.raises(RuntimeError, match="Unsupported type for global function"):
        fx.wrap(3)


def branch(x):
    y = x.sum()
    if y > 0:
        return x
    return -x


def loop(x):
    return [y + 1 for y in x]


@pytest.mark.parametrize(
    ("function", "phrase", "line"),
    [
        (branch, "symbolically traced variables cannot be used as inputs to control flow", "if y"),
        (loop, "Proxy object cannot be iterated", "return [y + 1"),
        (lambda x: torch.zeros(max(x, 1)), "inputs to control flow", "lambda x: torch.zeros"),
    ],
)
def test_errors_cite_the_line_that_needs_a_value(function, phrase, line):
    with pytest.raises(fx.proxy.TraceError, match=phrase) as caught:
        fx.symbolic_trace(function)
    assert f"{__file__}:" in str(caught.value)
    assert line in str(caught.value)


def test_lengths_are_explained():
    with pytest.raises(RuntimeError, match="'len' is not supported in symbolic tracing") as caught:
        fx.symbolic_trace(lambda x: x.__len__())
    assert "torch.fx.wrap('len')" in str(caught.value)


def test_slices_of_a_table_by_a_traced_size():
    net = Net()
    traced = fx.symbolic_trace(net)
    for rows in (1, 2, 4):
        x = torch.ones(rows, 3)
        torch.testing.assert_close(traced(x), net(x))


def test_writing_into_a_tensor_at_a_traced_place():
    def f(i):
        x = torch.zeros(3)
        x[i] = 1.0
        return x

    assert "__setitem__" in fx.symbolic_trace(f).code


def test_gradients_flow_to_the_same_parameters():
    net = Net()
    traced = fx.symbolic_trace(net)
    traced(torch.ones(2, 3)).sum().backward()
    assert traced.layer.weight is net.layer.weight
    assert net.layer.weight.grad is not None


def test_state_loads_into_a_traced_module():
    first, second = fx.symbolic_trace(Net()), fx.symbolic_trace(Net())
    second.load_state_dict(first.state_dict())
    x = torch.ones(2, 3)
    assert torch.equal(first(x), second(x))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_compute_the_same_and_share_nothing(copied):
    traced = fx.symbolic_trace(Net())
    other = copied(traced)
    x = torch.ones(2, 3)
    assert torch.equal(other(x, scale=3.0), traced(x, scale=3.0))
    assert other.code == traced.code
    assert other.layer.weight is not traced.layer.weight
    assert [n.op for n in other.graph.nodes] == [n.op for n in traced.graph.nodes]
    other.graph.lint()


def run_in_a_process(program, *arguments):
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_another_process_loads_a_pickle(tmp_path):
    seq = nn.Sequential(nn.Linear(2, 2), nn.GELU())
    traced = fx.symbolic_trace(seq)
    calls = fx.symbolic_trace(lambda x: math.floor(2.5) * torch.einsum("i,i->i", x, x) ** 0.5)
    (tmp_path / "module").write_bytes(pickle.dumps([traced, calls]))
    torch.save(traced, tmp_path / "saved")
    program = """
        import pickle, sys
        import rushlight as torch
        for module in pickle.load(open(sys.argv[1] + "/module", "rb")):
            print(module(torch.ones(2)).sum().item(), len(module.graph.nodes))
        print(torch.load(sys.argv[1] + "/saved", weights_only=False)(torch.ones(2)).sum().item())
    """
    out = run_in_a_process(program, tmp_path)
    expected = traced(torch.ones(2)).sum().item()
    assert [float(text) for text in out] == pytest.approx([expected, 4, 4.0, 5, expected])


def test_another_process_imports_a_folder(tmp_path):
    traced = fx.symbolic_trace(Net())
    traced.to_folder(tmp_path / "written", "Written")
    program = """
        import sys
        sys.path.insert(0, sys.argv[1])
        import rushlight as torch
        from written import Written
        print(Written()(torch.ones(2, 3)).sum().item())
    """
    out = run_in_a_process(program, tmp_path)
    assert float(out[0]) == pytest.approx(traced(torch.ones(2, 3)).sum().item())


def test_under_the_name_torch():
    program = """
        import pickle, rushlight._alias
        rushlight._alias.install()
        import torch, torch.fx
        from torch.fx import symbolic_trace, Tracer, GraphModule
        from torch.fx.experimental.optimization import fuse
        def f(x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.relu(torch.add(x, 1)) @ torch.eye(2)
        traced = symbolic_trace(f)
        print(traced.code)
        net = symbolic_trace(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()))
        again = pickle.loads(pickle.dumps(net))
        assert [n.op for n in again.graph.nodes] == [n.op for n in net.graph.nodes]
        assert torch.equal(again(torch.ones(2)), net(torch.ones(2)))
    """
    out = " ".join(run_in_a_process(program))
    assert "def forward(self, x : torch.Tensor) -> torch.Tensor:" in out
    assert "torch.nn.functional.relu(add, inplace = False)" in out


def test_tracing_in_several_threads_one_after_another():
    found = []

    def trace():
        found.append(fx.symbolic_trace(Net()).code)

    for _ in range(3):
        thread = threading.Thread(target=trace)
        thread.start()
        thread.join()
    assert len(set(found)) == 1


def test_importing_the_library_does_not_load_fx():
    program = """
        import sys
        import rushlight
        print("rushlight.fx" in sys.modules, "inspect" in sys.modules)
        rushlight.fx
        print("rushlight.fx" in sys.modules)
    """
    assert run_in_a_process(program) == ["False", "False", "True"]


def test_code_shows_in_tracebacks():
    traced = fx.symbolic_trace(lambda x: torch.matmul(x, x))
    with pytest.raises(RuntimeError):
        traced(torch.ones(2, 3))
    import linecache

    name = traced.forward.__code__.co_filename
    assert "eval_with_key" in name
    assert "torch.matmul" in "".join(linecache.getlines(name))


def test_an_interpreter_names_the_node_and_the_programs_line():
    tracer = fx.Tracer()
    tracer.record_stack_traces = True

    class Bad(nn.Module):
        def forward(self, x):
            return torch.matmul(x, x)

    traced = fx.GraphModule(nn.Module(), tracer.trace(Bad()))
    with pytest.raises(RuntimeError, match="While executing %matmul") as caught:
        fx.Interpreter(traced).run(torch.ones(2, 3))
    assert "return torch.matmul(x, x)" in str(caught.value)


def test_annotations_travel_to_nodes():
    def f(x):
        with fx.traceback.annotate({"stage": 1}):
            y = x + 1
        return y * 2

    with fx.traceback.preserve_node_meta():
        graph = fx.Tracer().trace(f)
    assert [n.meta.get("custom") for n in graph.nodes] == [None, {"stage": 1}, None, None]


def test_asserts_become_nodes_if_so_asked():
    class Asserting(fx.Tracer):
        trace_asserts = True

    names = {}  # pytest rewrites the asserts of this file
    exec("def f(x):\n    assert x.sum() > 0, 'positive'\n    return x", names)
    graph = Asserting().trace(names["f"])
    traced = fx.GraphModule(nn.Module(), graph)
    assert traced(torch.ones(2)).tolist() == [1, 1]
    with pytest.raises(AssertionError):
        traced(-torch.ones(2))


def test_operations_that_write_may_be_refused():
    class Pure(fx.Tracer):
        check_mutable_operations = True

    with pytest.raises(RuntimeError, match=r"Tried to trace mutable operation torch\.relu_"):
        Pure().trace(lambda x: torch.relu_(x))
    Pure().trace(lambda x: torch.relu(x))


def test_values_known_by_a_tracer_of_ones_own():
    class Sized(fx.Tracer):
        def iter(self, obj):
            return (obj[i] for i in range(3))

        def to_bool(self, obj):
            return True

    def f(x):
        parts = [p + 1 for p in x]
        return parts if x.sum() > 0 else x

    traced = fx.GraphModule(nn.Module(), Sized().trace(f))
    assert traced(torch.zeros(3)) == [1, 1, 1]
