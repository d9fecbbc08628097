"""Bad input: a clear exception of the right class, nothing corrupted, the next call works."""

import pathlib
import re
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import rushlight as torch
import rushlight.nn.functional as F
from support import leaf

HUGE = 10**18


def f32(*shape):
    return torch.ones(shape)


# name -> (call, exception, phrase)
SHAPES = {
    "add": (lambda: f32(2, 3) + f32(4), RuntimeError, "must match the size"),
    "where": (lambda: torch.where(f32(2) > 0, f32(3), f32(3)), RuntimeError, "must match"),
    "mm": (lambda: torch.mm(f32(2, 3), f32(2, 3)), RuntimeError, "cannot be multiplied"),
    "mm_dims": (lambda: torch.mm(f32(2), f32(2, 3)), RuntimeError, "must be a matrix"),
    "bmm": (lambda: torch.bmm(f32(2, 3, 4), f32(3, 4, 5)), RuntimeError, "batch"),
    "mv": (lambda: torch.mv(f32(2, 3), f32(2)), RuntimeError, "size mismatch"),
    "dot": (lambda: torch.dot(f32(2), f32(3)), RuntimeError, "inconsistent|same"),
    "dot_dims": (lambda: torch.dot(f32(2, 2), f32(2)), RuntimeError, "1D"),
    "matmul": (lambda: f32(2, 3) @ f32(4, 5), RuntimeError, "cannot be multiplied"),
    "matmul_0d": (lambda: torch.matmul(f32(), f32(3)), RuntimeError, "at least 1D"),
    "addmm": (lambda: torch.addmm(f32(7), f32(2, 3), f32(3, 4)), RuntimeError, "expand|match"),
    "linear": (lambda: F.linear(f32(2, 3), f32(4, 5)), RuntimeError, "cannot be multiplied"),
    "outer": (lambda: torch.outer(f32(2, 2), f32(2)), RuntimeError, "1-D|1D"),
    "einsum": (lambda: torch.einsum("ij,jk", f32(2, 3), f32(4, 5)), RuntimeError, "einsum"),
    "einsum_text": (lambda: torch.einsum("ij,", f32(2, 3)), (RuntimeError, ValueError), "einsum"),
    "cat": (lambda: torch.cat([f32(2, 3), f32(2, 4)]), RuntimeError, "must match"),
    "cat_dims": (lambda: torch.cat([f32(2, 3), f32(2)]), RuntimeError, "number of dimensions"),
    "cat_none": (lambda: torch.cat([]), (RuntimeError, ValueError), "non-empty"),
    "cat_0d": (lambda: torch.cat([f32()]), RuntimeError, "zero-dimensional"),
    "stack": (lambda: torch.stack([f32(2), f32(3)]), RuntimeError, "equal size"),
    "reshape": (lambda: f32(4).reshape(3), RuntimeError, "invalid for input of size"),
    "view": (lambda: f32(4).view(5), RuntimeError, "invalid for input of size"),
    "expand": (lambda: f32(2, 3).expand(4, 3), RuntimeError, "expand"),
    "copy": (lambda: f32(3).copy_(f32(4)), RuntimeError, "must match"),
    "gather": (
        lambda: torch.gather(f32(2, 2), 0, torch.zeros(2, dtype=torch.int64)),
        RuntimeError,
        "same number of dimensions",
    ),
    "scatter": (
        lambda: f32(2).scatter(0, torch.zeros(3, dtype=torch.int64), f32(2)),
        RuntimeError,
        "(?i)expected index",
    ),
    "index_select": (
        lambda: f32(3).index_select(0, torch.zeros((2, 2), dtype=torch.int64)),
        IndexError,
        "vector",
    ),
    "index_add": (
        lambda: f32(3).index_add(0, torch.tensor([0, 1]), f32(3)),
        (RuntimeError, IndexError),
        "(?i)number of indices|match|size",
    ),
    "masked_fill": (lambda: f32(3).masked_fill(f32(2) > 0, 0.0), RuntimeError, "must match"),
    "tril": (lambda: f32(3).tril(), RuntimeError, "at least 2"),
    "layer_norm": (lambda: F.layer_norm(f32(2, 3), (4,)), RuntimeError, "normalized_shape"),
    "cross_entropy": (
        lambda: F.cross_entropy(f32(2, 3), torch.zeros(4, dtype=torch.int64)),
        ValueError,
        "batch_size",
    ),
    "pad": (lambda: F.pad(f32(3), (1, 2, 3)), RuntimeError, "(?i)pad"),
    "pad_negative": (lambda: F.pad(f32(3), (-2, -2)), RuntimeError, "negative|less than"),
    "flip": (lambda: f32(2, 3).flip(0, 0), RuntimeError, "multiple times|more than once"),
    "roll": (lambda: f32(2, 3).roll((1, 2), 0), RuntimeError, "must align|same"),
    "repeat": (lambda: f32(2, 3).repeat(2), RuntimeError, "repeat"),
    "backward": (lambda: (leaf([1.0]) * f32(2)).backward(), RuntimeError, "scalar outputs"),
}
DTYPES = {
    "mm": (lambda: f32(2, 2) @ f32(2, 2).double(), RuntimeError, "dtype"),
    "sqrt_into_int": (lambda: torch.ones(2, dtype=torch.int64).sqrt_(), RuntimeError, "cast"),
    "mean": (lambda: torch.ones(2, dtype=torch.int64).mean(), RuntimeError, "floating point"),
    "softmax": (lambda: torch.ones(2, dtype=torch.int64).softmax(0), RuntimeError, "implement"),
    "bool_minus": (lambda: torch.ones(2) > 0 - (torch.ones(2) > 0), RuntimeError, "bool"),
    "index_float": (lambda: f32(3)[f32(1)], IndexError, "long"),
    "gather_float": (lambda: f32(3).gather(0, f32(1)), RuntimeError, "int64"),
    "take_float": (
        lambda: f32(3).index_select(0, f32(1)),
        (RuntimeError, IndexError),
        "int|IntTensor|dtype",
    ),
    "complex_order": (
        lambda: torch.ones(2, dtype=torch.complex64) < 1,
        RuntimeError,
        "(?i)implement|complex",
    ),
    "complex_max": (
        lambda: torch.ones(2, dtype=torch.complex64).max(),
        RuntimeError,
        "(?i)implement|complex",
    ),
    "bitwise_float": (lambda: f32(2) & f32(2), RuntimeError, "implement"),
    "scatter_dtype": (
        lambda: f32(2).scatter(0, torch.tensor([0]), f32(1).double()),
        RuntimeError,
        "dtype",
    ),
    "embedding_float": (
        lambda: F.embedding(f32(2), f32(3, 4)),
        RuntimeError,
        "(?i)long|int|indices",
    ),
    "masked_fill_mask": (lambda: f32(2).masked_fill(f32(2), 1.0), RuntimeError, "(?i)bool"),
    "where_condition": (lambda: torch.where(f32(2), f32(2), f32(2)), RuntimeError, "(?i)bool"),
    "out_dtype": (
        lambda: torch.add(f32(2), f32(2), out=torch.zeros(2, dtype=torch.int64)),
        RuntimeError,
        "cast",
    ),
    "tensor_dtype": (lambda: torch.tensor([1], dtype="float32"), TypeError, "dtype"),
    "int_power": (
        lambda: torch.tensor([2]) ** -1,
        RuntimeError,
        "negative integer powers",
    ),
}
DIMS = {
    "sum": (lambda: f32(2, 3).sum(2), IndexError, "Dimension out of range"),
    "sum_negative": (lambda: f32(2, 3).sum(-3), IndexError, "Dimension out of range"),
    "sum_twice": (lambda: f32(2, 3).sum((0, 0)), RuntimeError, "multiple times|appears"),
    "mean_float": (lambda: f32(2, 3).mean(1.5), TypeError, "mean"),
    "softmax": (lambda: f32(2, 3).softmax(5), IndexError, "Dimension out of range"),
    "cumsum": (lambda: f32(2).cumsum(1), IndexError, "Dimension out of range"),
    "argmax": (lambda: f32(2).argmax(3), IndexError, "Dimension out of range"),
    "max_empty": (lambda: f32(0).max(), RuntimeError, "numel|identity|empty"),
    "amax_empty": (lambda: f32(0).amax(), (RuntimeError, IndexError), "reduction dim|identity"),
    "argmax_empty": (lambda: f32(0).argmax(), (RuntimeError, IndexError), "reduction dim|empty"),
    "topk": (lambda: f32(3).topk(4), RuntimeError, "out of range"),
    "sort": (lambda: f32(3).sort(2), IndexError, "Dimension out of range"),
    "flip": (lambda: f32(3).flip(1), IndexError, "Dimension out of range"),
    "stack": (lambda: torch.stack([f32(2)], dim=3), IndexError, "Dimension out of range"),
    "cat": (lambda: torch.cat([f32(2)], dim=1), IndexError, "Dimension out of range"),
    "unbind": (lambda: f32(2).unbind(1), IndexError, "Dimension out of range"),
    "index": (
        lambda: f32(3).index_select(0, torch.tensor([3])),
        IndexError,
        "out of range",
    ),
    "gather": (
        lambda: f32(3).gather(0, torch.tensor([3])),
        RuntimeError,
        "out of bounds",
    ),
    "scatter": (
        lambda: f32(3).scatter(0, torch.tensor([-1]), 1.0),
        RuntimeError,
        "out of bounds",
    ),
    "embedding": (
        lambda: F.embedding(torch.tensor([4]), f32(3, 2)),
        IndexError,
        "out of range",
    ),
    "cross_entropy": (
        lambda: F.cross_entropy(f32(1, 3), torch.tensor([3])),
        IndexError,
        "out of bounds",
    ),
    "nll_loss": (
        lambda: F.nll_loss(f32(1, 3), torch.tensor([-2])),
        IndexError,
        "out of bounds",
    ),
    "transpose": (lambda: f32(2, 2).transpose(0, HUGE), IndexError, "Dimension out of range"),
}
SIZES = {
    "zeros": lambda: torch.zeros(HUGE),
    "ones": lambda: torch.ones(10**9, 10**9),
    "overflow": lambda: torch.empty(2**40, 2**40),
    "overflow_to_zero": lambda: torch.empty(2**32, 2**32),
    "rand": lambda: torch.rand(HUGE),
    "randperm": lambda: torch.randperm(HUGE),
    "arange": lambda: torch.arange(HUGE),
    "linspace": lambda: torch.linspace(0, 1, HUGE),
    "eye": lambda: torch.eye(10**9, 10**9),
    "full": lambda: torch.full((HUGE,), 1.0),
    "expand_then_clone": lambda: torch.zeros(1).expand(HUGE).clone(),
    "expand_then_add": lambda: torch.zeros(1).expand(HUGE) + 1,
    "repeat": lambda: torch.zeros(10).repeat(10**17),
    "pad": lambda: F.pad(torch.zeros(1), (0, HUGE)),
    "outer_product": lambda: torch.zeros(1).expand(10**9).outer(torch.zeros(1).expand(10**9)),
    "new_zeros": lambda: torch.zeros(1).new_zeros(HUGE),
    "cat": lambda: torch.cat([torch.zeros(1).expand(HUGE)] * 2),
    "beyond_64_bits": lambda: torch.zeros(2**64),
    "negative": lambda: torch.zeros(-1),
    "negative_in_tuple": lambda: torch.empty((2, -3)),
    "view_beyond": lambda: torch.zeros(4).view(2**62, 4),
}
KINDS = {
    "function_without_arguments": lambda: torch.sin(),
    "too_many_arguments": lambda: torch.sin(f32(1), f32(1), f32(1)),
    "string_for_tensor": lambda: torch.sin("x"),
    "list_for_tensor": lambda: torch.sin([1.0]),
    "none_for_tensor": lambda: torch.add(None, f32(1)),
    "unknown_keyword": lambda: torch.sin(f32(1), wrong=1),
    "keyword_twice": lambda: torch.add(f32(1), f32(1), other=f32(1)),
    "cat_of_numbers": lambda: torch.cat([1, 2]),
    "cat_of_tensor": lambda: torch.cat(f32(2)),
    "stack_of_nothing_useful": lambda: torch.stack(3),
    "float_size": lambda: torch.zeros(2.5),
    "string_size": lambda: torch.zeros("3"),
    "tensor_method_on_class": lambda: torch.Tensor.sum(3),
    "float_dim": lambda: f32(2).sum(dim="x"),
    "dtype_as_string": lambda: torch.zeros(1, dtype="float32"),
    "device_as_float": lambda: torch.zeros(1, device=1.5),
    "object_operand": lambda: f32(1) * object(),
    "matmul_operand": lambda: f32(2) @ 3,
    "keepdim_without_bool": lambda: f32(2).sum(0, keepdim="yes"),
}


