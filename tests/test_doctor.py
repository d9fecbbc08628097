"""The doctor finds each mistake in the program that makes it, and none in the one that does not.

The programs are the functions of the files in tests/doctor: ``faulty...`` and ``clean...``. A file
is named after the finding, and the line to blame ends in ``# found`` where there is one.
"""

import contextlib
import importlib
import inspect
import warnings
from pathlib import Path

import pytest

import rushlight as torch
from rushlight.doctor._check import Check, all_checks
from rushlight.doctor._finding import SEVERITIES

FOLDER = Path(__file__).resolve().parent / "doctor"
FILES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "parts")


def programs(kind):
    for stem in FILES:
        module = importlib.import_module(f"doctor.{stem}")
        for name, function in vars(module).items():
            if name.startswith(kind) and inspect.isfunction(function):
                yield pytest.param(stem, function, id=f"{stem}-{name}")


def examine(program, **options):
    """What the doctor says of a program; errors of backward are the program's."""
    doctor = torch.doctor(**options)
    with warnings.catch_warnings(), contextlib.suppress(RuntimeError), doctor:
        program()
    assert doctor.failures == []
    return doctor


def marked(stem):
    lines = (FOLDER / f"{stem}.py").read_text(encoding="utf-8").splitlines()
    return {i for i, line in enumerate(lines, 1) if line.endswith("# found")}


@pytest.mark.parametrize(("stem", "program"), list(programs("faulty")))
def test_a_mistake_is_found(stem, program):
    name = stem.replace("_", "-")
    module = inspect.getmodule(program)
    findings = examine(program).findings
    allowed = {name} | getattr(module, "ALSO", set()) | getattr(module, "IGNORED", set())
    assert name in {f.name for f in findings} <= allowed
    found = next(f for f in findings if f.name == name)
    assert found.place is not None
    assert found.place.file == module.__file__
    source, first = inspect.getsourcelines(program)
    own = marked(stem) & set(range(first, first + len(source)))
    if own or marked(stem):
        assert found.place.line in (own or marked(stem))
    assert found.message
    assert found.fix
    assert found.evidence


@pytest.mark.parametrize(("stem", "program"), list(programs("clean")))
def test_a_clean_program_gets_no_finding(stem, program):
    ignored = getattr(inspect.getmodule(program), "ALSO", set())
    ignored = ignored | getattr(inspect.getmodule(program), "IGNORED", set())
    findings = examine(program).findings
    assert [f for f in findings if f.name not in ignored] == []


def test_each_check_has_both_programs_and_says_what_it_is():
    own = [c for c in all_checks().values() if c.__module__.startswith("rushlight.doctor._checks")]
    names = {check.name.replace("-", "_") for check in own}
    assert names == set(FILES)
    for kind in ("faulty", "clean"):
        assert {p.values[0] for p in programs(kind)} == names
    for check in own:
        assert check.example
        assert check.severity in SEVERITIES
        assert check.__doc__.strip().splitlines()[0].endswith(".")


# -- what the doctor leaves alone ------------------------------------------------------------------


