"""Every optimizer with its options takes the same steps as PyTorch's."""

import inspect

import numpy as np
import pytest
import torch

import rushlight
from oracle.harness import LIBRARIES, from_numpy, to_numpy

STEPS = 20
DECAY = [{}, {"weight_decay": 0.1}, {"weight_decay": 0.05, "maximize": True}]
OPTIONS = {
    "SGD": [
        {"lr": 0.1},
        {"lr": 0.1, "weight_decay": 0.1, "maximize": True},
        {"lr": 0.05, "momentum": 0.9},
        {"lr": 0.05, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.02},
        {"lr": 0.05, "momentum": 0.8, "nesterov": True, "weight_decay": 0.02},
        {"lr": 0.05, "momentum": 0.8, "nesterov": True, "maximize": True},
    ],
    "Adam": [
        *({"lr": 0.05, **d} for d in DECAY),
        {"lr": 0.05, "amsgrad": True},
        {"lr": 0.05, "amsgrad": True, "weight_decay": 0.1, "betas": (0.3, 0.7), "eps": 1e-3},
        {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True},
    ],
    "AdamW": [
        {"lr": 0.05},
        {"lr": 0.05, "amsgrad": True, "weight_decay": 0.2},
        {"lr": 0.05, "weight_decay": 0.0, "maximize": True},
    ],
    "RMSprop": [
        *({"lr": 0.02, **d} for d in DECAY),
        {"lr": 0.02, "centered": True},
        {"lr": 0.02, "momentum": 0.8},
        {"lr": 0.02, "momentum": 0.8, "centered": True, "alpha": 0.8, "weight_decay": 0.1},
    ],
    "Adagrad": [
        *({"lr": 0.1, **d} for d in DECAY),
        {"lr": 0.1, "lr_decay": 0.2, "initial_accumulator_value": 0.5},
    ],
    "Adadelta": [*({"lr": 1.0, **d} for d in DECAY), {"rho": 0.5, "eps": 1e-3}],
    "Adamax": [*({"lr": 0.05, **d} for d in DECAY), {"betas": (0.5, 0.6), "eps": 1e-3}],
    "NAdam": [
        *({"lr": 0.05, **d} for d in DECAY),
        {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True, "momentum_decay": 0.1},
    ],
    "RAdam": [
        *({"lr": 0.05, **d} for d in DECAY),
        {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True},
        {"lr": 0.05, "betas": (0.8, 0.6)},
    ],
    "Rprop": [{"lr": 0.01}, {"lr": 0.05, "etas": (0.3, 1.5), "maximize": True}],
    "ASGD": [
        *({"lr": 0.05, **d} for d in DECAY),
        {"lr": 0.05, "lambd": 0.1, "alpha": 0.5, "t0": 5},
    ],
}
CASES = [
    pytest.param(name, options, id=f"{name}-{i}")
    for name, all_options in OPTIONS.items()
    for i, options in enumerate(all_options)
]
SHAPES = [(3, 4), (), (5,), (0, 2), (2, 3, 2)]


def starts(seed=0, dtype="float64"):
    rng = np.random.default_rng(seed)
    arrays = [np.asarray(rng.normal(size=s)) for s in SHAPES]
    if dtype.startswith("complex"):
        arrays = [a + 1j * np.asarray(rng.normal(size=a.shape)) for a in arrays]
    return [np.asarray(a, dtype=dtype) for a in arrays]


def loss_of(library, params, step):
    total = 0
    for i, p in enumerate(params):
        x = library.view_as_real(p) if p.is_complex() else p
        total = total + ((x - 0.3 * i) ** 2 * (1 + 0.1 * step)).sum() + (x * 1.7).sin().sum()
    return total


def train(library, make, arrays, steps=STEPS, each=None):
    params = [library.nn.Parameter(from_numpy(library, a)) for a in arrays]
    optimizer = make(library, params)
    for step in range(steps):
        optimizer.zero_grad()
        used = params if step % 3 else params[:-1]  # the last one has no gradient at times
        loss_of(library, used, step).backward()
        optimizer.step()
        if each:
            each(optimizer, step)
    return params, optimizer


def build(name, options):
    return lambda library, params: getattr(library.optim, name)(params, **options)


def assert_close(ours, theirs, tolerance=1e-8):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(to_numpy(a), to_numpy(b), rtol=tolerance, atol=tolerance)