def check_raises(call, error, phrase):
    with pytest.raises(error) as info:
        call()
    assert re.search(phrase, str(info.value)), str(info.value)
    x = leaf([1.0, 2.0])
    (x * x).sum().backward()
    assert x.grad.tolist() == [2, 4]


@pytest.mark.parametrize("name", SHAPES)
def test_wrong_shapes(name):
    check_raises(*SHAPES[name])


@pytest.mark.parametrize("name", DTYPES)
def test_wrong_dtypes(name):
    check_raises(*DTYPES[name])


@pytest.mark.parametrize("name", DIMS)
def test_wrong_dims_and_indices(name):
    check_raises(*DIMS[name])


@pytest.mark.parametrize("name", SIZES)
def test_absurd_sizes(name):
    with pytest.raises((RuntimeError, MemoryError, TypeError, ValueError, OverflowError)):
        SIZES[name]()
    assert torch.zeros(3).tolist() == [0, 0, 0]


@pytest.mark.parametrize("name", KINDS)
def test_wrong_kinds_of_argument(name):
    with pytest.raises(TypeError):
        KINDS[name]()


@pytest.mark.parametrize(
    ("call", "op"),
    [
        (lambda: torch.sin("x"), "sin"),
        (lambda: torch.matmul(f32(2), "x"), "matmul"),
        (lambda: f32(2).sum("x"), "sum"),
        (lambda: torch.zeros("x"), "zeros"),
    ],
)
def test_the_message_names_the_operation(call, op):
    with pytest.raises(TypeError, match=op):
        call()


