"""Errors in backward name the user's lines: no debug mode, no special way to run the program.

Each program marks its lines with a comment such as `#: made`; the error must cite each marked
line as `program.py:<number>`, in its own text or in its notes.
"""

import importlib.util
import re
import subprocess
import sys

import pytest

from support import location_text

HEADER = "import rushlight as torch\n"

# name -> (exception, phrase, program)
PROGRAMS = {
    "result_overwritten": (
        RuntimeError,
        "modified by an inplace operation",
        """
x = torch.ones(3, requires_grad=True)
y = x.exp()  #: saved
y.add_(1)  #: written
y.sum().backward()
""",
    ),
    "input_overwritten": (
        RuntimeError,
        "modified by an inplace operation",
        """
x = torch.ones(3, requires_grad=True)
h = x * 2
y = h * h  #: saved
h += 1  #: written
y.sum().backward()
""",
    ),
    "written_by_setitem": (
        RuntimeError,
        "modified by an inplace operation",
        """
x = torch.ones(3, requires_grad=True)
h = x * 2
y = h.sin()  #: saved

h[0] = 7.0  #: written
z = y + 1
z.sum().backward()
""",
    ),
    "written_through_a_view": (
        RuntimeError,
        "modified by an inplace operation",
        """
x = torch.ones(4, requires_grad=True)
h = x * 2
row = h.view(2, 2)[0]
y = h ** 3  #: saved
row.zero_()  #: written
y.sum().backward()
""",
    ),
    "written_through_detach": (
        RuntimeError,
        "modified by an inplace operation",
        """
x = torch.ones(4, requires_grad=True)
h = x * 2
y = h.log()  #: saved
h.detach().fill_(3.0)  #: written
y.sum().backward()
""",
    ),
    "parameter_updated_too_early": (
        RuntimeError,
        "modified by an inplace operation",
        """
w = torch.ones(2, 2, requires_grad=True)
x = torch.ones(2, 2, requires_grad=True)

def forward(x):
    return x @ w  #: saved

def update():
    with torch.no_grad():
        w.sub_(0.1)  #: written

loss = forward(x).sum()
update()
loss.backward()
""",
    ),
    "several_writes_name_the_last": (
        RuntimeError,
        "modified by an inplace operation",
        """
x = torch.ones(3, requires_grad=True)
y = x.tanh()  #: saved
y.mul_(2)
y.mul_(3)
y.mul_(4)  #: written
y.sum().backward()
""",
    ),
    "saved_by_a_function": (
        RuntimeError,
        "modified by an inplace operation",
        """
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return 2 * ctx.saved_tensors[0] * g

x = torch.ones(3, requires_grad=True)
h = x + 1
y = Square.apply(h)  #: saved
h.zero_()  #: written
y.sum().backward()
""",
    ),
    "second_order": (
        RuntimeError,
        "modified by an inplace operation",
        """
x = torch.ones(3, requires_grad=True)
h = x + 1
y = (h ** 3).sum()
(g,) = torch.autograd.grad(y, x, create_graph=True)
h.add_(1)  #: written
g.sum().backward()
""",
    ),
    "second_backward": (
        RuntimeError,
        "backward through the graph a second time",
        """
x = torch.ones(3, requires_grad=True)
h = x * x  #: made
h.sum().backward()  #: first
(h + 1).sum().backward()
""",
    ),
    "state_carried_over": (
        RuntimeError,
        "backward through the graph a second time",
        """
x = torch.ones(3, requires_grad=True)
state = torch.zeros(3)
for _ in range(2):
    state = torch.tanh(state + x)  #: made
    state.sum().backward()  #: first
""",
    ),
    "kept_on_ctx": (
        RuntimeError,
        "modified by an inplace operation",
        """
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return x * x

    @staticmethod
    def backward(ctx, g):
        return 2 * ctx.x * g

x = torch.ones(3, requires_grad=True)
h = x + 1
y = Square.apply(h)  #: kept
h.zero_()  #: written
y.sum().backward()
""",
    ),
    "not_marked_dirty": (
        RuntimeError,
        "without ctx.mark_dirty",
        """
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)  #: written
        return x + 0

    @staticmethod
    def backward(ctx, g):
        return g * 2

Double.apply(torch.ones(3, requires_grad=True) + 1)
""",
    ),
    "history_cut": (
        RuntimeError,
        "does not require grad",
        """
x = torch.ones(3, requires_grad=True)
with torch.no_grad():  #: block
    features = x * 2  #: cut
loss = (features + 1).sum()
loss.backward()
""",
    ),
    "history_copied": (
        RuntimeError,
        "does not require grad",
        """
x = torch.ones(3, requires_grad=True)
y = torch.tensor([x[0], x[1]])  #: cut
y.sum().backward()
""",
    ),
    "not_a_scalar": (
        RuntimeError,
        "implicitly created only for scalar outputs",
        """
x = torch.ones(3, requires_grad=True)
y = x * 2  #: made
y.backward()
""",
    ),
    "gradient_of_wrong_shape": (
        RuntimeError,
        "Mismatch in shape",
        """
x = torch.ones(3, requires_grad=True)
y = x * 2  #: made
y.backward(torch.ones(4))
""",
    ),
    "function_fails": (
        ZeroDivisionError,
        "division",
        """
class Fails(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g * (1 / 0)

x = torch.ones(3, requires_grad=True)
y = Fails.apply(x)  #: made
y.sum().backward()
""",
    ),
    "function_returns_wrong_shape": (
        RuntimeError,
        "invalid gradient at index 0",
        """
class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return torch.ones(5)

x = torch.ones(3, requires_grad=True)
y = Wrong.apply(x)  #: made
y.sum().backward()
""",
    ),
    "function_returns_wrong_count": (
        RuntimeError,
        "incorrect number of gradients",
        """
class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g, g

x = torch.ones(3, requires_grad=True)
y = Wrong.apply(x)  #: made
y.sum().backward()
""",
    ),
    "hook_fails": (
        KeyError,
        "missing",
        """
x = torch.ones(3, requires_grad=True)
y = x * 2  #: made
y.register_hook(lambda g: {}["missing"])
y.sum().backward()
""",
    ),
    "hook_changes_the_size": (
        RuntimeError,
        "has changed the size of value",
        """
x = torch.ones(3, requires_grad=True)
y = x * 2  #: made
y.register_hook(lambda g: g[:2])
y.sum().backward()
""",
    ),
    "statement_over_several_lines": (
        RuntimeError,
        "modified by an inplace operation",
        """
x = torch.ones(3, requires_grad=True)
y = (
    x
    .exp()  #: saved
)
y.add_(
    1
)
y.sum().backward()
""",
    ),
    "lines_inside_functions": (
        RuntimeError,
        "modified by an inplace operation",
        """
def layer(t):
    return t.sigmoid()  #: saved

class Model:
    def __call__(self, t):
        return layer(t)

def corrupt(t):
    t.clamp_(0, 1)  #: written

x = torch.ones(3, requires_grad=True)
y = Model()(x)
corrupt(y)
y.sum().backward()
""",
    ),
}


