"""Every schedule gives exactly the rates that PyTorch's gives."""

import copy
import math
import warnings

import pytest
import torch

import rushlight
from oracle.harness import LIBRARIES


class Halving:
    """A callable with state."""

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, epoch):
        return self.factor ** (epoch / 3)


def chained(o, S):
    return S.ChainedScheduler([S.ConstantLR(o, 0.1, 3), S.ExponentialLR(o, 0.9)])


def sequential(o, S):
    parts = [S.ConstantLR(o, 0.1, 4), S.ExponentialLR(o, 0.9), S.CosineAnnealingLR(o, 5)]
    return S.SequentialLR(o, parts, [3, 9])


def nested(o, S):
    inner = S.ChainedScheduler([S.LinearLR(o, 0.25, total_iters=4), S.ExponentialLR(o, 0.9)])
    return S.SequentialLR(o, [inner, S.StepLR(o, 2, 0.5)], [6])


SCHEDULES = {
    "LambdaLR": lambda o, S: S.LambdaLR(o, lambda e: 0.95**e),
    "LambdaLR list": lambda o, S: S.LambdaLR(o, [lambda e: 0.95**e, Halving(0.8)]),
    "MultiplicativeLR": lambda o, S: S.MultiplicativeLR(o, lambda e: 0.9 + 0.01 * e),
    "StepLR": lambda o, S: S.StepLR(o, 3, 0.3),
    "MultiStepLR": lambda o, S: S.MultiStepLR(o, [2, 5, 5, 9], 0.3),
    "ConstantLR": lambda o, S: S.ConstantLR(o, 0.3, 4),
    "LinearLR": lambda o, S: S.LinearLR(o, 0.2, 0.7, 6),
    "ExponentialLR": lambda o, S: S.ExponentialLR(o, 0.87),
    "PolynomialLR": lambda o, S: S.PolynomialLR(o, 7, 1.7),
    "CosineAnnealingLR": lambda o, S: S.CosineAnnealingLR(o, 6, 0.01),
    "CosineAnnealingWarmRestarts": lambda o, S: S.CosineAnnealingWarmRestarts(o, 3, 2, 0.001),
    "CosineAnnealingWarmRestarts 1": lambda o, S: S.CosineAnnealingWarmRestarts(o, 4),
    "CyclicLR": lambda o, S: S.CyclicLR(o, 0.01, 0.2, 4),
    "CyclicLR 2": lambda o, S: S.CyclicLR(o, [0.01, 0.02], [0.1, 0.2], 3, 5, mode="triangular2"),
    "CyclicLR exp": lambda o, S: S.CyclicLR(o, 0.01, 0.2, 4, mode="exp_range", gamma=0.9),
    "CyclicLR custom": lambda o, S: S.CyclicLR(
        o, 0.01, 0.2, 4, scale_fn=Halving(0.5), scale_mode="iterations", cycle_momentum=False
    ),
    "OneCycleLR": lambda o, S: S.OneCycleLR(o, 0.3, total_steps=20),
    "OneCycleLR linear": lambda o, S: S.OneCycleLR(
        o, [0.3, 0.1], epochs=5, steps_per_epoch=4, anneal_strategy="linear", three_phase=True
    ),
    "ChainedScheduler": chained,
    "SequentialLR": sequential,
    "SequentialLR nested": nested,
}
KEYS = ("lr", "momentum", "betas", "initial_lr", "max_lr", "min_lr")


def optimizer_of(library, kind="SGD", tensor=False):
    params = [library.nn.Parameter(library.zeros(1)) for _ in range(2)]
    lr = library.tensor(0.1, dtype=library.float64) if tensor else 0.1
    options = {"momentum": 0.9} if kind == "SGD" else {}
    second = library.tensor(0.05, dtype=library.float64) if tensor else 0.05
    groups = [{"params": [params[0]]}, {"params": [params[1]], "lr": second}]
    return getattr(library.optim, kind)(groups, lr=lr, **options)


def number(value):
    return value.item() if hasattr(value, "item") else value


def settings(optimizer):
    return [{k: number(g[k]) for k in KEYS if k in g} for g in optimizer.param_groups]


