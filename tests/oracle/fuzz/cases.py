"""A difference as the tests of allowed.py see it, and these tests."""

import re
from typing import NamedTuple

import numpy as np

from oracle.fuzz.compare import (
    PRECISIONS,
    TOLERANCES,
    Fact,
    account,
    difference,
    numbers,
    readable,
    unlike,
)

NORMS = r"(batch|instance|layer|group)_norm"
# PyTorch's derivatives that differences contradict, or that leave a result out, by order.
WRONG = [
    (NORMS + "|logcumsumexp", 3),
    (r"det\(|householder_product|orgqr|matrix_exp", 2),
    (r"(jvp|dual|jacfwd|hessian)[^\n]*linalg\.(tensor)?solve(_ex)?\(", 2),
    (r"linalg\.(solve|inv)(_ex)?\(", 3),
    (r"special\.i1e?\(", 2),
    (r"cholesky_(inverse|solve)|lstsq|triangular_solve", 1),
]
# The results of one node there, each of which has gradients by all arguments.
ONE_NODE = r"(triangular_solve|lu_unpack|lstsq|linalg\.lu)\("
NAN_THERE = r"norm|dist|eigvalsh|poisson_nll_loss|triplet|sinc|std|logcumsumexp|prod|pow|atan2"


def is_empty(value):
    return hasattr(type(value), "numel") and value.numel() == 0


def is_deficient(value):
    """A matrix that has its full rank by rounding alone, if at all."""
    if not hasattr(type(value), "numel") or is_empty(value) or value.ndim < 2:
        return False
    array, dtype = numbers(value)
    if dtype not in PRECISIONS or not np.isfinite(array).all():
        return False
    return bool((np.linalg.cond(array) > 0.1 / PRECISIONS[dtype]).any())


def is_nothing(value):
    """No gradient, or zero."""
    if isinstance(value, (tuple, list)):
        return all(map(is_nothing, value))
    return value is None or (hasattr(value, "count_nonzero") and not value.count_nonzero())


class Case(NamedTuple):
    """A difference in one fact about a variable, after the last statement of a program."""

    fact: Fact
    name: str
    program: object
    spaces: dict

    def values(self):
        return self.fact.theirs["value"], self.fact.ours["value"]

    def used(self):
        """PyTorch's tensors in the last statement."""
        values = map(self.spaces["torch"].get, self.program.statements[-1].variables)
        return [v for v in values if hasattr(v, "numel")]

    def after(self, pattern):
        """Whether a statement that the last one depends on, or the last one, matches."""
        return self.count(pattern) > 0

    def count(self, pattern):
        return sum(re.search(pattern, s.text) is not None for s in self.program.sources())


def is_constant(account, space):
    """Whether a tensor that requires grad has no derivative by any variable of the program."""
    library, tensor = space["torch"], account["tensor"]
    leaves = [t for t in space.values() if isinstance(t, library.Tensor) and readable(t)]
    leaves = [t for t in leaves if t.requires_grad and t.is_leaf and t._base is None]
    with library.enable_grad():
        loss = space["total"](tensor)
    try:
        grads = library.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True)
    except RuntimeError as error:  # of what was overwritten or freed, or has no derivative there
        unknown = r"modified by an inplace|a second time|implemented|of 0 elements"
        return re.search(unknown, str(error)) is not None
    return all(g is None or is_rounding(g) for g in grads)


def is_rounding(gradient):
    """Zero, but for the last digits of numbers near 1, over those near 0.1 (cumprod there)."""
    precision = PRECISIONS[str(gradient.dtype).removeprefix("torch.")]
    return not gradient.numel() or float(gradient.abs().max()) <= 2048 * precision


def constant_derivative(case):
    """A derivative that depends on nothing may require grad or not, as its formula is written."""
    if case.fact.theirs["requires_grad"]:
        return is_constant(case.fact.theirs, case.spaces["torch"])
    return is_constant(case.fact.ours, case.spaces["rushlight"])


def is_zero_gradient(case):
    """The gradient of such a constant is zero in one and missing in the other."""
    given = [a for a in case.fact[2:] if a != "None"]
    zero = len(given) == 1 and isinstance(given[0], dict)
    zero = zero and not (abs(given[0]["value"]) > 1e-14).any()
    first = "autograd.grad(" in case.program.statements[-1].text
    again = case.count(r"func\.|dual|autograd\.|create_graph") > first
    return zero and (again or case.after(ONE_NODE))