@pytest.mark.parametrize(
    "data",
    [[[1, 2], [3]], [[1], [2, 3]], [[[1]], [[1, 2]]], [[1, 2], []], [[[1, 2]], [[3]]]],
)
def test_ragged_lists(data):
    with pytest.raises(ValueError, match="expected sequence of length"):
        torch.tensor(data)


def test_lists_nested_without_end():
    endless = []
    endless.append(endless)
    with pytest.raises((ValueError, RecursionError, RuntimeError)):
        torch.tensor(endless)


def test_sequences_that_change_or_lie_about_their_length():
    class Liar(list):
        def __len__(self):
            return 5

    class Failing:
        def __len__(self):
            return 2

        def __getitem__(self, i):
            raise LookupError("no item")

    for bad in (Liar([1, 2]), Failing()):
        with pytest.raises((ValueError, IndexError, LookupError, RuntimeError, TypeError)):
            torch.tensor(bad)
    assert torch.tensor([1]).tolist() == [1]


def test_a_failed_in_place_operation_changes_nothing():
    t = torch.arange(3.0)
    for bad in (
        lambda: t.add_(f32(2)),
        lambda: t.add_(f32(2, 3)),
        lambda: t.copy_(f32(4)),
        lambda: t.index_add_(0, torch.tensor([0, 9]), f32(2)),
        lambda: t.scatter_(0, torch.tensor([9]), 1.0),
        lambda: t.index_put_((torch.tensor([7]),), f32(1)),
    ):
        with pytest.raises((RuntimeError, IndexError)):
            bad()
        assert t.tolist() == [0, 1, 2]


