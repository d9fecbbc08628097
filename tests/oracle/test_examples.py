"""The examples, with `import torch`, print the same figures on PyTorch."""

import contextlib
import io
import re
import types
from pathlib import Path

import pytest
import torch

import rushlight

FOLDER = Path(__file__).resolve().parent.parent.parent / "examples"
# Arguments for a short run, and how far figures may lie apart.
RUNS = {
    "char_gpt": ({"steps": 6, "batch": 4}, 1e-3),
    "digits_classifier": ({"epochs": 1}, 1e-3),
    "gradient_accumulation": ({"epochs": 1}, 5e-2),  # bfloat16
    "gradient_penalty": ({"rounds": 5}, 1e-3),
    "lenet": ({"epochs": 1}, 1e-2),
    "lstm_language_model": ({"steps": 16}, 1e-3),
    "maml": ({"iterations": 12}, 1e-3),
    "neural_ode": ({"steps": 10}, 1e-3),
    "policy_gradient": ({"updates": 2}, 1e-3),
    "quantisation": ({"epochs": 1}, 1e-2),
    "vae": ({"epochs": 2}, 1e-3),
}


@pytest.fixture(autouse=True)
def one_thread():
    """PyTorch's threads wait in a loop for each other, which takes long on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def figures_of(name, library, arguments):
    """The numbers in the lines of progress, except rates, and those that main returns."""
    source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    if library == "torch":
        source = source.replace("import rushlight as torch", "import torch")
        source = source.replace("rushlight", "torch")
    module = types.ModuleType(f"{name}_on_{library}")
    exec(compile(source, f"{name}.py", "exec"), module.__dict__)
    text = io.StringIO()
    with contextlib.redirect_stdout(text), rushlight.random.torch_streams():
        result = module.main(**arguments)
    lines = re.findall(r"^(?:epoch|iteration|round|step|update) .*", text.getvalue(), re.M)
    numbers = re.findall(r"[\d.]+", re.sub(r"[\d,]+ tokens/s", "", "\n".join(lines)))
    # Differences of gradients are rounding alone: their size is no figure to compare.
    results = [result] if isinstance(result, float) else [x for x in result if x > 1e-2]
    assert len(numbers) + len(results) > 1
    return [float(n) for n in (*numbers, *results)]


@pytest.mark.parametrize("name", RUNS)
def test_the_same_figures(name):
    arguments, tolerance = RUNS[name]
    ours = figures_of(name, "rushlight", arguments)
    assert ours == pytest.approx(
        figures_of(name, "torch", arguments), rel=tolerance, abs=2 * tolerance
    )


def test_every_example_is_compared_if_it_can_be():
    others = {path.stem for path in FOLDER.glob("*.py")} - set(RUNS)
    assert others == {"checkpointed_transformer"}  # PyTorch has no memory_stats on the CPU
