"""Optimizers that programs write themselves, in the manner of well-known ones."""

from collections import defaultdict

import numpy as np
import pytest
import torch

import rushlight
from oracle.harness import LIBRARIES, from_numpy, to_numpy


def sharpness_aware(torch):
    class SAM(torch.optim.Optimizer):
        def __init__(self, params, base_optimizer, rho=0.05, **kwargs):
            super().__init__(params, {"rho": rho, **kwargs})
            self.base_optimizer = base_optimizer(self.param_groups, **kwargs)
            self.param_groups = self.base_optimizer.param_groups
            self.defaults.update(self.base_optimizer.defaults)

        @torch.no_grad()
        def first_step(self):
            norms = [p.grad.norm(p=2) for g in self.param_groups for p in g["params"]]
            scale = torch.norm(torch.stack(norms), p=2)
            for group in self.param_groups:
                for p in group["params"]:
                    self.state[p]["old_p"] = p.data.clone()
                    p.add_(p.grad * group["rho"] / (scale + 1e-12))
            self.zero_grad()

        @torch.no_grad()
        def step(self, closure=None):
            closure = torch.enable_grad()(closure)
            closure()
            self.first_step()
            closure()
            for group in self.param_groups:
                for p in group["params"]:
                    p.data = self.state[p]["old_p"]
            self.base_optimizer.step()
            self.zero_grad()

    return lambda params: SAM(params, torch.optim.SGD, lr=0.1, momentum=0.9)


def lookahead(torch):
    class Lookahead(torch.optim.Optimizer):
        """Wraps another one and does not call the base's __init__."""

        def __init__(self, optimizer, k=3, alpha=0.5):
            self.optimizer, self.k, self.alpha = optimizer, k, alpha
            self.param_groups = optimizer.param_groups
            self.defaults = optimizer.defaults
            self.state = defaultdict(dict)
            self.count = 0

        def step(self, closure=None):
            loss = self.optimizer.step(closure)
            self.count += 1
            if self.count % self.k == 0:
                for group in self.param_groups:
                    for p in group["params"]:
                        slow = self.state[p].setdefault("slow", torch.clone(p.data).detach())
                        slow += self.alpha * (p.data - slow)
                        p.data.copy_(slow)
            return loss

    return lambda params: Lookahead(torch.optim.Adam(params, lr=0.1))


def lion(torch):
    class Lion(torch.optim.Optimizer):
        def __init__(self, params, lr=1e-2, betas=(0.9, 0.99), weight_decay=0.1):
            super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

        @torch.no_grad()
        def step(self, closure=None):
            loss = None
            if closure is not None:
                with torch.enable_grad():
                    loss = closure()
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    p.data.mul_(1 - group["lr"] * group["weight_decay"])
                    state = self.state[p]
                    if len(state) == 0:
                        state["exp_avg"] = torch.zeros_like(p)
                    exp_avg = state["exp_avg"]
                    beta1, beta2 = group["betas"]
                    update = exp_avg * beta1 + p.grad * (1 - beta1)
                    p.add_(update.sign_(), alpha=-group["lr"])
                    exp_avg.mul_(beta2).add_(p.grad, alpha=1 - beta2)
            return loss

    return Lion


def layerwise(torch):
    from importlib import import_module

    base = import_module(f"{torch.__name__}.optim.optimizer")

    class LARS(base.Optimizer):
        def __init__(self, params, lr=base.required, trust=0.1):
            super().__init__(params, {"lr": lr, "trust": trust, "differentiable": False})

        @base._use_grad_for_differentiable
        def step(self, closure=None):
            assert not torch.is_grad_enabled()
            self._cuda_graph_capture_health_check()
            for group in self.param_groups:
                for p in group["params"]:
                    ratio = group["trust"] * torch.norm(p) / (torch.norm(p.grad) + 1e-9)
                    p.add_(p.grad, alpha=-base._get_value(ratio) * group["lr"])

    return lambda params: LARS(params, lr=0.1)


OPTIMIZERS = {f.__name__: f for f in (sharpness_aware, lookahead, lion, layerwise)}


def train(library, make, steps=9):
    rng = np.random.default_rng(0)
    params = [library.nn.Parameter(from_numpy(library, rng.normal(size=s))) for s in ((3, 2), 4)]
    optimizer = make(library)(params)
    scheduler = library.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

    def closure():
        optimizer.zero_grad()
        loss = sum(((p - 1) ** 2).sum() + p.cos().sum() for p in params)
        loss.backward()
        return loss

    for _ in range(steps):
        if make is layerwise:
            closure()
        optimizer.step(closure)
        scheduler.step()
    return params, scheduler.get_last_lr(), optimizer


@pytest.mark.filterwarnings("ignore:Use _accelerator_graph:DeprecationWarning")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_same_course(name):
    (ours, rate, _), (theirs, wanted, _) = (train(t, OPTIMIZERS[name]) for t in LIBRARIES)
    assert rate == wanted
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(to_numpy(a), to_numpy(b), 1e-9, 1e-9)


def test_a_required_option():
    for library in (rushlight, torch):
        with pytest.raises(ValueError, match="required optimization parameter lr"):
            p = library.nn.Parameter(library.zeros(1))
            base = library.optim.Optimizer
            required = __import__(f"{library.__name__}.optim.optimizer", fromlist=["x"]).required
            base([p], {"lr": required})
