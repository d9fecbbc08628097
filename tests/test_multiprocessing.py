"""Tensors in memory that several processes see, and processes started together."""

import gc
import os
import pickle
import signal

import pytest

import rushlight as torch
import rushlight.multiprocessing as mp
from spawned import add_one, write_index

METHODS = ["fork", "spawn"]


def echo(requests, replies):
    while (tensor := requests.get()) is not None:
        if tensor.numel():
            tensor[0] = 7
        replies.put(tensor)


@pytest.mark.parametrize("method", METHODS)
def test_a_child_writes_to_shared_tensors(method):
    tensor = torch.zeros(4).share_memory_()
    parameter = torch.nn.Parameter(torch.ones(2)).share_memory_()
    process = mp.get_context(method).Process(target=add_one, args=(tensor, parameter))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert tensor.tolist() == [1, 1, 1, 1]
    assert parameter.tolist() == [2, 2]
    assert parameter.requires_grad


def test_views_and_arrays_move_along():
    base = torch.arange(100.0)
    view, array = base[10:20], base.numpy()
    assert not base.is_shared()
    assert view.share_memory_() is view
    assert base.is_shared()
    base[11] = -1.0
    assert view[1] == -1
    assert array[12] == 12  # it keeps the memory that it was given
    small = torch.tensor(3.0).share_memory_()
    assert small.is_shared()
    assert small.item() == 3


def test_empty_tensors_have_nothing_to_share():
    assert torch.zeros(0).share_memory_().shape == (0,)


def test_descriptors_are_closed_with_the_last_tensor():
    torch.zeros(3).share_memory_()
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    tensors = [torch.zeros(1000).share_memory_() for _ in range(10)]
    assert len(os.listdir("/proc/self/fd")) > before
    del tensors
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


def test_queues_share_what_is_shared_and_copy_the_rest():
    context = mp.get_context("fork")
    requests, replies = context.Queue(), context.Queue()
    process = context.Process(target=echo, args=(requests, replies))
    process.start()
    shared, private = torch.zeros(3).share_memory_(), torch.zeros(3)
    for tensor in (shared, private, torch.zeros(0)):
        requests.put(tensor)
    back = [replies.get() for _ in range(3)]
    assert [t.tolist() for t in back] == [[7, 0, 0], [7, 0, 0], []]
    assert shared[0] == 7
    assert private[0] == 0
    shared[1] = 5.0
    assert back[0][1] == 5
    requests.put(None)
    process.join()


def test_results_with_a_history_are_refused():
    from multiprocessing.reduction import ForkingPickler

    y = torch.ones(2, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="Cowardly refusing"):
        ForkingPickler.dumps(y)


def fail_in_one(index, text):
    if index == 1:
        raise ValueError(text)
    signal.pause()


def die(index):
    os.kill(os.getpid(), signal.SIGKILL)


def leave(index):
    os._exit(3)


class TestSpawn:
    def test_all_run(self):
        tensor = torch.zeros(2).share_memory_()
        assert mp.spawn(write_index, (tensor,), nprocs=2) is None
        assert tensor.tolist() == [0, 1]

    def test_an_exception_comes_with_its_traceback_and_ends_the_others(self):
        with pytest.raises(mp.ProcessRaisedException, match="in fail_in_one") as caught:
            mp.start_processes(fail_in_one, ("text of mine",), 2, start_method="fork")
        assert "-- Process 1 terminated with the following error" in str(caught.value)
        assert "ValueError: text of mine" in str(caught.value)
        assert caught.value.error_index == 1
        assert type(pickle.loads(pickle.dumps(caught.value))) is mp.ProcessRaisedException
        assert mp.active_children() == []

    def test_signals_and_exit_codes(self):
        with pytest.raises(mp.ProcessExitedException, match="signal SIGKILL") as caught:
            mp.start_processes(die, start_method="fork")
        assert caught.value.signal_name == "SIGKILL"
        with pytest.raises(mp.ProcessExitedException, match="exit code 3") as caught:
            mp.start_processes(leave, start_method="fork")
        assert caught.value.exit_code == 3

    def test_without_waiting(self):
        tensor = torch.zeros(2).share_memory_()
        context = mp.start_processes(write_index, (tensor,), 2, join=False, start_method="fork")
        assert len(context.pids()) == 2
        while not context.join():
            pass
        assert context.join()


def test_names():
    assert mp.get_sharing_strategy() == "file_descriptor"
    mp.set_sharing_strategy("file_system")
    mp.set_sharing_strategy("file_descriptor")
    with pytest.raises(AssertionError, match="invalid sharing strategy"):
        mp.set_sharing_strategy("telepathy")
    assert "fork" in mp.get_all_start_methods()
