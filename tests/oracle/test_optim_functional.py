"""The rules of optimizers as functions of lists."""

from importlib import import_module

import numpy as np
import pytest

from oracle.harness import LIBRARIES, from_numpy, to_numpy

FORMS = {
    "sgd": (
        ["none"],
        {"weight_decay": 0.1, "momentum": 0.9, "lr": 0.1, "dampening": 0.2, "nesterov": False},
    ),
    "adam": (
        ["zeros", "zeros", "zeros", "step"],
        {"amsgrad": True, "beta1": 0.8, "beta2": 0.9, "lr": 0.1, "weight_decay": 0.1, "eps": 1e-6},
    ),
    "adamw": (
        ["zeros", "zeros", "zeros", "step"],
        {"amsgrad": False, "beta1": 0.8, "beta2": 0.9, "lr": 0.1, "weight_decay": 0.1, "eps": 1e-6},
    ),
    "rmsprop": (
        ["zeros", "zeros", "zeros", "step"],
        {
            "lr": 0.1,
            "alpha": 0.9,
            "eps": 1e-6,
            "weight_decay": 0.1,
            "momentum": 0.5,
            "centered": True,
        },
    ),
    "adagrad": (
        ["zeros", "step"],
        {"lr": 0.1, "weight_decay": 0.1, "lr_decay": 0.1, "eps": 1e-6},
    ),
    "adadelta": (
        ["zeros", "zeros", "step"],
        {"lr": 0.1, "rho": 0.9, "eps": 1e-6, "weight_decay": 0.1},
    ),
    "adamax": (
        ["zeros", "zeros", "step"],
        {"eps": 1e-6, "beta1": 0.8, "beta2": 0.9, "lr": 0.1, "weight_decay": 0.1},
    ),
    "nadam": (
        ["zeros", "zeros", "one", "step"],
        {
            "beta1": 0.8,
            "beta2": 0.9,
            "lr": 0.1,
            "weight_decay": 0.1,
            "momentum_decay": 0.01,
            "eps": 1e-6,
            "decoupled_weight_decay": True,
        },
    ),
    "radam": (
        ["zeros", "zeros", "step"],
        {"beta1": 0.8, "beta2": 0.9, "lr": 0.1, "weight_decay": 0.1, "eps": 1e-6},
    ),
    "rprop": (
        ["zeros", "ones", "step"],
        {"step_size_min": 1e-3, "step_size_max": 2.0, "etaminus": 0.5, "etaplus": 1.2},
    ),
    "asgd": (
        ["zeros", "one", "one", "step"],
        {"lambd": 0.1, "lr": 0.1, "t0": 1, "alpha": 0.5, "weight_decay": 0.1},
    ),
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_form(name, maximize, dtype):
    kinds, options = FORMS[name]

    def run(library):
        rng = np.random.default_rng(0)

        def tensors():
            arrays = [rng.normal(size=s) + 1j * rng.normal(size=s) for s in ((2, 3), (4,))]
            arrays = [a if dtype == "complex128" else a.real for a in arrays]
            return [from_numpy(library, a) for a in arrays]

        params = tensors()
        make = {
            "zeros": library.zeros_like,
            "ones": lambda p: library.full_like(p, 1 + 1j if dtype == "complex128" else 1),
            "one": lambda p: library.tensor(1.0, dtype=library.float64),
            "step": lambda p: library.tensor(0.0),
            "none": lambda p: None,
        }
        states = [[make[kind](p) for p in params] for kind in kinds]
        form = getattr(import_module(f"{library.__name__}.optim._functional"), name)
        with library.no_grad():
            for _ in range(3):
                form(params, tensors(), *states, **options, maximize=maximize)
        return [*params, *(t for state in states for t in state)]

    ours, theirs = (run(library) for library in LIBRARIES)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(to_numpy(a), to_numpy(b), 1e-8, 1e-8)


def test_what_is_missing_is_named():
    for library in LIBRARIES:
        sgd = import_module(f"{library.__name__}.optim.sgd").sgd
        with pytest.raises(TypeError, match=r"missing.*required.*momentum"):
            sgd([], [], [], weight_decay=0.0, lr=0.1, dampening=0, nesterov=False, maximize=False)