def marked_lines(source, name):
    return {
        m.group(1): f"{name}:{number}"
        for number, line in enumerate(source.splitlines(), 1)
        if (m := re.search(r"#: (\w+)", line))
    }


def run_as_exec(path):
    exec(compile(path.read_text(), str(path), "exec"), {"__name__": "__main__"})


def run_as_import(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def assert_cited(text, source, name):
    for what, citation in marked_lines(source, name).items():
        assert re.search(re.escape(citation) + r"\b", text), f"{what} line missing from:\n{text}"


@pytest.mark.parametrize("run", [run_as_exec, run_as_import])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_error_cites_the_marked_lines(name, run, tmp_path):
    error, phrase, body = PROGRAMS[name]
    path = tmp_path / "program.py"
    path.write_text(HEADER + body)
    with pytest.raises(error, match=phrase) as info:
        run(path)
    assert_cited(location_text(info.value), HEADER + body, "program.py")


def test_lines_in_different_files_are_cited_with_their_own_names(tmp_path, monkeypatch):
    (tmp_path / "network_part.py").write_text("def forward(x):\n    return x.exp()\n")
    (tmp_path / "update_part.py").write_text("\n\n\ndef update(t):\n    t.mul_(2)\n")
    program = tmp_path / "main_part.py"
    program.write_text(
        HEADER + "from network_part import forward\nfrom update_part import update\n"
        "y = forward(torch.ones(2, requires_grad=True))\nupdate(y)\ny.sum().backward()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RuntimeError, match="modified by an inplace") as info:
        run_as_exec(program)
    text = location_text(info.value)
    assert "network_part.py:2" in text
    assert "update_part.py:5" in text


def test_the_uncaught_error_shows_the_lines_on_the_terminal(tmp_path):
    _, phrase, body = PROGRAMS["result_overwritten"]
    path = tmp_path / "program.py"
    path.write_text(HEADER + body)
    run = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 1
    assert phrase in run.stderr
    assert_cited(run.stderr.split("RuntimeError", 1)[1], HEADER + body, "program.py")


def test_the_conflict_says_which_operations_met(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(HEADER + PROGRAMS["result_overwritten"][2])
    with pytest.raises(RuntimeError) as info:
        run_as_exec(path)
    text = location_text(info.value)
    assert "exp" in text.lower()
    assert "add_" in text


def test_a_program_whose_source_is_gone_still_gets_its_error():
    source = HEADER + PROGRAMS["result_overwritten"][2]
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as info:
        exec(compile(source, "<typed in>", "exec"), {})
    assert "<typed in>:4" in location_text(info.value)
