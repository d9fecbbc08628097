"""live(): which graphs are alive; the warning when they pile up; node_creation_hook."""

import gc
import subprocess
import sys
import threading

import pytest

import rushlight as torch
from rushlight.autograd.graph import live, node_creation_hook
from support import leaf


@pytest.fixture(autouse=True)
def nothing_left_from_before():
    gc.collect()


def made_here():
    return [g for g in live() if g.line and g.line[0] == __file__]


class TestLive:
    def test_nodes_bytes_root_line_and_holder(self):
        x = torch.ones(1000, requires_grad=True)
        total = x.exp().sum()
        (graph,) = made_here()
        assert graph.nodes == 2
        assert graph.bytes == 4000
        assert graph.root == "SumBackward0"
        assert graph.line[1] == total.grad_fn._where[1]
        assert "total" in graph.holders

    def test_the_largest_comes_first(self):
        small = torch.ones(10, requires_grad=True).exp()
        large = torch.ones(1000, requires_grad=True).exp()
        found = made_here()
        assert [g.bytes for g in found] == [4000, 40]
        assert small.requires_grad
        assert large.requires_grad

    def test_parameters_are_not_counted(self):
        w = torch.ones(1000, requires_grad=True)
        y = w * w
        assert [g.bytes for g in made_here()] == [0]
        assert y.requires_grad

    def test_what_backward_freed_no_longer_weighs(self):
        y = torch.ones(1000, requires_grad=True).exp()
        y.sum().backward()
        assert [g.bytes for g in made_here()] == [0]

    def test_a_graph_that_nobody_holds_is_gone(self):
        torch.ones(1000, requires_grad=True).exp()
        assert made_here() == []

    def test_graphs_that_share_nodes_are_one(self):
        h = leaf([1.0]).exp()
        a, b = h.sin(), h.cos()
        (graph,) = made_here()
        assert graph.nodes == 3
        assert {"a", "b"} <= set(graph.holders)
        assert a.requires_grad
        assert b.requires_grad

    def test_lists_and_dicts_are_looked_into(self):
        x = leaf([1.0])
        history = [x.exp(), x.sin()]
        best = {"loss": x.cos()}
        holders = {name for g in made_here() for name in g.holders}
        assert {"history[0]", "history[1]", "best['loss']"} <= holders
        assert len(history) + len(best) == 3

    def test_the_text_says_it_all(self):
        x = torch.ones(1 << 18, requires_grad=True)
        y = x.exp()
        text = str(made_here()[0])
        assert "ExpBackward0" in text
        assert f"{__file__}:{y.grad_fn._where[1]}" in text
        assert "1 nodes, 1.0 MiB" in text
        assert "y" in text

    def test_nodes_of_functions_count(self):
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return g * 2

        y = Double.apply(leaf([1.0]).exp())
        (graph,) = made_here()
        assert (graph.nodes, graph.root) == (2, "DoubleBackward")
        assert y.requires_grad


GROWTH = """
import warnings
import rushlight as torch

x = torch.ones(10, requires_grad=True)
kept = []
total = 0
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for i in range(20):
        loss = (x * x).sum()
        {before}
        loss.backward()
        {after}
for w in caught:
    print(w.category.__name__, w.filename, w.lineno, w.message)
"""


class TestGrowth:
    def warnings_of(self, tmp_path, before="pass", after="pass"):
        path = tmp_path / "program.py"
        path.write_text(GROWTH.format(before=before, after=after))
        run = subprocess.run(
            [sys.executable, str(path)], capture_output=True, text=True, timeout=60, check=True
        )
        return run.stdout.splitlines()

    def test_a_sum_that_keeps_every_graph_is_named_once(self, tmp_path):
        (line,) = self.warnings_of(tmp_path, before="total = total + loss")
        assert line.startswith(f"UserWarning {tmp_path / 'program.py'} 12 ")
        assert "`total`" in line
        assert "loss.item()" in line

    def test_a_list_of_losses_is_named_once(self, tmp_path):
        (line,) = self.warnings_of(tmp_path, after="kept.append(loss)")
        assert line.startswith(f"UserWarning {tmp_path / 'program.py'} 11 ")

    @pytest.mark.parametrize(
        "after", ["pass", "total = total + loss.item()", "kept.append(loss.detach())"]
    )
    def test_sound_loops_are_left_alone(self, tmp_path, after):
        assert self.warnings_of(tmp_path, after=after) == []

    def test_graphs_that_only_get_longer_are_left_alone(self, tmp_path):
        longer = "for _ in range(i): loss = loss * 2"
        assert self.warnings_of(tmp_path, before=longer) == []

    def test_graphs_that_wait_for_the_collector_are_left_alone(self, tmp_path):
        assert self.warnings_of(tmp_path, before="loss.itself = loss; loss = loss * 1") == []


class TestNodeCreation:
    def test_every_node_is_reported_in_order_with_its_edges(self):
        seen = []
        x = leaf([1.0])
        with node_creation_hook(lambda n: seen.append((n.name(), len(n.next_functions)))):
            (x.exp() * x).sum()
        assert seen == [("ExpBackward0", 1), ("MulBackward0", 2), ("SumBackward0", 1)]

    def test_nothing_is_reported_without_recording_or_outside(self):
        seen = []
        x = leaf([1.0])
        with node_creation_hook(seen.append):
            torch.ones(1) * 2
            with torch.no_grad():
                x * 2
        x * 2
        assert seen == []

    def test_it_may_register_hooks_and_write_metadata(self):
        order = []

        def note(node):
            node.metadata["number"] = len(order)
            node.register_prehook(lambda g: order.append(node.name()))

        x = leaf([1.0])
        with node_creation_hook(note):
            y = x.exp().sum()
        y.backward()
        assert order == ["SumBackward0", "ExpBackward0"]
        assert y.grad_fn.metadata == {"number": 0}

    def test_functions_and_in_place_operations(self):
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return g * 2

        names = []
        with node_creation_hook(lambda n: names.append(n.name())):
            t = Double.apply(leaf([1.0, 2.0]))
            t.mul_(2)
            t[0] = 5.0
        assert names[:2] == ["DoubleBackward", "MulBackward0"]
        assert "CopySlices" in names

    def test_a_recorded_backward_reports_too(self):
        names = []
        x = leaf([2.0])
        y = (x**3).sum()
        with node_creation_hook(lambda n: names.append(n.name())):
            torch.autograd.grad(y, x, create_graph=True)
        assert names

    def test_blocks_nest(self):
        log = []
        with node_creation_hook(lambda n: log.append("outer")):
            with node_creation_hook(lambda n: log.append("inner")):
                leaf([1.0]).exp()
            leaf([1.0]).exp()
        assert sorted(log[:2]) == ["inner", "outer"]
        assert log[2:] == ["outer"]

    def test_it_is_the_threads_own(self):
        seen = []
        with node_creation_hook(seen.append):
            thread = threading.Thread(target=lambda: leaf([1.0]).exp())
            thread.start()
            thread.join()
        assert seen == []

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
    def test_exceptions_come_out_of_the_operation(self, error):
        def fail(node):
            raise error("from the hook")

        x = leaf([1.0])
        with node_creation_hook(fail), pytest.raises(error, match="from the hook"):
            x.exp()
        x.exp().sum().backward()
        assert x.grad.item() == pytest.approx(2.718281828)
