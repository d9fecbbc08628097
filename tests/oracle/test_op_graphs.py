"""Laws over the registry: what a result's history permits, it permits as PyTorch's does.

No op is named but those where PyTorch works on a copy of an argument by accident of its layout.
"""

import itertools
import warnings

import numpy as np
import pytest
import torch

import rushlight
from oracle.harness import derived_here_alone, from_numpy, to_numpy
from registry import ENTRIES, path, samples_of
from sample_linalg import FREE
from samples import SAMPLES

BY_NAME = {path(e): e for e in ENTRIES}
NAMES = sorted(
    {path(e) for e in ENTRIES if e["forms"] and e["derivative"] != "nondifferentiable"}
    | set(SAMPLES)
)
# A gradient that differs from PyTorch's (test_values says why), and results that depend on others.
OTHER_GRADIENTS = {"cholesky_inverse", "cholesky_solve", "linalg.lstsq"}
COPIES = {
    "instance_norm", "kron", "linalg.lstsq", "matmul", "nn.functional.instance_norm",
    "nn.functional.scaled_dot_product_attention", "special.ndtr",
}  # fmt: skip


def find(library, name):
    """The public callable; one in place gets a copy."""
    method = name.removeprefix("Tensor.")
    if method != name and name.endswith("_") and not name.endswith("__"):
        return lambda target, *args, **kwargs: getattr(target.clone(), method)(*args, **kwargs)
    home = library
    for part in name.split("."):
        home = getattr(home, part, None)
    return home if home is not None else getattr(library.Tensor, name, None)


def samples_named(name):
    drawn = SAMPLES[name](rushlight.float64, 1) if name in SAMPLES else None
    drawn = samples_of(BY_NAME[name], rushlight.float64, 1) if drawn is None else drawn
    return list(itertools.islice(drawn, 6))


class Call:
    """One call of an op on results of leaves, with history."""

    def __init__(self, library, name, sample, places=None):
        self.library = library
        self.leaves, self.inputs = [], []
        args = [self.build(a) for a in sample.args]
        kwargs = {k: self.build(v) for k, v in sample.kwargs.items()}
        result = FREE.get(name, lambda f: f)(find(library, name))(*args, **kwargs)
        tensors = self.tensors(result)
        self.places = [i for i, t in enumerate(tensors) if t.requires_grad]
        self.outputs = [tensors[i] for i in (self.places if places is None else places)]

    def build(self, value):
        library = self.library
        if isinstance(value, rushlight.Tensor):
            t = from_numpy(library, np.ascontiguousarray(to_numpy(value)).reshape(value.shape))
            if not (t.is_floating_point() or t.is_complex()):
                return t
            self.leaves.append(t.requires_grad_())
            self.inputs.append(self.leaves[-1] * 1)
            return self.inputs[-1]
        if isinstance(value, (list, tuple)):
            return type(value)(self.build(v) for v in value)
        if isinstance(value, rushlight.dtype):
            return getattr(library, str(value).removeprefix("torch."))
        return value

    def tensors(self, result):
        if isinstance(result, self.library.Tensor):
            return [result]
        return [t for r in result for t in self.tensors(r)] if isinstance(result, tuple) else []

    def gradients(self, of=None, **options):
        of = self.outputs if of is None else of
        weights = [
            self.library.linspace(0.5, 1.5, o.numel(), dtype=self.library.float64)
            .reshape(o.shape)
            .to(o.dtype)
            for o in of
        ]
        return self.library.autograd.grad(of, self.leaves, weights, allow_unused=True, **options)


def second_gradients(library, name, sample, places):
    """The gradients of the gradients that have a history; None: there are none."""
    call = Call(library, name, sample, places)
    first = call.gradients(create_graph=True) if call.outputs else []
    moving = [g for g in first if g is not None and g.requires_grad]
    if not moving:
        return None
    return [None if g is None else to_numpy(g.resolve_conj()) for g in call.gradients(moving)]


@pytest.mark.parametrize("name", NAMES)
def test_gradients_can_be_differentiated_again_where_those_of_torch_can(name):
    if find(torch, name) is None or name in OTHER_GRADIENTS:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in samples_named(name):
            try:
                places = Call(torch, name, sample).places
                theirs = second_gradients(torch, name, sample, places)
            except (RuntimeError, NotImplementedError, TypeError, IndexError):
                continue  # without this op, this sample or this derivative
            if theirs is None:
                continue
            ours = second_gradients(rushlight, name, sample, places)
            assert ours is not None
            for a, b in zip(ours, theirs, strict=True):
                assert a is not None or b is None
                if b is not None and np.isfinite(b).all():
                    np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)


def after_writes(library, name, sample, which):
    """For each input or output, overwritten after the op: whether backward still works."""
    found = []
    count = len(getattr(Call(library, name, sample), which))
    expected = [None if g is None else to_numpy(g) for g in Call(library, name, sample).gradients()]
    for i in range(count):
        call = Call(library, name, sample)
        try:
            with library.no_grad():
                getattr(call, which)[i].mul_(2)
            grads = call.gradients()
        except RuntimeError:
            found.append(False)
            continue
        same = all(
            b is None or np.allclose(to_numpy(a.resolve_conj()), b, equal_nan=True)
            for a, b in zip(grads, expected, strict=True)
        )
        found.append(same)
    return found


@pytest.mark.parametrize("which", ["inputs", "outputs"])
@pytest.mark.parametrize("name", NAMES)
def test_what_torch_does_not_need_may_be_written(name, which):
    if find(torch, name) is None or name in COPIES or derived_here_alone(name):
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in samples_named(name):
            try:
                theirs = after_writes(torch, name, sample, which)
            except (RuntimeError, NotImplementedError, TypeError, IndexError):
                continue
            ours = after_writes(rushlight, name, sample, which)
            for a, b in zip(ours, theirs, strict=False):
                assert a or not b, (sample, ours, theirs)
