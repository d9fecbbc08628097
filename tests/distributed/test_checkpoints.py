"""Checkpoints of several processes: each its part, whole or not at all, for any number of them."""

import os
import signal
import time

import pytest

import rushlight as torch
import rushlight.distributed.checkpoint as dcp
from processes import needs_mpi, run, start
from rushlight import distributed as dist
from rushlight import nn
from rushlight.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from rushlight.distributed.device_mesh import init_device_mesh
from rushlight.distributed.fsdp import fully_shard
from rushlight.distributed.tensor import DTensor, Shard, distribute_tensor

F64 = torch.float64


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 7), nn.Tanh(), nn.BatchNorm1d(7), nn.Linear(7, 5)).double()


def trained(model, steps=2):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    data = torch.linspace(-1, 1, 12, dtype=F64).reshape(4, 3)
    for step in range(steps):
        optimizer.zero_grad()
        (model(data + step) ** 2).mean().backward()
        optimizer.step()
    return optimizer


def state_of(model, optimizer):
    model_state, optimizer_state = get_state_dict(model, optimizer)
    return {"model": model_state, "optimizer": optimizer_state, "epoch": 3, "note": [1, "a"]}


def whole(tree):
    if isinstance(tree, dict):
        return {k: whole(v) for k, v in tree.items()}
    return tree.full_tensor().detach() if isinstance(tree, DTensor) else tree


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        if isinstance(value, dict):
            assert_same(found[key], value)
        elif isinstance(value, torch.Tensor):
            torch.testing.assert_close(found[key], value, rtol=0, atol=1e-12)
        else:
            assert found[key] == value, key


def save(rank, size, folder):
    model = fully_shard(net())
    dcp.save(state_of(model, trained(model)), checkpoint_id=folder)
    return sorted(os.listdir(folder))


def load(rank, size, folder, sharded):
    expected_model = net()
    expected = state_of(expected_model, trained(expected_model))
    model = net()
    if sharded:
        fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.0)
    state = state_of(model, optimizer)
    state["epoch"] = 0
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(
        model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
    )
    assert state["epoch"] == 3
    assert state["note"] == [1, "a"]
    assert_same(whole(state_of(model, optimizer)), expected)


@needs_mpi
def test_any_number_of_processes_loads_what_another_number_saved(tmp_path):
    folder = str(tmp_path / "checkpoint")
    files = run(save, 3, folder)[0]
    assert len([f for f in files if f.endswith(".distcp")]) == 3  # each process wrote a part
    assert ".metadata" in files
    run(load, 2, folder, True)
    run(load, 2, folder, False)
    load(0, 1, folder, False)  # one process without a group


def parts(rank, size, folder):
    mesh = init_device_mesh("cpu", (size,))
    whole = torch.arange(35.0).reshape(5, 7)
    state = {"rows": distribute_tensor(whole, mesh, [Shard(0)]),
             "columns": distribute_tensor(whole, mesh, [Shard(1)]),
             "scalar": torch.tensor(2.5), "empty": torch.zeros(0, 3)}  # fmt: skip
    dcp.save(state, checkpoint_id=folder)
    # Rows are read where columns were written, and the other way round.
    other = {"rows": distribute_tensor(torch.zeros(5, 7), mesh, [Shard(1)]),
             "columns": distribute_tensor(torch.zeros(5, 7), mesh, [Shard(0)]),
             "scalar": torch.tensor(0.0), "empty": torch.ones(0, 3)}  # fmt: skip
    dcp.load(other, checkpoint_id=folder)
    assert torch.equal(other["rows"].full_tensor(), whole)
    assert torch.equal(other["columns"].full_tensor(), whole)
    assert other["scalar"].item() == 2.5
    with pytest.raises(ValueError, match="size mismatch between saved"):
        dcp.load({"rows": torch.zeros(5, 8)}, checkpoint_id=folder)
    with pytest.raises(RuntimeError, match="Missing key in checkpoint state_dict: other"):
        dcp.load({"other": torch.zeros(1)}, checkpoint_id=folder)
    # One rank's trouble is everyone's error, and the old checkpoint stays.
    broken = {"rows": 1, f"own {rank}": (lambda: None) if rank == 1 else 0}
    with pytest.raises(dcp.CheckpointException, match="rank 1"):
        dcp.save(broken, checkpoint_id=folder)
    dcp.load(other, checkpoint_id=folder)
    dist.barrier()
    future = dcp.async_save({"scalar": state["scalar"]}, checkpoint_id=folder)
    state["scalar"].zero_()
    future.result()
    dcp.load({"scalar": state["scalar"]}, checkpoint_id=folder)
    assert state["scalar"].item() == 2.5


