"""What is compared between the libraries, and how closely."""

import warnings
from typing import NamedTuple

import numpy as np

# Fraction of the largest element; sums are taken in another order.
TOLERANCES = {
    "float64": 2e-7,  # some of PyTorch's kernels take their parameters as float32
    "complex128": 2e-7,
    "float32": 5e-4,
    "complex64": 5e-4,
    "float16": 3e-2,
    "bfloat16": 1e-1,
}
# Of numbers near 1.
PRECISIONS = {
    "float64": 2.0**-52,
    "complex128": 2.0**-52,
    "float32": 2.0**-23,
    "complex64": 2.0**-23,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
}
LARGEST = 100_000  # elements


class Difference(Exception):
    """The libraries do not agree: on which fact, how, at which statement, on which variable."""

    def __init__(self, fact, text, statement, name=None):
        super().__init__(f"{fact}: {text}")
        self.fact = fact
        self.statement = statement
        self.name = name

    def kind(self):
        """What tells faults apart: the fact, and the text without its numbers."""
        return (self.fact, self.name is None)


def numbers(t):
    """The values as an array, and the name of their dtype; without the values of huge tensors."""
    if t.numel() > LARGEST:
        return np.zeros(0), str(t.dtype).removeprefix("torch.")
    t = t.detach().clone()  # what NumPy has seen can no longer be resized
    if t.is_conj() or t.is_neg():
        t = t.resolve_conj().resolve_neg()
    name = str(t.dtype).removeprefix("torch.")
    if name in ("bfloat16", "float16") or name.startswith("float8"):
        t = t.float()
    elif name == "complex32":
        t = t.cfloat()
    return np.array(t.numpy()), name


def readable(t):
    """Parts of a tensor that was written to cannot even be looked at here and there."""
    try:
        return t.grad_fn is not t
    except RuntimeError:
        return False


def account(value, library, with_grad=True):
    """The facts about a value that both libraries must agree on."""
    if isinstance(value, library.Tensor):
        data, dtype = numbers(value)
        facts = {
            "dtype": dtype,
            "shape": tuple(value.shape),
            "requires_grad": value.requires_grad,
            "is_leaf": value.is_leaf,
            "inference": value.is_inference(),
            "value": data,
            "tensor": value,
        }
        if with_grad:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                facts["grad"] = account(value.grad, library, with_grad=False)
        return facts
    if isinstance(value, (tuple, list)):
        return [account(v, library) for v in value]
    if isinstance(value, float):
        return {"dtype": "float64", "value": np.array(value)}
    return str(value)


def coarsest(value):
    """The largest tolerance among the element types of PyTorch's tensors."""
    if isinstance(value, (tuple, list)):
        return max(map(coarsest, value), default=0.0)
    return TOLERANCES.get(str(getattr(value, "dtype", "")).removeprefix("torch."), 0.0)


class Fact(NamedTuple):
    """One on which two accounts differ: its name, the two answers in words, the two accounts."""

    name: str
    text: str
    theirs: object
    ours: object


def difference(theirs, ours, tolerance):
    """The first Fact on which two accounts differ, or None."""
    if isinstance(theirs, list) and isinstance(ours, list):
        if len(theirs) != len(ours):
            return Fact("length", f"{len(theirs)} → {len(ours)}", theirs, ours)
        for number, pair in enumerate(zip(theirs, ours, strict=True)):
            found = difference(*pair, tolerance)
            if found:
                return found._replace(text=f"[{number}] {found.text}")
        return None
    if not (isinstance(theirs, dict) and isinstance(ours, dict)):
        return None if theirs == ours else Fact("kind", f"{theirs} → {ours}", theirs, ours)
    for name, a in theirs.items():
        b = ours[name]
        if name == "value":
            text = unlike(a, b, tolerance if theirs["dtype"] in TOLERANCES else None)
            if text:
                return Fact(name, text, theirs, ours)
        elif name == "grad":
            found = difference(a, b, tolerance)
            if found:
                return found._replace(text=f".grad: {found.text}")
        elif name != "tensor" and a != b:
            return Fact(name, f"{name} {a} → {b}", theirs, ours)
    return None


def unlike(a, b, tolerance):
    """How two arrays of one shape differ by more than the tolerance, or None."""
    if tolerance is None:
        return None if np.array_equal(a, b) else f"{a.tolist()} → {b.tolist()}"
    with np.errstate(all="ignore"):
        finite = np.isfinite(a) & np.isfinite(b)
        largest = max(1.0, np.abs(a[finite]).max(initial=0.0))
        near = np.abs(a - b) <= tolerance * np.minimum(largest, 1 + 1e3 * np.abs(a))
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if tolerance >= TOLERANCES["float16"]:  # halves overflow here or there, as sums are taken
            same |= ~np.isfinite(a) & ~np.isfinite(b)
        alike = np.where(finite, near, same)
    return None if alike.all() else f"{a.tolist()} → {b.tolist()}"
