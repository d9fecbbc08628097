"""Files move both ways between rushlight and PyTorch."""

import collections
import fractions
import inspect
import io
import os
import pathlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch

import rushlight
from oracle.harness import describe, same

DTYPES = [
    "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool",
    "complex64", "complex128",
]  # fmt: skip
WAYS = [(rushlight, torch), (torch, rushlight)]
WAY_IDS = ["to torch", "from torch"]


def carry(value, there, back, zipped=True, **options):
    """Saved by the one library, loaded by the other."""
    file = io.BytesIO()
    there.save(value, file, _use_new_zipfile_serialization=zipped)
    file.seek(0)
    return back.load(file, weights_only=True, **options)


def example(library):
    """Much of what a training program saves."""
    base = library.arange(24.0).reshape(4, 6)
    state = collections.OrderedDict()
    state["weight"] = base
    state["weight_t"] = base.t()
    state["part"] = base[1:3, ::2]
    state["scalar"] = library.tensor(3)
    state["empty"] = library.zeros(0, 5)
    state["wide"] = library.ones(1).expand(3, 4)
    state._metadata = collections.OrderedDict({"": {"version": 1}})
    return {
        "model": state,
        "optimizer": {
            "state": {0: {"step": library.tensor(4.0), "exp_avg": library.zeros(2, 2)}},
            "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.999), "amsgrad": False, "params": [0]}],
        },
        "parameter": library.nn.Parameter(library.ones(2)),
        "frozen": library.nn.Parameter(library.ones(2), requires_grad=False),
        "leaf": library.ones(2, requires_grad=True),
        "size": base.shape,
        "dtype": library.float16,
        "device": library.device("cpu"),
        "epoch": 3,
        "big": [2**31, -(2**31) - 1, 2**62, 2**80, -1],
        "loss": 0.25,
        "name": "run é",
        "raw": [b"\x00\xff", b"", bytearray(b"abc")],
        "set": {1, 2},
        "z": 1 - 2j,
        "none": None,
        "flags": (True, False),
        "counts": collections.Counter("abca"),
    }


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
@pytest.mark.parametrize(("there", "back"), WAYS, ids=WAY_IDS)
def test_a_training_state(there, back, zipped):
    value = carry(example(there), there, back, zipped)
    assert same(describe(value, back), describe(example(back), back))
    model = value["model"]
    assert model._metadata == {"": {"version": 1}}
    assert type(value["parameter"]) is back.nn.Parameter
    assert value["parameter"].requires_grad
    assert not value["frozen"].requires_grad
    assert value["leaf"].requires_grad
    for name in ("weight_t", "part", "wide"):
        assert model[name].stride() == example(back)["model"][name].stride()
    model["weight"][1, 0] = -5.0
    assert float(model["weight_t"][0, 1]) == -5
    assert float(model["part"][0, 0]) == -5


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("there", "back"), WAYS, ids=WAY_IDS)
def test_every_dtype(there, back, dtype, zipped):
    values = np.array([[0, 1, 2], [100, 3, 4]])
    value = carry(there.tensor(values.tolist()).to(getattr(there, dtype)), there, back, zipped)
    assert value.dtype is getattr(back, dtype)
    expected = values.astype(bool) if dtype == "bool" else values
    assert np.array_equal(np.array(value.tolist()), expected)


@pytest.mark.parametrize(("there", "back"), WAYS, ids=WAY_IDS)
def test_attributes_of_tensors(there, back):
    t = there.ones(2)
    t.note = ["mine", 3]
    p = there.nn.Parameter(there.zeros(1))
    p.note = "also"
    back_t, back_p = carry([t, p], there, back)
    assert back_t.note == ["mine", 3]
    assert back_p.note == "also"


@pytest.mark.parametrize(("there", "back"), WAYS, ids=WAY_IDS)
def test_maps_of_memory(there, back, tmp_path):
    path = tmp_path / "x.pt"
    there.save({"a": there.arange(1000.0), "b": there.arange(7)}, path)
    value = back.load(path, mmap=True, weights_only=True)
    assert value["a"].tolist() == list(range(1000))
    assert value["b"].tolist() == list(range(7))


@pytest.mark.parametrize(("there", "back"), WAYS, ids=WAY_IDS)
def test_larger_files(there, back, tmp_path):
    path = tmp_path / "x.pt"
    there.save([there.arange(2**21), there.ones(2**20 + 3)], path)
    a, b = back.load(path)
    assert int(a.sum()) == 2**20 * (2**21 - 1)
    assert float(b.sum()) == 2**20 + 3


def test_one_storage_as_two_dtypes_goes_to_torch():
    whole = rushlight.arange(4, dtype=rushlight.int32)
    other = rushlight._C._reinterpret(whole, rushlight.float32, (4,), (1,))
    a, b = carry([whole, other], rushlight, torch)
    a[0] = 1065353216
    assert float(b[0]) == 1


def test_unknown_classes_raise_the_same_error():
    for library in (rushlight, torch):
        file = io.BytesIO()
        library.save(fractions.Fraction(1, 3), file)
        file.seek(0)
        with pytest.raises(pickle.UnpicklingError, match="add_safe_globals") as caught:
            library.load(file)
        assert "fractions.Fraction was not an allowed global" in str(caught.value)
        file.seek(0)
        with library.serialization.safe_globals([fractions.Fraction]):
            assert library.load(file) == fractions.Fraction(1, 3)


