"""The law CUDA = CPU: every op of the registry gives there what it gives here, gradients included.

Run by tests/test_cuda.py on an emulated device and by tools/cuda_check on a real one. An op that
the device does not have yet raises a NotImplementedError that names it; RUSHLIGHT_CUDA_TABLE names
a file that takes what ran.
"""

import json
import os

import pytest

import rushlight as torch
from registry import sample_makers
from samples import function

torch.backends.cudnn.allow_tf32 = False  # which the CPU knows nothing of

DTYPES = [torch.float32, torch.int64, torch.complex64]
if os.environ.get("RUSHLIGHT_CUDA_ALL"):
    DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32,
              torch.uint8, torch.bool, torch.complex64, torch.complex128]  # fmt: skip
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-11, torch.float16: 4e-3, torch.bfloat16: 3e-2,
             torch.complex64: 2e-5, torch.complex128: 1e-11}  # fmt: skip
CASES = list(sample_makers())
if part := os.environ.get("RUSHLIGHT_CUDA_PART"):  # "2/8": every eighth, from the third on
    CASES = CASES[int(part.split("/")[0]) :: int(part.split("/")[1])]
ran: dict[str, dict[str, str]] = {}


@pytest.fixture(scope="module", autouse=True)
def table():
    yield
    if file := os.environ.get("RUSHLIGHT_CUDA_TABLE"):
        with open(file, "w") as out:
            json.dump(ran, out, indent=1, sort_keys=True)


def moved(value, known=None):
    """The same on the device: its layout and its place in its storage too; one tensor stays one."""
    known = {} if known is None else known
    if isinstance(value, torch.Tensor):
        if id(value) not in known:
            room = value.untyped_storage().nbytes() // value.element_size()
            flat = torch.as_strided(value.detach(), (room,), (1,), 0).to("cuda")
            known[id(value)] = flat.as_strided(value.shape, value.stride(), value.storage_offset())
        return known[id(value)]
    if type(value) in (tuple, list):
        return type(value)(moved(v, known) for v in value)
    if type(value) is dict:
        return {k: moved(v, known) for k, v in value.items()}
    return value


def parts(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from parts(part)


def close(ours, theirs, name):
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    assert ours.device.type == "cuda" or theirs.dim() == 0, name
    ours = ours.cpu()
    if not (theirs.is_floating_point() or theirs.is_complex()):
        assert torch.equal(ours, theirs), f"{name}: {ours} on the device, {theirs} here"
        return
    limit = TOLERANCE[theirs.dtype]
    assert torch.allclose(ours, theirs, rtol=limit, atol=limit, equal_nan=True), (
        f"{name}: {ours} on the device, {theirs} here"
    )


def outcome(f, args, kwargs):
    try:
        return f(*args, **kwargs), None
    except Exception as error:
        return None, error


RANDOM = {
    "alpha_dropout", "bernoulli", "bernoulli_", "binomial", "cauchy_", "dropout", "dropout1d",
    "dropout2d", "dropout3d", "exponential_", "feature_alpha_dropout", "feature_dropout",
    "geometric_", "log_normal_", "multinomial", "normal", "normal_", "poisson", "rand", "rand_like",
    "randint", "randint_like", "randn", "randn_like", "random_", "randperm", "rrelu", "uniform_",
    "_sample_dirichlet", "_standard_gamma",
}  # fmt: skip


def is_random(name, kwargs):
    return name.split(".")[-1] in RANDOM


def drawn(make, dtype):
    try:
        return list(make(dtype, 0))
    except RuntimeError:
        assert dtype.is_complex
        return []


def note(name, dtype, what):
    ran.setdefault(name, {})[str(dtype).removeprefix("torch.")] = what


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d).removeprefix("torch."))
@pytest.mark.parametrize(
    ("name", "make"), CASES, ids=[f"{n}-{i}" for i, (n, _) in enumerate(CASES)]
)
def test_values(name, make, dtype):
    f = function(name)
    for args, kwargs in drawn(make, dtype):
        # Copies first: an op may write to its arguments.
        there = moved((args, kwargs))
        wanted, refused = outcome(f, args, kwargs)
        found, error = outcome(f, *there)
        if refused is not None:
            assert error is not None
            continue
        if isinstance(error, NotImplementedError) and "on the device 'cuda'" in str(error):
            note(name, dtype, "missing")
            pytest.skip(str(error))
        if error is not None:
            raise error
        if not is_random(name, kwargs):
            for ours, theirs in zip(parts(found), parts(wanted), strict=True):
                close(ours, theirs, name)
        torch.cuda.synchronize()
        note(name, dtype, "runs")


def leaves(args, kwargs):
    tensors = parts([args, list(kwargs.values())])
    return [t for t in tensors if t.is_floating_point() or t.is_complex()]


def gradients(f, args, kwargs):
    tensors = [t.requires_grad_() for t in leaves(args, kwargs) if t.is_leaf]
    results = [t for t in parts(f(*args, **kwargs)) if t.requires_grad]
    if not tensors or not results:
        return []
    results = [torch.view_as_real(t) if t.is_complex() else t for t in results]
    total = sum(
        (t.float() * torch.arange(1.0, 1 + t.numel(), device=t.device).reshape(t.shape).cos()).sum()
        for t in results
    )
    return torch.autograd.grad(total, tensors, allow_unused=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=["reals", "complex"])
@pytest.mark.parametrize(
    ("name", "make"), CASES, ids=[f"{n}-{i}" for i, (n, _) in enumerate(CASES)]
)
def test_gradients(name, make, dtype):
    f = function(name)
    column = "complex gradient" if dtype.is_complex else "gradient"
    for args, kwargs in drawn(make, dtype):
        if is_random(name, kwargs):
            return
        there = moved((args, kwargs))
        try:
            wanted = gradients(f, args, kwargs)
        except Exception:
            continue
        try:
            found = gradients(f, *there)
        except NotImplementedError as error:
            if "on the device 'cuda'" not in str(error):
                raise
            note(name, column, "missing")
            pytest.skip(str(error))
        assert len(found) == len(wanted)
        for ours, theirs in zip(found, wanted, strict=True):
            assert (ours is None) == (theirs is None)
            if ours is not None:
                close(ours, theirs, name)
        note(name, column, "runs")
