"""nn.utils.prune: masks, the parameters behind them, copies, and what goes wrong."""

import copy
import io
import pickle
import subprocess
import sys
import threading

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn.utils import prune

Container = prune.PruningContainer


class Thirds(prune.BasePruningMethod):
    """Drops every third element of what it is shown."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        mask = default_mask.clone()
        mask.view(-1)[::3] = 0
        return mask


def counting(rows=3, columns=4):
    """A layer whose weight is 1, 2, 3, ... with alternating signs."""
    layer = nn.Linear(columns, rows)
    values = torch.arange(1.0, rows * columns + 1)
    values[::2] *= -1
    layer.weight.data = values.view(rows, columns)
    return layer


def zeros(t):
    return int((t == 0).sum())


def snapshot(module):
    hooks = [(type(h), len(h) if hasattr(h, "__len__") else 0) for h in hooks_of(module)]
    return list(module._parameters), list(module._buffers), hooks


def hooks_of(module):
    return list(module._forward_pre_hooks.values())


def test_the_module_is_loaded_on_first_use():
    program = (
        "import sys, rushlight as torch; name = 'rushlight.nn.utils.prune'\n"
        "torch.nn.Linear(1, 1); assert name not in sys.modules\n"
        "torch.nn.utils.prune.is_pruned; assert name in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_pruned_parameter_is_an_original_and_a_mask():
    layer = counting()
    weight = layer.weight
    assert prune.l1_unstructured(layer, "weight", amount=5) is layer
    assert layer.weight_orig is weight
    assert [n for n, _ in layer.named_parameters()] == ["bias", "weight_orig"]
    assert [n for n, _ in layer.named_buffers()] == ["weight_mask"]
    assert not isinstance(layer.weight, nn.Parameter)
    assert layer.weight_mask.view(-1).tolist() == [0.0] * 5 + [1.0] * 7
    assert torch.equal(layer.weight, layer.weight_orig * layer.weight_mask)


def test_gradients_go_to_the_original_through_the_mask():
    layer = prune.l1_unstructured(counting(), "weight", amount=0.5)
    x = torch.randn(5, 4)
    layer(x).sum().backward()
    expected = x.sum(0).expand(3, 4) * layer.weight_mask
    torch.testing.assert_close(layer.weight_orig.grad, expected)


def test_forward_uses_what_the_optimizer_made_of_the_original():
    layer = prune.l1_unstructured(counting(), "weight", amount=6)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        layer(torch.ones(2, 4)).pow(2).mean().backward()
        optimizer.step()
    layer(torch.ones(1, 4))
    assert torch.equal(layer.weight, layer.weight_orig * layer.weight_mask)
    assert zeros(layer.weight) == 6


def test_second_derivatives_pass_the_mask():
    layer = prune.l1_unstructured(counting().double(), "weight", amount=6)
    x = torch.randn(4, dtype=torch.float64)

    def loss(w):
        return torch.func.functional_call(layer, {"weight_orig": w}, (x,)).pow(3).sum()

    assert torch.autograd.gradgradcheck(loss, (layer.weight_orig.detach().requires_grad_(),))


def test_remove_keeps_the_parameter_object():
    layer = prune.l1_unstructured(counting(), "weight", amount=0.25)
    weight, expected = layer.weight_orig, layer.weight.detach().clone()
    assert prune.remove(layer, "weight") is layer
    assert layer.weight is weight
    assert layer.weight.is_leaf
    assert torch.equal(layer.weight, expected)
    assert sorted(layer.state_dict()) == ["bias", "weight"]
    assert not hooks_of(layer)
    assert not prune.is_pruned(layer)
    layer(torch.ones(1, 4)).sum().backward()
    assert bool((weight.grad != 0).all())


def test_iterative_pruning_counts_what_is_left():
    layer = prune.l1_unstructured(counting(4, 4), "weight", amount=0.5)
    prune.l1_unstructured(layer, "weight", amount=0.5)
    prune.ln_structured(layer, "weight", amount=1, n=2, dim=1)
    (container,) = hooks_of(layer)
    assert [type(m).__name__ for m in container] == ["L1Unstructured"] * 2 + ["LnStructured"]
    assert len(container) == 3
    assert container[-1] is list(container)[2]
    assert container[:2] == tuple(container)[:2]
    assert layer.weight_mask.tolist() == [[0.0] * 4] * 3 + [[0.0, 1.0, 1.0, 1.0]]


def test_structured_methods_choose_among_channels_that_are_alive():
    layer = counting(4, 3)
    for alive in (3, 2, 1, 0):
        prune.random_structured(layer, "weight", amount=1, dim=0)
        assert int(layer.weight_mask.any(1).sum()) == alive
    with pytest.raises(ValueError, match="amount=1 should be smaller"):
        prune.random_structured(layer, "weight", amount=1, dim=0)


def test_random_methods_are_repeated_by_a_seed():
    masks = []
    for _ in range(2):
        torch.manual_seed(3)
        layer = prune.random_unstructured(counting(6, 8), "weight", amount=0.3)
        prune.random_structured(layer, "weight", amount=0.5, dim=1)
        masks.append(layer.weight_mask)
    assert torch.equal(*masks)


def test_a_custom_method():
    layer = counting()
    method = Thirds.apply(layer, "weight")
    assert isinstance(method, Thirds)
    assert zeros(layer.weight_mask) == 4
    assert isinstance(Thirds.apply(layer, "weight"), prune.PruningContainer)
    assert zeros(layer.weight_mask) == 7


def test_a_mask_computed_from_the_weight_carries_no_history():
    class Soft(prune.BasePruningMethod):
        PRUNING_TYPE = "global"

        def compute_mask(self, t, default_mask):
            return default_mask * t.sigmoid()

    layer = counting()
    for _ in range(2):
        Soft.apply(layer, "weight")
        assert not layer.weight_mask.requires_grad
        for _ in range(2):
            layer(torch.ones(1, 4)).sum().backward()


def test_global_pruning_compares_all_parameters():
    net = nn.Sequential(counting(), nn.ReLU(), counting(2, 3))
    pairs = ((net[i], "weight") for i in (0, 2))
    prune.global_unstructured(pairs, prune.L1Unstructured, amount=8)
    assert zeros(net[0].weight_mask) == 4
    assert zeros(net[2].weight_mask) == 4
    pairs = [(net[0], "weight"), (net[2], "weight")]
    scores = {(net[2], "weight"): torch.full((2, 3), 100.0)}
    prune.global_unstructured(pairs, prune.L1Unstructured, scores, amount=0.5)
    assert zeros(net[0].weight_mask) == 9
    assert zeros(net[2].weight_mask) == 4
    assert prune.is_pruned(net)


def test_several_parameters_of_one_module():
    cell = nn.LSTMCell(3, 2)
    prune.l1_unstructured(cell, "weight_ih", amount=0.5)
    prune.random_unstructured(cell, "weight_hh", amount=0.5)
    h, _ = cell(torch.randn(4, 3))
    h.sum().backward()
    assert zeros(cell.weight_ih_mask) == 12
    assert bool((cell.weight_ih_orig.grad[cell.weight_ih_mask == 0] == 0).all())
    prune.remove(cell, "weight_ih")
    assert prune.is_pruned(cell)
    with pytest.raises(ValueError, match=r"pruned there: \['weight_hh'\]"):
        prune.remove(cell, "weight_ih")


def test_state_dicts():
    layer = prune.l1_unstructured(counting(), "weight", amount=7)
    state = layer.state_dict()
    assert list(state) == ["bias", "weight_orig", "weight_mask"]
    other = prune.identity(nn.Linear(4, 3), "weight")
    other.load_state_dict(state)
    x = torch.randn(2, 4)
    assert torch.equal(other(x), layer(x))
    assert zeros(other.weight) == 7


def saved(module):
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    with torch.serialization.safe_globals([nn.Linear, prune.L1Unstructured, Container]):
        return torch.load(file, weights_only=False)


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, copy.copy, lambda m: pickle.loads(pickle.dumps(m)), saved]
)
@pytest.mark.parametrize("rounds", [1, 2])
def test_copies_compute_their_own_weight(copied, rounds):
    layer = counting()
    for _ in range(rounds):
        prune.l1_unstructured(layer, "weight", amount=0.5)
    layer(torch.ones(1, 4))
    twin = copied(layer)
    assert list(twin.state_dict()) == list(layer.state_dict())
    assert torch.equal(twin.weight, layer.weight)
    assert twin.weight is not layer.weight
    (grad,) = torch.autograd.grad(twin.weight.sum(), twin.weight_orig)
    assert torch.equal(grad, twin.weight_mask)
    prune.remove(twin, "weight")
    assert isinstance(twin.weight, nn.Parameter)


def test_a_deep_copy_is_pruned_apart():
    net = nn.Sequential(prune.l1_unstructured(counting(), "weight", amount=3))
    twin = copy.deepcopy(net)
    prune.l1_unstructured(twin[0], "weight", amount=3)
    assert (zeros(net[0].weight_mask), zeros(twin[0].weight_mask)) == (3, 6)
    assert len(hooks_of(twin[0])[0]) == 2


def test_other_dtypes_and_conversion():
    layer = prune.l1_unstructured(counting().double(), "weight", amount=5)
    assert layer.weight_mask.dtype is torch.float64
    layer.half()
    layer(torch.ones(1, 4, dtype=torch.float16))
    assert layer.weight.dtype is torch.float16
    masked = prune.custom_from_mask(counting(), "weight", torch.eye(3, 4).bool())
    assert masked.weight_mask.dtype is torch.float32
    assert zeros(masked.weight) == 9


def test_edges_of_shapes():
    assert prune.L1Unstructured(0.5).prune(torch.empty(0, 3)).shape == (0, 3)
    assert prune.L1Unstructured(1).prune(torch.tensor(3.0)).item() == 0
    t = torch.arange(1.0, 7).view(2, 3).t()
    assert prune.L1Unstructured(2).prune(t).tolist() == [[0.0, 4.0], [0.0, 5.0], [3.0, 6.0]]
    nan = torch.tensor([float("nan"), 1.0, float("-inf")])
    pruned = prune.L1Unstructured(1).prune(nan)
    assert pruned.isnan().tolist() == [True, False, False]
    assert pruned[1:].tolist() == [0.0, float("-inf")]


def test_amounts_zero_and_all():
    for amount in (0, 0.0):
        layer = prune.l1_unstructured(counting(), "weight", amount=amount)
        assert zeros(layer.weight_mask) == 0
    for amount in (12, 1.0):
        layer = prune.l1_unstructured(counting(), "weight", amount=amount)
        assert zeros(layer.weight_mask) == 12
    layer = prune.ln_structured(counting(), "weight", amount=1.0, n=1, dim=-1)
    assert zeros(layer.weight_mask) == 12


ERRORS = [
    (lambda m: prune.l1_unstructured(m, "weight", "half"), TypeError, "Invalid type for amount"),
    (lambda m: prune.l1_unstructured(m, "weight", -1), ValueError, "amount=-1 should either"),
    (lambda m: prune.l1_unstructured(m, "weight", 1.5), ValueError, r"range \[0, 1\]"),
    (lambda m: prune.l1_unstructured(m, "weight", float("nan")), ValueError, "amount=nan"),
    (lambda m: prune.l1_unstructured(m, "weight", 13), ValueError, "to prune=12"),
    (lambda m: prune.l1_unstructured(m, "weights", 1), AttributeError, "weights"),
    (lambda m: prune.l1_unstructured(m, "weight", 1, torch.ones(3)), AssertionError, "same shape"),
    (lambda m: prune.ln_structured(m, "bias", 1, 2, 0), ValueError, "multidimensional"),
    (lambda m: prune.ln_structured(m, "weight", 1, 2, 2), IndexError, "Invalid index 2"),
    (lambda m: prune.ln_structured(m, "weight", 1, 2, -3), IndexError, "Invalid index -3"),
    (lambda m: prune.random_structured(m, "weight", 4, 0), ValueError, "to prune=3"),
    (lambda m: prune.custom_from_mask(m, "weight", torch.ones(2)), AssertionError, "must match"),
    (lambda m: prune.remove(m, "bias"), ValueError, "has to be pruned before"),
]


@pytest.mark.parametrize("pruned", [False, True])
@pytest.mark.parametrize(("program", "kind", "text"), ERRORS)
def test_errors_leave_the_module_as_it_was(program, kind, text, pruned):
    layer = counting()
    if pruned:
        prune.identity(layer, "weight")
        prune.identity(layer, "weight")
    before = snapshot(layer)
    with pytest.raises(kind, match=text):
        program(layer)
    assert snapshot(layer) == before
    assert layer(torch.ones(1, 4)).shape == (1, 3)


def test_only_parameters_are_pruned():
    with pytest.raises(TypeError, match="not NoneType"):
        prune.l1_unstructured(nn.Linear(2, 2, bias=False), "bias", 1)
    with pytest.raises(TypeError, match=r"torch\.nn\.Parameter or None required"):
        prune.l1_unstructured(nn.BatchNorm1d(3), "running_mean", 1)
    with pytest.raises(ValueError, match="uninitialized parameter"):
        prune.l1_unstructured(nn.LazyLinear(3), "weight", 1)
    normed = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
    with pytest.raises(TypeError, match="prune these"):
        prune.l1_unstructured(normed, "weight", 1)


@pytest.mark.parametrize("taken", ["weight_orig", "weight_mask"])
def test_names_that_are_taken(taken):
    layer = counting()
    setattr(layer, taken, 3)
    before = snapshot(layer)
    with pytest.raises(KeyError, match=f"'{taken}' already exists"):
        prune.l1_unstructured(layer, "weight", 1)
    assert snapshot(layer) == before
    assert isinstance(layer.weight, nn.Parameter)


def test_errors_of_global_pruning():
    layer = counting()
    pairs = [(layer, "weight")]
    for arguments, kind, text in [
        ((3, prune.L1Unstructured), TypeError, "not an Iterable"),
        ((pairs, prune.L1Unstructured, [1]), TypeError, "must be of type dict"),
        ((pairs, prune.L1Unstructured, {pairs[0]: torch.ones(5)}), IndexError, "same shape"),
        (([], prune.L1Unstructured), ValueError, "non-empty"),
        (([*pairs, (nn.ReLU(), "weight")], prune.L1Unstructured), AttributeError, "weight"),
        (([*pairs, (layer, "in_features")], prune.L1Unstructured), TypeError, "in_features"),
        ((pairs, prune.RandomStructured), TypeError, 'Only "unstructured" PRUNING_TYPE'),
    ]:
        with pytest.raises(kind, match=text):
            prune.global_unstructured(*arguments, amount=1)
    assert not prune.is_pruned(layer)


def test_containers():
    container = prune.PruningContainer()
    assert len(container) == 0
    first, second = prune.L1Unstructured(1), prune.L1Unstructured(2)
    with pytest.raises(AttributeError, match="_tensor_name"):
        container.add_pruning_method(first)
    with pytest.raises(AttributeError, match=r"L1Unstructured\.apply"):
        first.apply_mask(counting())
    container._tensor_name = first._tensor_name = "weight"
    second._tensor_name = "bias"
    with pytest.raises(IndexError, match="add_pruning_method"):
        container.compute_mask(torch.ones(2), torch.ones(2))
    container.add_pruning_method(first)
    with pytest.raises(ValueError, match=r"the parameter named 'weight' .* Found 'bias'"):
        container.add_pruning_method(second)
    for bad in (10, "l1"):
        with pytest.raises(TypeError, match="is not a BasePruningMethod subclass"):
            container.add_pruning_method(bad)
    with pytest.raises(TypeError, match="is not a BasePruningMethod subclass"):
        prune.PruningContainer(10)
    second._tensor_name = "weight"
    assert list(prune.PruningContainer(first, second)) == [first, second]


def test_types_that_a_container_does_not_know():
    class Odd(Thirds):
        PRUNING_TYPE = "diagonal"

    class NoDim(Thirds):
        PRUNING_TYPE = "structured"

    layer = prune.identity(counting(), "weight")
    with pytest.raises(ValueError, match="Unrecognized PRUNING_TYPE diagonal"):
        Odd.apply(layer, "weight")
    with pytest.raises(AttributeError, match="need to have the attribute `dim`"):
        NoDim.apply(layer, "weight")
    assert [type(h) for h in hooks_of(layer)] == [prune.Identity]


def test_two_hooks_for_one_parameter():
    layer = prune.identity(counting(), "weight")
    layer.register_forward_pre_hook(hooks_of(layer)[0])
    with pytest.raises(AssertionError, match=r"Use a PruningContainer"):
        prune.identity(layer, "weight")


def test_the_base_class_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        prune.BasePruningMethod()


def test_threads_run_a_pruned_module():
    layer = prune.l1_unstructured(counting(), "weight", amount=6)
    expected = layer(torch.ones(1, 4))
    results = []

    def work():
        results.extend(torch.equal(layer(torch.ones(1, 4)), expected) for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 200
