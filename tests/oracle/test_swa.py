"""Averages of models, as PyTorch computes them."""

import numpy as np
import pytest
import torch

import rushlight
from oracle.harness import LIBRARIES, from_numpy, to_numpy


def model_of(library, seed=0):
    rng = np.random.default_rng(seed)
    nn = library.nn
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2)).double()
    with library.no_grad():
        for p in model.parameters():
            p.copy_(from_numpy(library, rng.normal(size=tuple(p.shape))))
    return model


AVERAGES = {
    "default": lambda swa: {},
    "buffers": lambda swa: {"use_buffers": True},
    "ema": lambda swa: {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.8)},
    "ema buffers": lambda swa: {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.8), "use_buffers": True},
    "swa": lambda swa: {"multi_avg_fn": swa.get_swa_multi_avg_fn()},
    "ema one by one": lambda swa: {"avg_fn": swa.get_ema_avg_fn(0.8)},
    "swa one by one": lambda swa: {"avg_fn": swa.get_swa_avg_fn()},
    "own": lambda swa: {"avg_fn": lambda mean, value, n: mean * 0.25 + value * 0.75 + n},
}


@pytest.mark.parametrize("name", AVERAGES)
def test_averages(name):
    def run(library):
        swa = library.optim.swa_utils
        model = model_of(library)
        averaged = swa.AveragedModel(model, **AVERAGES[name](swa))
        optimizer = library.optim.SGD(model.parameters(), lr=0.1)
        data = from_numpy(library, np.random.default_rng(5).normal(size=(6, 3)))
        for _ in range(4):
            optimizer.zero_grad()
            (model(data) ** 2).mean().backward()
            optimizer.step()
            averaged.update_parameters(model)
        averaged.eval()
        return averaged.state_dict(), averaged(data)

    (ours, out), (theirs, wanted) = (run(library) for library in LIBRARIES)
    assert list(ours) == list(theirs)
    for key in theirs:
        np.testing.assert_allclose(to_numpy(ours[key]), to_numpy(theirs[key]), 1e-8, 1e-8)
    np.testing.assert_allclose(to_numpy(out), to_numpy(wanted), 1e-8, 1e-8)


def test_update_bn():
    def run(library):
        model = model_of(library).eval()
        rng = np.random.default_rng(2)
        loader = [
            (from_numpy(library, rng.normal(size=(5, 3))), from_numpy(library, np.zeros(5)))
            for _ in range(3)
        ]
        library.optim.swa_utils.update_bn(loader, model)
        assert not model.training
        assert model[1].momentum == 0.1
        return [to_numpy(b) for b in model.buffers()]

    for ours, theirs in zip(run(rushlight), run(torch), strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-10)


def test_refusals():
    for library in LIBRARIES:
        swa = library.optim.swa_utils
        with pytest.raises(ValueError, match=r"Invalid decay value 1\.5 provided"):
            swa.get_ema_multi_avg_fn(1.5)
        with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn"):
            swa.AveragedModel(model_of(library), avg_fn=len, multi_avg_fn=len)
        optimizer = library.optim.SGD(model_of(library).parameters())
        with pytest.raises(ValueError, match="anneal_strategy must be one of"):
            swa.SWALR(optimizer, 0.1, anneal_strategy="x")
        with pytest.raises(ValueError, match="anneal_epochs must be equal or greater than 0"):
            swa.SWALR(optimizer, 0.1, anneal_epochs=-1)