def test_whole_modules_of_torch_are_refused_by_default():
    file = io.BytesIO()
    torch.save(torch.nn.Linear(2, 2), file)
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="state_dict"):
        rushlight.load(file)
    file.seek(0)
    ours = rushlight.serialization.get_unsafe_globals_in_checkpoint(file)
    file.seek(0)
    assert "torch.nn.modules.linear.Linear" in ours
    assert set(torch.serialization.get_unsafe_globals_in_checkpoint(file)) <= set(ours)


def test_what_rushlight_has_not_is_named():
    for value, word in (
        (torch.zeros(2, dtype=torch.uint8).view(torch.float4_e2m1fn_x2), "dtype"),
        (torch.zeros(2, dtype=torch.uint8).view(torch.bits8), "dtype"),
    ):
        file = io.BytesIO()
        torch.save(value, file)
        file.seek(0)
        with pytest.raises(pickle.UnpicklingError, match=word):
            rushlight.load(file)


def test_sparse_tensors():
    file = io.BytesIO()
    torch.save(torch.eye(2).to_sparse(), file)
    file.seek(0)
    loaded = rushlight.load(file)
    assert loaded.is_sparse
    assert loaded.to_dense().tolist() == [[1, 0], [0, 1]]


def test_lazily_conjugated_tensors():
    file = io.BytesIO()
    torch.save(torch.tensor([1 + 2j]).conj(), file)
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="resolve_conj"):
        rushlight.load(file)


@pytest.mark.parametrize("damage", ["empty", "cut", "zip"])
def test_damaged_files_raise_the_same_class(damage, tmp_path):
    file = io.BytesIO()
    torch.save(torch.ones(100), file)
    data = {"empty": b"", "cut": file.getvalue()[:-200], "zip": b"PK\3\4"}[damage]
    kinds = []
    for library in (rushlight, torch):
        with pytest.raises(Exception) as caught:
            library.load(io.BytesIO(data))
        kinds.append(caught.type)
    assert kinds[0] is kinds[1]


def test_safetensors_files(tmp_path):
    pytest.importorskip("safetensors")
    from safetensors import torch as theirs

    from rushlight import safetensors as ours

    def state(library):
        names = [d for d in DTYPES if d != "complex128"]
        tensors = {d: library.ones(2, 3).to(getattr(library, d)) for d in names}
        return tensors | {"empty": library.zeros(0, 2), "scalar": library.tensor(2.5)}

    ours.save_file(state(rushlight), tmp_path / "a.safetensors", {"k": "v"})
    value = theirs.load_file(tmp_path / "a.safetensors")
    assert same(describe(value, torch), describe(state(torch), torch))
    theirs.save_file(state(torch), tmp_path / "b.safetensors")
    for back in (
        rushlight.load(tmp_path / "b.safetensors"),
        ours.load((tmp_path / "b.safetensors").read_bytes()),
    ):
        assert same(describe(back, rushlight), describe(state(rushlight), rushlight))


def _trained(nn):
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"), nn.BatchNorm2d(4), nn.PReLU(),
        nn.MaxPool2d(2), nn.Flatten(2), nn.GroupNorm(2, 4), nn.LSTM(9, 4, 2, bidirectional=True),
    )  # fmt: skip


def _answer(library, model):
    x = library.arange(2 * 3 * 6 * 6, dtype=library.float32).reshape(2, 3, 6, 6).sin()
    return model.eval()(x)[0].detach().numpy()


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_trusted_files_of_torch_hold_whole_modules(zipped):
    model, file = _trained(torch.nn), io.BytesIO()
    model[2].register_forward_hook(_hook)
    torch.save(
        {"model": model, "array": np.arange(3), "f": torch.relu, "g": torch.nn.functional.gelu},
        file,
        _use_new_zipfile_serialization=zipped,
    )
    file.seek(0)
    loaded = rushlight.load(file, weights_only=False)
    assert type(loaded["model"]) is rushlight.nn.Sequential
    assert loaded["f"] is rushlight.relu
    assert loaded["g"] is rushlight.nn.functional.gelu
    assert loaded["array"].tolist() == [0, 1, 2]
    np.testing.assert_allclose(
        _answer(rushlight, loaded["model"]), _answer(torch, model), rtol=1e-4, atol=1e-5
    )
    assert _hooked
    loaded["model"].double().zero_grad()


_hooked = []


def _hook(module, inputs, output):
    _hooked.append(module)


def test_whole_modules_saved_under_run_load_in_torch(tmp_path):
    path = tmp_path / "model.pt"
    program = (
        "import sys, torch, inspect\n"
        f"{inspect.getsource(_trained)}\n{inspect.getsource(_answer)}\n"
        "model = _trained(torch.nn)\n"
        f"torch.save((model, _answer(torch, model)), {str(path)!r})\n"
    )
    source = pathlib.Path(rushlight.__file__).parent.parent
    subprocess.run(
        [sys.executable, "-m", "rushlight", "run", "-"],
        input=program, text=True, check=True, env=os.environ | {"PYTHONPATH": str(source)},
    )  # fmt: skip
    model, answer = torch.load(path, weights_only=False)
    assert type(model) is torch.nn.Sequential
    np.testing.assert_allclose(_answer(torch, model), answer, rtol=1e-4, atol=1e-5)
