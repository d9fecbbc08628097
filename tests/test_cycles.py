"""What is freed at once, without waiting for the garbage collector."""

import gc
import weakref

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.autograd import Function
from rushlight.utils.checkpoint import checkpoint, checkpoint_sequential
from support import leaf


@pytest.fixture(autouse=True)
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return 2 * g * ctx.saved_tensors[0]


class Doubled(Function):
    """Writes to its argument, and keeps the result."""

    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return 2 * g


def garbage_of(program):
    """What a program leaves to the collector."""
    program()  # caches
    gc.collect()
    program()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return [type(o).__name__ for o in gc.garbage]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


def checkpointed_function():
    checkpoint(lambda x: Square.apply(x.sin()).exp(), leaf([1.0])).backward()


def checkpointed_function_without_backward():
    checkpoint(lambda x: Square.apply(x.sin()).exp(), leaf([1.0]))


class Kept(Function):
    """Keeps its result, where a recomputation stops."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


def checkpointed_function_that_keeps_its_result():
    checkpoint(Kept.apply, leaf([1.0])).backward()
    checkpoint(lambda x: checkpoint(Kept.apply, x.sin()).sin(), leaf([1.0])).backward()


def checkpointed_function_that_writes():
    checkpoint(lambda x: Doubled.apply(x.sin()).exp(), leaf([1.0])).backward()


def checkpointed_sequence():
    checkpoint_sequential([torch.sin, Square.apply, torch.exp], 2, leaf([1.0])).backward()


def dirty_view():
    x = leaf([1.0, 2.0]) * 1
    Doubled.apply(x[:1])
    x.sum().backward()


def dirty_tensor():
    x = leaf([1.0, 2.0]) * 1
    Doubled.apply(x).sum().backward()


def dirty_view_without_backward():
    x = leaf([1.0, 2.0]) * 1
    Doubled.apply(x[:1])


def loaded_state():
    module = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(2)))
    module.load_state_dict(module.state_dict())
    module.load_state_dict(module.state_dict(), assign=True)


def written_in_vmap():
    x = leaf([[1.0, 2.0]]) * 1
    torch.vmap(lambda u: u.mul_(2))(x)
    x.sum().backward()


def hooked_module():
    module = nn.Tanh()
    module.register_full_backward_hook(lambda *_: None)
    module(leaf([1.0]) * 1).sum().backward()


def modes():
    with torch.no_grad(), torch.autocast("cpu"), torch.inference_mode():
        torch.ones(2) * 2


@pytest.mark.parametrize(
    "program",
    [
        checkpointed_function,
        checkpointed_function_without_backward,
        checkpointed_function_that_keeps_its_result,
        checkpointed_function_that_writes,
        checkpointed_sequence,
        dirty_view,
        dirty_view_without_backward,
        dirty_tensor,
        loaded_state,
        written_in_vmap,
        hooked_module,
        modes,
    ],
    ids=lambda f: f.__name__,
)
def test_nothing_is_left_to_the_collector(program):
    assert garbage_of(program) == []


def test_a_checkpointed_function_dies_with_its_graph():
    class Tracked(nn.Module):
        def forward(self, x):
            return Square.apply(x.sin())

    module = Tracked()
    alive = weakref.ref(module)
    y = checkpoint(module, leaf([1.0]))
    del module
    y.backward()
    del y
    assert alive() is None