def test_out_argument_of_the_wrong_kind():
    for bad in ("x", [f32(2)], {}):
        with pytest.raises(TypeError):
            torch.add(f32(2), f32(2), out=bad)


def test_an_error_in_the_middle_of_a_graph_leaves_it_usable():
    x = leaf([1.0, 2.0])
    y = x * 2
    with pytest.raises(RuntimeError):
        y @ torch.ones(5, dtype=torch.float64)
    (y * y).sum().backward()
    assert x.grad.tolist() == [8, 16]


class TestInterrupts:
    def test_interrupt_in_a_function_forward_and_backward(self):
        class Stops(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, now):
                if now:
                    raise KeyboardInterrupt
                return x * 2

            @staticmethod
            def backward(ctx, g):
                raise KeyboardInterrupt

        x = leaf([1.0])
        with pytest.raises(KeyboardInterrupt):
            Stops.apply(x, True)
        with pytest.raises(KeyboardInterrupt):
            Stops.apply(x, False).sum().backward()
        (x * 2).sum().backward()
        assert x.grad.item() == 2
        assert torch.is_grad_enabled()

    def test_ctrl_c_during_long_work_arrives_and_leaves_a_working_process(self):
        program = """
import _thread, threading, time
import rushlight as torch
threading.Timer(1.0, _thread.interrupt_main).start()
a = torch.ones(600, 600)
try:
    deadline = time.time() + 60
    while time.time() < deadline:
        b = (a @ a).exp().sum()
except KeyboardInterrupt:
    x = torch.ones(3, requires_grad=True)
    (x * 2).sum().backward()
    print("stopped", x.grad.tolist())
"""
        run = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=100
        )
        assert run.stdout.strip() == "stopped [2.0, 2.0, 2.0]", run.stderr[-2000:]

    def test_other_threads_run_while_a_long_kernel_works(self):
        big = torch.ones(1200, 1200, dtype=torch.float64)
        ticks = []
        stop = threading.Event()

        def tick():
            while not stop.is_set():
                ticks.append(time.perf_counter())
                time.sleep(0.001)

        thread = threading.Thread(target=tick)
        thread.start()
        try:
            for _ in range(5):
                big @ big
        finally:
            stop.set()
            thread.join()
        assert len(ticks) > 5


