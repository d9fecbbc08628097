"""nn.utils.prune: the same masks, names, gradients and errors as PyTorch's."""

import warnings

import numpy as np
import pytest
import torch as reference
import torch.nn.utils.prune

import rushlight as torch

LIBRARIES = (torch, reference)
INFINITY = float("inf")


def filled(module, library, seed=0):
    """The module with the same distinct weights in both libraries."""
    rng = np.random.default_rng(seed)
    for p in module.parameters():
        values = rng.permutation(p.numel()) - p.numel() / 2 + 0.25
        p.data = library.tensor(values.reshape(tuple(p.shape)) / 8)
    return module


def linear(library, seed=0):
    return filled(library.nn.Linear(6, 5), library, seed)


def network(library):
    nn = library.nn
    layers = nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 9, 5)
    return filled(nn.Sequential(*layers), library)


def plain(value, library):
    """Tensors as arrays, deep inside of lists and dicts."""
    if isinstance(value, library.Tensor):
        return value.detach().numpy()
    if isinstance(value, dict):
        return [(k, plain(v, library)) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return [plain(v, library) for v in value]
    return value


def assert_equal(a, b):
    assert type(a) is type(b)
    if isinstance(b, np.ndarray):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)
    elif isinstance(b, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_equal(x, y)
    else:
        assert a == b


def same(program):
    results = []
    for library in LIBRARIES:
        with torch.random.torch_streams(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            library.manual_seed(7)
            results.append(plain(program(library, library.nn.utils.prune), library))
    assert_equal(*results)


def account(module):
    """Everything that pruning changes in a module."""
    hooks = module._forward_pre_hooks.values()
    parts = [[type(m).__name__ for m in h] for h in hooks if hasattr(h, "__len__")]
    return [
        dict(module.state_dict()),
        [n for n, _ in module.named_parameters()],
        [n for n, _ in module.named_buffers()],
        [type(h).__name__ for h in hooks],
        parts,
    ]


@pytest.mark.parametrize("amount", [0, 1, 7, 30, 0.0, 0.25, 0.5, 1 / 3, 0.95, 1.0])
@pytest.mark.parametrize("scored", [False, True])
def test_l1_unstructured(amount, scored):
    def program(library, prune):
        layer = linear(library)
        scores = linear(library, seed=4).weight.detach() if scored else None
        prune.l1_unstructured(layer, "weight", amount, importance_scores=scores)
        return [layer.weight, account(layer)]

    same(program)


@pytest.mark.parametrize("dim", [0, 1, 2, 3, -1, -4])
@pytest.mark.parametrize("n", [1, 2, 0.5, 3, INFINITY, -INFINITY])
@pytest.mark.parametrize("amount", [0, 1, 0.5])
def test_ln_structured(dim, n, amount):
    def program(library, prune):
        layer = filled(library.nn.Conv2d(3, 4, (2, 5)), library)
        prune.ln_structured(layer, "weight", amount, n, dim)
        return [layer.weight, account(layer)]

    same(program)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_ln_structured_by_matrices(dim):
    def program(library, prune):
        layer = filled(library.nn.Conv1d(3, 4, 5), library)
        prune.ln_structured(layer, "weight", 0.5, "fro", dim)
        return [layer.weight, account(layer)]

    same(program)


@pytest.mark.parametrize("amount", [1, 9, 0.3])
def test_random_unstructured(amount):
    def program(library, prune):
        layer = linear(library)
        prune.random_unstructured(layer, "weight", amount)
        prune.random_unstructured(layer, "weight", amount)
        return [int((layer.weight_mask == 0).sum()), account(layer)[1:]]

    same(program)


@pytest.mark.parametrize("amount", [1, 3, 0.4])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_random_structured(amount, dim):
    def program(library, prune):
        layer = linear(library)
        prune.random_structured(layer, "weight", amount, dim)
        alive = layer.weight_mask.sum(1 - dim % 2)
        return [sorted(alive.tolist()), account(layer)[1:]]

    same(program)


def test_global_unstructured():
    def program(library, prune):
        net = network(library)
        for i, p in enumerate(net.parameters()):
            p.data = p.data + 0.01 * (i + 1)  # the order of equal magnitudes is not defined
        pairs = [(net[0], "weight"), (net[3], "weight"), (net[3], "bias")]
        prune.global_unstructured(pairs, prune.L1Unstructured, amount=0.3)
        scores = {(net[3], "weight"): net[3].weight.detach() * 3}
        prune.global_unstructured(pairs, prune.L1Unstructured, scores, amount=20)
        return [account(net), account(net[0]), account(net[3]), prune.is_pruned(net)]

    same(program)


SEQUENCES = [
    ["l1", "l1"],
    ["l1", "ln0", "l1", "ln1"],
    ["ln0", "ln0", "l1"],
    ["mask", "l1", "mask"],
    ["id", "l1", "id", "ln1", "mask", "l1"],
]


@pytest.mark.parametrize("sequence", SEQUENCES, ids="-".join)
def test_iterative_pruning(sequence):
    steps = {
        "l1": lambda m, p, lib: p.l1_unstructured(m, "weight", 0.3),
        "ln0": lambda m, p, lib: p.ln_structured(m, "weight", 1, 2, 0),
        "ln1": lambda m, p, lib: p.ln_structured(m, "weight", 0.3, 1, 1),
        "mask": lambda m, p, lib: p.custom_from_mask(m, "weight", 1 - lib.eye(5, 6).int()),
        "id": lambda m, p, lib: p.identity(m, "weight"),
    }

    def program(library, prune):
        layer = linear(library)
        seen = []
        for step in sequence:
            steps[step](layer, prune, library)
            seen.append([layer.weight_mask.clone(), account(layer)])
        prune.remove(layer, "weight")
        return [seen, account(layer)]

    same(program)


def test_training_and_removal():
    def program(library, prune):
        net = network(library)
        prune.ln_structured(net[0], "weight", 1, 2, 0)
        prune.l1_unstructured(net[3], "weight", 0.5)
        optimizer = library.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
        x = library.linspace(-1, 1, 36, dtype=library.float64).view(2, 2, 3, 3)
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = net(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss)
        gradients = [net[0].weight_orig.grad, net[3].weight_orig.grad]
        prune.remove(net[3], "weight")
        return [losses, gradients, net(x), account(net), account(net[0]), account(net[3])]

    same(program)


def test_direct_use_of_methods():
    def program(library, prune):
        t = linear(library).weight.detach()
        mask = library.ones(5, 6, dtype=library.bool)
        mask[2] = False
        seen = [
            prune.L1Unstructured(4).prune(t),
            prune.L1Unstructured(4).prune(t, importance_scores=-t + 0.01),
            prune.L1Unstructured(amount=4).compute_mask(t, default_mask=mask),
            prune.LnStructured(0.4, 2).compute_mask(t, default_mask=mask),
            prune.LnStructured(0, n=2, dim=0).compute_mask(t, mask),
            prune.CustomFromMask(mask).prune(t),
            prune.Identity().prune(t, default_mask=mask),
        ]
        container = prune.PruningContainer()
        container._tensor_name = "w"
        for method in (prune.L1Unstructured(3), prune.LnStructured(1, 2, dim=0)):
            method._tensor_name = "w"
            container.add_pruning_method(method)
            seen.append(container.compute_mask(t, mask.float()))
        return [seen, len(container), container[1].dim, [m.PRUNING_TYPE for m in container]]

    same(program)


def test_a_custom_method_of_each_type():
    def program(library, prune):
        seen = []
        for kind in ("unstructured", "structured", "global"):

            class Half(prune.BasePruningMethod):
                PRUNING_TYPE = kind
                dim = 1

                def __init__(self, rest=0):
                    self.rest = rest

                def compute_mask(self, t, default_mask):
                    seen.append(list(t.shape))
                    mask = default_mask.clone()
                    mask[: t.shape[0] // 2] = self.rest
                    return mask

            layer = linear(library)
            prune.ln_structured(layer, "weight", 2, 2, 1)
            Half.apply(layer, "weight")
            Half.apply(layer, "weight", rest=1)
            seen.append(account(layer))
        return seen

    same(program)


def names(prune):
    public = (n for n in vars(prune) if not n.startswith("_"))
    return {n for n in public if "prune" in getattr(getattr(prune, n), "__module__", "")}


def test_the_same_names():
    assert names(reference.nn.utils.prune) <= set(torch.nn.utils.prune.__all__)


def pairs_of(library):
    return [(linear(library), "weight")]


ERRORS = {
    "text": lambda lib, p: p.l1_unstructured(linear(lib), "weight", "half"),
    "negative": lambda lib, p: p.random_unstructured(linear(lib), "weight", -2),
    "over one": lambda lib, p: p.ln_structured(linear(lib), "weight", 1.01, 2, 0),
    "nan": lambda lib, p: p.l1_unstructured(linear(lib), "weight", float("nan")),
    "too many": lambda lib, p: p.l1_unstructured(linear(lib), "weight", 31),
    "too many channels": lambda lib, p: p.random_structured(linear(lib), "weight", 7, 1),
    "one dimension": lambda lib, p: p.ln_structured(linear(lib), "bias", 1, 2, 0),
    "order of three dims": lambda lib, p: p.ln_structured(
        lib.nn.Conv2d(2, 2, 2), "weight", 1, "fro", 0
    ),
    "dim": lambda lib, p: p.ln_structured(linear(lib), "weight", 1, 2, 2),
    "negative dim": lambda lib, p: p.random_structured(linear(lib), "weight", 1, -3),
    "unknown name": lambda lib, p: p.l1_unstructured(linear(lib), "wait", 1),
    "none": lambda lib, p: p.identity(lib.nn.Linear(2, 2, bias=False), "bias"),
    "buffer": lambda lib, p: p.identity(lib.nn.BatchNorm1d(2), "running_mean"),
    "lazy": lambda lib, p: p.identity(lib.nn.LazyLinear(2), "weight"),
    "scores": lambda lib, p: p.l1_unstructured(linear(lib), "weight", 1, lib.ones(3)),
    "scores of a tensor": lambda lib, p: p.L1Unstructured(1).prune(
        lib.ones(3), importance_scores=lib.ones(2)
    ),
    "mask": lambda lib, p: p.custom_from_mask(linear(lib), "weight", lib.ones(6)),
    "not pruned": lambda lib, p: p.remove(linear(lib), "weight"),
    "abstract": lambda lib, p: p.BasePruningMethod(),
    "not applied": lambda lib, p: p.L1Unstructured(1).apply_mask(linear(lib)),
    "empty container": lambda lib, p: p.PruningContainer()[0],
    "container of nothing": lambda lib, p: p.PruningContainer().compute_mask(
        lib.ones(2), lib.ones(2)
    ),
    "no method": lambda lib, p: p.PruningContainer().add_pruning_method(3),
    "no parameters": lambda lib, p: p.global_unstructured(4, p.L1Unstructured, amount=1),
    "no modules": lambda lib, p: p.global_unstructured([], p.L1Unstructured, amount=1),
    "no dict": lambda lib, p: p.global_unstructured(pairs_of(lib), p.L1Unstructured, [1], amount=1),
    "structured": lambda lib, p: p.global_unstructured(
        pairs_of(lib), p.LnStructured, amount=1, n=2
    ),
    "global too many": lambda lib, p: p.global_unstructured(
        pairs_of(lib), p.L1Unstructured, amount=99
    ),
    "no amount": lambda lib, p: p.global_unstructured(pairs_of(lib), p.L1Unstructured),
}
PHRASES = [
    "Invalid type for amount: ",
    "should either be a float in the range [0, 1]",
    "should be smaller than the number of parameters to prune=",
    "Structured pruning can only be applied to multidimensional tensors",
    "Invalid index ",
    "importance_scores should have the same shape as ",
    "must match self.mask shape",
    "has to be pruned before pruning can be removed",
    "is not a BasePruningMethod subclass",
    "parameters is not an Iterable",
    "importance_scores must be of type dict",
    'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`',
    "expected a non-empty list of Tensors",
    "(torch.nn.Parameter or None required)",
    "must be Tensor, not NoneType",
    "Attempted to use an uninitialized parameter",
    "has no attribute",
    "dim must be a 2-tuple",
    "abstract class BasePruningMethod",
]


def outcome(program, library):
    try:
        program(library, library.nn.utils.prune)
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    ours, theirs = (outcome(ERRORS[case], library) for library in LIBRARIES)
    assert theirs is not None
    assert type(ours) is type(theirs)
    for phrase in PHRASES:
        assert phrase not in str(theirs) or phrase in str(ours)
