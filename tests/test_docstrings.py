"""Everything public says what it is, and what one calls shows how."""

import importlib
import inspect

import pytest

import rushlight
from rushlight import _C
from rushlight._examples import EXAMPLES

# Where each class or function is something that a program calls, so an example is of use.
SHOWN = [
    "amp",
    "autograd.functional",
    "nn",
    "nn.init",
    "nn.utils",
    "nn.utils.parametrizations",
    "nn.utils.parametrize",
    "nn.utils.rnn",
    "optim",
    "optim.lr_scheduler",
    "optim.swa_utils",
    "safetensors",
    "utils.data",
]
OTHERS = ["autograd", "autograd.profiler", "compiler", "cpu", "cuda", "func", "jit"]
OTHERS += [
    "nn.functional",
    "overrides",
    "profiler",
    "random",
    "serialization",
    "testing",
    "utils.checkpoint",
]


def public_names(name):
    """The classes and functions of rushlight that a module offers."""
    module = importlib.import_module(f"rushlight.{name}")
    for each in getattr(module, "__all__", None) or dir(module):
        value = getattr(module, each)
        known = inspect.isclass(value) or callable(value)
        ours = (getattr(value, "__module__", None) or "").startswith("rushlight")
        if not each.startswith("_") and known and ours:
            yield each, value


def own_docstring(value):
    """Not the one of a base class."""
    return value.__dict__.get("__doc__") if inspect.isclass(value) else inspect.getdoc(value)


@pytest.mark.parametrize("name", SHOWN + OTHERS)
def test_public_names_have_a_docstring(name):
    assert importlib.import_module(f"rushlight.{name}").__doc__
    assert [each for each, value in public_names(name) if not own_docstring(value)] == []


def methods_without_a_docstring(kind):
    """Public methods and properties that a class defines and nobody describes."""
    for name, value in vars(kind).items():
        function = getattr(value, "fget", None) or getattr(value, "__func__", value)
        described = any(getattr(getattr(base, name, None), "__doc__", 0) for base in kind.__mro__)
        if inspect.isfunction(function) and not name.startswith("_") and not described:
            yield f"{kind.__name__}.{name}"


@pytest.mark.parametrize("name", SHOWN + OTHERS)
def test_public_methods_have_a_docstring(name):
    kinds = [value for _, value in public_names(name) if inspect.isclass(value)]
    assert [text for kind in kinds for text in methods_without_a_docstring(kind)] == []


@pytest.mark.parametrize("name", SHOWN)
def test_what_programs_call_has_an_example(name):
    texts = {each: own_docstring(value) or "" for each, value in public_names(name)}
    wanted = {each: text for each, text in texts.items() if not text.startswith("Deprecated")}
    assert [each for each, text in wanted.items() if ">>>" not in text] == []


def test_every_op_has_an_example():
    """In src/rushlight/_examples, in the file named after the op's file in csrc/ops."""
    spaces = {(op["namespace"], op["name"]) for op in _C._registry()}
    names = {f"{space}.{name}" if space else name for space, name in spaces if name[0] != "_"}
    assert names == set(EXAMPLES)


def test_examples_stand_in_the_docstring():
    assert ">>> F.relu(" in rushlight.nn.functional.relu_.__doc__


def test_every_attribute_of_tensor_has_an_example():
    names = [name for name in dir(rushlight.Tensor) if not name.startswith("_")]
    texts = {name: getattr(rushlight.Tensor, name).__doc__ or "" for name in names}
    assert ">>>" in rushlight.Tensor.__doc__
    assert [name for name, text in texts.items() if ">>>" not in text] == []
