"""Run one program on rushlight and on PyTorch, and compare what comes out."""

import ast
import contextlib
import gc
import pickle
import re
import threading
import warnings
import weakref

import numpy as np
import torch

import rushlight

LIBRARIES = (rushlight, torch)
# Ops whose results say that they do not require grad in PyTorch, which has no derivative of them.
WITHOUT_DERIVATIVE = re.compile(
    r"special\.((spherical_|(scaled_)?modified_)?bessel_|airy_ai"
    r"|(shifted_)?\w+_polynomial_)"
)


def derived_here_alone(name):
    return WITHOUT_DERIVATIVE.match(name) is not None


def to_numpy(t):
    """The values of a tensor of either library."""
    t = t.detach()
    if str(t.dtype) in ("torch.bfloat16", "torch.float16"):
        t = t.float()
    return np.array(t.contiguous().numpy())


def from_numpy(library, array, requires_grad=False):
    """A tensor of the library that shares nothing with the array."""
    t = library.from_numpy(np.array(array))
    return t.requires_grad_() if requires_grad else t


class Outcome:
    """What a program did: its described value, or the exception that ended it."""

    def __init__(self, value=None, error=None):
        self.value = value
        self.error = error

    def __repr__(self):
        if self.error is not None:
            return f"{type(self.error).__name__}: {str(self.error)[:300]}"
        return repr(self.value)


def run(program, library):
    """The outcome of program(library)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return Outcome(value=describe(program(library), library))
        except Exception as error:
            return Outcome(error=error)


def describe(value, library):
    """A comparable account of a value: tensors become tuples of their visible facts."""
    if isinstance(value, library.Tensor):
        flags = (value.requires_grad, value.is_leaf)
        return ("tensor", str(value.dtype), tuple(value.shape), flags, to_numpy(value))
    if isinstance(value, dict):
        return {k: describe(v, library) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        kind = "list" if isinstance(value, list) else "tuple"
        return (kind, [describe(v, library) for v in value])
    if isinstance(value, np.ndarray):
        return ("array", str(value.dtype), value.shape, value)
    if isinstance(value, (int, float, complex, str, bytes, bool, type(None))):
        return value
    return str(value)


def same(a, b, rtol=1e-6, atol=1e-8):
    """Whether two descriptions agree; numbers to a tolerance, everything else exactly."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.dtype.kind in "fc":
            return a.shape == b.shape and np.allclose(a, b, rtol, atol, equal_nan=True)
        return a.shape == b.shape and bool(np.array_equal(a, b))
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        pairs = zip(a, b, strict=False)
        return len(a) == len(b) and all(same(x, y, rtol, atol) for x, y in pairs)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k], rtol, atol) for k in a)
    if isinstance(a, float) and isinstance(b, float):
        return bool(np.isclose(a, b, rtol, atol, equal_nan=True))
    return type(a) is type(b) and a == b


def assert_same_outcome(program, rtol=1e-6, atol=1e-8):
    """Assert that both libraries return equal values or raise the same class of exception."""
    ours, theirs = (run(program, library) for library in LIBRARIES)
    if theirs.error is not None:
        classes = [c.__name__ for c in type(ours.error).__mro__]
        assert type(theirs.error).__name__ in classes, f"rushlight: {ours!r}\ntorch: {theirs!r}"
    elif ours.error is not None:
        message = f"rushlight: {ours!r}\ntorch: {theirs!r}"
        raise AssertionError(message) from ours.error
    else:
        equal = same(ours.value, theirs.value, rtol, atol)
        assert equal, f"rushlight: {ours!r}\ntorch: {theirs!r}"


def snippet_names(library):
    """The names that a snippet may use beside builtins."""

    def leaf(data, dtype="float64"):
        return library.tensor(data, dtype=getattr(library, dtype), requires_grad=True)

    def seq(*shape, dtype="float64"):
        count = int(np.prod(shape))
        values = (np.arange(count) * 7 % 11 - 4) / 4 + 0.1
        return library.tensor(values.reshape(shape), dtype=getattr(library, dtype))

    def var(*shape):
        return seq(*shape).requires_grad_()

    def in_thread(f):
        out = []
        thread = threading.Thread(target=lambda: out.append(f()))
        thread.start()
        thread.join()
        return out[0]

    def named(node):
        return None if node is None else type(node).__name__

    def quietly_grad(t):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return t.grad

    return {
        "torch": library,
        "F": library.nn.functional,
        "Function": library.autograd.Function,
        "grad": library.autograd.grad,
        "np": np,
        "gc": gc,
        "pickle": pickle,
        "weakref": weakref,
        "contextlib": contextlib,
        "leaf": leaf,
        "seq": seq,
        "var": var,
        "in_thread": in_thread,
        "named": named,
        "quietly_grad": quietly_grad,
    }


def snippet_program(source):
    """A program that runs the text and returns the value of its last line, if it has one."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else ast.parse("None").body[0]
    body = compile(tree, "<snippet>", "exec")
    result = compile(ast.Expression(last.value), "<snippet>", "eval")

    def program(library):
        names = snippet_names(library)
        exec(body, names)
        return eval(result, names)

    return program


def read_snippets(path):
    """The blocks of a snippet file: separated by blank lines; a block may be commented."""
    blocks = path.read_text().strip().split("\n\n")
    return [b for b in blocks if not all(line.startswith("#") for line in b.splitlines())]
