"""Random programs as text: how they run on both libraries in step, and how they are printed.

A program is a list of statements over variables `v0, v1, ...` and constants `c0, c1, ...`. Each
runs on PyTorch, then on rushlight, and what it made and touched is compared before the next one.
An exception does not end a program: its class is part of what is compared.
"""

import ast
import copy
import pathlib
import pickle
import re
import warnings

import numpy as np
import torch

import rushlight
from oracle.fuzz.allowed import allowance, excuse, stops
from oracle.fuzz.compare import TOLERANCES, Difference, Fact, account, coarsest, difference

LIBRARIES = {"torch": torch, "rushlight": rushlight}
VARIABLE = re.compile(r"\bv\d+\b")


def names_in(tree):
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}


class Definitions:
    """The parts of definitions.py: all of them to run, those that a program needs to print."""

    def __init__(self):
        text = pathlib.Path(__file__).with_name("definitions.py").read_text()
        tree = ast.parse(text)
        tree.body = [n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))]
        self.code = compile(tree, "<definitions>", "exec")
        self.parts = {n.name: ast.get_source_segment(text, n) for n in tree.body}
        self.needs = {n.name: names_in(n) for n in tree.body}

    def used_by(self, names):
        """The texts of these definitions and of those that they use, and all names in them."""
        names = set(names)
        for name in reversed(self.parts):
            if name in names:
                names |= self.needs[name]
        return [text for name, text in self.parts.items() if name in names], names


DEFINITIONS = Definitions()
SLOWLY = {"vmap": "looped", "jacrev": "jacobian", "jacfwd": "jacobian", "hessian": "hessian"}
ALIASES = {
    "copy": "import copy",
    "pickle": "import pickle",
    "F": "import torch.nn.functional as F",
    "fwAD": "import torch.autograd.forward_ad as fwAD",
    "checkpoint": "from torch.utils.checkpoint import checkpoint",
    "log": "log = []",
}


def namespace(library, constants):
    """The names of one run on one library."""
    names = {
        "torch": library,
        "F": library.nn.functional,
        "fwAD": library.autograd.forward_ad,
        "checkpoint": library.utils.checkpoint.checkpoint,
        "copy": copy,
        "pickle": pickle,
        "log": [],
        **constants,
    }
    exec(DEFINITIONS.code, names)
    return names


class Statement:
    """One line or block."""

    def __init__(self, text):
        self.text = text
        tree = ast.parse(text)
        self.code = compile(tree, "<program>", "exec")
        self.names = names_in(tree)
        self.variables = sorted(n for n in self.names if VARIABLE.fullmatch(n))
        stored = [n for n in ast.walk(tree) if isinstance(n, ast.Name)]
        self.defines = {n.id for n in stored if isinstance(n.ctx, ast.Store)}


def literal(array):
    text = repr(array.tolist())
    text = re.sub(r"\bnan\b", 'float("nan")', text)
    return re.sub(r"\binf\b", 'float("inf")', text)


class Program:
    """The statements of a program, with its constants (arrays, by name)."""

    def __init__(self, statements=(), constants=None):
        self.statements = list(statements)
        self.constants = constants or {}

    def source(self, raising=(), shown=()):
        """The program as Python text; with `import rushlight as torch` it runs on rushlight."""
        used = set().union(*(s.names for s in self.statements))
        parts, used = DEFINITIONS.used_by(used)
        lines = ["import torch  # or: import rushlight as torch"]
        lines += [text for name, text in ALIASES.items() if name in used]
        lines += ["", *(f"\n{text}\n" for text in parts)]
        lines += [f"{n} = {literal(a)}" for n, a in self.constants.items() if n in used]
        for number, statement in enumerate(self.statements):
            if number in raising:
                block = statement.text.replace("\n", "\n    ")
                lines += ["try:", f"    {block}", "except Exception as error:"]
                lines += ["    print(repr(error))"]
            else:
                lines.append(statement.text)
        lines += [f"print({name})" for name in shown]
        return "\n".join(lines) + "\n"


