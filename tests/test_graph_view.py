"""The graph to print and to draw: names, shapes, bytes, lines and modules are the real ones."""

import json
import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.graphview import _layout as layout
from rushlight.utils.checkpoint import checkpoint


def model():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def page_data(html):
    text = re.search(r'<script id="data" type="application/json">(.*?)</script>', html, re.S)
    return json.loads(text[1])


def test_the_text_has_names_shapes_bytes_and_lines():
    net = model()
    text = str(torch.graph(net(torch.ones(3, 4)).sum(), net))
    assert text.startswith("4 operations, 4 leaves; 144 B kept for backward")
    assert "0.weight [8, 4]" in text
    (row,) = [line for line in text.splitlines() if "ReluBackward0" in line]
    assert "[3, 8]" in row
    assert "96 B: result [3, 8]" in row
    assert "test_graph_view.py:" in row


def test_parameters_are_named_without_being_told():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.one_of_a_kind = nn.Linear(2, 2)

        def forward(self, x):
            return self.one_of_a_kind(x)

    net = Named()
    assert "one_of_a_kind.weight" in str(torch.graph(net(torch.ones(1, 2)).sum()))


def test_bytes_are_those_of_storages_once_and_not_of_parameters():
    x = torch.ones(100, requires_grad=True)
    y = x.exp()
    g = torch.graph((y * y).sum() + (x * 2).sum())
    assert g.nbytes == 400  # exp's result, which the product keeps too
    product = next(s for s in g.steps if s.label == "mul" and s.saved and s.saved[0].note)
    assert {saved.note for saved in product.saved} == {"shared"}


def test_a_freed_graph_says_so():
    loss = torch.ones(3, requires_grad=True).exp().sum()
    loss.backward()
    text = str(torch.graph(loss))
    assert "freed" in text
    assert torch.graph(loss).nbytes == 0


def test_no_graph_is_explained():
    with torch.no_grad():
        y = torch.ones(2, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="no_grad"):
        torch.graph(y)
    with pytest.raises(TypeError, match="takes tensors or nodes, got float"):
        torch.graph(1.0)


def test_modules_by_the_calls_that_ran():
    net = model()
    g = torch.graph(lambda: net(torch.ones(3, 4)).sum(), net)
    assert [s.module for s in g.steps if s.kind != "parameter"] == ["0", "1", "2", ""]


def test_modules_are_guessed_from_parameters():
    net = nn.ModuleDict({"a": model(), "b": model()})
    g = torch.graph(net["b"](net["a"](torch.ones(3, 4)).repeat(1, 2)).sum(), net)
    by_label = {(s.label, s.module) for s in g.steps if s.kind == "op"}
    assert ("relu", "a") in by_label
    assert ("relu", "b") in by_label
    assert ("repeat", "") in by_label


def test_measuring_leaves_gradients_and_the_graph_alone():
    x = torch.full((4,), 3.0, requires_grad=True)
    loss = (x * x).sum()
    g = torch.graph(loss, measure=True)
    assert x.grad is None
    assert g.steps[0].norm == 12.0
    assert all(s.seconds > 0 for s in g.steps[1:])
    loss.backward()
    assert x.grad.tolist() == [6.0] * 4


def test_a_pass_of_ones_own_is_measured():
    x = torch.ones(4, requires_grad=True)
    loss = (x * 2).sum()
    with torch.graph(loss).measuring() as g:
        loss.backward()
    assert [s.norm for s in g.steps] == [4.0, 2.0, 1.0]
    assert not g.steps[-1].node._hook_dict("pre")


def test_custom_functions_packed_tensors_and_checkpoints():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x.clone())
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = torch.ones(8, requires_grad=True)
    g = torch.graph(Twice.apply(x).sum())
    assert any(s.name == "TwiceBackward" and s.nbytes == 32 for s in g.steps)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        y = x.exp()
    assert "packed by hooks" in str(torch.graph(y.sum()))
    str(torch.graph(checkpoint(torch.sin, x).sum()))


def test_complex_and_empty_tensors():
    z = torch.ones(2, dtype=torch.complex64, requires_grad=True)
    g = torch.graph((z * z).abs().sum(), measure=True)
    assert g.steps[0].norm is not None
    e = torch.ones(0, 3, requires_grad=True)
    assert torch.graph(e.exp().sum(), measure=True).to_svg()


def test_the_timeline_rises_and_falls():
    x = torch.ones(16, requires_grad=True)
    g = torch.graph(x.exp().tanh().sum())
    kept = [b for _, b in g.timeline()]
    assert kept == [64, 128, 128, 128, 64, 0]


def test_dot_is_quoted():
    weird = {'a "quoted" \\ name': torch.ones(2, requires_grad=True)}
    text = torch.graph(next(iter(weird.values())).sum(), weird).to_dot()
    assert r"a \"quoted\" \\ name" in text
    assert text.count("->") == 1


@pytest.mark.parametrize("group", ["auto", "none", "line", "module"])
def test_the_drawing_is_whole(group, tmp_path):
    net = model()
    g = torch.graph(lambda: net(torch.ones(3, 4)).sum(), net)
    root = ElementTree.fromstring(g.to_svg(tmp_path / "g.svg", group=group))
    boxes = [e for e in root.iter() if e.tag.endswith("rect")]
    assert len(boxes) == {"auto": 8, "none": 8, "module": 4, "line": 1}[group]
    assert (tmp_path / "g.svg").exists()


def test_an_unknown_group():
    with pytest.raises(ValueError, match="'file'"):
        torch.graph(torch.ones(2, requires_grad=True).sum()).to_svg(group="file")


