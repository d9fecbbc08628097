"""``rushlight doctor``: programs as they are, their exit status, and the reports."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight
from rushlight import cli

ROOT = Path(__file__).resolve().parent.parent

FAULTY = """
import sys, torch
print(sys.argv[1:])
layer = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
for _ in range(4):
    layer(torch.ones(3, 2)).mean().backward()
    optimizer.step()
"""


def run(*arguments, cwd=None):
    path = os.path.dirname(os.path.dirname(rushlight.__file__))
    return subprocess.run(
        [sys.executable, "-m", "rushlight", "doctor", *map(str, arguments)],
        cwd=cwd, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture
def script(tmp_path):
    def write(text, name="program.py"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def test_a_script_with_arguments_and_both_files(script, tmp_path):
    path = script(FAULTY)
    done = run("--json", tmp_path / "r.json", "--html", tmp_path / "r.html", path, "--json", "x")
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("['--json', 'x']\n")
    assert "grads-not-cleared" in done.stdout
    (found,) = json.loads((tmp_path / "r.json").read_text())["findings"]
    assert (found["place"]["file"], found["place"]["line"]) == (str(path), 8)
    assert "grads-not-cleared" in (tmp_path / "r.html").read_text()


def test_a_module_and_json_alone_on_standard_output(script, tmp_path):
    script(FAULTY, "train.py")
    done = run("--json", "-", "-m", "train", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["serious"]
    assert done.stderr.startswith("[]")


def test_silenced_it_ends_with_the_programs_status(script):
    assert run("--silence", "grads-not-cleared", script(FAULTY)).returncode == 0
    assert run(script("import sys\nsys.exit(7)")).returncode == 7
    failed = run(script("import torch\ntorch.ones(2).backward()"))
    assert failed.returncode == 1
    assert "doctor/" not in failed.stderr
    assert "does not require grad" in failed.stderr
    assert "no mistakes found" in failed.stdout


def test_what_stopped_the_program_is_explained(script):
    text = "import torch\nx = torch.ones(2, requires_grad=True)\ny = x.exp()\ny += 1\n"
    done = run(script(text + "y.sum().backward()"))
    assert done.returncode == 1
    assert "in-place-breaks-backward" in done.stdout
    assert "program.py:4" in done.stdout


def test_all_findings_are_listed(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["doctor", "--list"])
    assert ended.value.code == 0
    assert "grads-not-cleared" in capsys.readouterr().out


# The examples are run in small; what they show must not depend on it.
EXAMPLES = {
    "char_gpt": ["--steps", "10"],
    "checkpointed_transformer": ["--steps", "2"],
    "digits_classifier": ["--epochs", "1"],
    "gradient_accumulation": ["--epochs", "1"],
    "gradient_penalty": ["--rounds", "10"],
    "lenet": ["--epochs", "1"],
    "lstm_language_model": ["--steps", "12"],
    "maml": ["--iterations", "12"],
    "neural_ode": ["--steps", "10"],
    "policy_gradient": ["--updates", "6"],
    "quantisation": ["--epochs", "1"],
    "vae": ["--epochs", "1"],
}


def test_every_example_is_examined():
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_has_no_mistakes(name):
    done = run("--json", "-", ROOT / "examples" / f"{name}.py", *EXAMPLES[name])
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["findings"] == []
    assert report["broken_checks"] == []
    assert report["backward_passes"] > 0


@pytest.mark.parametrize(
    "path", sorted((ROOT / "tests" / "programs").glob("*.py")), ids=lambda path: path.stem
)
def test_a_program_has_no_mistakes(path, tmp_path):
    done = run("--json", "-", path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["findings"] == []
    assert report["broken_checks"] == []
