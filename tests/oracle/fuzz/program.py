"""Random programs as text: how they run on both libraries in step, and how they are printed.

A program is a list of statements over variables `v0, v1, ...` and constants `c0, c1, ...`. Each
runs on PyTorch, then on rushlight, and what it made and touched is compared before the next one.
An exception does not end a program: its class is part of what is compared.
"""

import ast
import contextlib
import copy
import pathlib
import pickle
import re
import warnings

import numpy as np
import torch

import rushlight
from oracle.fuzz.allowed import allowance, ends, excuse, stops
from oracle.fuzz.cases import Case
from oracle.fuzz.compare import (
    PRECISIONS,
    TOLERANCES,
    Difference,
    Fact,
    account,
    coarsest,
    difference,
)

LIBRARIES = {"torch": torch, "rushlight": rushlight}
unseen = rushlight.autograd.grad_mode._unsafe_preserve_version_counter
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
SELECTS = re.compile("Am(ax|in)Backward")
LIFTED = r"modified by an inplace operation|a second time"
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

    def sources(self):
        """The last statement and those that its variables come from."""
        names, found, before = set(self.statements[-1].variables), [], None
        while before != len(found):
            before, found = len(found), [self.statements[-1]]
            for number, statement in reversed(list(enumerate(self.statements[:-1]))):
                # A write counts if it may have been to something made of these names before.
                changed = statement.defines or set(statement.variables)
                kin = names if statement.defines else self.made_of(names, number)
                if changed & kin:
                    found.append(statement)
                    names |= set(statement.variables)
        return found

    def made_of(self, names, number):
        """These names and those that statements before this one made of them."""
        names = set(names)
        for statement in self.statements[:number]:
            if names & set(statement.variables):
                names |= statement.defines
        return names

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
        # What was computed from narrow numbers is as coarse, whatever holds it.
        self.tolerance, self.tolerances = 0.0, {}
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
        errors = {}
        for name, space in self.spaces.items():
            errors[name] = self.attempt(statement, name, space)
        theirs, ours = errors["torch"], errors["rushlight"]
        self.measure()
        if theirs is None and ours is None:
            self.compare()
            self.count_writes(statement)
            self.ended = self.ended or ends(statement, self.spaces)
            return True
        self.raising.append(len(self.program.statements) - 1)
        if ours is None or theirs is None or not same_class(ours, theirs):
            self.ended = allowance(self.program, ours, theirs, self.spaces)
            if ours is None:
                opinion = self.second_opinion()
                if opinion is not None:
                    self.ended = "PyTorch's vmap" if opinion else None
                if re.search(LIFTED, str(theirs)):
                    self.compare_lifted()
            if self.ended is None:
                raise Difference("error", f"{shown(theirs)} → {shown(ours)}", statement.text)
        else:
            self.ended = stops(statement, theirs)
            if not self.ended:
                self.compare()
        return False

    def attempt(self, statement, library, space):
        """Its exception, or None. A crash is that library's."""
        if self.before:
            self.before(self.program, library)
        return attempt(statement, space)

    def measure(self):
        """The tolerance of what the last statement made or wrote."""
        sources = self.program.sources()
        names = {name for source in sources for name in source.variables}
        autocast = any("autocast" in source.text for source in sources)
        least = [TOLERANCES["bfloat16"]] if autocast else [0.0]
        self.tolerance = max(least + [coarsest(self.spaces["torch"].get(name)) for name in names])
        for name in {*names, "log"}:
            self.tolerances[name] = max(self.tolerance, self.tolerances.get(name, 0.0))

    def compare(self):
        """Every variable, and what hooks saw: a difference shows at the statement that made it."""
        names = [n for n in self.spaces["torch"] if VARIABLE.fullmatch(n)]
        for name in [*names, "log"]:
            try:
                theirs = account(self.spaces["torch"][name], torch)
            except RuntimeError as error:
                # Parts of a tensor that was written to cannot even be looked at.
                if not re.search("modified inplace|must have a last dimension", str(error)):
                    raise
                continue
            ours = account(self.spaces["rushlight"].get(name), rushlight)
            tolerance = max(self.tolerance, self.tolerances.get(name, 0.0))
            self.judge(difference(theirs, ours, tolerance), name)
            if self.ended:
                return
            settle(theirs, ours)

    def judge(self, fact, name):
        if fact:
            self.ended = excuse(Case(fact, name, self.program, self.spaces))
            if self.ended is None and self.second_opinion():
                self.ended = "PyTorch's vmap"
            if self.ended is None:
                last = self.program.statements[-1].text
                raise Difference(fact.name, f"{name}: {fact.text}", last, name)

    def second_opinion(self):
        """PyTorch's vmap and what is made of it fail here and there: whether a loop over slices
        says what rushlight says; None where it says nothing."""
        statement, text = self.program.statements[-1], self.program.statements[-1].text
        for name, other in SLOWLY.items():
            text = text.replace(f"torch.func.{name}(", f"{other}(")
        space = dict(self.spaces["torch"])
        if text == statement.text or self.attempt(Statement(text), "torch", space):
            return None
        for name in statement.defines:
            theirs = account(space[name], torch, with_grad=False)
            ours = account(self.spaces["rushlight"][name], rushlight, with_grad=False)
            fact = difference(theirs, ours, self.tolerance)
            if not fact or excuse(Case(fact, name, self.program, self.spaces)):
                continue
            if fact.name in ("kind", "length", "shape", "dtype", "value"):
                return False
        return True

    def compare_lifted(self):
        """Where PyTorch refuses to derive what was overwritten or freed: what it says if writes
        copy what was saved before, and nothing is freed."""
        # It does not copy what these save, or not before a part of it is written.
        if any(
            re.search(
                r"(?m)max_pool|lu(_solve)?\(|ormqr|dual|copysign|^\s*v\d+\[.*\] \S?= ", s.text
            )
            for s in self.program.sources()
        ):
            return
        if any("pinv" in s.text for s in self.program.statements):  # wrong there in this mode
            return
        space = namespace(torch, self.program.constants)
        with torch.autograd.graph.allow_mutation_on_saved_tensors():
            for statement in self.program.statements:
                text = re.sub(
                    r"backward\((?!.*_graph=)", "backward(retain_graph=True, ", statement.text
                )
                error = self.attempt(Statement(text), "torch", space)
                if "saved tensor hooks" in str(error):  # PyTorch's transforms refuse this mode
                    return
        if error:
            return
        names = [n for n in self.spaces["torch"] if VARIABLE.fullmatch(n) and n in space]
        for name in names:
            with contextlib.suppress(RuntimeError):  # what cannot be looked at
                theirs = account(space[name], torch)
                ours = account(self.spaces["rushlight"].get(name), rushlight)
                fact = difference(theirs, ours, self.tolerance)
                if fact and fact.name in ("kind", "shape", "value"):
                    last = self.program.statements[-1].text
                    raise Difference(fact.name, f"lifted: {name}: {fact.text}", last, name)

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