def test_boxes_do_not_overlap_and_edges_lead_down():
    x = [torch.randn(4, requires_grad=True) for _ in range(6)]
    layer = x
    for _ in range(5):
        layer = [layer[i] * layer[(i * 3 + 1) % 6] + x[i] for i in range(6)]
    view = torch.graph(sum(t.sum() for t in layer))._view("none")
    at = list(zip(view.layout.x, view.layout.y, view.widths, strict=True))
    for i, (x1, y1, w1) in enumerate(at):
        for x2, y2, w2 in at[i + 1 :]:
            assert y1 != y2 or x1 + w1 <= x2 + 0.01 or x2 + w2 <= x1 + 0.01
    for a, b in view.edges:
        assert view.layout.y[a] < view.layout.y[b]


def test_the_layout_of_a_cycle_and_of_nothing():
    drawn = layout.layered([10.0] * 3, [10.0] * 3, [(0, 1), (1, 2), (2, 0)], [False] * 3)
    assert drawn.y == sorted(drawn.y)
    assert layout.layered([], [], [], []).width == 0


def test_a_deep_graph_needs_no_deep_stack():
    x = torch.ones(2, requires_grad=True)
    y = x
    for _ in range(3000):
        y = y * 1.5
    g = torch.graph(y.sum())
    assert len(g) == 3002
    assert len(page_data(g.to_html())["views"][0]["x"]) == 3002


def test_the_page_holds_the_facts_and_nothing_from_elsewhere(tmp_path):
    net = model()
    g = torch.graph(lambda: net(torch.ones(3, 4)).sum(), net, measure=True)
    html = g.to_html(tmp_path / "g.html", title="<b> & co")
    assert "<title>&lt;b&gt; &amp; co</title>" in html
    assert not re.search(r'(src|href)="(?!#|data:)', html)
    assert "http://" not in html.replace("http://www.w3.org/2000/svg", "")
    data = page_data(html)
    assert [v["title"] for v in data["views"]] == ["Operations", "Source lines", "Modules"]
    assert data["steps"]["bytes"] == [s.nbytes for s in g.steps]
    assert (tmp_path / "g.html").read_text() == html


def test_notebooks_show_it():
    g = torch.graph(torch.ones(2, requires_grad=True).sum())
    assert g._repr_svg_().startswith("<svg")
    assert g._repr_html_().startswith("<iframe")
    assert "<script" not in g._repr_html_()


def test_saved_tensors_are_attributes_that_dir_lists():
    node = torch.ones(3, 4, requires_grad=True).exp().sum(1).grad_fn
    assert "_saved_dim" in dir(node)
    assert "_saved_result" in dir(node.next_functions[0][0])


def test_torchviz_draws_our_graphs(tmp_path):
    pytest.importorskip("torchviz", reason="torchviz is not installed")
    program = tmp_path / "draw.py"
    program.write_text(
        "import torch\nfrom torchviz import make_dot\n"
        "m = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh())\n"
        "y = m(torch.ones(2, 3)).mean()\n"
        "named = dict(m.named_parameters())\n"
        "dot = make_dot(y, params=named, show_attrs=True, show_saved=True)\n"
        "for word in ('0.weight', 'TanhBackward0', 'AddmmBackward0', 'result', '[saved tensor]'):\n"
        "    assert word in dot.source, word\n"
    )
    subprocess.run([sys.executable, "-m", "rushlight", "run", str(program)], check=True)


PROGRAM = """
import torch
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
for step in range(3):
    loss = net(torch.ones(2, 4)).sum()
    loss.backward()
print("to the end")
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    return path


def command(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "rushlight", "graph", *map(str, arguments)],
        cwd=cwd, capture_output=True, text=True,
    )  # fmt: skip


def test_the_command_writes_a_page_and_ends(program, tmp_path):
    done = command(program, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert "graph.html" in done.stderr
    html = (tmp_path / "graph.html").read_text()
    assert "<title>Graph of train.py</title>" in html
    steps = page_data(html)["steps"]
    assert all(t is not None for t, i in zip(steps["time"], steps["inputs"], strict=True) if i)


@pytest.mark.parametrize(
    ("name", "begins"), [("g.dot", "digraph"), ("g.svg", "<svg"), ("g.txt", "4")]
)
def test_the_command_writes_other_forms(program, tmp_path, name, begins):
    done = command("-o", name, "--step", 2, "--continue", program, cwd=tmp_path)
    assert done.stdout == "to the end\n"
    assert (tmp_path / name).read_text().startswith(begins)


def test_the_file_may_follow_the_program(program, tmp_path):
    program.write_text("import sys\nassert sys.argv[1:] == ['3'], sys.argv\n" + PROGRAM)
    assert command(program, 3, "-o", "net.svg", cwd=tmp_path).returncode == 0
    assert (tmp_path / "net.svg").read_text().startswith("<svg")
    program.write_text("import sys\nassert sys.argv[1:] == ['-o', 'out'], sys.argv\n" + PROGRAM)
    assert command(program, "-o", "out", cwd=tmp_path).returncode == 0
    assert (tmp_path / "graph.html").exists()


def test_the_command_refuses_a_form_it_does_not_write(program, tmp_path):
    done = command("-o", "net.png", program, cwd=tmp_path)
    assert (done.returncode, list(tmp_path.glob("net.*"))) == (2, [])
    assert "should end in .html" in done.stderr


def test_the_command_says_when_there_is_no_such_pass(program, tmp_path):
    done = command("--step", 9, program, cwd=tmp_path)
    assert done.returncode == 1
    assert "3 backward passes" in done.stderr
