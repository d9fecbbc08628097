"""The tangent of every op is PyTorch's, where PyTorch has the op and its forward derivative."""

import warnings

import numpy as np
import pytest
import torch

import rushlight
from oracle.harness import from_numpy, to_numpy
from registry import ENTRIES, path, samples_of
from sample_linalg import FREE
from samples import DIFFERENTIATED

# PyTorch's tangents depend on the triangle that is not read.
TRIANGLES = {"cholesky_inverse", "cholesky_solve", "triangular_solve"}
NAMES = sorted({path(e) for e in ENTRIES if e["derivative"] != "nondifferentiable"} - TRIANGLES)
BY_NAME = {path(e): e for e in ENTRIES}


def find(library, name):
    for part in name.split("."):
        library = getattr(library, part, None)
    return library


def is_number(t):
    return t.is_floating_point() or t.is_complex()


def tangents(library, name, sample):
    """The tangents of the results, for a tangent in every argument that may have one."""
    forward_ad = library.autograd.forward_ad
    drawn = np.random.default_rng(5)

    def build(value):
        if isinstance(value, rushlight.Tensor):
            t = from_numpy(library, to_numpy(value))
            if not is_number(t):
                return t
            moved = drawn.standard_normal(tuple(t.shape)).astype(to_numpy(value).dtype)
            return forward_ad.make_dual(t, from_numpy(library, moved))
        if isinstance(value, (list, tuple)):
            return type(value)(build(v) for v in value)
        if isinstance(value, rushlight.dtype):
            return getattr(library, str(value).removeprefix("torch."))
        return value

    with forward_ad.dual_level(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        args = [build(a) for a in sample.args]
        function = FREE.get(name, lambda f: f)(find(library, name))
        function = DIFFERENTIATED.get(name, lambda f: f)(function)
        result = function(*args, **{k: build(v) for k, v in sample.kwargs.items()})
        results = result if isinstance(result, (tuple, list)) else [result]
        tensors = [r for r in results if isinstance(r, library.Tensor)]
        found = [forward_ad.unpack_dual(t).tangent for t in tensors]
        return [None if t is None else to_numpy(t.detach()) for t in found]


@pytest.mark.parametrize("name", NAMES)
def test_tangents_are_those_of_torch(name):
    if find(torch, name) is None or BY_NAME[name]["family"] == "random":
        return
    for sample in samples_of(BY_NAME[name], rushlight.float64, 1):
        try:
            theirs = tangents(torch, name, sample)
        except Exception:
            continue  # not in PyTorch, or not with a forward derivative
        try:
            ours = tangents(rushlight, name, sample)
        except RuntimeError as error:
            assert "not differentiable with respect to argument" in str(error)  # noqa: PT017
            continue  # where PyTorch drops the tangent
        for a, b in zip(ours, theirs, strict=True):
            # PyTorch gives some empty results another shape. A tangent left out is one of zeros.
            if b is not None and b.size > 0:
                a = np.zeros_like(b) if a is None else a
                np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)  # some are in float32 there