def run(library, make, steps=20, **options):
    optimizer = optimizer_of(library, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a chain inside a sequence steps early
        scheduler = make(optimizer, library.optim.lr_scheduler)
    trace = []
    for _ in range(steps):
        trace.append((settings(optimizer), [number(v) for v in scheduler.get_last_lr()]))
        optimizer.step()
        scheduler.step()
    return trace, optimizer, scheduler


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_rates(name, kind):
    ours, theirs = (run(library, SCHEDULES[name], kind=kind) for library in LIBRARIES)
    assert ours[0] == theirs[0]


@pytest.mark.parametrize("name", SCHEDULES)
def test_tensor_rates(name):
    ours, theirs = (run(library, SCHEDULES[name], tensor=True) for library in LIBRARIES)
    for a, b in zip(ours[0], theirs[0], strict=True):
        assert a[1] == pytest.approx(b[1], rel=1e-12, abs=1e-15)


def described(state):
    if isinstance(state, dict):
        return {str(k): described(v) for k, v in state.items()}
    if isinstance(state, (list, tuple)):
        return [described(v) for v in state]
    return state


@pytest.mark.parametrize("name", SCHEDULES)
def test_state_dicts(name):
    """The same entries; loading one continues the schedule."""
    ours, theirs = (run(library, SCHEDULES[name], steps=6) for library in LIBRARIES)
    mine = described(ours[2].state_dict())
    assert mine == described(theirs[2].state_dict())
    _, optimizer, scheduler = run(rushlight, SCHEDULES[name], steps=0)
    optimizer.load_state_dict(ours[1].state_dict())
    scheduler.load_state_dict(copy.deepcopy(theirs[2].state_dict()))
    for o, s in ((optimizer, scheduler), theirs[1:]):
        for _ in range(5):
            o.step()
            s.step()
    assert settings(optimizer) == settings(theirs[1])


@pytest.mark.parametrize("name", SCHEDULES)
def test_given_epochs(name):
    if "Chained" in name or "Sequential" in name:
        pytest.skip("takes no epoch")

    def rates(library):
        optimizer = optimizer_of(library)
        scheduler = SCHEDULES[name](optimizer, library.optim.lr_scheduler)
        out = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for epoch in (0, 3, 4, 11, 7):
                scheduler.step(epoch)
                out.append(settings(optimizer))
        return out

    assert rates(rushlight) == rates(torch)


@pytest.mark.parametrize("name", SCHEDULES)
def test_resuming(name):
    """A new schedule at last_epoch=4 on an optimizer that has its initial rates."""
    if name.split()[0] in ("ChainedScheduler", "SequentialLR"):
        pytest.skip("made of others")

    def rates(library):
        _, optimizer, scheduler = run(library, SCHEDULES[name], steps=4)
        make = SCHEDULES[name]

        class Resumed:
            def __getattr__(self, schedule):
                return lambda *args, **kwargs: getattr(library.optim.lr_scheduler, schedule)(
                    *args, **kwargs, last_epoch=3
                )

        scheduler = make(optimizer, Resumed())
        out = []
        for _ in range(6):
            optimizer.step()
            scheduler.step()
            out.append(settings(optimizer))
        return out

    assert rates(rushlight) == rates(torch)


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("threshold_mode", ["rel", "abs"])
@pytest.mark.parametrize("options", [{}, {"cooldown": 2, "min_lr": [0.02, 0.001], "eps": 1e-3}])
def test_plateau(mode, threshold_mode, options):
    def rates(library):
        optimizer = optimizer_of(library)
        scheduler = library.optim.lr_scheduler.ReduceLROnPlateau(
            optimizer,
            mode,
            factor=0.5,
            patience=2,
            threshold=0.01,
            threshold_mode=threshold_mode,
            **options,
        )
        out = []
        for epoch in range(40):
            scheduler.step(math.sin(epoch / 3) + 0.001 * epoch)
            out.append((scheduler.get_last_lr(), scheduler.num_bad_epochs, scheduler.best))
        return out, scheduler.state_dict()

    assert rates(rushlight) == rates(torch)


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 5])
def test_swalr(strategy, epochs):
    def rates(library):
        optimizer = optimizer_of(library)
        scheduler = library.optim.swa_utils.SWALR(optimizer, [0.02, 0.5], epochs, strategy)
        out = []
        for _ in range(8):
            out.append(scheduler.get_last_lr())
            optimizer.step()
            scheduler.step()
        return out, scheduler.state_dict()

    assert rates(rushlight) == rates(torch)


