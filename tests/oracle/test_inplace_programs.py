"""Random programs of views, in-place writes and hooks.

Where PyTorch gives gradients, rushlight gives the same, with the same versions and the same log of
hooks. Where PyTorch refuses, rushlight refuses too or gives the gradient of finite differences.
"""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rushlight
from oracle.harness import LIBRARIES, from_numpy, to_numpy

VIEWS = {
    "all": lambda t, n: t.view(t.shape),
    "row": lambda t, n: t[n % t.shape[0]] if t.ndim else t[...],
    "tail": lambda t, n: t[n % t.shape[0] :] if t.ndim else t[...],
    "step": lambda t, n: t[::2] if t.ndim else t[...],
    "column": lambda t, n: t[..., n % t.shape[-1]] if t.ndim else t[...],
    "transposed": lambda t, n: t.transpose(0, -1) if t.ndim else t[...],
    "unsqueezed": lambda t, n: t.unsqueeze(n % (t.ndim + 1)),
    "diagonal": lambda t, n: t.diagonal() if t.ndim == 2 else t[...],
    "narrow": lambda t, n: t.narrow(-1, n % t.shape[-1], 1) if t.ndim else t[...],
}
PARTS = {
    "split": lambda t, n: t.split(1)[n % t.shape[0]] if t.ndim else t[...],
    "unbind": lambda t, n: t.unbind()[n % t.shape[0]] if t.ndim else t[...],
}
WRITES = {
    "scale": lambda t, b: t.mul_(0.75),
    "shift": lambda t, b: t.add_(b.sum()),
    "sin": lambda t, b: t.sin_(),
    "tanh": lambda t, b: t.tanh_(),
    "fill": lambda t, b: t.fill_(0.3),
    "copy": lambda t, b: t.copy_((b.mean() * 2).expand(t.shape)),
    "times": lambda t, b: t.mul_(b.sum().cos()),
    "setitem": lambda t, b: t.__setitem__(..., b.mean()),
    "clamp": lambda t, b: t.clamp_(-3, 3),
}
READS = {
    "sum": lambda t: t.sum(),
    "square": lambda t: (t * t).sum(),
    "sin": lambda t: t.sin().sum(),
    "exp": lambda t: t.tanh().exp().sum(),
    "product": lambda t: (t * t.detach()).sum(),
}
KINDS = (
    [("view", name) for name in VIEWS]
    + [("write", name) for name in WRITES] * 2
    + [("read", name) for name in READS]
    + [("hook", ""), ("retain", ""), ("fresh", "")]
)
NUMBER = st.integers(0, 7)


def steps_of(kinds):
    return st.lists(st.tuples(st.sampled_from(kinds), NUMBER, NUMBER), min_size=3, max_size=15)


class Program:
    """One run on one library: a pool of tensors, a sum of terms, and what was seen on the way."""

    def __init__(self, L, arrays, steps, watch=True):
        self.L = L
        self.log = []
        self.leaves = [from_numpy(L, a, True) for a in arrays]
        self.pool = [t * 1 for t in self.leaves]
        self.terms = []
        self.versions = []
        self.retained = []
        self.untracked = False
        for (kind, name), i, j in steps:
            if watch or kind not in ("hook", "retain"):
                self.step(kind, name, i, j)
            self.versions.append([t._version for t in self.pool])

    def step(self, kind, name, i, j):
        t, b = self.pool[i % len(self.pool)], self.pool[j % len(self.pool)]
        if kind == "view":
            self.pool.append((VIEWS | PARTS)[name](t, j))
        elif kind == "write":
            WRITES[name](t, b)
        elif kind == "untracked":
            self.untracked = True
            with self.L.no_grad():
                WRITES[name](t, b)
        elif kind == "read":
            self.untracked |= name == "product"
            self.terms.append(READS[name](t))
        elif kind == "fresh":
            self.pool.append(t * 0.5 + b.sum())
        elif kind == "retain":
            t.retain_grad()
            self.retained.append(t)
        elif not t._is_view():  # torch forgets the hooks of a view that is written to later
            number = len(self.log)
            t.register_hook(lambda g: self.log.append((number, to_numpy(g))))

    def loss(self):
        ends = [(t.tanh() * (k + 1)).sum() for k, t in enumerate(self.pool)]
        return sum(self.terms) + sum(ends)

    def gradients(self):
        loss = self.loss()
        loss.backward()
        found = [loss, *(t.grad for t in self.leaves), *(t.grad for t in self.retained)]
        return [to_numpy(t) for t in found]


