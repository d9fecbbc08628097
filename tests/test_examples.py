"""Each example runs at a small scale and reaches the figure that its docstring states."""

import importlib.util
import math
import re
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "examples"
FILES = sorted(FOLDER.glob("*.py"))


def example(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_digits_classifier():
    assert example("digits_classifier").main(epochs=12) >= 0.96


def test_lenet():
    assert example("lenet").main(epochs=8) >= 0.95


def test_char_gpt(capsys):
    assert example("char_gpt").main(steps=100, batch=8) < 2.65
    assert "tokens/s" in capsys.readouterr().out


def test_lstm_language_model():
    assert example("lstm_language_model").main(steps=300) < 1.2


def test_vae():
    assert example("vae").main(epochs=15) < 21.5


def test_policy_gradient():
    assert example("policy_gradient").main(updates=40) > 150


def test_gradient_penalty():
    assert example("gradient_penalty").main(rounds=150) < 0.1


def test_maml():
    assert example("maml").main(iterations=600) < 0.8


def test_neural_ode():
    error, difference = example("neural_ode").main(steps=400)
    assert difference < 1e-6
    assert error < 0.05


def test_quantisation():
    full, rounded, trained = example("quantisation").main(epochs=6)
    assert rounded < full - 0.03
    assert trained >= 0.93


def test_checkpointed_transformer():
    assert example("checkpointed_transformer").main(steps=2) < 0.3


def test_gradient_accumulation():
    accuracy, difference = example("gradient_accumulation").main(epochs=10)
    assert accuracy >= 0.96
    assert difference < 0.02


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_file_is_tested_listed_and_says_how_to_run_it(path):
    """With the options that its command line has."""
    assert f"test_{path.stem}" in globals()
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert f"[{path.name}]({path.name})" in page
    source = path.read_text(encoding="utf-8")
    command = re.search(rf"^    python examples/{path.name}( --\w+ \d+)+$", source, re.M)
    assert command, "the docstring shows no command"
    for option in re.findall(r"--\w+", command[0]):
        assert f'"{option}"' in source


def test_the_same_seed_gives_the_same_result():
    runs = [example("maml").main(iterations=20, seed=3) for _ in range(2)]
    assert runs[0] == runs[1]
    assert math.isfinite(runs[0])


def test_a_file_runs_as_a_program(monkeypatch, capsys):
    import runpy

    monkeypatch.setattr(sys, "argv", ["maml.py", "--iterations", "6", "--seed", "1"])
    runpy.run_path(str(FOLDER / "maml.py"), run_name="__main__")
    assert "after five steps" in capsys.readouterr().out
