"""Calls of every registered op, drawn from the samples that the laws are tested on."""

import functools
import math

import torch

import rushlight
from oracle.harness import derived_here_alone
from registry import ENTRIES, is_pointwise, path, samples_of

LARGEST = 300
SEEDS = 3
# What follows a call: PyTorch conjugates lazily, and its statistics have no gradients.
LATER = dict.fromkeys(["adjoint", "conj"], ".resolve_conj()")
LATER |= dict.fromkeys(["native_batch_norm", "native_layer_norm"], "[0]")


def reference(name):
    """PyTorch's callable of the same path, or None."""
    home = torch
    for part in name.split("."):
        home = getattr(home, part, None)
    return home if home is not None else getattr(torch.Tensor, name, None)


# Numbers drawn from a generator are compared elsewhere, where both draw the same ones; so are
# vectors that may be turned by a phase or a sign.
TURNED = ("svd", "linalg.svd", "linalg.eig", "linalg.eigh", "lobpcg")
OPS = [
    e
    for e in ENTRIES
    if e["forms"] and e["family"] not in ("random", "creation") and reference(path(e))
    if e["name"] not in ("as_strided_scatter", "polar", "native_group_norm")  # wrong in PyTorch
    if path(e) not in TURNED and not derived_here_alone(path(e))
]
IN_PLACE = [
    e
    for e in OPS
    if "inplace" in e["forms"] and hasattr(torch.Tensor, e["name"].rstrip("_") + "_")
    if e["name"] != "addbmm"  # resizes in PyTorch
]
WITH_OUT = [e for e in OPS if "out" in e["forms"]]


@functools.cache
def samples(number, dtype, seed):
    """The samples of an op with small arguments that can be written as text."""
    try:
        found = samples_of(OPS[number], getattr(rushlight, dtype), seed)
    except (RuntimeError, NotImplementedError):  # the generator has none of this dtype
        return []
    return [s for s in found if all(map(fits, [*s.args, *s.kwargs.values()]))]


def fits(value):
    if isinstance(value, rushlight.Tensor):
        return value.numel() <= LARGEST
    if isinstance(value, (list, tuple)):
        return all(map(fits, value))
    plain = (int, float, complex, str, type(None), rushlight.dtype)
    return isinstance(value, plain)


class Call:
    """One call as text: `function` of `args`, where tensors are names of variables."""

    def __init__(self, entry, args, kwargs):
        self.entry = entry
        self.args = args
        self.kwargs = kwargs

    def arguments(self, args):
        return ", ".join([*args, *(f"{k}={v}" for k, v in self.kwargs.items())])

    def function(self):
        name = path(self.entry)
        if name.startswith("Tensor."):
            return self.method()
        name = name.replace("nn.functional.", "F.") if name.startswith("nn.") else f"torch.{name}"
        return f"{name}({self.arguments(self.args)})"

    def method(self, suffix=""):
        method = path(self.entry).rsplit(".", 1)[-1] + suffix
        return f"{self.args[0]}.{method}({self.arguments(self.args[1:])})"

    def text(self, random):
        """The call in one of the forms that the op has."""
        method = "method" in self.entry["forms"] and hasattr(torch.Tensor, self.entry["name"])
        method = method and self.args[0][0] in "vu"
        text = self.method() if method and random.random() < 0.4 else self.function()
        return text + LATER.get(self.entry["name"], "")

    def in_place(self):
        return self.method("" if self.entry["name"].endswith("_") else "_")

    def variables(self):
        return [a for a in self.args if a[0] == "v"]

    def replaced(self, name, other):
        """The same call of another variable."""
        args = [other if a == name else a for a in self.args]
        kwargs = {k: other if a == name else a for k, a in self.kwargs.items()}
        return Call(self.entry, args, kwargs)


def draw_call(entries, dtype, random, tensor):
    """A call of one of the ops; `tensor(sample, exchangeable, promotes)` names a tensor."""
    for _ in range(20):
        entry = random.choice(entries)
        found = samples(OPS.index(entry), dtype, random.randrange(SEEDS))
        if found:
            break
    else:
        return None
    sample = random.choice(found)
    pointwise = is_pointwise(entry)
    drawn = getattr(rushlight, dtype)
    floating = drawn.is_floating_point or drawn.is_complex

    def written(value):
        if isinstance(value, rushlight.Tensor):
            # Indices must stay in range; other integers and all floats may be exchanged.
            return tensor(value, value.dtype == drawn and (floating or pointwise), pointwise)
        if isinstance(value, (list, tuple)):
            inside = ", ".join(map(written, value))
            return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if value else ''})"
        if isinstance(value, float) and not math.isfinite(value):
            return f'float("{value}")'
        return str(value) if isinstance(value, rushlight.dtype) else repr(value)

    args = [written(a) for a in sample.args]
    return Call(entry, args, {k: written(v) for k, v in sample.kwargs.items()})