class Session:
    """One program while it runs on both libraries."""

    def __init__(self, constants=None, before=None):
        self.program = Program(constants=constants)
        self.before = before
        self.spaces = {n: namespace(L, self.program.constants) for n, L in LIBRARIES.items()}
        self.versions = {name: {} for name in LIBRARIES}
        # What was computed from narrow numbers stays as coarse, whatever holds it.
        self.tolerance = 0.0
        self.ended = None
        self.raising = []

    def constant(self, array):
        """The name of a new constant."""
        name = f"c{len(self.program.constants)}"
        self.program.constants[name] = array
        for space in self.spaces.values():
            space[name] = array
        return name

    def run(self, statement):
        """Run one statement on both: whether it succeeded. A Difference if they disagree."""
        self.program.statements.append(statement)
        if "autocast" in statement.text:
            self.tolerance = TOLERANCES["bfloat16"]
        errors = {}
        for name, space in self.spaces.items():
            if self.before:
                self.before(self.program, name)
            errors[name] = attempt(statement, space)
        theirs, ours = errors["torch"], errors["rushlight"]
        if theirs is None and ours is None:
            self.compare(statement.variables)
            self.count_writes(statement)
            return True
        self.raising.append(len(self.program.statements) - 1)
        if ours is None or theirs is None or not same_class(ours, theirs):
            self.ended = allowance(self.program, ours, theirs, self.spaces)
            if self.ended is None and ours is None:
                self.ended = self.second_opinion()
            if self.ended is None:
                raise Difference("error", f"{shown(theirs)} → {shown(ours)}", statement.text)
        else:
            self.ended = stops(statement, theirs)
        return False

    def compare(self, names):
        for name in names:
            try:
                theirs = account(self.spaces["torch"].get(name), torch)
            except RuntimeError as error:
                # Parts of a tensor that was written to cannot even be looked at.
                if "modified inplace" not in str(error):
                    raise
                self.ended = "parts of tensors that are written"
                return
            ours = account(self.spaces["rushlight"].get(name), rushlight)
            self.tolerance = max(self.tolerance, coarsest(theirs))
            self.judge(difference(theirs, ours, self.tolerance), name)
            if self.ended:
                return

    def judge(self, fact, name):
        if fact:
            self.ended = excuse(fact, self.program, self.spaces) or self.second_opinion()
            if self.ended is None:
                last = self.program.statements[-1].text
                raise Difference(fact.name, f"{name}: {fact.text}", last, name)

    def second_opinion(self):
        """PyTorch's vmap and what is made of it fail here and there: where a loop over slices says
        what rushlight says, the reason; else None."""
        statement, text = self.program.statements[-1], self.program.statements[-1].text
        for name, other in SLOWLY.items():
            text = text.replace(f"torch.func.{name}(", f"{other}(")
        space = dict(self.spaces["torch"])
        if text == statement.text or attempt(Statement(text), space):
            return None
        for name in statement.defines:
            theirs = account(space[name], torch, with_grad=False)
            ours = account(self.spaces["rushlight"][name], rushlight, with_grad=False)
            fact = difference(theirs, ours, self.tolerance)
            if fact and fact.name in ("kind", "length", "shape", "dtype", "value"):
                return None
        return "PyTorch's vmap"

    def count_writes(self, statement):
        """Versions of variables may begin anywhere; writes move them alike."""
        moves = []
        for name, first in self.versions.items():
            space = self.spaces[name]
            found = {n: version(space.get(n), LIBRARIES[name]) for n in statement.variables}
            first.update({n: found[n] for n in found if n in statement.defines or n not in first})
            moves.append({n: found[n] - first[n] for n in found})
        for name, theirs in moves[0].items():
            ours = moves[1][name]
            if theirs != ours:
                text = f"_version moved by {theirs} → {ours}"
                self.judge(Fact("version", text, theirs, ours), name)

    def finish(self):
        """Compare all that is left: every variable, and what hooks saw."""
        if self.ended is None:
            names = self.spaces["torch"]
            self.compare([*(n for n in names if VARIABLE.fullmatch(n)), "log"])


def version(value, library):
    counted = isinstance(value, library.Tensor) and not value.is_inference()
    return value._version if counted else 0


def attempt(statement, space):
    """The exception of a statement, or None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(statement.code, space)
        except Exception as error:
            return error.with_traceback(None)
    return None


def same_class(ours, theirs):
    return type(theirs).__name__ in [c.__name__ for c in type(ours).__mro__]


def shown(error):
    if error is None:
        return "no error"
    return f"{type(error).__name__}({' '.join(str(error).split())[:200]})"


def replay(program, before=None):
    """Run a whole program: the session, and the Difference that ended it, if one did."""
    session = Session(dict(program.constants), before)
    try:
        for statement in program.statements:
            session.run(statement)
            if session.ended:
                return session, None
        session.finish()
    except Difference as found:
        return session, found
    return session, None


def nudged(program, scale, seed):
    """The constants of a program, the floating point ones moved by a few last places."""
    random = np.random.default_rng(seed)
    return {
        name: array * (1 + scale * np.finfo(array.dtype).eps * random.uniform(-1, 1, array.shape))
        if array.dtype.kind in "fc"
        else array
        for name, array in program.constants.items()
    }


def is_unstable(program, name, tolerance, attempts=4):
    """Whether PyTorch's own answer for `name` moves as much when its inputs move by rounding."""
    accounts = []
    for seed in range(attempts):
        scale = 0.0 if seed == 0 else 4 * 8.0**seed
        space = namespace(torch, nudged(program, scale, seed))
        for statement in program.statements:
            attempt(statement, space)
        accounts.append(account(space.get(name), torch))
    return any(difference(accounts[0], other, tolerance) for other in accounts[1:])
