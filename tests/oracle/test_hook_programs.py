"""Random graphs with hooks of every kind: PyTorch's log, in PyTorch's order."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oracle.harness import LIBRARIES, from_numpy, to_numpy

OPERATIONS = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b.tanh(),
    "sin": lambda a, b: a.sin(),
    "exp": lambda a, b: a.tanh().exp(),
    "sum": lambda a, b: a.sum(),
    "mean": lambda a, b: a.mean(),
    "slice": lambda a, b: a.reshape(-1)[:1] * b,
    "unbind": lambda a, b: a.reshape(-1).unbind()[-1] + b,
    "detached": lambda a, b: a.detach() * b,
}
HOOKS = ["tensor", "scaling", "retain", "pre", "post", "everywhere", "accumulated", "multi", "any"]
RUNS = ["backward", "twice", "grad", "inputs", "recorded"]
NUMBER = st.integers(0, 9)
STEPS = st.lists(
    st.tuples(st.sampled_from([*OPERATIONS, *HOOKS, *HOOKS]), NUMBER, NUMBER),
    min_size=4,
    max_size=24,
)


class Run:
    def __init__(self, L, steps, how, target):
        self.L = L
        self.log = []
        start = np.array([[0.5, -1.0], [2.0, 0.25], [1.5, -0.75]])
        self.leaves = [from_numpy(L, row, True) for row in start]
        self.pool = [*self.leaves, self.leaves[0] * self.leaves[1]]
        for number, (name, i, j) in enumerate(steps):
            t, b = self.pool[i % len(self.pool)], self.pool[j % len(self.pool)]
            if name in OPERATIONS:
                self.pool.append(OPERATIONS[name](t, b))
            elif t.requires_grad and not (name in ("multi", "any") and how not in RUNS[:2]):
                self.hook(name, number, t, b)  # torch has no hooks of several tensors in grad()
        loss = sum((t * (k + 1)).sum() for k, t in enumerate(self.pool))
        self.found = self.differentiate(loss, how, self.pool[target % len(self.pool)])

    def note(self, number, *grads):
        self.log.append((number, [None if g is None else to_numpy(g) for g in grads]))

    def hook(self, name, number, t, b):
        several = self.L.autograd.graph.register_multi_grad_hook
        if name == "tensor":
            t.register_hook(lambda g: self.note(number, g))
        elif name == "scaling":
            t.register_hook(lambda g: self.note(number, g) or g * 1.5)
        elif name == "retain":
            t.retain_grad()
        elif name == "pre" and t.grad_fn is not None:
            t.grad_fn.register_prehook(lambda g: self.note(number, *g) or (g[0] * 0.5, *g[1:]))
        elif name == "post" and t.grad_fn is not None:
            t.grad_fn.register_hook(lambda i, o: self.note(number, *o))
        elif name == "everywhere":
            nodes = [t.grad_fn] if t.grad_fn else []
            for node in nodes:
                node.register_hook(lambda i, o: None)
                nodes += [n for n, _ in node.next_functions if n is not None][: 50 - len(nodes)]
        elif name == "accumulated" and t.is_leaf:
            t.register_post_accumulate_grad_hook(lambda p: self.note(number, p.grad))
        elif name == "multi" and b.requires_grad:
            several((t, b), lambda grads: self.note(number, *grads))
        elif name == "any" and b.requires_grad:
            several((t, b), lambda g: self.note(number, g), mode="any")

    def differentiate(self, loss, how, target):
        grads = []
        if how == "grad":
            wanted = [target] if target.requires_grad else self.leaves
            grads = self.L.autograd.grad(loss, wanted, allow_unused=True)
        elif how == "inputs":
            loss.backward(inputs=self.leaves[:2])
        elif how == "recorded":
            grads = self.L.autograd.grad(loss, self.leaves, create_graph=True, allow_unused=True)
        else:
            loss.backward(retain_graph=how == "twice")
            if how == "twice":
                loss.backward()
        kept = [t.grad for t in self.pool if t.is_leaf or t.retains_grad]
        return [None if g is None else to_numpy(g) for g in [loss, *grads, *kept]]


def assert_same(a, b):
    assert (a is None) == (b is None)
    if a is not None:
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, st.sampled_from(RUNS), NUMBER)
def test_log_and_gradients(steps, how, target):
    ours, theirs = (Run(L, steps, how, target) for L in LIBRARIES)
    assert [n for n, _ in ours.log] == [n for n, _ in theirs.log]
    for (_, a), (_, b) in zip(ours.log, theirs.log, strict=True):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    for a, b in zip(ours.found, theirs.found, strict=True):
        assert_same(a, b)
