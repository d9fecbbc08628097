"""Wrapped modules compute, train, save and load as under PyTorch."""

import importlib

import pytest
import torch

import rushlight

PATH = "distributed.algorithms._checkpoint.checkpoint_wrapper"


def model(L):
    L.manual_seed(0)
    inner = L.nn.Sequential(L.nn.Linear(3, 4), L.nn.Tanh())
    made = L.nn.Sequential(inner, L.nn.Dropout(0.0), L.nn.Linear(4, 2)).double()
    with L.no_grad():
        for i, p in enumerate(made.parameters()):
            p.copy_(L.arange(p.numel()).reshape(p.shape) * 0.1 - 0.1 * i)
    return made


def outcome(L, apply):
    wrappers = importlib.import_module(f"{L.__name__}.{PATH}")
    net = model(L)
    apply(L, wrappers, net)
    x = L.arange(6.0, dtype=L.float64).reshape(2, 3).requires_grad_()
    net(x).square().sum().backward()
    state = net.state_dict()
    fresh = model(L)
    apply(L, wrappers, fresh)
    loaded = str(fresh.load_state_dict(state))
    plain = str(model(L).load_state_dict(state))
    names = [name for name, _ in net.named_parameters()]
    own = [name for name, _ in net[0].named_parameters()]
    grads = [p.grad.tolist() for p in net.parameters()]
    return str(net), sorted(state), loaded, plain, names, own, grads, x.grad.tolist()


def close(a, b):
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(close, a, b))
    return a == pytest.approx(b, rel=1e-9) if isinstance(a, float) else a == b


WAYS = {
    "all": lambda L, w, net: w.apply_activation_checkpointing(net),
    "linear": lambda L, w, net: w.apply_activation_checkpointing(
        net, check_fn=lambda m: isinstance(m, L.nn.Linear)
    ),
    "policy": lambda L, w, net: w.apply_activation_checkpointing(
        net,
        auto_wrap_policy=importlib.import_module(
            f"{L.__name__}.distributed.fsdp.wrap"
        ).ModuleWrapPolicy({L.nn.Sequential}),
    ),
    "reentrant": lambda L, w, net: w.apply_activation_checkpointing(
        net,
        lambda m: w.checkpoint_wrapper(m, w.CheckpointImpl.REENTRANT),
        lambda m: isinstance(m, L.nn.Linear),
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_wrapped_models(way):
    assert close(outcome(rushlight, WAYS[way]), outcome(torch, WAYS[way]))


@pytest.mark.parametrize("L", [rushlight, torch])
def test_wrappers_pass_attributes_and_arguments_on(L):
    w = importlib.import_module(f"{L.__name__}.{PATH}")

    class Scale(L.nn.Linear):
        def forward(self, x, *, factor):
            return super().forward(x) * factor

    for impl in w.CheckpointImpl:
        wrapped = w.checkpoint_wrapper(Scale(3, 2), impl)
        assert wrapped.in_features == 3
        x = L.ones(1, 3, requires_grad=True)
        wrapped(x, factor=2.0).sum().backward()
        assert L.equal(x.grad[0], 2 * wrapped.weight.sum(0))
        assert w.checkpoint_wrapper(L.nn.Sequential(wrapped))[0] is wrapped