def selects(node):
    """Whether a node, or the one that it shows the result of, selects elements."""
    while node and re.match("Alias|View|.*Reshape|Squeeze|Unsqueeze", node.name()):
        node = node.next_functions[0][0]
    return bool(node and SELECTS.match(node.name()))


def settle(theirs, ours):
    """Give rushlight's tensors PyTorch's last bits: what follows may compare or round them."""
    if isinstance(theirs, list):
        for pair in zip(theirs, ours, strict=True):
            settle(*pair)
    elif isinstance(theirs, dict) and "tensor" in theirs:
        if not np.array_equal(theirs["value"], ours["value"], equal_nan=True):
            tensor = ours["tensor"]
            if selects(tensor.grad_fn):
                return  # its derivative looks for it among what it was selected from
            kept = [] if tensor.is_inference() else [tensor]
            with contextlib.suppress(RuntimeError), rushlight.inference_mode(), unseen(kept):
                tensor.detach().copy_(rushlight.tensor(theirs["value"]))
        settle(theirs.get("grad"), ours.get("grad"))


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
    except Difference as found:
        return session, found
    return session, None


def nudged(program, amount, seed):
    """The constants of a program, the floating point ones moved by a part of themselves."""
    random = np.random.default_rng(seed)
    return {
        name: array * (1 + amount * random.uniform(-1, 1, array.shape))
        if array.dtype.kind in "fc"
        else array
        for name, array in program.constants.items()
    }


def is_unstable(program, name, tolerance, attempts=10):
    """Whether PyTorch's own answer for `name` moves as much when its inputs move by rounding."""
    accounts = []
    step = max(PRECISIONS[dtype] for dtype, t in TOLERANCES.items() if t <= max(tolerance, 2e-7))
    for seed in range(attempts):
        amount = min(4 * 8.0 ** (1 + seed % 3) * step, 2.0**-6) if seed else 0.0
        space = namespace(torch, nudged(program, amount, seed))
        for statement in program.statements:
            attempt(statement, space)
        accounts.append(account(space.get(name), torch))
    return any(difference(accounts[0], other, tolerance) for other in accounts[1:])
