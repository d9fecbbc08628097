"""The table of a model's layers: counts are right, and the model is left as it was."""

import pytest

import rushlight as torch
from rushlight import nn


def test_counts_of_a_convolutional_network():
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.LazyLinear(5)
    )
    net(torch.ones(1, 3, 6, 6))
    s = torch.summary(net, (2, 3, 6, 6))
    assert s.parameters == 8 * 27 + 8 + 16 + 5 * 128 + 5
    conv = 2 * 2 * 8 * 16 * 27  # two pictures, 16 places each
    assert [layer.flops for layer in s.layers] == [
        conv + 2 * 2 * 128 * 5,
        conv,
        0,
        0,
        0,
        2 * 2 * 128 * 5,
    ]
    assert [layer.shape for layer in s.layers][1] == (2, 8, 4, 4)
    assert s.buffer_bytes == 8 * 4 * 2 + 8


def test_nothing_is_changed():
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout())
    before = {name: t.clone() for name, t in net.state_dict().items()}
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    torch.summary(net, torch.randn(5, 3, generator=torch.Generator().manual_seed(0)))
    assert torch.equal(torch.rand(2), expected)
    assert all(torch.equal(t, before[name]) for name, t in net.state_dict().items())
    assert net.training
    assert all(p.grad is None for p in net.parameters())
    assert not net[0]._forward_hooks


def test_what_is_kept_for_backward_is_exact():
    s = torch.summary(nn.Sequential(nn.Linear(10, 20), nn.Sigmoid()), torch.ones(4, 10))
    assert s.kept_bytes == 4 * 10 * 4 + 4 * 20 * 4  # the input, and sigmoid's result


def test_shared_frozen_and_repeated():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 3)
            self.b = self.a
            self.c = nn.Linear(3, 3).requires_grad_(False)

        def forward(self, x):
            return self.c(self.b(self.a(x)))

    s = torch.summary(Net(), torch.ones(2, 3))
    text = str(s)
    assert (s.parameters, s.trainable) == (24, 12)
    assert "a (Linear) ×2" in text
    assert "(shared)" in text
    assert "12 of them frozen" in text


def test_depth_keywords_and_nested_results():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(2, 2))

        def forward(self, x, *, twice=False):
            y = self.inner(x)
            return {"y": (y * 2 if twice else y, x)}

    s = torch.summary(Net(), torch.ones(1, 2), depth=1, twice=True)
    assert [layer.path for layer in s.layers] == ["", "inner"]
    assert s.layers[0].shape == (1, 2)


def test_an_error_of_the_model_leaves_no_hook():
    net = nn.Linear(3, 3)
    with pytest.raises(RuntimeError):
        torch.summary(net, torch.ones(2, 5))
    assert not net._forward_hooks


def test_lazy_layers_are_counted_as_what_they_become():
    s = torch.summary(nn.Sequential(nn.LazyLinear(4), nn.ReLU()), torch.ones(2, 3))
    assert (s.parameters, s.flops) == (16, 48)
    assert [layer.kind for layer in s.layers] == ["Sequential", "Linear", "ReLU"]
    s = torch.summary(nn.LazyLinear(4), torch.ones(2, 3))
    assert (s.layers[0].kind, s.layers[0].flops) == ("Linear", 48)


def test_recurrent_layers_have_their_products():
    s = torch.summary(nn.LSTM(4, 8, batch_first=True), torch.ones(2, 5, 4))
    assert s.flops == 2 * (2 * 5) * (4 * 8) * (4 + 8)


def test_what_is_asked_for_when_something_is_not_given():
    with pytest.raises(TypeError, match=r"give its input, or the input's shape"):
        torch.summary(nn.Linear(2, 3))
    with pytest.raises(TypeError, match="expected a module, got list"):
        torch.summary([nn.Linear(2, 3)], torch.ones(2))