@needs_mpi
def test_parts_of_tensors_and_errors(tmp_path):
    run(parts, 2, str(tmp_path / "checkpoint"))


class Slow:
    """A value whose writing takes its time; the other rank has written by then."""

    def __reduce__(self):
        time.sleep(60)
        return (int, ())


def interrupted(rank, size, folder):
    dcp.save({"x": torch.full((4,), 1.0), "y": torch.ones(3)}, checkpoint_id=folder)
    print("saved", flush=True)
    other = {"x": torch.full((4,), 2.0), f"slow {rank}": Slow() if rank == 1 else 0}
    dcp.save(other, checkpoint_id=folder)


@needs_mpi
def test_a_save_that_is_killed_leaves_the_old_checkpoint(tmp_path):
    folder = str(tmp_path / "checkpoint")
    with start(interrupted, 2, folder) as ranks:
        deadline = time.monotonic() + 60
        while not all("saved" in ranks.output(r) for r in range(2)):
            assert time.monotonic() < deadline, ranks.output(0)
            time.sleep(0.05)
        time.sleep(1.0)
        for rank in range(2):
            ranks.signal(rank, signal.SIGKILL)
    state = {"x": torch.zeros(4), "y": torch.zeros(3)}
    dcp.load(state, checkpoint_id=folder)
    assert state["x"].tolist() == [1.0] * 4
    dcp.save({"x": torch.full((4,), 3.0)}, checkpoint_id=folder)
    assert len(os.listdir(folder)) == 2  # what was left behind is gone


def test_one_process(tmp_path):
    folder = tmp_path / "checkpoint"
    with pytest.raises(FileNotFoundError, match="holds no whole checkpoint"):
        dcp.load({}, checkpoint_id=folder)
    with pytest.raises(RuntimeError, match="say where"):
        dcp.save({})
    model = net()
    optimizer = trained(model)
    dcp.save({"model": model, "optimizer": optimizer}, checkpoint_id=folder)
    twin = net()
    other = trained(twin, 1)
    dcp.load({"model": twin, "optimizer": other}, storage_reader=dcp.FileSystemReader(folder))
    assert_same(dict(twin.state_dict()), dict(model.state_dict()))
    assert_same(other.state_dict()["state"][0], optimizer.state_dict()["state"][0])
    metadata = dcp.FileSystemReader(folder).read_metadata()
    assert metadata.tensors["model.0.weight"][:2] == ((7, 3), "float64")
    # An error in the middle leaves the folder as it was.
    before = sorted(os.listdir(folder))
    with pytest.raises(dcp.CheckpointException):
        dcp.save({"model": lambda: None}, checkpoint_id=folder)
    assert sorted(os.listdir(folder)) == before


def test_a_writer_may_leave_an_older_checkpoint_alone(tmp_path):
    writer = dcp.FileSystemWriter(tmp_path, overwrite=False)
    dcp.save({"x": torch.ones(1)}, storage_writer=writer)
    with pytest.raises(dcp.CheckpointException, match="already exists and overwrite=False"):
        dcp.save({"x": torch.zeros(1)}, storage_writer=writer)
    state = {"x": torch.zeros(1)}
    dcp.load(state, checkpoint_id=tmp_path)
    assert state["x"].tolist() == [1.0]
    dcp.save({"x": torch.zeros(1)}, storage_writer=dcp.FileSystemWriter(tmp_path))


def test_what_a_checkpoint_lacks_may_stay_as_it_is(tmp_path):
    from rushlight.distributed.checkpoint.format_utils import dcp_to_torch_save, torch_save_to_dcp

    torch.save({"x": torch.ones(1), "step": 3}, tmp_path / "x.pt")
    torch_save_to_dcp(tmp_path / "x.pt", tmp_path / "parts")
    state = {"x": torch.zeros(1), "new": torch.full((2,), 7.0), "step": 0}
    with pytest.raises(RuntimeError, match="Missing key in checkpoint state_dict: new"):
        dcp.load(state, checkpoint_id=tmp_path / "parts")
    planner = dcp.DefaultLoadPlanner(allow_partial_load=True)
    dcp.load(state, checkpoint_id=tmp_path / "parts", planner=planner)
    assert (state["x"].tolist(), state["new"].tolist(), state["step"]) == ([1.0], [7.0, 7.0], 3)
    with pytest.raises(RuntimeError, match="leaves this part of torch"):
        dcp_to_torch_save(tmp_path / "parts", tmp_path / "y.pt")