def assert_same_state(ours, theirs, tolerance=1e-8):
    a, b = ours.state_dict(), theirs.state_dict()
    assert a["param_groups"] == b["param_groups"]
    assert list(a["state"]) == list(b["state"])
    for key, kept in b["state"].items():
        assert list(a["state"][key]) == list(kept)
        for name, value in kept.items():
            mine = a["state"][key][name]
            if isinstance(value, torch.Tensor):
                assert str(mine.dtype) == str(value.dtype), name
                assert tuple(mine.shape) == tuple(value.shape), name
                np.testing.assert_allclose(
                    to_numpy(mine), to_numpy(value), rtol=tolerance, atol=tolerance, err_msg=name
                )


@pytest.mark.parametrize(("name", "options"), CASES)
def test_trajectory(name, options):
    ours, theirs = (train(library, build(name, options), starts()) for library in LIBRARIES)
    assert_close(ours[0], theirs[0])
    assert_same_state(ours[1], theirs[1])


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_other_dtypes(name, dtype):
    options = OPTIONS[name][-1]
    tolerance = 1e-8 if dtype == "complex128" else 2e-4
    ours, theirs = (
        train(library, build(name, options), starts(dtype=dtype), steps=8) for library in LIBRARIES
    )
    assert_close(ours[0], theirs[0], tolerance)
    assert_same_state(ours[1], theirs[1], tolerance)


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_halves(name, dtype):
    """Rushlight rounds once a step, PyTorch after every operation."""

    def run(library):
        half = getattr(library, dtype)
        params = [
            library.nn.Parameter(from_numpy(library, a.astype("float32")).to(half))
            for a in starts()
        ]
        optimizer = getattr(library.optim, name)(params, lr=0.01)
        for step in range(4):
            for i, p in enumerate(params):
                p.grad = (p.detach().float() - 0.3 * i + 0.5 + 0.1 * step).to(half)
            optimizer.step()
        assert all(p.dtype is half for p in params)
        return params

    ours, theirs = (run(library) for library in LIBRARIES)
    assert_close(ours, theirs, 0.06 if dtype == "bfloat16" else 0.02)


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("source", LIBRARIES, ids=["to torch", "from torch"])
def test_state_dicts_move_both_ways(name, source):
    params, optimizer = train(source, build(name, OPTIONS[name][-1]), starts(), steps=7)
    saved = optimizer.state_dict()
    runs = []
    for library in LIBRARIES:
        moved = [library.nn.Parameter(from_numpy(library, to_numpy(p))) for p in params]
        loaded = getattr(library.optim, name)(moved, lr=123.0)
        loaded.load_state_dict(translated(saved, source, library))
        for step in range(7, 12):
            loaded.zero_grad()
            loss_of(library, moved, step).backward()
            loaded.step()
        runs.append((moved, loaded))
    assert_close(runs[0][0], runs[1][0])
    assert_same_state(runs[0][1], runs[1][1])


def translated(value, source, target):
    """Containers of tensors of one library as the other's."""
    if isinstance(value, source.Tensor):
        return from_numpy(target, to_numpy(value))
    if isinstance(value, dict):
        return {k: translated(v, source, target) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(translated(v, source, target) for v in value)
    return value


@pytest.mark.parametrize("name", OPTIONS)
def test_groups_and_changing_rates(name):
    def make(library, params):
        groups = [{"params": params[:2], "lr": 0.02}, {"params": params[2:]}]
        return getattr(library.optim, name)(groups, lr=0.05)

    def each(optimizer, step):
        for group in optimizer.param_groups:
            group["lr"] *= 0.9

    ours, theirs = (train(library, make, starts(), each=each) for library in LIBRARIES)
    assert_close(ours[0], theirs[0])
    assert_same_state(ours[1], theirs[1])


@pytest.mark.parametrize("name", OPTIONS)
def test_layouts(name):
    """Transposed, sliced and strided parameters, gradients of other layouts."""

    def run(library):
        base = from_numpy(library, starts()[0])
        big = from_numpy(library, np.arange(40.0).reshape(5, 8) / 7)
        params = [base.t(), big[1:4, ::2], big[4].expand(1, 8), big[0]]
        for p in params:
            p.requires_grad_()
        optimizer = getattr(library.optim, name)(params, lr=0.02)
        for _ in range(3):
            for p in params:
                values = np.cos(np.arange(p.numel())).reshape(tuple(p.shape)[::-1])
                p.grad = from_numpy(library, values).permute(*range(p.dim())[::-1])
            optimizer.step()
        return params

    ours, theirs = (run(library) for library in LIBRARIES)
    assert_close(ours, theirs)


UNUSUAL = [
    {"weight_decay": 0.1},
    {"eps": 0.0},
    {"lr": 0.0},
    {"betas": (0.0, 0.0)},
    {"betas": (0.4, 0.0), "amsgrad": True},
    {"alpha": 0.0, "centered": True},
    {"alpha": 1.0},
    {"rho": 0.0},
    {"rho": 1.0, "eps": 0.0},
    {"momentum_decay": 0.0},
    {"step_sizes": (0.1, 0.1)},
    {"t0": 0, "lambd": 0.0},
    {"momentum": 1.5, "dampening": -1.0},
]


def accepts(name, options):
    return options.keys() <= inspect.signature(getattr(torch.optim, name)).parameters.keys()


@pytest.mark.parametrize(
    ("name", "options"), [(n, o) for n in OPTIONS for o in UNUSUAL if accepts(n, o)], ids=str
)
def test_unusual_values(name, options):
    """Gradients and parameters that are not finite, or 0; options at their limits."""

    def run(library):
        values = np.array([1.0, -1.0, 0.5, 2.0, 0.0, 1.0, np.inf, np.nan, -2.0])
        grads = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-310, -3.0, 2.0, 1e-20])
        p = library.nn.Parameter(from_numpy(library, values))
        optimizer = getattr(library.optim, name)([p], **options)
        for step in range(4):
            p.grad = from_numpy(library, np.roll(grads, max(0, step - 1)) * (-1) ** step)
            optimizer.step()
        return [p, *optimizer.state[p].values()] if p in optimizer.state else [p]

    ours, theirs = (run(library) for library in LIBRARIES)
    assert_close(ours, theirs)


