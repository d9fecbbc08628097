"""Initial values: the same numbers as PyTorch's from the same random stream."""

import warnings

import numpy as np
import pytest
import torch as reference

import rushlight as torch

CALLS = [
    ("uniform_", (3, 4), {}),
    ("uniform_", (3, 4), {"a": -2.0, "b": 3.0}),
    ("normal_", (20, 4), {"mean": 1.0, "std": 0.5}),
    ("trunc_normal_", (20, 4), {}),
    ("trunc_normal_", (20, 4), {"mean": 0.0, "std": 1.0, "a": 1.5, "b": 2.0}),
    ("constant_", (3, 4), {"val": 0.3}),
    ("ones_", (3,), {}),
    ("zeros_", (3,), {}),
    ("eye_", (3, 4), {}),
    ("dirac_", (4, 3, 5), {}),
    ("dirac_", (4, 3, 5, 5), {"groups": 2}),
    ("dirac_", (4, 2, 3, 3, 3), {}),
    ("xavier_uniform_", (3, 4), {"gain": 2.0}),
    ("xavier_normal_", (3, 4, 2), {}),
    ("kaiming_uniform_", (3, 4), {"a": 0.3}),
    ("kaiming_uniform_", (3, 4, 2), {"mode": "fan_out", "nonlinearity": "relu"}),
    ("kaiming_normal_", (3, 4), {"nonlinearity": "tanh"}),
    ("orthogonal_", (3, 3), {}),
    ("orthogonal_", (5, 3), {"gain": 2.0}),
    ("orthogonal_", (3, 5), {}),
    ("orthogonal_", (4, 2, 3), {}),
    ("sparse_", (6, 4), {"sparsity": 0.5}),
]


@pytest.mark.parametrize(("name", "shape", "options"), CALLS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_same_numbers(name, shape, options, dtype):
    results = []
    for library in (torch, reference):
        with torch.random.torch_streams():
            library.manual_seed(3)
            tensor = library.empty(shape, dtype=getattr(library, dtype))
            assert getattr(library.nn.init, name)(tensor, **options) is tensor
            results.append(tensor.numpy())
    tolerance = 1e-6 if name == "orthogonal_" else 1e-7
    np.testing.assert_allclose(*results, rtol=tolerance, atol=tolerance)


OLD = [n for n in dir(reference.nn.init) if hasattr(reference.nn.init, n + "_") and n[0] != "_"]


@pytest.mark.parametrize("old", OLD)
def test_old_names_warn(old):
    name = old + "_"
    for library in (torch, reference):
        tensor = library.empty(4, 3, 3) if name == "dirac_" else library.empty(4, 4)
        options = {"constant_": (0.5,), "sparse_": (0.5,)}.get(name, ())
        with pytest.warns(FutureWarning, match=f"nn.init.{name}"):
            getattr(library.nn.init, name[:-1])(tensor, *options)


@pytest.mark.parametrize(
    "nonlinearity", ["linear", "conv2d", "sigmoid", "tanh", "relu", "selu", "leaky_relu"]
)
def test_gains(nonlinearity):
    assert torch.nn.init.calculate_gain(nonlinearity) == reference.nn.init.calculate_gain(
        nonlinearity
    )
    assert torch.nn.init.calculate_gain("leaky_relu", 2) == reference.nn.init.calculate_gain(
        "leaky_relu", 2
    )


BAD = [
    lambda t: t.nn.init.calculate_gain("nothing"),
    lambda t: t.nn.init.calculate_gain("leaky_relu", "a"),
    lambda t: t.nn.init.eye_(t.empty(3)),
    lambda t: t.nn.init.dirac_(t.empty(3)),
    lambda t: t.nn.init.dirac_(t.empty(3, 3, 3), groups=2),
    lambda t: t.nn.init.xavier_uniform_(t.empty(3)),
    lambda t: t.nn.init.kaiming_uniform_(t.empty(3, 3), mode="fan"),
    lambda t: t.nn.init.orthogonal_(t.empty(3)),
    lambda t: t.nn.init.sparse_(t.empty(3), 0.5),
]


@pytest.mark.parametrize("call", BAD)
def test_same_errors(call):
    with pytest.raises(Exception) as theirs:
        call(reference)
    with pytest.raises(theirs.type) as ours:
        call(torch)
    assert str(ours.value).startswith(str(theirs.value)[:30])


def test_nothing_is_drawn_for_empty_tensors():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.nn.init.kaiming_uniform_(torch.empty(0, 3))
        torch.nn.init.kaiming_normal_(torch.empty(0, 3))
    assert len(seen) == 2
    assert "no-op" in str(seen[0].message)