WARNINGS = {
    "before the optimizer": lambda o, s: s.step(),
    "get_lr": lambda o, s: s.get_lr(),
    "epoch": lambda o, s: (o.step(), s.step(3)),
    "in order": lambda o, s: (o.step(), s.step(), s.step()),
    "overridden": lambda o, s: (setattr(o, "step", lambda: None), s.step()),
    "second scheduler": lambda o, s: (o.step(), type(s)(o, 0.5).step()),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_warnings(name):
    def seen(library):
        optimizer = optimizer_of(library)
        optimizer.step()  # a step before the schedule exists does not count
        scheduler = library.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            WARNINGS[name](optimizer, scheduler)
        if library is rushlight:
            assert all(w.filename == __file__ for w in caught)
        return [(w.category, str(w.message)[:60]) for w in caught]

    assert seen(rushlight) == seen(torch)


ERRORS = {
    "no optimizer": lambda o, S: S.StepLR(1, 2),
    "resume": lambda o, S: S.StepLR(o, 2, last_epoch=3),
    "lambdas": lambda o, S: S.LambdaLR(o, [len]),
    "not callable": lambda o, S: S.MultiplicativeLR(o, 3),
    "factor": lambda o, S: S.ConstantLR(o, 2.0),
    "start": lambda o, S: S.LinearLR(o, 0.0),
    "end": lambda o, S: S.LinearLR(o, 0.5, 2.0),
    "T_0": lambda o, S: S.CosineAnnealingWarmRestarts(o, 0),
    "T_mult": lambda o, S: S.CosineAnnealingWarmRestarts(o, 1, 0),
    "eta_min": lambda o, S: S.CosineAnnealingWarmRestarts(o, 1, eta_min="x"),
    "mode": lambda o, S: S.CyclicLR(o, 0.1, 0.2, mode="square"),
    "lengths": lambda o, S: S.CyclicLR(o, [0.1], 0.2),
    "one cycle": lambda o, S: S.OneCycleLR(o, 0.1),
    "one cycle steps": lambda o, S: S.OneCycleLR(o, 0.1, total_steps=-1),
    "one cycle epochs": lambda o, S: S.OneCycleLR(o, 0.1, epochs=0, steps_per_epoch=3),
    "pct": lambda o, S: S.OneCycleLR(o, 0.1, 9, pct_start=2),
    "strategy": lambda o, S: S.OneCycleLR(o, 0.1, 9, anneal_strategy="x"),
    "plateau factor": lambda o, S: S.ReduceLROnPlateau(o, factor=1.0),
    "plateau mode": lambda o, S: S.ReduceLROnPlateau(o, mode="x"),
    "plateau threshold": lambda o, S: S.ReduceLROnPlateau(o, threshold_mode="x"),
    "plateau min_lr": lambda o, S: S.ReduceLROnPlateau(o, min_lr=[0.1]),
    "chained none": lambda o, S: S.ChainedScheduler([]),
    "chained plateau": lambda o, S: S.ChainedScheduler([S.ReduceLROnPlateau(o)]),
    "sequential none": lambda o, S: S.SequentialLR(o, [], []),
    "sequential milestones": lambda o, S: S.SequentialLR(o, [S.StepLR(o, 2)], [3]),
    "past the end": lambda o, S: [S.OneCycleLR(o, 0.1, 1).step() for _ in range(3)],
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    def attempt(library):
        optimizer = optimizer_of(library)
        optimizer.step()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                ERRORS[name](optimizer, library.optim.lr_scheduler)
            except Exception as error:
                return error
        return None

    ours, theirs = attempt(rushlight), attempt(torch)
    assert type(ours) is type(theirs)
    assert str(ours)[:35].startswith(str(theirs)[:35].rstrip("."))
