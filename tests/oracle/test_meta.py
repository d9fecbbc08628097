"""Law over the registry: results on meta have the shapes, strides and dtypes of PyTorch's there.

Where PyTorch's meta strides are not those of its CPU, ours may be the latter, and ops that leave
another layout on the CPU do so here.
"""

import pytest
import torch

import rushlight
from oracle.harness import to_numpy
from oracle.layouts import find, tensors_in
from oracle.test_strides import CHOSEN
from registry import sample_makers

CASES = [(name, make) for name, make in sample_makers() if not name.startswith("Tensor.")]


# Ops that PyTorch answers on meta, and we do not.
REFUSED = {"index_put": "masks, of which it has to be known how many elements they choose"}


def build(library, value, device):
    if isinstance(value, rushlight.Tensor):
        if device == "cpu":
            value = value.detach()
            t = library.from_numpy(to_numpy(value)).to(kind(library, value.dtype))
            return t if value.is_contiguous() else laid_out(library, t, value.stride())
        made = library.empty_strided
        return made(
            tuple(value.shape), value.stride(), dtype=kind(library, value.dtype), device=device
        )
    if isinstance(value, rushlight.dtype):
        return kind(library, value)
    if type(value) in (tuple, list):
        return type(value)(build(library, v, device) for v in value)
    return value


def steps(t):
    """The strides that elements are found by."""
    return [s for n, s in zip(t.shape, t.stride(), strict=True) if n > 1 and t.numel()]


def without_strides(results):
    return results and [(shape, dtype) for shape, dtype, _ in results]


def kind(library, dtype):
    return getattr(library, str(dtype).removeprefix("torch."))


def laid_out(library, t, strides):
    return library.empty_strided(tuple(t.shape), strides, dtype=t.dtype).copy_(t)


def outcome(library, function, sample, device):
    """The shape, dtype and strides of each result, or None where the library refuses."""
    args, kwargs = sample
    try:
        given = {k: build(library, v, device) for k, v in kwargs.items()}
        results = tensors_in(function(*build(library, tuple(args), device), **given), library)
        return [(tuple(t.shape), str(t.dtype), steps(t)) for t in results]
    except Exception:
        return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "make"), CASES, ids=[f"{n}-{i}" for i, (n, _) in enumerate(CASES)]
)
def test_ops(name, make):
    ours, theirs = find(rushlight, name), find(torch, name)
    for sample in make(rushlight.float32, 1):
        wanted = outcome(torch, theirs, sample, "meta")
        found = outcome(rushlight, ours, sample, "meta")
        if wanted is None or (found is None and name in REFUSED):
            continue
        if name.split(".")[-1] in CHOSEN or name.startswith("fft."):
            assert without_strides(found) == without_strides(wanted), sample
            continue
        assert found == wanted or found == outcome(torch, theirs, sample, "cpu"), sample
