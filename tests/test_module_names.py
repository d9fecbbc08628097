"""Errors that name the parameters and layers of a model."""

import pytest

import rushlight as torch
from rushlight import nn
from support import location_text


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear1 = nn.Linear(4, 4)
        self.linear2 = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear2(torch.relu(self.linear1(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Module()
        self.encoder.layers = nn.ModuleList(Layer() for _ in range(4))
        self.head = nn.Linear(5, 2)

    def forward(self, x):
        for layer in self.encoder.layers:
            x = layer(x)
        return self.head(x)


def test_parameters_know_their_names():
    model = Model()
    for name, p in model.named_parameters():
        assert p.qualified_name == name
    assert nn.Parameter(torch.ones(1)).qualified_name is None
    weight = nn.Linear(1, 1).weight  # its module is gone
    assert weight.qualified_name is None


def test_names_follow_the_model():
    layer = nn.Linear(1, 1)
    assert layer.weight.qualified_name == "weight"
    model = nn.Sequential(layer)
    assert layer.weight.qualified_name == "0.weight"
    outer = nn.ModuleDict({"part": model})
    assert layer.weight.qualified_name == "part.0.weight"
    del outer
    model[0] = nn.Identity()
    assert layer.weight.qualified_name == "weight"


def test_a_model_that_holds_itself():
    model = nn.Module()
    model.itself = model
    model.p = nn.Parameter(torch.ones(1))
    assert model.p.qualified_name == "p"


def test_a_step_between_forward_and_backward_names_the_parameter():
    model = Model()
    model.head = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = model(torch.ones(1, 4)).sum()
    loss.backward(retain_graph=True)
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as error:
        loss.backward()
    text = str(error.value)
    assert "'head.weight' of Model" in text
    assert "SGD.step" in text


def test_views_of_parameters_are_named_too():
    layer = nn.Linear(2, 2)
    out = (layer.weight.t() * torch.ones(2, 2, requires_grad=True)).sum()
    with torch.no_grad():
        layer.weight.add_(1)
    with pytest.raises(RuntimeError, match="parameter 'weight' of Linear"):
        out.backward()


def test_layers_that_do_not_fit_are_named_with_their_shapes():
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied") as error:
        Model()(torch.ones(3, 4))
    text = location_text(error.value)
    assert "in module head (Linear(in_features=5, out_features=2, bias=True))" in text
    assert "input of shape [3, 4] made by encoder.layers.3.linear2 (Linear(" in text


def test_the_note_is_there_without_gradients():
    with torch.no_grad(), pytest.raises(RuntimeError) as error:
        Model()(torch.ones(3, 4))
    assert "made by encoder.layers.3.linear2" in location_text(error.value)


def test_functions_between_layers():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 6), nn.Linear(4, 6)

        def forward(self, x):
            return self.b(torch.tanh(self.a(x)) * 2)

    with pytest.raises(RuntimeError) as error:
        Two()(torch.ones(1, 4))
    assert "in module b" in location_text(error.value)
    assert "[1, 6] made after a (Linear(" in location_text(error.value)


def test_one_note_from_the_innermost_module():
    model = nn.Sequential(nn.Sequential(nn.Sequential(nn.Linear(2, 2))))
    with pytest.raises(RuntimeError) as error:
        model(torch.ones(1, 3))
    notes = [n for n in error.value.__notes__ if n.startswith("in module")]
    assert len(notes) == 1
    assert notes[0].startswith("in module 0.0.0 (Linear")
    assert "made" not in notes[0]


def test_assertions_name_their_module_too():
    model = nn.Sequential(nn.Linear(4, 6), nn.TransformerEncoderLayer(8, 2, 16))
    with pytest.raises(AssertionError, match="embedding dimension of 8, but got 6") as error:
        model(torch.zeros(5, 2, 4))
    (note,) = error.value.__notes__
    assert note.startswith("in module 1.self_attn (MultiheadAttention")
    assert "input of shape [5, 2, 6] made by 0 (Linear(in_features=4, out_features=6" in note


def test_other_exceptions_stay_as_they_are():
    class Stop(Exception):
        pass

    class Raises(nn.Module):
        def forward(self, error):
            raise error

    for error in (Stop(), KeyError("x"), StopIteration()):
        with pytest.raises(type(error)) as caught:
            Raises()(error)
        assert not hasattr(caught.value, "__notes__")


def test_errors_of_the_users_own():
    class Raises(nn.Module):
        def forward(self, x):
            raise ValueError("mine")

        def extra_repr(self):
            raise RuntimeError("printing fails")

    with pytest.raises(ValueError, match="mine"):
        Raises()(torch.ones(1))