def is_beside_out(case):
    """Another variable shows the memory of out=, which itself is equal."""
    return not re.search(rf"out=\(?.*\b{case.name}\b", case.program.statements[-1].text)


def is_call_for_nothing(case):
    """Hooks are called as often, but for gradients that are missing or zero."""

    def calls(accounts):
        zeros = [isinstance(a, dict) and not a["value"].any() for a in accounts]
        return sum(a != "None" and not zero for a, zero in zip(accounts, zeros, strict=True))

    return case.name == "log" and calls(case.fact.theirs) == calls(case.fact.ours)


def is_permuted(case):
    """Hooks see the same, in another order."""
    if case.name != "log":
        return False
    theirs, ours = (account(space["log"], space["torch"]) for space in case.spaces.values())
    for entry in theirs:
        like = [n for n, other in enumerate(ours) if not difference(entry, other, 1e-3)]
        if not like:
            return False
        del ours[like[0]]
    return not ours


def is_integral(case):
    return not any(kind in case.fact.theirs["dtype"] for kind in ("float", "complex"))


def is_missing_there(case):
    return case.fact.theirs == "None"


def is_inference(case):
    return is_missing_there(case) and any(t.is_inference() for t in case.used())


def is_seen_by_node(case):
    """Which gradients of inputs that need none a hook of a node is shown."""
    theirs = case.fact.theirs if isinstance(case.fact.theirs, list) else [case.fact.theirs]
    seen = all(str(part) in ("True", "False") for part in theirs)
    return case.name == "log" and seen and case.after("node_seen")


def is_shared_there(case):
    """PyTorch's gradients of stacked numbers lie in one element, which each backward adds to."""
    return case.values()[0].ndim == 0 and case.after(r"stack\(")


def is_part_of_one_node(case):
    """A hook or the retained gradient of a result, where another result of its node is derived."""
    return (case.name == "log" or ".grad" in case.fact.text) and case.after(ONE_NODE)


def is_hook_of_hidden_view(case):
    """PyTorch's linear gives a view: where a part of it is written, its hooks are left behind."""
    text = "\n".join(source.text for source in case.program.sources())
    made = re.findall(r"(v\d+) = (?:F|torch)\.(?:linear|matmul|bilinear)\(", text)
    return any(
        f"{name}.register_hook(" in text and re.search(rf"(?m)^\s*{name}\[.*\] = ", text)
        for name in made
    )


def is_aliased(case):
    """An argument of the statement lies in the memory of another."""
    memories = [t.untyped_storage().data_ptr() for t in case.used()]
    text = case.program.statements[-1].text
    again = any(text.count(name) > 1 for name in case.program.statements[-1].variables)
    return again or len(set(memories)) < len(memories)


def is_single_precision(case):
    """Of integers."""
    target = case.spaces["torch"][re.search(r"out=(v\d+)", case.program.statements[-1].text)[1]]
    others = [t for t in case.used() if t is not target]
    whole = not any(t.is_floating_point() or t.is_complex() for t in others)
    return whole and unlike(*case.values(), TOLERANCES["float32"]) is None


def is_wrong_tangent(case):
    """PyTorch's tangent has another dtype than its primal."""
    pairs = [case.spaces[library][case.name] for library in ("torch", "rushlight")]
    if not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pairs):
        return False
    theirs, ours = ({part.dtype for part in pair} for pair in pairs)
    return len(theirs) > len(ours) == 1


def is_nan_there(case):
    """NaN in PyTorch where rushlight has a number, and no other difference."""
    theirs, ours = case.values()
    nan = theirs != theirs
    number = (ours[nan] == ours[nan]).any()
    return number and not unlike(theirs[~nan], ours[~nan], 1e-2) and case.after(NAN_THERE)


def is_nan_here(case):
    """NaN where PyTorch has a number or, in its other mode, elsewhere; no other difference."""
    theirs, ours = case.values()
    nan = (ours != ours) | ((theirs != theirs) & (ours != ours).any())
    return not unlike(theirs[~nan], ours[~nan], 1e-2)


