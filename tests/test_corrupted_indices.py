"""Law over the registry: a backward checks every index it uses, whatever forward saw.

Whole numbers that an op was given, returned or saved are overwritten through `.data`, which no
version counts. Backward then raises, or gives some gradient; it never leaves its memory (the
sanitized build sees where it does).
"""

import contextlib

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from sample_linalg import FREE
from samples import SAMPLES, function
from test_ops import GRADIENTS, differentiable_outputs, gradients, leaves, refuses, tensors_of

GARBAGE = (2**40, 50, -1000, -(2**63))


def whole(t):
    return isinstance(t, torch.Tensor) and not (t.is_floating_point() or t.is_complex())


def whole_numbers(value):
    if whole(value):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in whole_numbers(v)]
    return []


def saved_whole_numbers(outputs):
    """The integer tensors that the nodes behind the outputs have saved."""
    found, seen, todo = [], set(), [o.grad_fn for o in outputs]
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        todo += [n for n, _ in node.next_functions]
        for name in dir(node):
            if name.startswith("_saved_"):
                try:
                    value = getattr(node, name)
                except RuntimeError:
                    continue
                found += whole_numbers(value)
    return found


def overwrite(t, number):
    limits = torch.iinfo(t.dtype) if t.dtype != torch.bool else None
    if limits:
        number = max(limits.min, min(limits.max, number))
    if t.numel():
        t.data.view(-1).fill_(number) if t.is_contiguous() else t.data.copy_(torch.tensor(number))


def fresh(value):
    """A copy that may be overwritten without harm to the sample."""
    if whole(value):
        return value.clone()
    if isinstance(value, (list, tuple)) and whole_numbers(value):
        return type(value)(fresh(v) for v in value)
    return value


def run(name, sample, number, create_graph):
    sample = sample._replace(
        args=tuple(fresh(a) for a in sample.args),
        kwargs={k: fresh(v) for k, v in sample.kwargs.items()},
    )
    inputs, wrap = leaves(sample)

    def f(*given):
        results = tensors_of(wrap(function(name))(*given))
        outputs = tuple(t for t in results if t.requires_grad)
        victims = whole_numbers([*sample.args, *sample.kwargs.values()])
        for t in (*victims, *whole_numbers(results), *saved_whole_numbers(outputs)):
            overwrite(t, number)
        return outputs

    with contextlib.suppress(RuntimeError, IndexError, ValueError):
        gradients(f, inputs, create_graph)


@pytest.mark.parametrize("name", GRADIENTS)
def test_garbage_in_saved_whole_numbers_is_no_crash(name):
    for sample in SAMPLES[name](torch.float64, 3):
        inputs, wrap = leaves(sample)
        called = FREE.get(name, lambda f: f)(function(name))
        if not inputs or refuses(differentiable_outputs(wrap(called)), inputs):
            continue
        for number in GARBAGE:
            for create_graph in (False, True):
                run(name, sample, number, create_graph)


INDEX = [0, 1]
KEPT = {
    "cross_entropy": lambda x, i: F.cross_entropy(x, i),
    "smoothed": lambda x, i: F.cross_entropy(x, i, label_smoothing=0.1),
    "none": lambda x, i: F.cross_entropy(x, i, reduction="none"),
    "spatial": lambda x, i: F.cross_entropy(x.reshape(2, 3, 1), i.reshape(2, 1)),
}
LOSSES = {
    "nll_loss": lambda x, i: F.nll_loss(x, i),
    "weighted": lambda x, i: F.nll_loss(x, i, weight=torch.ones(3)),
    "embedding": lambda x, i: F.embedding(i, x),
    "embedding by frequency": lambda x, i: F.embedding(i, x, scale_grad_by_freq=True),
    "gather": lambda x, i: x.gather(1, i[:, None]),
    "index": lambda x, i: x[i],
    "index_select": lambda x, i: x.index_select(0, i),
    "index_add": lambda x, i: torch.zeros(2, 3).index_add(0, i, x),
    "scatter_reduce": lambda x, i: torch.zeros(2, 3).scatter_reduce(0, i[:, None], x, "amax"),
    "take": lambda x, i: x.take(i),
}


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("number", [2**40, 50, -1000])
@pytest.mark.parametrize("name", LOSSES)
def test_an_overwritten_index_raises_and_names_itself(name, number, create_graph):
    x, i = torch.rand(2, 3, requires_grad=True), torch.tensor(INDEX)
    y = LOSSES[name](x, i)
    i.data.fill_(number)
    with pytest.raises((RuntimeError, IndexError), match=rf"{number}|out of (bounds|range)"):
        y.backward(torch.ones_like(y), create_graph=create_graph)
    assert x.grad is None


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("number", [2**40, 50, -1000])
@pytest.mark.parametrize("name", KEPT)
def test_a_loss_keeps_the_targets_that_it_saw(name, number, create_graph):
    x, i = torch.rand(2, 3, requires_grad=True), torch.tensor(INDEX)
    expected = torch.autograd.grad(KEPT[name](x, i).sum(), x)[0]
    y = KEPT[name](x, i).sum()
    i.data.fill_(number)
    torch.testing.assert_close(torch.autograd.grad(y, x, create_graph=create_graph)[0], expected)


@pytest.mark.parametrize("kernel", [2, 3])
def test_overwritten_positions_of_maxima_raise(kernel):
    x = torch.rand(1, 1, 6, 6, requires_grad=True)
    y = F.max_pool2d(x, kernel, 1)
    y.grad_fn._saved_result1.data.fill_(77)
    with pytest.raises(RuntimeError, match="overwritten"):
        y.sum().backward()


def test_a_gradient_of_twice_differentiated_embedding_checks_its_ids():
    table, ids = torch.rand(3, 2, requires_grad=True), torch.tensor([0, 2])
    y = F.embedding(ids, table, scale_grad_by_freq=True)
    weight = torch.ones(2, 2, requires_grad=True)
    (g,) = torch.autograd.grad(y, table, weight, create_graph=True)
    ids.data.fill_(2**40)
    with pytest.raises(IndexError, match="out of range"):
        g.sum().backward()
