"""Hooks of the documentation site (mkdocs.yml): navigation, pages of modules and of examples.

The navigation is what docs/README.md lists. A page is made for every public module, from its
docstrings, and for every program in examples/; nothing is listed by hand.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
MODULES = "api/modules"


# -- the navigation -------------------------------------------------------------------------------


def on_config(config: Any) -> Any:
    """The sections of docs/README.md become the site's."""
    nav: list[Any] = [{"Home": "README.md"}]
    text = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    for title, body in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.M | re.S):
        links = re.findall(r"^- \[(.+?)\]\((.+?)\)", body, re.M)
        pages = [{label.strip("`"): _inside(target)} for label, target in links]
        if title == "API":
            pages.append({"Modules": f"{MODULES}/README.md"})
            pages += [{name: _page_of(name)} for name in modules()]
        if title == "Examples":
            pages += [{path.stem: f"examples/{path.stem}.md"} for path in examples()]
        if pages:
            nav.append({title: pages})
    config.nav = nav
    return config


def _inside(target: str) -> str:
    return target.removeprefix("../") if target.startswith("../examples") else target


# -- pages that are made --------------------------------------------------------------------------


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages of modules and of examples."""
    made = {_page_of(name): module_page(name) for name in modules()}
    made[f"{MODULES}/README.md"] = modules_page()
    made["examples/README.md"] = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    made |= {f"examples/{path.stem}.md": example_page(path) for path in examples()}
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **others: Any) -> str:
    """Links to examples lead to their pages."""
    here = posixpath.dirname(page.file.src_uri)

    def link(match: re.Match[str]) -> str:
        target = posixpath.relpath(f"examples/{match[1]}", here or ".")
        return f"]({re.sub(r'[.]py$', '.md', target)})"

    text = re.sub(r"\]\((?:\.\./)+examples/([^)]*)\)", link, markdown)
    if here == "examples":
        text = re.sub(r"\]\((\w+)\.py\)", r"](\1.md)", text)
    return text


def examples() -> list[Path]:
    """The programs of examples/."""
    return sorted((ROOT / "examples").glob("*.py"))


def example_page(path: Path) -> str:
    """What a program says of itself, and its text."""
    text = path.read_text(encoding="utf-8")
    doc = ast.get_docstring(ast.parse(text)) or ""
    first, _, rest = doc.partition("\n")
    return f"# {path.stem}\n\n{first}\n\n{_prose(rest)}\n\n```python\n{text}```\n"


# -- modules --------------------------------------------------------------------------------------


def modules() -> list[str]:
    """The public modules, without those that only exist for a platform or to be run."""
    import rushlight

    found = [m.name for m in pkgutil.walk_packages(rushlight.__path__, "rushlight.")]
    public = [name for name in found if "._" not in name and not name.endswith("__main__")]
    return sorted(name for name in ["rushlight", *public] if any(members(name)))


def _page_of(name: str) -> str:
    return f"{MODULES}/{name}.md"


def members(name: str) -> Iterator[tuple[str, Any]]:
    """The classes and functions that a module offers, other than the registry's operations.

    What a package offers stands on its page, wherever below it is defined, and only there.
    """
    import rushlight

    module = importlib.import_module(name)
    parent = importlib.import_module(name.rpartition(".")[0] or name)
    for each in sorted(getattr(module, "__all__", None) or dir(module)):
        value = getattr(module, each, None)
        home = getattr(value, "__module__", None) or ""
        ours = home == name or home.startswith(("rushlight._", f"{name}."))
        above = parent is not module and vars(parent).get(each) is value
        is_op = isinstance(value, type(rushlight.relu))
        if each[0] != "_" and callable(value) and ours and not above and not is_op:
            yield each, value


def modules_page() -> str:
    """Every module with the first line of its docstring."""
    rows = []
    for name in modules():
        first = (importlib.import_module(name).__doc__ or "").strip().partition("\n")[0]
        rows.append(f"- [`{name}`]({name}.md): {_prose(first)}")
    return "# Modules\n\nMade from the docstrings of the package.\n\n" + "\n".join(rows) + "\n"


def module_page(name: str) -> str:
    """A module's docstring, then its classes and functions with theirs."""
    parts = [f"# {name}\n", _prose(inspect.getdoc(importlib.import_module(name)) or "")]
    for each, value in members(name):
        parts.append(f"## {each}\n\n```text\n{_signature(each, value)}\n```\n")
        parts.append(_prose(inspect.getdoc(value) or ""))
        if inspect.isclass(value):
            parts += _methods(value)
    return "\n\n".join(parts) + "\n"


def _methods(kind: type) -> list[str]:
    """What a class defines itself, one line each."""
    rows = []
    for name, value in vars(kind).items():
        function = getattr(value, "__func__", value)
        is_property = isinstance(value, property)
        if name.startswith("_") or not (inspect.isfunction(function) or is_property):
            continue
        first = (inspect.getdoc(getattr(kind, name)) or "").partition("\n")[0]
        shown = name if is_property else " ".join(_signature(name, function).split())
        rows.append(f"- `{shown}`: {_prose(first)}" if first else f"- `{shown}`")
    return ["\n".join(rows)] if rows else []


def _signature(name: str, value: Any) -> str:
    """As it is called; one parameter in a line where it is long."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return f"{name}(...)"
    if inspect.isclass(value):
        found = found.replace(return_annotation=found.empty)
    text = _plain(f"{name}{found}")
    if len(text) <= 88:
        return text
    result = text.rpartition(") -> ")[2] if ") -> " in text else ""
    rows: list[str] = []
    kind = None
    for parameter in found.parameters.values():
        starred = kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            rows.append("*")
        kind = parameter.kind
        rows.append(_plain(str(parameter)))
    lines = "".join(f"    {row},\n" for row in rows)
    return f"{name}(\n{lines})" + (f" -> {result}" if result else "")


def _plain(text: str) -> str:
    """Without the quotes of annotations, addresses and the package's own name."""
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)
    return re.sub(r" at 0x[0-9a-f]+", "", text).replace("rushlight.", "")


def _prose(text: str) -> str:
    """A docstring as Markdown: examples in blocks, names in one pair of backquotes."""
    lines: list[str] = []
    shown = False
    for line in text.strip().splitlines():
        if line.lstrip().startswith(">>>") and not shown:
            shown = True
            lines += ["", "```pycon"]
        elif shown and not line.strip():
            shown = False
            lines += ["```", ""]
        if shown:
            lines.append(line)
        else:
            lines.append(re.sub(r"<(?=[\w/])", "&lt;", line.replace("``", "`")))
    return "\n".join([*lines, "```"] if shown else lines)
