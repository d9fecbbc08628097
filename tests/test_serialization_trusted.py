"""Files that the user trusts: load(weights_only=False) gives back objects of every class."""

import io
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import rushlight as torch
from rushlight import nn, serialization


def saved(obj, **options):
    file = io.BytesIO()
    torch.save(obj, file, **options)
    file.seek(0)
    return file


class Mine:
    def __init__(self, x):
        self.x = x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.extra = Mine("tag")
        self.register_buffer("steps", torch.tensor(3))

    def forward(self, x):
        return self.layer(x) * self.steps


ran = []


class Bomb:
    def __reduce__(self):
        return ran.append, (1,)


@pytest.fixture(autouse=True)
def _nothing_forced(monkeypatch):
    monkeypatch.delenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", raising=False)
    monkeypatch.delenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", raising=False)
    ran.clear()
    yield
    serialization.set_force_weights_only(False)


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_objects_of_every_class(zipped, protocol):
    model, array = Net(), np.arange(4.0).reshape(2, 2)
    model.layer.register_forward_hook(print_nothing)
    everything = {"model": model, "array": array, "scalar": np.float32(2), "mine": Mine([1])}
    everything["weight"] = model.layer.weight
    file = saved(everything, pickle_protocol=protocol, _use_new_zipfile_serialization=zipped)
    loaded = torch.load(file, weights_only=False)
    x = torch.ones(1, 3)
    assert torch.equal(loaded["model"](x), model(x))
    assert loaded["model"].layer.weight is loaded["weight"]
    assert loaded["model"].extra.x == "tag"
    assert (loaded["array"] == array).all()
    assert loaded["scalar"] == 2
    assert loaded["mine"].x == [1]


def print_nothing(module, inputs, output):
    pass


def test_optimizers_functions_and_lazy_modules():
    model = nn.Sequential(nn.LazyLinear(2, dtype=torch.float64), nn.LSTM(2, 2))
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(2))], lr=0.5)
    model, optimizer, relu = torch.load(saved((model, optimizer, torch.relu)), weights_only=False)
    assert relu is torch.relu
    assert optimizer.param_groups[0]["lr"] == 0.5
    assert model[0](torch.ones(1, 3, dtype=torch.float64)).shape == (1, 2)
    assert "_flat_weights" not in vars(model[1])


def test_names_of_torch_mean_rushlights():
    data = pickle.dumps(nn.Linear, 2).replace(b"crushlight.", b"ctorch.")
    assert _read(data) is nn.Linear
    assert _read(b"\x80\x02ctorch.nn.modules.conv\nLazyConv2d\n.") is nn.LazyConv2d
    with pytest.raises(pickle.UnpicklingError, match=r"torch.zork.Thing.*does not have"):
        _read(b"\x80\x02ctorch.zork\nThing\n.")
    with pytest.raises(pickle.UnpicklingError, match="kind of tensor"):
        _read(b"\x80\x02ctorch._utils\n_rebuild_qtensor\n.")


def _read(data):
    head = b"".join(pickle.dumps(x, 2) for x in (0x1950A86A20F9469CFC6C, 1001, {}))
    return torch.load(io.BytesIO(head + data + pickle.dumps([], 2)), weights_only=False)


def test_the_default_runs_nothing():
    for options in ({}, {"weights_only": True}, {"weights_only": None}):
        with pytest.raises(pickle.UnpicklingError, match="weights_only=False"):
            torch.load(saved(Bomb()), **options)
    assert ran == []


def test_the_error_names_all_that_must_be_admitted():
    for zipped in (True, False):
        file = saved([Mine(1), Net()], _use_new_zipfile_serialization=zipped)
        with pytest.raises(pickle.UnpicklingError) as caught:
            torch.load(file)
        (line,) = [x for x in str(caught.value).splitlines() if x.startswith("Please use")]
        for name in ("Mine", "Net", "rushlight.nn.modules.linear.Linear"):
            assert name in line
        assert "weights_only=False" in str(caught.value)


def test_what_the_error_names_is_enough():
    import importlib

    array = np.arange(3.0)
    with pytest.raises(pickle.UnpicklingError) as caught:
        torch.load(saved({"array": array}))
    names = caught.value.names
    found = [
        getattr(importlib.import_module(n.rpartition(".")[0]), n.split(".")[-1]) for n in names
    ]
    with serialization.safe_globals(found):
        assert torch.load(saved({"array": array}))["array"].tolist() == [0, 1, 2]


def test_a_setting_and_the_environment_forbid_it(monkeypatch):
    def refused():
        with pytest.raises(pickle.UnpicklingError, match="forbidden in this process"):
            torch.load(saved(Mine(Bomb())), weights_only=False)
        assert ran == []

    serialization.set_force_weights_only(True)
    refused()
    assert torch.load(saved([1]), weights_only=False) == [1]
    serialization.set_force_weights_only(False)
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")
    assert serialization.get_force_weights_only()
    refused()
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(RuntimeError, match="Only one of"):
        torch.load(saved([1]))


def test_the_environment_can_trust_by_default(monkeypatch):
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    assert torch.load(saved(Mine(2))).x == 2
    with pytest.raises(pickle.UnpicklingError):
        torch.load(saved(Mine(2)), weights_only=True)


def test_other_pickle_modules():
    assert torch.load(saved(Mine(2)), pickle_module=pickle).x == 2
    with pytest.raises(RuntimeError, match="pickle_module"):
        torch.load(saved([1]), pickle_module=pickle, weights_only=True)
    with pytest.raises(ValueError, match="pickle_module 'json' is not supported"):
        torch.save([1], io.BytesIO(), pickle_module=__import__("json"))


@pytest.mark.parametrize("writer", ["rushlight", "torch"])
def test_files_travel_between_the_two_names(tmp_path, writer):
    write = (
        f"import {writer} as torch\ntorch.save(torch.nn.Linear(2, 2), {str(tmp_path / 'm.pt')!r})\n"
    )
    read = (
        "import {} as torch\n"
        f"m = torch.load({str(tmp_path / 'm.pt')!r}, weights_only=False)\n"
        "print(type(m).__module__, m(torch.ones(1, 2)).shape)\n"
    )
    path = torch.__file__.rsplit("/", 2)[0]
    run(path, write, writer == "torch")
    assert "torch.nn.modules.linear" in run(path, read.format("torch"), True)
    assert "rushlight.nn.modules.linear" in run(path, read.format("rushlight"), False)


def run(path, program, aliased):
    command = [sys.executable, *(["-m", "rushlight", "run"] if aliased else []), "-"]
    done = subprocess.run(
        command,
        input=program,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
