"""Checkpoints that go wrong: everything is put back, and the error shows both runs."""

import contextlib
import inspect

import pytest

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.utils.checkpoint import CheckpointError, checkpoint, set_checkpoint_debug_enabled
from support import check, location_text, randleaf


def test_an_error_in_the_function_leaves_everything_as_it_was():
    def f(x):
        x.exp()
        raise KeyError("mine")

    state = torch.get_rng_state()
    with pytest.raises(KeyError, match="mine"):
        checkpoint(f, randleaf(2))
    assert torch.is_grad_enabled()
    check(torch.get_rng_state(), state)
    x = randleaf(2)
    y = x.exp()
    assert isinstance(y.grad_fn._saved_result, torch.Tensor)


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_an_error_in_the_recomputation_leaves_everything_as_it_was(kind):
    fail = []

    def f(x):
        y = F.dropout(x.exp(), 0.5)
        if fail:
            raise kind("mine")
        return y.sin()

    x = randleaf(4)
    y = checkpoint(f, x).sum()
    state = torch.get_rng_state()
    fail.append(1)
    with pytest.raises(kind, match="mine"):
        y.backward(retain_graph=True)
    check(torch.get_rng_state(), state)
    assert torch.is_grad_enabled()
    assert x.grad is None
    fail.clear()
    y.backward()
    assert x.grad is not None


def diverging(first, then):
    """A function that calls `first`, and `then` in every later run."""
    calls = []

    def f(x):
        calls.append(1)
        return first(x) if len(calls) == 1 else then(x)

    return f


def line_of(f):
    return inspect.getsourcelines(f)[1]


def test_fewer_saved_tensors():
    f = diverging(lambda x: x.exp().sin(), lambda x: x.exp())
    with pytest.raises(CheckpointError) as caught:
        checkpoint(f, randleaf(2)).sum().backward()
    text = str(caught.value)
    assert text.startswith(
        "torch.utils.checkpoint: A different number of tensors was saved during the original "
        "forward and recomputation.\nNumber of tensors saved during forward: 2\n"
        "Number of tensors saved during recomputation: 1."
    )
    assert "The first difference is at saved tensor 1" in text


def test_more_saved_tensors():
    f = diverging(lambda x: x.exp(), lambda x: x.exp().sin())
    checkpoint(f, randleaf(2)).sum().backward()  # stops early
    f = diverging(lambda x: x.exp(), lambda x: x.exp().sin())
    with pytest.raises(CheckpointError, match="trying to save more tensors during recomputation"):
        checkpoint(f, randleaf(2), early_stop=False).sum().backward()


def first_run(x):
    return x.exp() * torch.ones(3, dtype=torch.float64)


def second_run(x):
    return x.exp() * torch.ones(1, dtype=torch.float64)


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_a_tensor_of_another_shape_names_both_lines(use_reentrant):
    y = checkpoint(diverging(first_run, second_run), randleaf(3), use_reentrant=use_reentrant)
    with pytest.raises(CheckpointError) as caught:
        y.sum().backward()
    text = location_text(caught.value)
    assert (
        "Recomputed values for the following tensors have different metadata than during the "
        "forward pass.\ntensor at position 1:\nsaved metadata: {'shape': torch.Size([3])"
    ) in text
    forward, recomputed = text.split("Saved by the recomputation:")
    assert f"{__file__}:{line_of(first_run) + 1}: return x.exp() * torch.ones(3" in forward
    assert f"{__file__}:{line_of(second_run) + 1}: return x.exp() * torch.ones(1" in recomputed
    assert "MulBackward0" in forward
    assert "MulBackward0" in recomputed


def test_another_dtype():
    f = diverging(lambda x: x.exp().double().sin(), lambda x: x.exp().sin())
    with pytest.raises(CheckpointError, match="different metadata"):
        checkpoint(f, torch.ones(2, requires_grad=True)).sum().backward()


def test_another_op_of_the_same_shape():
    with pytest.raises(CheckpointError, match=r"SinBackward0[\s\S]*CosBackward0"):
        checkpoint(diverging(torch.sin, torch.cos), randleaf(2)).sum().backward()


def test_the_check_can_be_turned_off():
    f = diverging(torch.sin, torch.cos)
    x = randleaf(2)
    checkpoint(f, x, determinism_check="none").sum().backward()
    check(x.grad, x.cos())


def test_values_are_compared_on_demand():
    scale = [1.0]

    def f(x):
        return (x * torch.full((3,), scale[0], dtype=torch.float64)).exp()

    for determinism_check in ("default", "values"):
        scale[0] = 1.0
        y = checkpoint(f, randleaf(3), determinism_check=determinism_check)
        y.sum().backward(retain_graph=True)
        scale[0] = 2.0
        if determinism_check == "default":
            y.sum().backward()
        else:
            with pytest.raises(CheckpointError, match="differ from those of the forward pass"):
                y.sum().backward()


def test_unknown_check():
    with pytest.raises(ValueError, match="determinism_check should be one of"):
        checkpoint(torch.sin, randleaf(1), determinism_check="some")


def long_run(x):
    for _ in range(20):
        x = x.sin()
    return x


@pytest.mark.parametrize("how", ["nothing", "argument", "context"])
def test_debug_shows_all_saved_tensors(how):
    f = diverging(lambda x: long_run(x).exp(), long_run)
    with set_checkpoint_debug_enabled(True if how == "context" else None):
        y = checkpoint(f, randleaf(2), debug=how == "argument")
    with pytest.raises(CheckpointError) as caught:
        y.sum().backward()
    shown = str(caught.value).count("float64[2]")
    assert shown == (41 if how != "nothing" else 7)


def test_a_parameter_changed_before_backward():
    w = randleaf(3)
    y = checkpoint(lambda x: (x * w).sin(), randleaf(3, seed=1)).sum()
    with torch.no_grad():
        w += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_an_input_changed_before_backward():
    h = randleaf(3) * 2
    y = checkpoint(lambda x: x.sin().exp(), h).sum()
    h.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_a_context_that_suppresses_the_error_of_forward():
    def fails(x):
        raise ValueError("no")

    x = torch.ones(2, requires_grad=True)
    suppressing = contextlib.suppress(ValueError), contextlib.nullcontext()
    with pytest.raises(RuntimeError, match="suppressed an exception"):
        checkpoint(fails, x, context_fn=lambda: suppressing)
    suppressing = contextlib.nullcontext(), contextlib.suppress(BaseException)
    checkpoint(lambda x: x.sin().exp(), x, context_fn=lambda: suppressing).sum().backward()
    assert torch.allclose(x.grad, x.cos() * x.sin().exp())
