"""The examples in docstrings, in the README and in the docs run, and links lead somewhere."""

import ast
import doctest
import functools
import importlib
import math
import pkgutil
import re
import runpy
from pathlib import Path

import pytest

import rushlight as torch
from rushlight._examples import EXAMPLES

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted(
    m.name
    for m in pkgutil.walk_packages(torch.__path__, "rushlight.")
    if m.name.rsplit(".", 1)[1] not in ("__main__", "preload")  # which act when imported
)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EVERY_PAGE = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "examples" / "README.md"]
# What the examples of ops may use.
NAMES = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "math": math}


def name_of(page):
    return str(page.relative_to(ROOT))


def python_blocks(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.parametrize("name", ["rushlight", *MODULES])
def test_docstring_examples(name):
    module = importlib.import_module(name)
    found = doctest.testmod(module, globs=dict(NAMES), optionflags=doctest.ELLIPSIS)
    assert found.failed == 0


def failures(text, name):
    example = doctest.DocTestParser().get_doctest(text, dict(NAMES), name, None, None)
    return doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example).failed


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of_ops(name):
    assert failures(EXAMPLES[name], name) == 0


def attributes_of_tensor():
    """Those that are not ops; doctest.testmod does not reach the ones written in C++."""
    for name in dir(torch.Tensor):
        if name[0] != "_" and not isinstance(getattr(torch.Tensor, name), type(torch.relu)):
            yield name


@pytest.mark.parametrize("name", ["__doc__", *attributes_of_tensor()])
def test_examples_of_tensor(name):
    value = torch.Tensor if name == "__doc__" else getattr(torch.Tensor, name)
    assert failures(value.__doc__, name) == 0


@pytest.mark.parametrize("page", [p for p in PAGES if python_blocks(p)], ids=name_of)
def test_the_blocks_of_a_page_run_in_order(page, tmp_path):
    """As one program in a file of its own, so that errors can cite its lines."""
    program = tmp_path / "page.py"
    program.write_text("\n".join(python_blocks(page)), encoding="utf-8")
    exec(compile(program.read_text(encoding="utf-8"), program, "exec"), {"__name__": "page"})


@pytest.mark.parametrize("page", EVERY_PAGE, ids=name_of)
def test_links_lead_to_files(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    links = [t for t in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in t]
    assert [t for t in links if not (page.parent / t).exists()] == []


def test_the_start_page_leads_to_every_page():
    """The site's navigation is made from it (tools/site.py)."""
    start = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    linked = {(ROOT / "docs" / target).resolve() for target in re.findall(r"\]\((.+?)\)", start)}
    pages = set((ROOT / "docs").rglob("*.md")) - {ROOT / "docs" / "README.md"}
    assert sorted(map(name_of, pages - linked)) == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_named_by_a_page_exist(page):
    """`csrc/...`, `tests/...` and the like, and `folder/file` below csrc."""
    named = re.findall(r"`((?:\w+/)+\w+\.(?:cpp|h|py|md))`", page.read_text(encoding="utf-8"))
    bases = [ROOT, ROOT / "csrc", ROOT / "csrc" / "kernels"]
    assert [n for n in named if not any((b / n).exists() for b in bases)] == []


def test_what_is_said_to_be_missing_is_missing():
    """Names in the list of what rushlight lacks are absent, or say that they are left out."""
    page = (ROOT / "docs" / "guide" / "coming-from-pytorch.md").read_text(encoding="utf-8")
    lists = re.findall(r"- \*\*(?:Parts of|Single functions).*?(?=\n- )", page, re.S)
    named = {name for text in lists for name in re.findall(r"`([\w.]+)`", text)} - {"hub"}
    assert len(named) >= 10
    for name in sorted(named):
        try:
            found = functools.reduce(getattr, name.split("."), torch)
        except AttributeError:
            continue
        said = f"{type(found).__name__} {found.__doc__}"
        assert re.search("left out|names only|AbsentDtype", said), name


def test_plots_show_the_readme(tmp_path):
    """After a change of its figures: python benchmarks/plots.py."""
    program = runpy.run_path(str(ROOT / "benchmarks" / "plots.py"))
    rows = program["readme_rows"]((ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(rows) > 25
    for path in program["plots"](rows, tmp_path):
        kept = ROOT / "docs" / "images" / "benchmarks" / path.name
        assert kept.read_text(encoding="utf-8") == path.read_text(encoding="utf-8")


def proofs_in(tree, prefix=""):
    """The tests of a file and the classes that hold them: `Class::test_x`, `Class`, `test_y`."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield prefix + node.name
        if isinstance(node, ast.ClassDef):
            yield from proofs_in(node, f"{prefix}{node.name}::")


def test_the_tests_that_prove_conformance_exist():
    page = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w/]+\.py)::([\w:]+)`", page))
    known = {
        (file, test)
        for file in {file for file, _ in named}
        for test in proofs_in(ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8")))
    }
    assert sorted(named - known) == []


def test_every_row_of_conformance_names_a_test():
    page = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    rows = [
        line for line in page.splitlines() if re.match(r"\| (?!---|interface|subject|what P)", line)
    ]
    assert len(rows) > 80
    assert [row for row in rows if "::" not in row.rsplit("|", 2)[1]] == []