def outcome(L, arrays, steps):
    try:
        program = Program(L, arrays, steps)
        return program, program.gradients()
    except RuntimeError as error:
        return error, None


def slopes(arrays, steps, eps=1e-6):
    """Central differences of the loss, on rushlight, with nothing recorded."""

    def value(moved):
        with rushlight.no_grad():
            return Program(rushlight, moved, steps, watch=False).loss().item()

    result = []
    for k, array in enumerate(arrays):
        slope = np.zeros(array.shape)
        for index in np.ndindex(array.shape):
            ends = []
            for sign in (1, -1):
                moved = [a.copy() for a in arrays]
                moved[k][index] += sign * eps
                ends.append(value(moved))
            slope[index] = (ends[0] - ends[1]) / (2 * eps)
        result.append(slope)
    return result


def check_slopes(found, arrays, steps):
    """Gradients are those of finite differences, where two widths of these agree."""
    for a, wide, narrow in zip(
        found, slopes(arrays, steps), slopes(arrays, steps, 2e-7), strict=True
    ):
        settled = abs(wide - narrow) <= 1e-5 + 1e-4 * abs(narrow)
        np.testing.assert_allclose(a[settled], wide[settled], rtol=2e-4, atol=2e-5)


def compare(steps, seed):
    generator = np.random.default_rng(seed)
    arrays = [generator.standard_normal((2, 3)), generator.standard_normal(3)]
    (ours, found), (theirs, expected) = (outcome(L, arrays, steps) for L in LIBRARIES)
    if expected is None:
        if found is not None and not ours.untracked:
            check_slopes(found[1:3], arrays, steps)
        return
    assert found is not None, f"rushlight raises: {ours}"
    assert ours.versions == theirs.versions
    assert [n for n, _ in ours.log] == [n for n, _ in theirs.log]
    seen = [(a, b) for (_, a), (_, b) in zip(ours.log, theirs.log, strict=True)]
    for a, b in [*zip(found, expected, strict=True), *seen]:
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)


CONFIGURATION = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}


@settings(max_examples=300, **CONFIGURATION)
@given(steps_of(KINDS), st.integers(0, 1000))
def test_views_writes_and_hooks(steps, seed):
    compare(steps, seed)


@settings(max_examples=150, **CONFIGURATION)
@given(
    steps_of(KINDS + [("untracked", name) for name in WRITES] + [("view", name) for name in PARTS]),
    st.integers(0, 1000),
)
def test_untracked_writes_and_parts(steps, seed):
    compare(steps, seed)


def clones():
    keep = rushlight.autograd.graph.saved_tensors_hooks
    return keep(lambda t: t.detach().clone(), lambda t: t)


@settings(max_examples=150, **CONFIGURATION)
@given(steps_of(KINDS + [("view", name) for name in PARTS]), st.integers(0, 1000))
def test_no_write_harms_tensors_that_are_kept_apart(steps, seed):
    """Under copy on write, and with clones saved, every program has its gradient."""
    generator = np.random.default_rng(seed)
    arrays = [generator.standard_normal((2, 3)), generator.standard_normal(3)]
    results = []
    for apart in (rushlight.autograd.graph.allow_mutation_on_saved_tensors, clones):
        with apart():
            program = Program(rushlight, arrays, steps)
            results.append(program.gradients())
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)
    if not program.untracked:
        check_slopes(results[0][1:3], arrays, steps)
