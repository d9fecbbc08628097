"""Everything public says what it is, and what one calls shows how."""

import doctest
import enum
import functools
import importlib
import inspect
import pkgutil

import pytest

import rushlight
from rushlight import _C
from rushlight._examples import EXAMPLES

MODULES = ["rushlight"]
MODULES += [
    found.name
    for found in pkgutil.walk_packages(rushlight.__path__, "rushlight.")
    if "._" not in found.name
]


def public_names(name):
    """The classes and functions of rushlight that a module offers."""
    module = importlib.import_module(name)
    for each in getattr(module, "__all__", None) or dir(module):
        value = getattr(module, each)
        ours = (getattr(value, "__module__", None) or "").startswith("rushlight")
        if not each.startswith("_") and callable(value) and ours:
            yield each, value


def own_docstring(value):
    """Not the one of a base class."""
    return value.__dict__.get("__doc__") if inspect.isclass(value) else inspect.getdoc(value)


def is_result(value):
    """Whether programs get it rather than call it: an error, a constant, a named tuple."""
    kinds = (BaseException, enum.Enum)
    return inspect.isclass(value) and (issubclass(value, kinds) or hasattr(value, "_fields"))


@pytest.mark.parametrize("name", MODULES)
def test_public_names_have_a_docstring(name):
    assert importlib.import_module(name).__doc__
    assert [each for each, value in public_names(name) if not own_docstring(value)] == []


def methods_without_a_docstring(kind):
    """Public methods and properties that a class defines and nobody describes."""
    for name, value in vars(kind).items():
        function = getattr(value, "fget", None) or getattr(value, "__func__", value)
        described = any(getattr(getattr(base, name, None), "__doc__", 0) for base in kind.__mro__)
        if inspect.isfunction(function) and not name.startswith("_") and not described:
            yield f"{kind.__name__}.{name}"


@pytest.mark.parametrize("name", MODULES)
def test_public_methods_have_a_docstring(name):
    kinds = [value for _, value in public_names(name) if inspect.isclass(value)]
    assert [text for kind in kinds for text in methods_without_a_docstring(kind)] == []


@pytest.mark.parametrize("name", MODULES)
def test_what_programs_call_has_an_example(name):
    texts = {each: own_docstring(v) or "" for each, v in public_names(name) if not is_result(v)}
    wanted = {each: text for each, text in texts.items() if not text.startswith("Deprecated")}
    assert [each for each, text in wanted.items() if ">>>" not in text] == []


@functools.cache
def run_in(name):
    """The docstrings that tests/test_docs.py runs for a module."""
    module = importlib.import_module(name)
    return {inspect.cleandoc(found.docstring) for found in doctest.DocTestFinder().find(module)}


@pytest.mark.parametrize("name", MODULES)
def test_examples_run_with_the_module_they_are_from(name):
    """Also of functions that a helper has made, and of those in C++."""
    texts = {each: (v.__module__, own_docstring(v) or "") for each, v in public_names(name)}
    shown = {each: text for each, text in texts.items() if ">>>" in text[1]}
    assert [
        e for e, (home, text) in shown.items() if inspect.cleandoc(text) not in run_in(home)
    ] == []


def test_every_op_has_an_example():
    """In src/rushlight/_examples, in the file named after the op's file in csrc/ops."""
    seen = {(op["namespace"], op["name"]) for op in _C._registry() if op["forms"]}
    names = {f"{space}.{name}" if space else name for space, name in seen if name[0] != "_"}
    assert names == set(EXAMPLES)


def test_examples_stand_in_the_docstring():
    assert ">>> F.relu(" in rushlight.nn.functional.relu_.__doc__


def test_every_attribute_of_tensor_has_an_example():
    names = [name for name in dir(rushlight.Tensor) if not name.startswith("_")]
    texts = {name: getattr(rushlight.Tensor, name).__doc__ or "" for name in names}
    assert ">>>" in rushlight.Tensor.__doc__
    assert [name for name, text in texts.items() if ">>>" not in text] == []