def is_written_unseen(case):
    """What was saved was written through .data."""
    sources = case.program.sources()
    aliases = set().union(*(s.defines for s in sources if s.text.endswith(".data")))
    return any(not s.defines and aliases & set(s.variables) for s in sources[1:])


def is_wrong_there(case, more=0):
    """Of an op whose derivatives PyTorch has wrong from this order on; most statements derive
    once."""
    orders = r"grad\(|backward\(|jvp|dual_level|jac|hess"
    derived = sum(len(re.findall(orders, s.text)) for s in case.program.sources())
    return any(case.after(pattern) and derived + more >= order for pattern, order in WRONG)


def is_wrong_next(case):
    """One that requires grad: its derivative is wrong."""
    return is_wrong_there(case, 1)


def is_large_exponential(case):
    """PyTorch's error in matrix_exp's gradient grows with the gradient that arrives: 1e-10 of it at
    1e6, 1e-3 at 1e12."""
    return case.after("matrix_exp") and abs(case.fact.theirs["value"]).max() > 1e3


def is_unfactored(case):
    """What is there of the factor of a matrix that has none."""
    return bool(case.spaces["torch"][case.name][1].any())


def is_hermitian_here(case):
    """The gradient of a complex matrix of which one triangle is read."""
    ours = case.fact.ours["value"]
    square = ours.ndim >= 2 and ours.shape[-1] == ours.shape[-2] and np.iscomplexobj(ours)
    return square and case.after("cholesky") and np.allclose(ours, ours.mT.conj())


def is_nan_beside(case):
    """NaN in both, where other elements have none."""
    return all((value != value).any() for value in case.values())


def is_hook_of_jvp(case):
    """A hook of a result that was written afterwards."""
    return case.name == "log" and case.after(r"func\.jvp|unpack_dual")


def is_tie(case):
    return any(t.unique().numel() < t.numel() for t in case.used())


def is_zero(case):
    theirs, ours = case.values()
    return not theirs.any() and not ours.any()


def has_no_elements(case):
    return 0 in case.fact.theirs["shape"]


def is_node_asked_for(case):
    """A custom Function does not run where its result is asked for."""
    return case.name == "log" and case.after("Parts")


def is_function_of_derivative(case):
    """A custom Function before something whose derivative does not depend on its result: it runs
    with zeros or not at all. All gradients were compared by now."""
    derived = case.count(r"func\.|dual|autograd\.|create_graph")
    return case.name == "log" and case.after("Parts") and derived > 0


def is_product_with_zeros(case):
    """PyTorch's zeros without memory: those of no dimensions, times a number, are float64."""
    used = [t for t in case.used() if t._is_zerotensor()]
    return case.fact.theirs["dtype"] == "float64" and any(not t.ndim for t in used)


def is_singular(case):
    return any(map(is_deficient, case.used()))


def is_zero_times_nan(case):
    """0 times a derivative that is NaN, in a sum or alone; PyTorch takes it for 0."""
    return is_nan_here(case) and case.after("xlog|kl_div")


def is_zero_there(case):
    return not case.values()[0].any()


def is_left_out(case):
    """The gradient of the gradient by the bias of a norm without a weight."""
    return is_missing_there(case) and case.after(NORMS)


def is_rounded_sinc(case):
    """Of halves: PyTorch rounds the terms of the derivative, which cancel: sinc's near 0."""
    return "float16" in case.fact.theirs["dtype"] and case.after("sinc|a(rc)?tan2")


def is_retained_aside(case):
    """The retained gradient of a tangent that does not depend on what is asked for."""
    retained = any("retain_grad" in s.text for s in case.program.statements)
    return case.fact.ours == "None" and retained and case.after("dual|jvp")


def is_derived_by_result(case):
    """The retained gradient of a result that the derivative is written with there."""
    made = next(s.text for s in case.program.statements if s.text.startswith(f"{case.name} = "))
    return ".grad" in case.fact.text and "copysign" in made and case.count(r"create_graph=True") > 1


def is_part_of_hidden(case):
    """Of a result that is a view of a hidden tensor there, which requires no grad."""
    names = case.program.statements[-1].variables
    pairs = [[space.get(name) for space in case.spaces.values()] for name in names]
    bases = [[getattr(t, "_base", None) for t in pair] for pair in pairs]
    return any(theirs is not None and ours is None for theirs, ours in bases)


def always(case):
    return True
