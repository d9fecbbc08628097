"""Modules and losses: same parameters in, same outputs, gradients, names and printing out."""

import copy
import inspect
import pickle
import warnings

import numpy as np
import pytest
import torch as reference

import rushlight as torch
from oracle.modules_cases import CASES, Floats, Ints, Unit


def construct(case, library):
    """The module, with tensors of the library where its arguments are tensors."""
    kwargs = {
        key: library.tensor(value.values) if isinstance(value, Floats) else value
        for key, value in case.kwargs.items()
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(library.nn, case.name)(*case.args, **kwargs)


def make(case, library):
    return construct(case, library).to(library.float64).train(case.train)


def moved(state, library):
    """A state dict of the other library as one of this."""
    return {k: library.tensor(v.detach().numpy().copy()) for k, v in state.items()}


def inputs_for(case, library):
    rng = np.random.default_rng(0)
    made = []
    for spec in case.inputs:
        if spec is None:
            made.append(None)
        elif isinstance(spec, Ints):
            made.append(library.tensor(spec.values))
        elif isinstance(spec, Unit):
            made.append(library.tensor(spec.values, requires_grad=True))
        elif isinstance(spec, Floats):
            whole = case.name.startswith(("EmbeddingBag", "MaxUnpool"))
            made.append(library.tensor(spec.values.astype(int) if whole else spec.values))
        else:
            values = rng.standard_normal(spec)
            made.append(library.tensor(values, requires_grad=True))
    return made


def flat(value, library):
    if isinstance(value, library.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [t for v in value for t in flat(v, library)]
    return []


def weighted_sum(module, inputs, library):
    """The outputs, and the sum of all that can be differentiated, each element with a weight."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outputs = flat(module(*inputs), library)
    loss = 0.0
    for i, out in enumerate(outputs):
        if out.is_floating_point() and out.requires_grad:
            weights = np.random.default_rng(7 + i).random(tuple(out.shape))
            loss = loss + (out * library.tensor(weights)).sum()
    return outputs, loss


def run(module, case, library):
    """Outputs, gradients of inputs and parameters, and buffers afterwards, as arrays."""
    inputs = inputs_for(case, library)
    outputs, loss = weighted_sum(module, inputs, library)
    if isinstance(loss, library.Tensor):
        loss.backward()
    grads = [t.grad for t in inputs if t is not None and t.requires_grad]
    grads += [p.grad for p in module.parameters()]
    everything = [*outputs, *grads, *module.buffers()]
    return [None if t is None else t.detach().numpy() for t in everything]


def train(module, case, library):
    """The losses of 20 steps that move parameters and inputs."""
    inputs = inputs_for(case, library)
    moving = [t for t in inputs if t is not None and t.requires_grad] + list(module.parameters())
    if not moving:
        return []
    optimizer = library.optim.Adam(moving, lr=1e-2)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        _, loss = weighted_sum(module, inputs, library)
        if not isinstance(loss, library.Tensor):
            return []
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("case", [c for c in CASES if c.inputs], ids=repr)
def test_same_outputs_and_gradients(case):
    theirs = make(case, reference)
    ours = make(case, torch)
    ours.load_state_dict(moved(theirs.state_dict(), torch))
    for a, b in zip(run(ours, case, torch), run(theirs, case, reference), strict=True):
        if b is None:
            assert a is None or not a.any()
            continue
        if a is None:
            assert not b.any()
            continue
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("case", [c for c in CASES if c.inputs], ids=repr)
def test_same_trajectories(case):
    theirs, ours = make(case, reference), make(case, torch)
    ours.load_state_dict(moved(theirs.state_dict(), torch))
    expected = train(theirs, case, reference)
    np.testing.assert_allclose(train(ours, case, torch), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_same_printing_names_and_copies(case):
    theirs, ours = make(case, reference), make(case, torch)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert dict(ours.state_dict()._metadata) == dict(theirs.state_dict()._metadata)
    shapes = [(n, tuple(p.shape), p.requires_grad) for n, p in ours.named_parameters()]
    assert shapes == [(n, tuple(p.shape), p.requires_grad) for n, p in theirs.named_parameters()]
    theirs.load_state_dict(moved(ours.state_dict(), reference))
    for copied in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert repr(copied) == repr(ours)
        for a, b in zip(copied.state_dict().values(), ours.state_dict().values(), strict=True):
            assert torch.equal(a, b)


def test_every_module_is_compared():
    apart = {
        "Module", "Container", "Sequential", "ModuleList", "ModuleDict", "ParameterList",
        "ParameterDict", "NLLLoss2d", "LinearCrossEntropyOptions", "TransformerEncoder",
        "TransformerDecoder", "RNNBase", "RNNCellBase", "CTCLoss",
    }  # fmt: skip
    names = {n for n in reference.nn.modules.__all__ if not n.startswith("Lazy")}
    assert names - apart == {case.name for case in CASES}
    assert all(hasattr(torch.nn, name) for name in reference.nn.modules.__all__)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_a_seed_gives_the_same_initial_weights(case):
    states = []
    for library in (torch, reference):
        with torch.random.torch_streams():
            library.manual_seed(7)
            states.append(construct(case, library).state_dict())
    for key, theirs in states[1].items():
        np.testing.assert_array_equal(states[0][key].numpy(), theirs.numpy(), err_msg=key)


@pytest.mark.parametrize("name", [n for n in reference.nn.modules.__all__ if "Lazy" not in n])
def test_same_bases_and_constructors(name):
    ours, theirs = getattr(torch.nn, name), getattr(reference.nn, name)
    bases = {c.__name__ for c in theirs.__mro__ if c.__module__.startswith("torch")}
    own = {c.__name__ for c in ours.__mro__ if c.__module__.startswith("rushlight.nn")}
    own -= {"TraversalMethods", "StateMethods", "HookMethods"}
    assert bases <= own
    assert {base for base in own - bases if not base.startswith("_")} == set()
    assert arguments(ours.__init__) == arguments(theirs.__init__)
    if "forward" in vars(theirs):
        given, expected = arguments(ours.forward), arguments(theirs.forward)
        assert [a for a, _ in given] == [a for a, _ in expected]


def arguments(function):
    """Names and defaults of what a function takes."""
    found = []
    for p in inspect.signature(function).parameters.values():
        default = p.default
        if callable(default) and default is not p.empty:
            default = default.__name__
        found.append((p.name, default))
    return found
