"""Full backward hooks with operations in place, and other places where PyTorch's refuse."""

import pytest

import rushlight as torch
from rushlight import nn
from support import check, randleaf, values


def watch(module, log):
    module.register_full_backward_hook(lambda m, gi, go: log.append((gi, go)))
    return module


def gradients(make, hooked):
    """Gradients of the input and the parameters of a model with or without hooks."""
    torch.manual_seed(0)
    model, log = make().double(), []
    if hooked:
        for module in model.modules():
            watch(module, log)
    x = randleaf(3, 4)
    model(x * 1).sum().backward()
    return [x.grad, *(p.grad for p in model.parameters())], log


MODELS = {
    "linear, relu in place": lambda: nn.Sequential(
        nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 2)
    ),
    "relu in place first": lambda: nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 2)),
    "only in place": lambda: nn.Sequential(nn.ReLU(inplace=True), nn.Identity()),
    "a view, then in place": lambda: nn.Sequential(
        nn.Linear(4, 4), nn.Flatten(0), nn.ReLU(inplace=True), nn.Unflatten(0, (3, 4))
    ),
    "identity, then in place": lambda: nn.Sequential(
        nn.Linear(4, 4), nn.Identity(), nn.ELU(inplace=True)
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_hooks_do_not_change_gradients(name):
    plain, _ = gradients(MODELS[name], False)
    hooked, log = gradients(MODELS[name], True)
    for a, b in zip(hooked, plain, strict=True):
        check(a, values(b))
    assert len(log) == len(list(MODELS[name]().modules()))


def test_hooks_see_the_gradients_around_an_activation_in_place():
    log = []
    relu = watch(nn.ReLU(inplace=True), log)
    x = torch.tensor([-1.0, 2.0], requires_grad=True)
    out = relu(x * 3)
    (out * torch.tensor([5.0, 7.0])).sum().backward()
    ((grad_in,), (grad_out,)) = log[0]
    assert grad_in.tolist() == [0.0, 7.0]
    assert grad_out.tolist() == [5.0, 7.0]
    assert x.grad.tolist() == [0.0, 21.0]


def test_what_forward_writes_to_its_input_reaches_the_caller():
    relu = watch(nn.ReLU(inplace=True), [])
    x = torch.tensor([-1.0, 2.0], requires_grad=True)
    h = x * 3
    relu(h)
    assert h.tolist() == [0.0, 6.0]
    h.sum().backward()
    assert x.grad.tolist() == [0.0, 3.0]


def test_a_view_of_the_callers_tensor_is_written_through():
    relu = watch(nn.ReLU(inplace=True), [])
    x = torch.tensor([[-1.0, -2.0]], requires_grad=True)
    h = x * 3
    relu(h[:, :1])
    assert h.tolist() == [[0.0, -6.0]]
    h.sum().backward()
    assert x.grad.tolist() == [[0.0, 3.0]]


def test_leaves_stay_protected():
    relu = watch(nn.ReLU(inplace=True), [])
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        relu(torch.ones(2, requires_grad=True))


def test_writing_to_an_output_later():
    log = []
    layer = watch(nn.Linear(2, 2), log)
    out = layer(torch.ones(1, 2, requires_grad=True))
    out.mul_(3)
    out.sum().backward()
    assert log[0][1][0].tolist() == [[3.0, 3.0]]


def test_double_backward_through_hooks():
    layer = watch(nn.Tanh(), [])
    x = randleaf(3)
    (g,) = torch.autograd.grad(layer(x).sum(), x, create_graph=True)
    (gg,) = torch.autograd.grad(g.sum(), x)
    y = torch.tanh(x.detach())
    check(gg, values(-2 * y * (1 - y * y)), rtol=1e-8)


def test_hooks_see_only_what_passes_through_their_module():
    log = []
    layer = watch(nn.Identity(), log)
    x = torch.ones(1, requires_grad=True)
    (layer(x) * 2 + x * 5).sum().backward()
    assert log[0][0][0].tolist() == [2.0]
    assert x.grad.tolist() == [7.0]


@pytest.mark.parametrize("count", [0, 2])
def test_a_wrong_number_of_gradients(count):
    layer = nn.Tanh()
    layer.register_full_backward_hook(lambda m, gi, go: (torch.ones(1),) * count)
    with pytest.raises(RuntimeError, match="invalid number of grad_input"):
        layer(torch.ones(1, requires_grad=True)).sum().backward()
    layer = nn.Tanh()
    layer.register_full_backward_pre_hook(lambda m, go: (torch.ones(1),) * count)
    with pytest.raises(RuntimeError, match="invalid number of grad_output"):
        layer(torch.ones(1, requires_grad=True)).sum().backward()


def test_a_warning_where_no_input_takes_gradients():
    layer = watch(nn.Linear(1, 1), [])
    with pytest.warns(UserWarning, match="since no inputs require gradients"):
        layer(torch.ones(1, 1)).sum().backward()


def test_outputs_that_are_no_tensors():
    class Dict(nn.Module):
        def forward(self, x):
            return {"x": x * 2}

    layer = watch(Dict(), [])
    with pytest.warns(UserWarning, match="module output should be a Tensor or a tuple"):
        assert layer(torch.ones(1, requires_grad=True))["x"].item() == 2


def test_old_hooks_warn_of_what_they_miss():
    model = nn.Sequential(nn.Linear(1, 1), nn.Tanh())
    model.register_backward_hook(lambda *_: None)
    with pytest.warns(FutureWarning, match="missing some grad_input"):
        model(torch.ones(1, 1, requires_grad=True)).sum().backward()


def test_hooks_of_the_old_and_the_new_kind_for_all_modules():
    module = torch.nn.modules.module
    with (
        module.register_module_full_backward_hook(lambda *_: None),
        pytest.raises(RuntimeError, match="as a global Module hook"),
    ):
        module.register_module_backward_hook(lambda *_: None)


def test_hooks_keep_no_tensors():
    import weakref

    def run():
        layer = watch(nn.Linear(2, 2), [])
        x = torch.ones(1, 2, requires_grad=True) * 2
        out = layer(x)
        return weakref.ref(x), weakref.ref(out)

    assert all(ref() is None for ref in run())


class TestMemoryOfHookedModules:
    @pytest.mark.parametrize("requires_grad", [False, True])
    def test_inputs_and_outputs_are_the_callers(self, requires_grad):
        seen = []

        class Doubles(nn.Module):
            def forward(self, x):
                seen.append(x.data_ptr())
                y = x * 2
                seen.append(y.data_ptr())
                return y

        module = Doubles()
        module.register_full_backward_hook(lambda *_: None)
        module.register_full_backward_pre_hook(lambda *_: None)
        x = torch.ones(2, requires_grad=requires_grad)
        y = module(x)
        assert seen == [x.data_ptr(), y.data_ptr()]

    def test_writes_inside_reach_the_argument_and_its_history(self):
        class Writes(nn.Module):
            def forward(self, x, w):
                x.mul_(w)
                return x + 1

        for hooked in (False, True):
            module, log = Writes(), []
            if hooked:
                module.register_full_backward_hook(lambda m, gi, go, log=log: log.append(len(gi)))
            w, plain, x = randleaf(2), torch.ones(2, dtype=torch.float64), randleaf(2, seed=1)
            y = module(plain, w)
            assert plain.requires_grad
            (plain * y).sum().backward()
            check(w.grad, 2 * w + 1)
            z = x * 1
            module(z, w).sum().backward()
            check(x.grad, w)
            assert log == [2, 2] * hooked

    def test_a_result_may_be_written(self):
        module, log = nn.Linear(2, 2, dtype=torch.float64), []
        module.register_full_backward_hook(lambda m, gi, go: log.append(go[0].tolist()))
        x = randleaf(2)
        y = module(x)
        y.mul_(3)
        y.sum().backward()
        check(x.grad, 3 * module.weight.sum(0))
        assert log == [[3.0, 3.0]]
