"""The report: its numbers are the program's, and the program's results do not change."""

import itertools
import json
import re
import subprocess
import sys
import urllib.request

import pytest

import rushlight as torch
from rushlight import _pages, nn
from rushlight.reporting._series import Series


def page_data(html):
    text = re.search(r'<script id="data" type="application/json">(.*?)</script>', html, re.S)
    return json.loads(text[1])


def train(steps, optimizer_of=torch.optim.SGD, around=None):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = optimizer_of(net.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        loss = net(torch.ones(5, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if around is not None:
            around(net, optimizer, loss)
    return losses, [p.tolist() for p in net.parameters()]


def test_watching_changes_no_result():
    plain = train(12)
    backward = torch.Tensor.backward
    with torch.report(budget=1.0):
        watched = train(12)
    assert watched == plain
    assert torch.Tensor.backward is backward
    with torch.report(budget=1e-9):
        assert train(12) == plain


def test_the_losses_are_those_of_the_program():
    with torch.report() as report:
        losses, _ = train(7)
    data = report.data()
    assert data["scalars"]["loss"]["mean"] == pytest.approx(losses)
    assert data["scalars"]["loss"]["step"] == [1, 2, 3, 4, 5, 6, 7]
    assert data["scalars"]["learning rate"]["mean"] == [0.1] * 7
    assert data["steps"] == 7
    assert len(data["scalars"]["step time"]["mean"]) == 7


def test_norms_and_updates_are_exact():
    found = []

    def note(net, optimizer, loss):
        found.append({name: p.grad.norm().item() for name, p in net.named_parameters()})

    with torch.report(budget=1.0) as report:
        train(4, around=note)
    layers = report.data()["layers"]
    first = layers["steps"].index(1)
    for i, name in enumerate(layers["names"]):
        assert layers["norms"][i][first] == pytest.approx(found[0][name])
    assert layers["names"] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert all(r > 0 for r in layers["ratios"][0])
    low, high, counts = layers["weights"][0][first]
    assert sum(counts) == 32
    assert low < high


def test_activations_and_lines():
    with torch.report(budget=1.0) as report:
        train(8)
    data = report.data()
    by_name = dict(data["activations"])
    assert by_name["1"]["type"] == "ReLU"
    assert by_name["1"]["shape"] == [5, 8]
    assert 0 <= by_name["1"]["zeros"] <= 1
    line = max(data["lines"]["rows"], key=lambda row: row["backward"])
    assert line["line"].startswith("test_reporting.py:")
    assert "net(torch.ones(5, 4))" in line["source"]
    assert line["forward"] > 0


def test_steps_by_hand_with_numbers_of_ones_own():
    report = torch.report()
    for i in range(3):
        report.step(torch.tensor(2.0 - i, requires_grad=True), accuracy=i / 3)
    data = report.data()
    assert data["scalars"]["loss"]["mean"] == [2.0, 1.0, 0.0]
    assert data["scalars"]["accuracy"]["mean"] == pytest.approx([0, 1 / 3, 2 / 3])


def test_two_losses_are_told_apart():
    a = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([a], lr=0.1)
    with torch.report() as report:
        for _ in range(3):
            optimizer.zero_grad()
            a.sum().backward()
            (a * a).sum().backward()
            optimizer.step()
    names = [name for name in report.scalars if name.startswith("loss")]
    assert len(names) == 2
    assert all("test_reporting.py" in name for name in names)


def test_a_pass_by_autograd_backward_is_seen():
    a = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([a], lr=0.1)
    function = torch.autograd.backward
    with torch.report() as report:
        torch.autograd.backward(a.sum())
        optimizer.step()
    assert report.data()["scalars"]["loss"]["mean"] == [2.0]
    assert torch.autograd.backward is function


def test_what_is_not_a_number_is_shown():
    report = torch.report()
    report.step(float("nan"))
    report.step(float("inf"))
    data = page_data(report.to_html())
    assert data["scalars"]["loss"]["mean"] == ["NaN", "Infinity"]


def test_an_error_is_told_and_the_page_written(tmp_path):
    path = tmp_path / "r.html"
    with pytest.raises(ZeroDivisionError), torch.report(path):
        train(2)
        1 / 0
    assert "ZeroDivisionError" in page_data(path.read_text())["error"]


def test_bad_arguments():
    with pytest.raises(ValueError, match="budget"):
        torch.report(budget=0)
    with pytest.raises(ValueError, match="needs a path"):
        torch.report().save()
    report = torch.report().start()
    try:
        with pytest.raises(RuntimeError, match="already"):
            report.start()
    finally:
        report.stop()


def test_a_long_series_is_joined():
    series = Series()
    for step in range(1, 20001):
        series.add(step, 5.0 if step == 7777 else 1.0)
    assert len(series.step) <= 4000
    assert max(series.greatest) == 5.0
    assert series.step == sorted(series.step)
    assert sum(series.mean) / len(series.mean) == pytest.approx(1 + 4 / 20000, rel=1e-3)


def test_the_page_while_it_runs():
    report = torch.report(serve=True)
    try:
        report.step(1.5)
        with urllib.request.urlopen(report._server.address) as answer:
            assert page_data(answer.read().decode())["live"] is True
        with urllib.request.urlopen(report._server.address + "data") as answer:
            assert json.load(answer)["scalars"]["loss"]["mean"] == [1.5]
        assert report._server.address.startswith("http://127.0.0.1:")
    finally:
        report._server.close()


def test_text_inside_a_page_stays_text():
    report = torch.report(title="</script><script>alert(1)</script>")
    html = report.to_html()
    assert "<script>alert(1)" not in html
    assert page_data(html)["title"].startswith("</script>")
    assert _pages.json_text("<!--") == '"\\u003c!--"'


def test_the_command_writes_a_report(tmp_path):
    (tmp_path / "train.py").write_text(
        "import torch\n"
        "w = torch.nn.Parameter(torch.ones(3))\n"
        "opt = torch.optim.Adam([w])\n"
        "for _ in range(5):\n"
        "    opt.zero_grad()\n"
        "    (w * w).sum().backward()\n"
        "    opt.step()\n"
        "raise SystemExit(3)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "rushlight", "run", "--report", "out.html", "train.py"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 3
    assert "report of 5 steps" in done.stderr
    data = page_data((tmp_path / "out.html").read_text())
    assert data["steps"] == 5
    assert "status 3" in data["error"]


def axes_of(named_parameters):
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    matplotlib.use("Agg")
    axes = torch.plot_grad_flow(named_parameters)
    axes.figure.canvas.draw()
    return axes


def with_gradients(**gradients):
    pairs = [(name, torch.ones(2, requires_grad=True)) for name in gradients]
    for (_, p), value in zip(pairs, gradients.values(), strict=True):
        p.grad = None if value is None else torch.tensor(value)
    return pairs


def test_gradients_by_layer_in_matplotlib():
    net = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1), nn.Linear(3, 3))
    net[1](net[0](torch.ones(2, 4))).sum().backward()
    axes = axes_of(net.named_parameters())
    assert [t.get_text() for t in axes.get_xticklabels()] == ["0", "1", "2"]
    assert [t.get_text() for t in axes.texts] == ["no gradient"]
    with pytest.raises(ValueError, match="no parameter"):
        torch.plot_grad_flow([])


def test_gradients_that_no_bar_shows_are_named():
    inf, nan = float("inf"), float("nan")
    rows = {"a": [1.0, 3.0], "b": [0.0, 0.0], "c": [inf, 0.0], "d": [nan, 1.0], "e": None}
    axes = axes_of(with_gradients(**rows))
    words = [t.get_text() for t in axes.texts]
    assert words == ["zero", "infinite", "not a number", "no gradient"]
    low, high = axes.get_ylim()
    assert low < 2.0 < 3.0 < high
    assert [t.get_text() for t in axes_of(with_gradients(a=[0.0, 0.0])).texts] == ["zero"]


def test_gradients_of_many_layers_with_long_names_can_be_read():
    names = [f"encoder.layers.{i}.self_attention.output_projection" for i in range(300)]
    axes = axes_of(with_gradients(**{name: [1.0, 2.0] for name in names}))
    shown = [t for t in axes.get_xticklabels() if t.get_text()]
    assert axes.figure.get_size_inches()[0] <= 24
    assert shown[0].get_text() == "encoder.lay…ention.output_projection"
    boxes = [t.get_window_extent() for t in shown]
    assert all(a.x1 <= b.x0 for a, b in itertools.pairwise(boxes))


def test_gradients_of_embeddings_and_halves_by_layer():
    table = nn.Embedding(10, 3, sparse=True)
    table(torch.tensor([1, 2])).sum().backward()
    half = nn.Linear(2, 2, dtype=torch.bfloat16)
    half(torch.ones(2, dtype=torch.bfloat16)).sum().backward()
    axes = axes_of([*table.named_parameters(), *half.named_parameters()])
    means = [bar.get_height() for bar in axes.containers[1]]
    assert means == pytest.approx([0.2, 1.0])
