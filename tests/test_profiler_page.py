"""The profiler's page and the command that writes it."""

import json
import re
import subprocess
import sys

import pytest

import rushlight as torch


def page_data(html):
    text = re.search(r'<script id="data" type="application/json">(.*?)</script>', html, re.S)
    return json.loads(text[1])


def flat(frames, path=()):
    for text, forward, backward, inner in frames:
        yield (*path, text), forward, backward
        yield from flat(inner, (*path, text))


def test_the_flame_graph_joins_forward_and_backward():
    w = torch.ones(50, 50, requires_grad=True)

    def inner():
        return torch.tanh(w @ w)

    with torch.profiler.profile(with_stack=True) as prof:
        inner().sum().backward()
    flame = page_data(prof.to_html())["flame"]
    texts = flame["texts"]
    lines = {texts[path[-1]][1]: (path, f, b) for path, f, b in flat(flame["frames"])}
    path, forward, backward = lines["return torch.tanh(w @ w)"]
    assert forward > 0
    assert backward > 0
    assert texts[path[-2]][1] == "inner().sum().backward()"
    ops = {texts[path[-1]][0]: (f, b) for path, f, b in flat(flame["frames"])}
    assert min(ops["tanh"]) > 0
    assert min(ops["mm"]) > 0
    assert ops["AccumulateGrad"][0] == 0
    whole = sum(f + b for _, f, b, _ in flame["frames"])
    assert whole == pytest.approx(flame["forward"] + flame["backward"], rel=0.05)


def test_the_lines_that_hold_the_peak():
    with torch.autograd.profiler.profile(profile_memory=True) as prof:
        kept = torch.ones(1000, 100)
        gone = torch.ones(2000, 100)
        del gone
        both = torch.zeros(3000, 100)
    memory = page_data(prof.to_html())["memory"]
    assert memory["peak"] >= 1_600_000
    holders = {h["source"].split(" ")[0]: h["bytes"] for h in memory["holders"]}
    assert set(holders) == {"kept", "both"}
    assert holders["both"] >= 1_200_000
    assert max(b for _, b in memory["course"]) == memory["peak"]
    del kept, both


def test_a_page_of_several_blocks_and_of_none():
    prof = torch.autograd.profiler.profile(acc_events=True, profile_memory=True)
    for _ in range(2):
        with prof:
            torch.ones(1000) * 2
    assert page_data(prof.to_html())["events"] == 4
    with pytest.raises(RuntimeError, match="didn't finish"):
        torch.autograd.profiler.profile().to_html()
    with torch.profiler.profile() as empty:
        pass
    assert page_data(empty.to_html())["memory"] is None


def test_the_command_profiles_some_steps(tmp_path):
    (tmp_path / "train.py").write_text(
        "import torch\n"
        "w = torch.nn.Parameter(torch.ones(30))\n"
        "opt = torch.optim.SGD([w], lr=0.1)\n"
        "for _ in range(100):\n"
        "    (w * w).sum().backward()\n"
        "    opt.step()\n"
        "print('to the end')\n"
    )
    command = [sys.executable, "-m", "rushlight", "profile", "--steps", "3", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
    assert "profile of 3 steps" in done.stderr
    data = page_data((tmp_path / "profile.html").read_text())
    (row,) = (r for r in data["operations"] if r["name"] == "MulBackward0")
    assert row["calls"] == 3
    assert any(line["source"] == "opt.step()" for line in data["lines"])
