"""Linear algebra on the samples of PyTorch's own tests: values and two orders of gradients."""

import warnings

import numpy as np
import pytest
import torch

import rushlight
from oracle.harness import from_numpy, to_numpy
from oracle.opinfo import op_db
from sample_linalg import FREE

OTHERS = {
    "cholesky", "cholesky_solve", "corrcoef", "cov", "geqrf", "inverse",
    "logdet", "lu", "lu_solve", "lu_unpack", "matrix_exp", "ormqr", "pinverse", "qr", "renorm",
    "svd", "triangular_solve", "vdot",
}  # fmt: skip
OPS = [o for o in op_db if o.name.startswith("linalg.") or o.name in OTHERS]
# Why no gradient is compared.
VALUES_ONLY = {
    "cholesky_inverse": "PyTorch's gradient of the triangle that is not read is not zero",
    "cholesky_solve": "PyTorch's gradient of the triangle that is not read is not zero",
    "linalg.lstsq": "singular values have a gradient here",
    "lu_solve": "PyTorch's gradient of the factors",
}
SAMPLES = 12


def in_ours(value):
    """The argument for rushlight: tensors keep their numbers, layout and need of gradients."""
    if isinstance(value, torch.Tensor):
        t = from_numpy(rushlight, np.array(value.detach().resolve_conj().resolve_neg().numpy()))
        return t.requires_grad_(value.requires_grad)
    if isinstance(value, torch.dtype):
        return getattr(rushlight, str(value).removeprefix("torch."))
    if isinstance(value, (tuple, list)):
        return type(value)(map(in_ours, value))
    if isinstance(value, dict):
        return {k: in_ours(v) for k, v in value.items()}
    return value


def leaves_of(values):
    for value in values:
        if hasattr(value, "requires_grad"):
            if value.requires_grad:
                yield value
        elif isinstance(value, (tuple, list)):
            yield from leaves_of(value)


def tensors_of(result):
    flat = result if isinstance(result, (tuple, list)) else [result]
    return [t for t in flat if hasattr(t, "requires_grad")]


def weights(library, t):
    numbers = np.cos(1 + np.arange(t.numel(), dtype=np.float64)).reshape(tuple(t.shape))
    return from_numpy(library, numbers).to(t.dtype)


def function(library, op):
    home = library
    for part in op.name.split("."):
        home = getattr(home, part)
    f = FREE.get(op.name, lambda g: g)(home)
    return lambda *args, **kwargs: op.gradcheck_wrapper(f, *args, **kwargs)


def pull(library, outputs, leaves, again):
    grads = library.autograd.grad(
        outputs, leaves, [weights(library, y) for y in outputs], create_graph=again,
        allow_unused=True,
    )  # fmt: skip
    return [library.zeros_like(x) if g is None else g for g, x in zip(grads, leaves, strict=True)]


def outcome(library, op, args, kwargs):
    """(values, gradients, their gradients); of what the library refuses, None."""
    leaves = list(leaves_of([*args, *kwargs.values()]))
    found = [None, None, None]
    results = tensors_of(function(library, op)(*args, **kwargs))
    found[0] = [numbers(r) for r in results]
    tops = [r for r in results if r.requires_grad]
    if not tops or not leaves or op.name in VALUES_ONLY or not op.supports_autograd:
        return found
    try:
        first = pull(library, tops, leaves, True)
        found[1] = [numbers(g) for g in first]
        again = [g for g in first if g.requires_grad]
        if again and op.supports_gradgrad:
            found[2] = [numbers(g) for g in pull(library, again, leaves, False)]
    except (RuntimeError, NotImplementedError):
        if library is rushlight:
            raise
    return found


def numbers(t):
    return to_numpy(t.detach().resolve_conj())


def check(mine, other, what):
    assert len(mine) == len(other), what
    for a, b in zip(mine, other, strict=True):
        assert a.shape == b.shape, what
        if np.isfinite(b).all():
            size = max(1.0, float(np.abs(b).max(initial=0)))
            np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-8 * size, err_msg=str(what))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=["real", "complex"])
@pytest.mark.parametrize("op", OPS, ids=lambda o: f"{o.name}-{o.variant_test_name}")
def test_on_the_samples_of_pytorch(op, dtype):
    if dtype not in op.dtypes:
        return
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=True)):
            if i == SAMPLES:
                break
            args, kwargs = (sample.input, *sample.args), sample.kwargs
            try:
                theirs = outcome(torch, op, args, kwargs)
            except RuntimeError:
                continue
            ours = outcome(rushlight, op, in_ours(args), in_ours(kwargs))
            for kind, mine, other in zip(("value", "first", "second"), ours, theirs, strict=True):
                if other is not None and mine is None:  # it does not depend on anything
                    assert not any(o.any() for o in other), (op.name, kind, i)
                elif other is not None:
                    check(mine, other, (op.name, kind, i))


def test_every_name_is_there():
    hidden = {"Tensor", "common_notes"}
    names = {n for n in dir(torch.linalg) if not n.startswith("_")} - hidden
    assert names <= set(dir(rushlight.linalg))
    for name in ("lobpcg", "pca_lowrank", "svd_lowrank", *OTHERS):
        assert hasattr(rushlight, name)