@pytest.mark.parametrize("name", OPTIONS)
def test_tensor_rate(name):
    def make(library, params):
        lr = library.tensor(0.03125, dtype=library.float64)
        return getattr(library.optim, name)(params, lr=lr)

    ours, theirs = (train(library, make, starts(), steps=6) for library in LIBRARIES)
    assert_close(ours[0], theirs[0])


@pytest.mark.parametrize("name", OPTIONS)
def test_default_dtype_of_steps(name):
    for library in LIBRARIES:
        library.set_default_dtype(library.float64)
    try:
        ours, theirs = (
            train(library, build(name, OPTIONS[name][-1]), starts()) for library in LIBRARIES
        )
        assert_close(ours[0], theirs[0], 1e-10)
        assert_same_state(ours[1], theirs[1])
    finally:
        for library in LIBRARIES:
            library.set_default_dtype(library.float32)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_differentiable(name, options):
    """Gradients through three steps, for the start and the gradients that came in."""

    def run(library, differentiable):
        rng = np.random.default_rng(3)
        start, *grads = (
            from_numpy(library, rng.normal(size=4), requires_grad=differentiable) for _ in range(4)
        )
        p = start.clone()
        if not differentiable:
            p = library.nn.Parameter(p)
        optimizer = getattr(library.optim, name)([p], differentiable=differentiable, **options)
        for g in grads:
            p.grad = g
            optimizer.step()
        if not differentiable:
            return [p]
        return [p, *library.autograd.grad((p * p).sum(), [start, *grads], allow_unused=True)]

    ours = run(rushlight, True)
    assert_close(ours[:1], run(rushlight, False), 1e-10)
    try:
        theirs = run(torch, True)
    except RuntimeError as error:  # some of PyTorch's formulas overwrite what they saved
        assert "modified by an inplace operation" in str(error)  # noqa: PT017
        return
    # PyTorch computes the bias corrections of a differentiable Adam in float32.
    tolerance = 1e-5 if name.startswith("Adam") else 1e-7
    for a, b in zip(ours, theirs, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(to_numpy(a), to_numpy(b), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
@pytest.mark.parametrize("kind", ["fused", "foreach"])
def test_kinds_of_loops_are_accepted(name, kind):
    options = {**OPTIONS[name][0], kind: True}
    ours, theirs = (
        train(library, build(name, options), starts(), steps=5) for library in LIBRARIES
    )
    assert_close(ours[0], theirs[0])
    assert_same_state(ours[1], theirs[1])


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
@pytest.mark.parametrize("options", [{}, {"lr": 0.5, "history_size": 3, "max_iter": 7}])
def test_lbfgs(search, options):
    def run(library):
        p = library.nn.Parameter(from_numpy(library, np.array([-1.2, 1.0, 0.5])))
        q = library.nn.Parameter(from_numpy(library, np.array([[0.3 + 0.2j]])))
        optimizer = library.optim.LBFGS([p, q], line_search_fn=search, **options)
        losses = []

        def closure():
            optimizer.zero_grad()
            loss = ((p[1:] - p[:-1]) ** 4).sum() + ((p - 1) ** 2).sum()
            loss = loss + library.view_as_real(q).exp().sum() + q.abs().sum()
            loss.backward()
            return loss

        for _ in range(6):
            losses.append(optimizer.step(closure).item())
        state = optimizer.state[p]
        return [p, q], losses, (state["func_evals"], state["n_iter"]), sorted(state)

    (a, losses, counts, keys), theirs = (run(library) for library in LIBRARIES)
    assert_close(a, theirs[0], 1e-6)
    np.testing.assert_allclose(losses, theirs[1], rtol=1e-6, atol=1e-8)
    assert (counts, keys) == theirs[2:]


@pytest.mark.parametrize(
    "options",
    [{}, {"maximize": True, "weight_decay": 0.1}, {"eps": (1e-4, 1e-2), "d": 1.5, "lr": 0.3}],
)
def test_adafactor(options):
    arrays = [a for a in starts() if a.size]
    ours, theirs = (train(library, build("Adafactor", options), arrays) for library in LIBRARIES)
    assert_close(ours[0], theirs[0])
    assert_same_state(ours[1], theirs[1])


@pytest.mark.parametrize(
    "options", [{}, {"nesterov": False, "adjust_lr_fn": "match_rms_adamw", "weight_decay": 0.0}]
)
def test_muon(options):
    """The iterations run in bfloat16, whose rounding grows with each step."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(4, 6)), rng.normal(size=(7, 3))]
    ours, theirs = (
        train(library, build("Muon", {"lr": 0.01, **options}), arrays, steps=4)
        for library in LIBRARIES
    )
    assert_close(ours[0], theirs[0], 2e-3)
    assert_same_state(ours[1], theirs[1], 2e-3)


@pytest.mark.parametrize("options", [{}, {"maximize": True, "betas": (0.5, 0.8), "eps": 1e-3}])
def test_sparse_adam(options):
    """PyTorch's sparse gradients of an embedding against the same gradients, dense."""

    def run(library):
        table = np.random.default_rng(1).normal(size=(6, 3))
        weight = library.nn.Parameter(from_numpy(library, table))
        optimizer = library.optim.SparseAdam([weight], lr=0.1, **options)
        for rows in ([0, 2, 2], [5], [2, 3]):
            optimizer.zero_grad()
            picked = library.nn.functional.embedding(library.tensor(rows), weight, sparse=True)
            (picked**2).sum().backward()
            optimizer.step()
        state = optimizer.state[weight]
        return [weight, state["exp_avg"], state["exp_avg_sq"]], state["step"]

    (ours, count), (theirs, wanted) = (run(library) for library in LIBRARIES)
    assert count == wanted == 3
    assert_close(ours, theirs)


ERRORS = [
    ("SparseAdam", "p", {"lr": 0.0}),
    ("SparseAdam", "p", {"eps": 0.0}),
    ("Muon", "p", {}),
    ("Adafactor", "p", {"d": 0.5}),
    ("SGD", [], {}),
    ("SGD", "tensor", {}),
    ("SGD", "set", {}),
    ("SGD", [1], {}),
    ("SGD", "non-leaf", {}),
    ("SGD", "twice", {}),
    ("SGD", "half-named", {}),
    ("SGD", "p", {"lr": -1.0}),
    ("SGD", "p", {"momentum": -1.0}),
    ("SGD", "p", {"weight_decay": -1.0}),
    ("SGD", "p", {"nesterov": True}),
    ("SGD", "p", {"fused": True, "foreach": True}),
    ("SGD", "p", {"fused": True, "differentiable": True}),
    ("Adam", "p", {"betas": (1.0, 0.9)}),
    ("Adam", "p", {"betas": (0.9, -0.1)}),
    ("Adam", "p", {"betas": (0, 0)}),
    ("Adam", "p", {"eps": -1.0}),
    ("RMSprop", "p", {"alpha": -1.0}),
    ("Adagrad", "p", {"lr_decay": -1.0}),
    ("Adagrad", "p", {"initial_accumulator_value": -1.0}),
    ("Adadelta", "p", {"rho": 2.0}),
    ("NAdam", "p", {"momentum_decay": -1.0}),
    ("Rprop", "p", {"etas": (1.5, 1.2)}),
    ("LBFGS", "groups", {}),
]


@pytest.mark.parametrize(("name", "params", "options"), ERRORS)
def test_errors(name, params, options):
    def attempt(library):
        p = library.nn.Parameter(library.zeros(2))
        q = library.nn.Parameter(library.zeros(2))
        made = {
            "p": [p],
            "tensor": p,
            "set": [{"params": {p}}],
            "non-leaf": [p * 2],
            "twice": [{"params": [p]}, {"params": [p]}],
            "half-named": [("a", p), q],
            "groups": [{"params": [p]}, {"params": [q]}],
        }
        given = made.get(params, params) if isinstance(params, str) else params
        with pytest.raises(Exception) as caught:
            getattr(library.optim, name)(given, **options)
        return caught.value

    ours, theirs = (attempt(library) for library in LIBRARIES)
    assert type(ours) is type(theirs)
    phrase = (
        str(theirs).replace("torch.FloatTensor", "").replace("torch.nn.parameter.Parameter", "")
    )
    assert str(ours).startswith(phrase[:30])


def test_printing():
    def text(library):
        p, q = (library.nn.Parameter(library.zeros(2)) for _ in range(2))
        return repr(library.optim.Adam([{"params": [p], "lr": 0.5}, {"params": [q]}], amsgrad=True))

    assert text(rushlight) == text(torch)


def test_names():
    missing = [n for n in torch.optim.__all__ if not hasattr(rushlight.optim, n)]
    assert missing == []
    for module in ("lr_scheduler", "swa_utils"):
        names = getattr(torch.optim, module).__all__
        assert [n for n in names if not hasattr(getattr(rushlight.optim, module), n)] == []


FUSED = ["Adam", "AdamW", "SGD", "Adagrad"]


def fused_steps(library, name, infinities):
    """Steps that a GradScaler's attributes steer; the gradients they leave are seen too."""
    p = from_numpy(library, np.array([1.0, -2.0, 3.0], dtype=np.float32), requires_grad=True)
    optimizer = getattr(library.optim, name)([p], lr=0.1, fused=True)
    seen = [getattr(optimizer, "_step_supports_amp_scaling", False)]
    for found in infinities:
        p.grad = p.detach() * 8 + 1
        optimizer.grad_scale = library.tensor(8.0)
        optimizer.found_inf = library.tensor(found)
        optimizer.step()
        seen += [to_numpy(p), to_numpy(p.grad)]
    return seen


@pytest.mark.parametrize("name", FUSED)
def test_a_fused_step_divides_by_the_scale_and_skips_infinities(name):
    ours, theirs = (fused_steps(lib, name, [0.0, 1.0, 0.0]) for lib in (rushlight, torch))
    assert ours[0] == theirs[0]
    for a, b in zip(ours[1:], theirs[1:], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def derivatives_of_step(library, name, options):
    """Gradients of what a differentiable step leaves, by all that it began with."""
    values = np.array([0.7, -0.4, 1.3])
    q = from_numpy(library, values, requires_grad=True)
    plain = getattr(library.optim, name)([q], **options)
    q.grad = q.detach() + 0.1
    plain.step()
    p = from_numpy(library, values, requires_grad=True)
    g = from_numpy(library, values + 0.2, requires_grad=True)
    state = {
        k: v.detach().clone().requires_grad_()
        for k, v in plain.state[q].items()
        if isinstance(v, library.Tensor) and k != "step" and v.is_floating_point()
    }
    moved = p.clone()
    optimizer = getattr(library.optim, name)([moved], differentiable=True, **options)
    kept = {**plain.state[q], **{k: v.clone() for k, v in state.items()}}
    optimizer.state[moved].update(kept)
    moved.grad = g.clone()
    optimizer.step()
    left = [moved, *(v for k, v in optimizer.state[moved].items() if k in state)]
    total = sum((t * t).sum() for t in left if t.requires_grad)
    names = ["p", "g", *state]
    grads = library.autograd.grad(total, [p, g, *state.values()], allow_unused=True)
    return {k: None if v is None else to_numpy(v) for k, v in zip(names, grads, strict=True)}


@pytest.mark.parametrize("name", ["Adam", "AdamW", "NAdam", "RAdam", "Adamax", "RMSprop", "Rprop"])
def test_a_differentiable_step_drops_no_gradient(name):
    for options in OPTIONS[name][:2]:
        ours, theirs = (derivatives_of_step(lib, name, options) for lib in (rushlight, torch))
        for key, wanted in theirs.items():
            if wanted is not None:
                np.testing.assert_allclose(ours[key], wanted, rtol=1e-3, atol=1e-5)
