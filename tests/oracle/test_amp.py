"""Mixed precision against PyTorch: the dtypes that every op gives, results and gradients."""

import itertools
import warnings

import numpy as np
import pytest
import torch

import rushlight
import samples
from oracle.harness import to_numpy
from registry import ENTRIES, is_pointwise, path, pointwise_call

SHAPES = [(2, 3), (3,), (2, 1)]


def converted(value, library, dtypes):
    """A sample's argument as a tensor of the library, float32 ones of the next dtype."""
    if isinstance(value, rushlight.Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        if dtype == "float32":
            dtype = next(dtypes)
        return library.from_numpy(to_numpy(value)).to(getattr(library, dtype))
    if isinstance(value, rushlight.dtype):
        return getattr(library, str(value).removeprefix("torch."))
    if isinstance(value, (list, tuple)):
        return type(value)(converted(v, library, dtypes) for v in value)
    return value


def find(name, library):
    home = library
    for part in name.split("."):
        home = getattr(home, part, None)
    return home if home is not None else getattr(library.Tensor, name, None)


def dtypes_of(result):
    if isinstance(result, (list, tuple)):
        return [dtypes_of(r) for r in result]
    return str(getattr(result, "dtype", type(result).__name__))


def outcome(name, sample, library, dtypes, enabled=True, region_dtype="bfloat16"):
    """The dtypes of the results, or None where the op refuses its arguments."""
    dtypes = itertools.cycle(dtypes)
    args = [converted(a, library, dtypes) for a in sample.args]
    kwargs = {k: converted(v, library, dtypes) for k, v in sample.kwargs.items()}
    function = find(name, library)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with library.autocast("cpu", getattr(library, region_dtype), enabled):
            try:
                return dtypes_of(function(*args, **kwargs))
            except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
                return None


def samples_of(name):
    if name in samples.SAMPLES:
        return samples.SAMPLES[name](rushlight.float32, 0)
    for entry in ENTRIES:
        if path(entry) == name and is_pointwise(entry):
            args, kwargs = pointwise_call(entry, SHAPES, rushlight.float32, 0)
            return [samples.Sample(tuple(args), kwargs)]
    return []


NAMES = sorted(
    {path(e) for e in ENTRIES if e["forms"]} | {n for n in samples.SAMPLES if find(n, rushlight)}
)
# Functions of several ops in torch, which round between them: here they are one.
COMPOSED = {"linalg.pinv", "linalg.vecdot", "nn.functional.local_response_norm"}


@pytest.mark.parametrize("name", [n for n in NAMES if find(n, torch) and n not in COMPOSED])
def test_dtypes_in_a_region_are_torchs(name):
    mixes = [("float32",), ("bfloat16",), ("float32", "bfloat16"), ("bfloat16", "float32")]
    first = [(sample, mix) for sample in itertools.islice(samples_of(name), 3) for mix in mixes]
    others = [(sample, mixes[1]) for sample in itertools.islice(samples_of(name), 3, 12)]
    for sample, dtypes in first + others:
        if name.endswith("_loss") and sample.kwargs.get("weight") is not None:
            continue  # torch leaves weighted losses in half precision
        ours, theirs = (outcome(name, sample, L, dtypes) for L in (rushlight, torch))
        if ours != theirs and theirs is not None:
            plain = [outcome(name, sample, L, dtypes, enabled=False) for L in (rushlight, torch)]
            assert plain[0] != plain[1], (dtypes, sample, ours, theirs)


# Functions of several ops, some of which have a policy by their arguments.
FUNCTIONS = {
    "reflect": lambda L, F, x: F.pad(x(1, 2, 6), (1, 1), mode="reflect"),
    "reflect3d": lambda L, F, x: F.pad(x(1, 2, 4, 4, 4), (1,) * 6, mode="reflect"),
    "replicate": lambda L, F, x: F.pad(x(1, 2, 6, 6), (1, 1, 1, 1), mode="replicate"),
    "circular": lambda L, F, x: F.pad(x(1, 2, 6), (1, 1), mode="circular"),
    "grid_sample": lambda L, F, x: F.grid_sample(x(1, 2, 4, 4), x(1, 3, 3, 2)),
    "fractional_max_pool2d": lambda L, F, x: F.fractional_max_pool2d(x(1, 2, 6, 6), 2, 3),
    "max_unpool2d": lambda L, F, x: F.max_unpool2d(
        *F.max_pool2d(x(1, 1, 4, 4), 2, return_indices=True), 2
    ),
    "max_pool3d": lambda L, F, x: F.max_pool3d(x(1, 2, 4, 4, 4), 2),
    "max_pool3d_indices": lambda L, F, x: F.max_pool3d(x(1, 2, 4, 4, 4), 2, return_indices=True),
    "adaptive_max_pool3d": lambda L, F, x: F.adaptive_max_pool3d(x(1, 2, 4, 4, 4), 2),
    "interpolate": lambda L, F, x: F.interpolate(x(1, 2, 4, 4), scale_factor=2, mode="bilinear"),
    "gaussian_nll_loss": lambda L, F, x: F.gaussian_nll_loss(x(3, 4), x(3, 4), x(3, 4) + 1),
    "normalize": lambda L, F, x: F.normalize(x(3, 4)),
    "multi_dot": lambda L, F, x: L.linalg.multi_dot([x(3, 4), x(4, 5), x(5, 2)]),
    "attention": lambda L, F, x: L.nn.MultiheadAttention(8, 2)(x(3, 2, 8), x(3, 2, 8), x(3, 2, 8)),
    "lstm": lambda L, F, x: L.nn.LSTM(4, 5)(x(3, 2, 4)),
    "gru_cell": lambda L, F, x: L.nn.GRUCell(4, 5)(x(2, 4)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_dtypes_of_functions_in_a_region_are_torchs(name, dtype):
    def found(L):
        def made(*shape):
            return L.from_numpy(arrays(shape)[0]).abs().to(getattr(L, dtype))

        with L.autocast("cpu"):
            try:
                return dtypes_of(FUNCTIONS[name](L, L.nn.functional, made))
            except (RuntimeError, ValueError) as error:
                if "could not create a primitive" in str(error):
                    pytest.skip("PyTorch's oneDNN lacks it on this processor")
                return type(error)

    assert found(torch) == found(rushlight)


def test_every_op_of_torchs_policy_that_exists_has_samples():
    """So that the test above does meet it."""
    listed = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCPU")
    names = {n.removeprefix("aten::").split(".")[0] for n in listed}
    paths = names | {f"nn.functional.{n}" for n in names}
    paths |= {n.replace("linalg_", "linalg.").replace("fft_", "fft.") for n in names}
    registered = {path(e) for e in ENTRIES}
    assert sorted(p for p in paths & registered if p not in samples.SAMPLES) == []


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["mm", "prod", "cat", "nn.functional.mse_loss", "matmul"])
def test_regions_of_either_half(name, dtype):
    for sample in samples_of(name):
        found = [
            outcome(name, sample, L, ["float32", dtype], region_dtype=dtype)
            for L in (rushlight, torch)
        ]
        assert found[0] == found[1]


def arrays(*shapes, seed=0):
    random = np.random.default_rng(seed)
    return [random.standard_normal(s).astype(np.float32) for s in shapes]


def trained(library, program, given, dtype):
    """The loss and the gradients of float32 leaves, by a program in a region."""
    leaves = [library.from_numpy(a.copy()).requires_grad_() for a in given]
    with library.autocast("cpu", getattr(library, dtype)):
        loss = program(library, *leaves)
    loss.backward()
    assert all(leaf.grad.dtype == library.float32 for leaf in leaves)
    return to_numpy(loss), [to_numpy(leaf.grad) for leaf in leaves]


def mlp(L, x, w1, b1, w2, b2):
    F = L.nn.functional
    hidden = F.gelu(F.linear(x, w1, b1))
    return F.mse_loss(F.linear(hidden, w2, b2), L.ones(5, 3))


def attention(L, q, k, v):
    scores = L.softmax(q @ k.transpose(-2, -1) * 0.3, -1)
    return (scores @ v).float().square().mean()


def classifier(L, x, w, gain, offset):
    F = L.nn.functional
    y = F.layer_norm(x, (8,), gain, offset) @ w
    return F.cross_entropy(y, L.tensor([0, 1, 2, 1, 0]))


def shared_weight(L, x, w):
    """Cast once, used three times: its gradient is the sum."""
    return (L.tanh(L.tanh(x @ w) @ w) @ w).sum()


def mixed_with_a_full_region(L, x, w):
    y = x @ w
    with L.autocast("cpu", enabled=False):
        z = y.float() @ w
    return (z @ w).sum()


PROGRAMS = {
    mlp: [(5, 8), (16, 8), (16,), (3, 16), (3,)],
    attention: [(2, 4, 5, 8), (2, 4, 6, 8), (2, 4, 6, 8)],
    classifier: [(5, 8), (8, 3), (8,), (8,)],
    shared_weight: [(5, 8), (8, 8)],
    mixed_with_a_full_region: [(5, 8), (8, 8)],
}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_programs_give_torchs_losses_and_gradients(program, dtype):
    given = arrays(*PROGRAMS[program])
    ours, theirs = (trained(L, program, given, dtype) for L in (rushlight, torch))
    step = 2**-8 if dtype == "bfloat16" else 2**-11
    np.testing.assert_allclose(ours[0], theirs[0], rtol=4 * step)
    for a, b in zip(ours[1], theirs[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=6 * step * np.abs(b).max())


def losses_of(library, weights, dtype, steps=10):
    """The losses of a small transformer's training in a region, from given weights."""
    nn = library.nn
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    model = nn.Sequential(nn.Linear(6, 16), layer, nn.LayerNorm(16), nn.Linear(16, 4))
    if weights is None:
        weights = {k: v.numpy().copy() for k, v in model.state_dict().items()}
    model.load_state_dict({k: library.from_numpy(v.copy()) for k, v in weights.items()})
    x, classes = arrays((8, 5, 6))[0], np.arange(40) % 4
    x, target = library.from_numpy(x), library.from_numpy(classes)
    optimizer = library.optim.AdamW(model.parameters(), lr=0.01)
    scaler = library.amp.GradScaler("cpu", init_scale=256.0, enabled=dtype == "float16")
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        with library.autocast("cpu", getattr(library, dtype)):
            loss = nn.functional.cross_entropy(model(x).reshape(40, 4), target)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses, weights


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_transformer_trains_as_in_torch(dtype):
    torch.manual_seed(0)
    theirs, weights = losses_of(torch, None, dtype)
    ours, _ = losses_of(rushlight, weights, dtype)
    assert theirs[-1] < 0.9 * theirs[0]
    np.testing.assert_allclose(ours, theirs, rtol=0.01)


def scaled_run(library, scripted):
    """The log of a scaler that meets finite and infinite gradients as scripted."""
    w = library.ones(3, requires_grad=True)
    steps = []

    class Descent:
        def __init__(self):
            self.param_groups = [{"params": [w]}]

        def step(self):
            steps.append(w.grad.tolist())

    scaler = library.amp.GradScaler("cpu", init_scale=64.0, growth_interval=2)
    optimizer, log = Descent(), []
    for factor in scripted:
        w.grad = None
        scaler.scale((w * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        log.append((scaler.get_scale(), scaler._get_growth_tracker()))
    return log, steps, scaler.state_dict()


def test_the_scale_moves_as_torchs():
    inf, nan = float("inf"), float("nan")
    scripted = [1.0, 2.0, inf, 1.0, 3.0, nan, nan, 1.0, 1.0, 1.0, 1e38, 1.0]
    assert scaled_run(rushlight, scripted) == scaled_run(torch, scripted)