def trained(watched):
    """Losses, weights, and random numbers after a training with much of what is watched."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Dropout(0.3),
        torch.nn.Linear(16, 3),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
    scaler = torch.GradScaler("cpu", init_scale=128.0)
    x = torch.randn(64, 8)
    data = torch.utils.data.TensorDataset(x, x[:, :3].argmax(1))
    losses = []
    with torch.doctor() if watched else contextlib.nullcontext():
        for _ in range(5):
            for inputs, labels in torch.utils.data.DataLoader(data, 16, shuffle=True):
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(model(inputs), labels)
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                scaler.step(optimizer)
                scaler.update()
                losses.append(loss.item())
            scheduler.step()
    values = [t.tolist() for t in model.state_dict().values()]
    return losses, values, torch.rand(4).tolist(), torch.get_rng_state().tolist()


def test_results_and_random_streams_stay_as_they_are():
    assert trained(watched=True) == trained(watched=False)


def test_everything_is_put_back():
    from rushlight import _C
    from rushlight.nn.modules import _hooks
    from rushlight.optim.optimizer import Optimizer

    watched = (
        torch.Tensor, Optimizer, torch.nn.Module, torch.GradScaler, _C, torch.no_grad, torch,
        torch.nn.functional,
    )  # fmt: skip
    before = [dict(vars(owner)) for owner in watched]
    with torch.doctor():
        assert vars(torch.Tensor)["backward"] is not before[0]["backward"]
    assert [dict(vars(owner)) for owner in watched] == before
    assert not _hooks._global_forward_hooks
    assert not _hooks._global_forward_pre_hooks


def test_no_file_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with torch.doctor(silence="same-randomness-in-workers"), torch.doctor():
        assert len(list(tmp_path.iterdir())) == 2
    assert list(tmp_path.iterdir()) == []


def test_doctors_nest_and_follow_each_other():
    with torch.doctor() as outer:
        inner = examine(uncleared)
    assert [f.name for f in inner.findings] == [f.name for f in outer.findings]
    assert [f.name for f in examine(uncleared).findings] == ["grads-not-cleared"]


def test_modules_that_compare_in_their_own_way():
    class Equal(torch.nn.Linear):
        __hash__ = torch.nn.Module.__hash__

        def __eq__(self, other):
            return True

    model = torch.nn.Sequential(Equal(2, 3), Equal(3, 1))
    assert examine(lambda: model(torch.ones(4, 2)).sum().backward()).findings == []


def test_a_long_run_of_small_steps_is_watched_in_part_and_its_end_is_seen():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(8, 4)
    watched = []
    with torch.doctor() as doctor:
        for _ in range(4000):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            watched.append(doctor._observer.watching)
        with torch.no_grad():
            model(x), model(x)
    assert watched[6]
    assert not all(watched)
    assert doctor.to_dict()["steps"] == doctor.to_dict()["backward_passes"] == 4000
    assert [f.name for f in doctor.findings] == ["train-mode-in-evaluation"]


def test_steps_of_optimizers_of_ones_own_are_counted():
    class Descent(torch.optim.Optimizer):
        def __init__(self, parameters):
            super().__init__(parameters, {"lr": 0.01})

        @torch.no_grad()
        def step(self, closure=None):
            for p in self.param_groups[0]["params"]:
                p -= 0.01 * p.grad

    model = torch.nn.Linear(4, 4)
    optimizer = Descent(model.parameters())
    with torch.doctor() as doctor:
        for _ in range(500):
            optimizer.zero_grad()
            model(torch.ones(2, 4)).square().mean().backward()
            optimizer.step()
    assert (doctor.findings, doctor.to_dict()["steps"]) == ([], 500)


def test_an_error_of_the_program_stays_the_programs():
    with pytest.raises(RuntimeError, match="mine"), torch.doctor() as doctor:
        raise RuntimeError("mine")
    assert doctor.findings == []


def test_a_check_that_breaks_is_named_and_the_program_goes_on():
    class Broken(Check):
        """Breaks."""

        name, severity, fix = "broken", "note", "none"

        def on_backward(self, event):
            raise KeyError("oh")

    try:
        with torch.doctor() as doctor:
            torch.ones(2, requires_grad=True).sum().backward()
        assert [name for name, _ in doctor.failures] == ["Broken"]
        assert "KeyError" in str(doctor)
    finally:
        del Check.registry["broken"]


def test_a_check_is_added_by_its_class():
    class Passes(Check):
        """Counts passes."""

        name, severity, fix = "passes", "note", "none"

        def on_backward(self, event):
            self.report("a pass", event.place, leaves=len(event.graph.leaves))

    try:
        with torch.doctor() as doctor:
            torch.ones(2, requires_grad=True).sum().backward()
        (found,) = doctor.findings
        assert (found.name, found.evidence) == ("passes", {"leaves": 1})
        assert found.place.source == "torch.ones(2, requires_grad=True).sum().backward()"
    finally:
        del Check.registry["passes"]


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({"severity": "awful", "fix": "x", "__doc__": "y"}, "severity"),
        ({"severity": "note", "fix": "", "__doc__": "y"}, "a fix"),
        ({"severity": "note", "fix": "x", "name": "tiny-ops", "__doc__": "y"}, "already"),
    ],
)
def test_a_check_says_all_that_it_must(facts, text):
    all_checks()
    with pytest.raises(TypeError, match=text):
        type("Wrong", (Check,), {"name": "wrong", **facts})


# -- reports ---------------------------------------------------------------------------------------


def uncleared():
    importlib.import_module("doctor.grads_not_cleared").faulty()


def test_a_finding_is_silenced_by_its_name():
    assert [f.name for f in examine(uncleared).findings] == ["grads-not-cleared"]
    assert examine(uncleared, silence=["grads-not-cleared"]).findings == []
    with pytest.raises(ValueError, match=r"no check 'grads-not-clear' \(near: grads-not-cleared"):
        torch.doctor(silence="grads-not-clear")


def test_the_text_has_the_line_the_evidence_and_the_fix():
    text = str(examine(uncleared))
    for phrase in ("1 serious", "grads_not_cleared.py:13", "steps with old gradients: 5", "fix:"):
        assert phrase in text


def test_the_report_is_plain_values(tmp_path):
    import json

    doctor = examine(uncleared)
    report = json.loads(doctor.to_json(str(tmp_path / "report.json")))
    assert report == json.loads((tmp_path / "report.json").read_text())
    (found,) = report["findings"]
    assert (report["serious"], report["steps"], report["backward_passes"]) == (True, 6, 6)
    assert found["place"]["line"] == 13
    assert found["place"]["source"] == "optimizer.step()  # found"


def test_the_page_stands_alone(tmp_path):
    from html.parser import HTMLParser

    class Reader(HTMLParser):
        def __init__(self):
            super().__init__()
            self.tags, self.text, self.open = [], "", []

        def handle_starttag(self, tag, attributes):
            self.tags.append((tag, dict(attributes)))
            if tag not in ("meta", "link", "br", "path", "rect"):
                self.open.append(tag)

        def handle_endtag(self, tag):
            if tag not in ("path", "rect"):
                assert self.open.pop() == tag

        def handle_data(self, data):
            self.text += data

    reader = Reader()
    reader.feed(examine(uncleared).to_html(str(tmp_path / "page.html"), title="a <b> & c"))
    assert reader.open == []
    names = [tag for tag, _ in reader.tags]
    assert names.count("h1") == 1
    fetched = [a.get("src") or a.get("href") or "" for _, a in reader.tags]
    assert all(where.startswith(("data:", "#")) for where in fetched if where)
    assert "a <b> & c" in reader.text
    for phrase in ("grads-not-cleared", "zero_grad()", "steps with old gradients"):
        assert phrase in reader.text
    assert "Nothing to examine" in examine(lambda: None).to_html()
    clean = importlib.import_module("doctor.grads_not_cleared").clean
    assert "No mistakes found" in examine(clean).to_html()
