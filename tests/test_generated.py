"""What is generated from the registry: the stubs and the API pages are complete and up to date."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight as torch
from registry import ENTRIES, path
from rushlight import _C
from samples import SAMPLES, function

ROOT = Path(__file__).resolve().parent.parent
PUBLIC = [e for e in ENTRIES if {"function", "method"} & set(e["forms"])]

pytestmark = pytest.mark.skipif(
    not (ROOT / "tools" / "generate.py").exists(), reason="needs the source tree"
)


@pytest.fixture(scope="module")
def generate():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "tools" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stub(name):
    return (ROOT / "src" / "rushlight" / f"{name}.pyi").read_text(encoding="utf-8")


def test_the_generated_files_are_up_to_date(generate):
    names = [str(p.relative_to(ROOT)) for p in generate.stale()]
    assert not names, f"run: python tools/generate.py (out of date: {names})"


def defined(text, indent=""):
    return set(re.findall(rf"^{indent}def (\w+)\(", text, re.M))


@pytest.mark.parametrize("namespace", sorted(_C._namespaces))
def test_every_function_has_a_stub(namespace):
    name = "_ops_" + namespace.replace(".", "_") if namespace else "_ops"
    assert set(_C._namespaces[namespace]) == defined(stub(name))


def test_every_attribute_of_a_tensor_has_a_stub():
    text = stub("_C")
    body = text[text.index("\nclass Tensor:") :]
    names = defined(body, "    ") | set(re.findall(r"^    (\w+): ", body, re.M))
    inherited = set(dir(object)) | {"__delitem__", "__dict__", "__doc__", "__module__"}
    assert set(vars(torch.Tensor)) - names - inherited == set()


def test_every_name_of_the_extension_has_a_stub():
    text = stub("_C")
    names = defined(text) | set(re.findall(r"^(?:class )?(\w+)[:(]", text, re.M))
    modules_own = {n for n in dir(_C) if n.startswith("__")}
    assert set(dir(_C)) - names - modules_own == set()


def test_every_public_op_has_a_docs_entry():
    pages = {p.stem: p.read_text(encoding="utf-8") for p in (ROOT / "docs" / "api").glob("*.md")}
    for entry in PUBLIC:
        title = f"rushlight.{entry['namespace']}" if entry["namespace"] else "rushlight"
        if "function" not in entry["forms"]:
            title = "rushlight.Tensor"
        assert f"\n## {entry['name']}\n" in pages[title], path(entry)
        assert entry["doc"].strip(), path(entry)
        assert entry["signature"] in pages[title], path(entry)


def fits(value, declared, generate):
    """Whether a value is what the stub says."""
    if declared == "Any":
        return True
    if declared == "_bool":
        return isinstance(value, bool)
    if declared == "Tensor":
        return isinstance(value, torch.Tensor)
    if declared == "tuple[Tensor, ...]":
        return type(value) is tuple and all(isinstance(v, torch.Tensor) for v in value)
    named = declared == generate.result_class(getattr(value, "__match_args__", ()))
    return named and all(isinstance(v, torch.Tensor) for v in value)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(set(SAMPLES) & {path(e) for e in PUBLIC}))
def test_the_stub_states_the_result(generate, name):
    declared = {generate.result_type(e) for e in PUBLIC if path(e) == name}
    for sample in SAMPLES[name](torch.float64, 0):
        value = function(name)(*sample.args, **sample.kwargs)
        assert any(fits(value, d, generate) for d in declared), (type(value), declared)


PROGRAM = """
import rushlight as torch
from rushlight.nn import functional as F

x: torch.Tensor = torch.zeros(2, 3)
x = torch.zeros((2, 3), dtype=torch.float64, requires_grad=True)
x = x.view(3, 2).view((2, 3)).reshape([6]).reshape(2, 3)
x = x.permute(1, 0).permute((1, 0)).flip(0).flip([0, 1]).expand(2, 3)
values, indices = x.max(1)
named: torch.Tensor = torch.sort(x, descending=True).values
parts: tuple[torch.Tensor, ...] = x.chunk(2)
first: torch.Tensor = torch.meshgrid(x, x)[0]
first = torch.meshgrid([x, x], indexing="ij")[0]
first = torch.einsum("ij,jk->ik", x, x.mT)
first = 2 * x + x / 3 - x**2 @ x.mT
first += F.relu(x, inplace=True).sum(dim=(0, 1), keepdim=True)
size: int = x.shape[0] + x.size(1) + len(x)
shape: torch.Size = x.size()
dtype: torch.dtype = x.dtype
torch.add(x, 1, alpha=2, out=x)
x.uniform_(0, 1).clamp_(min=0.1)
number: float = float(x[0, 0])
"""
WRONG = """
import rushlight as torch

x = torch.zeros(2, 3)
x.view("2")
x.sum(dim="rows")
torch.sin("x")
x.shape = 3
"""


def run_mypy(folder, text):
    program = folder / "program.py"
    program.write_text(text)
    command = [sys.executable, "-m", "mypy", "--config-file=", "--strict"]
    command += ["--follow-imports=silent", str(program)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=folder,
        env={"MYPYPATH": str(ROOT / "src"), "PATH": ""},
        timeout=300,
    ).stdout


def test_a_program_type_checks(tmp_path):
    pytest.importorskip("mypy")
    assert "Success" in (out := run_mypy(tmp_path, PROGRAM)), out


def test_a_wrong_program_does_not(tmp_path):
    pytest.importorskip("mypy")
    out = run_mypy(tmp_path, WRONG)
    lines = {int(n) for n in re.findall(r"program\.py:(\d+): error", out)}
    assert lines == {5, 6, 7, 8}, out