SHARDS = 4


@pytest.mark.parametrize("shard", range(SHARDS))
def test_random_arguments_only_raise_exceptions(shard, tmp_path):
    journal = tmp_path / "last_call"
    script = pathlib.Path(__file__).with_name("garbage.py")
    run = subprocess.run(
        [sys.executable, str(script), str(journal), str(shard), str(SHARDS), "12"],
        capture_output=True,
        text=True,
        timeout=400,
    )
    last = journal.read_text()[:2000] if journal.exists() else "none"
    assert run.returncode == 0, f"exit {run.returncode} in {last}\n{run.stderr[-3000:]}"
    assert run.stdout.startswith("survived")


def test_numpy_arrays_of_objects_are_refused():
    for bad in (np.array([object()]), np.array(["a", "b"]), np.zeros(2, dtype=[("a", "i4")])):
        with pytest.raises((TypeError, ValueError)):
            torch.tensor(bad)


def test_sizes_that_are_not_whole_name_the_item():
    item = r"failed to unpack the object at pos 2 with error \"type must be tuple of ints,but got "
    for call, kind in [
        (lambda: torch.zeros(2, 6 / 2), 'float": n // 2'),
        (lambda: torch.zeros((2, "a")), "str"),
        (lambda: torch.zeros(4).reshape([2, None]), "NoneType"),
        (lambda: torch.zeros(2, 2).permute(0, 1.5), "float"),
        (lambda: torch.nn.Linear(6 / 2, 3), "float"),
    ]:
        with pytest.raises(TypeError, match=item + kind):
            call()


@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
def test_a_norm_over_no_features_has_empty_gradients(norm):
    x, weight = (torch.ones(shape, requires_grad=True) for shape in ((3, 0), (0,)))
    getattr(F, norm)(x, (0,), weight).sum().backward()
    assert x.grad.shape == (3, 0)
    assert weight.grad.shape == (0,)
