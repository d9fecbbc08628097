"""Memory formats: the strides, the answers and the refusals are PyTorch's."""

import itertools
import random

import numpy as np
import pytest
import torch

import rushlight
from oracle.harness import LIBRARIES, from_numpy, to_numpy

FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
SIZES = [
    *itertools.product((0, 1, 3), repeat=4),
    (2, 3, 4, 5), (2, 3, 4, 5, 6), (1, 3, 2, 2, 2), (2, 1, 3, 2, 2), (2, 3, 1, 1, 1),
    (2, 1, 1, 1, 1), (0, 2, 3, 4, 5), (2, 0, 3, 4, 5), (2, 3, 4, 0, 5), (1, 1, 1, 1, 1),
    (), (3,), (2, 3), (2, 3, 4), (2, 2, 2, 2, 2, 2),
]  # fmt: skip

OPS = {
    "contiguous": lambda t, x, **f: x.contiguous(**f),
    "clone": lambda t, x, **f: x.clone(**f),
    "to": lambda t, x, **f: x.to(**f),
    "to_same": lambda t, x, **f: x.to("cpu", t.float32, **f),
    "to_copy": lambda t, x, **f: x.to(t.float32, copy=True, **f),
    "to_dtype": lambda t, x, **f: x.to(t.float64, **f),
    "to_other": lambda t, x, **f: x.to(t.ones(2, dtype=t.float64), **f),
    "double": lambda t, x, **f: x.double(**f),
    "float": lambda t, x, **f: x.float(**f),
    "cpu": lambda t, x, **f: x.cpu(**f),
    "empty": lambda t, x, **f: t.empty(x.shape, **f),
    "empty_like": lambda t, x, **f: t.empty_like(x, **f),
    "zeros_like": lambda t, x, **f: t.zeros_like(x, **f),
    "ones_like": lambda t, x, **f: t.ones_like(x, dtype=t.int64, **f),
    "full_like": lambda t, x, **f: t.full_like(x, 2.5, **f),
    "rand_like": lambda t, x, **f: t.rand_like(x, **f),
    "randn_like": lambda t, x, **f: t.randn_like(x, **f),
    "randint_like": lambda t, x, **f: t.randint_like(x, 5, **f),
    "resize_": lambda t, x, **f: t.ones(1).resize_(x.shape, **f),
    "resize_as_": lambda t, x, **f: t.ones(1).resize_as_(x, **f),
}


def outcome(library, op, x, name):
    options = {} if name is None else {"memory_format": getattr(library, name)}
    try:
        result = OPS[op](library, x, **options)
    except (RuntimeError, TypeError) as error:
        return type(error), str(error).split("\n")[0]
    answers = [result.is_contiguous(memory_format=getattr(library, f)) for f in FORMATS]
    return tuple(result.shape), result.stride(), answers, result is x, str(result.dtype)


def key_phrase(text):
    return text.lower().replace("formatpreserve", "format preserve")


def compare(make, case):
    ours, theirs = make(rushlight), make(torch)
    assert (tuple(ours.shape), ours.stride()) == (tuple(theirs.shape), theirs.stride()), case
    for op, name in itertools.product(OPS, (None, *FORMATS)):
        got, wanted = outcome(rushlight, op, ours, name), outcome(torch, op, theirs, name)
        if isinstance(wanted[0], type):
            assert got[0] is wanted[0], (case, op, name, got, wanted)
            assert key_phrase(wanted[1]) in key_phrase(got[1]), (case, op, name, got, wanted)
        else:
            assert got == wanted, (case, op, name, got, wanted)


@pytest.mark.parametrize("layout", ["rows", "channels"])
def test_every_op_gives_the_strides_of_pytorch(layout):
    for size in SIZES:
        if layout == "rows":
            compare(lambda t, size=size: t.zeros(size), size)
        elif len(size) in (4, 5):
            name = "channels_last" if len(size) == 4 else "channels_last_3d"
            compare(
                lambda t, size=size, name=name: t.empty(size, memory_format=getattr(t, name)), size
            )


def random_view(seed):
    """A program that makes a view: permuted, sliced, expanded, or with strides of its own."""
    draw = random.Random(seed)
    rank = draw.choice((2, 3, 4, 4, 4, 5, 5))
    sizes = [draw.choice((1, 1, 2, 3, 4)) for _ in range(rank)]
    dims = draw.sample(range(rank), rank)
    steps = [draw.choice((1, 1, 1, 2)) for _ in range(rank)]
    grown = [draw.choice((-1, -1, 3)) for _ in range(rank)]
    loose = [draw.choice((0, 1, 2, 3, 6, 7)) for _ in range(rank)]
    kind = draw.choice(("permute", "slice", "expand", "as_strided"))

    def make(t):
        if kind == "as_strided":
            return t.zeros(200).as_strided(sizes, loose)
        x = t.zeros([n * k for n, k in zip(sizes, steps, strict=True)]).permute(dims)
        if kind == "permute":
            return x
        x = x[tuple(slice(None, None, steps[d]) for d in dims)]
        if kind == "slice":
            return x
        return x.expand([n if x.shape[i] == 1 else -1 for i, n in enumerate(grown)])

    return make


@pytest.mark.parametrize("part", range(4))
def test_views_keep_and_change_their_strides_as_in_pytorch(part):
    for seed in range(part * 60, part * 60 + 60):
        compare(random_view(seed), seed)


@pytest.mark.parametrize("wrong", [3, "channels_last", "layout"])
def test_what_is_no_memory_format_is_refused(wrong):
    for op in OPS:
        for library in LIBRARIES:
            value = library.strided if wrong == "layout" else wrong
            with pytest.raises(TypeError):
                OPS[op](library, library.zeros(2, 3, 4, 5), memory_format=value)
    with pytest.raises(TypeError, match=r"clone\(\): argument 'memory_format' must be torch.mem"):
        rushlight.zeros(2).clone(memory_format=wrong)


@pytest.mark.parametrize("name", FORMATS)
def test_modules_are_laid_out_as_in_pytorch(name):
    def build(t):
        return t.nn.Sequential(t.nn.Conv2d(3, 4, 2), t.nn.BatchNorm2d(4), t.nn.Conv3d(4, 2, 3))

    def strides(library, program):
        try:
            model = program(library, build(library), getattr(library, name))
        except RuntimeError as error:
            return str(error).split("\n")[0]
        return [(key, value.stride()) for key, value in model.state_dict().items()]

    programs = [
        lambda t, m, f: m[:2].to(memory_format=f),
        lambda t, m, f: m.to(memory_format=f),
        lambda t, m, f: m[2:].to(t.float64, memory_format=f),
        lambda t, m, f: t.nn.utils.convert_conv2d_weight_memory_format(m, f),
        lambda t, m, f: t.nn.utils.convert_conv3d_weight_memory_format(m, f),
    ]
    for number, program in enumerate(programs):
        got, wanted = strides(rushlight, program), strides(torch, program)
        if isinstance(wanted, str):
            assert key_phrase(wanted) in key_phrase(str(got)), number
        else:
            assert got == wanted, number


@pytest.mark.parametrize("op", ["rand_like", "randn_like", "randint_like"])
def test_numbers_are_drawn_in_the_order_of_memory(op):
    with rushlight.random.torch_streams():
        for size in ((2, 3, 4, 5), (1, 3, 2, 1), (2, 1, 3, 3), (2, 3, 1, 1)):
            drawn = []
            for t in LIBRARIES:
                t.manual_seed(3)
                drawn.append(to_numpy(OPS[op](t, t.zeros(size), memory_format=t.channels_last)))
            assert (drawn[0] == drawn[1]).all(), size


def test_histories_have_the_names_of_pytorch():
    for program in (
        lambda t, x: x.contiguous(memory_format=t.channels_last),
        lambda t, x: x.clone(memory_format=t.channels_last),
        lambda t, x: x.to(memory_format=t.channels_last),
        lambda t, x: x.double(memory_format=t.channels_last),
        lambda t, x: x.to(t.float32, copy=True),
        lambda t, x: x.to(copy=True),
    ):
        names = [
            program(t, t.ones(2, 3, 4, 5, requires_grad=True)).grad_fn.name() for t in LIBRARIES
        ]
        assert names[0] == names[1]


def test_a_network_in_channels_last_gives_what_pytorch_gives():
    outcomes = []
    weights = [torch.randn(8, 3, 3, 3).numpy(), torch.randn(8).numpy()]
    image = torch.randn(2, 3, 9, 7).numpy()
    for t in LIBRARIES:
        x = from_numpy(t, image).to(memory_format=t.channels_last).requires_grad_()
        w, b = (from_numpy(t, array, requires_grad=True) for array in weights)
        filters = w.contiguous(memory_format=t.channels_last)
        y = t.nn.functional.conv2d(t.nn.functional.pad(x, (1, 1, 1, 1), "reflect"), filters, b)
        y = t.nn.functional.max_pool2d(t.nn.functional.batch_norm(y, None, None, training=True), 2)
        y = t.nn.functional.interpolate(y, scale_factor=2, mode="bilinear")
        t.nn.functional.adaptive_avg_pool2d(y, (3, 2)).pow(2).sum().backward()
        outcomes.append([to_numpy(v) for v in (y, x.grad, w.grad, b.grad)])
    for ours, theirs in zip(*outcomes, strict=True):
        assert abs(ours - theirs).max() < 1e-4


def conv_grad(t, x, backward):
    weight = t.ones(4, 3, 2, 2).contiguous(memory_format=t.channels_last).requires_grad_()
    backward(t.nn.functional.conv2d(x, weight), weight)
    return weight.grad


def twice(y, leaf):
    y.sum().backward(retain_graph=True)
    y.sum().backward()


def onto_rows(y, leaf):
    leaf.grad = type(y).new_ones(y.detach(), leaf.shape)
    y.sum().backward()


def resized(t, x, **options):
    target = t.empty(0)
    target.resize_as_(x, **options)
    return target


def optimizer_state(t, x):
    module = t.nn.Conv2d(3, 4, 2).to(memory_format=t.channels_last)
    optimizer = t.optim.Adam(module.parameters())
    module(x).sum().backward()
    optimizer.step()
    return optimizer.state[module.weight]["exp_avg"]


# x is a batch of images in channels_last.
LAYOUTS = {
    "empty_strided": lambda t, x: t.empty_strided((2, 3), (1, 2)),
    "new_empty_strided": lambda t, x: x.new_empty_strided((2, 3), (1, 5)),
    "empty_permuted": lambda t, x: t.empty_permuted((2, 3, 4), (1, 2, 0)),
    "empty_permuted rows": lambda t, x: t.empty_permuted((2, 0, 4), (0, 1, 2)),
    "new_empty": lambda t, x: x.new_empty((2, 3, 4, 5)),
    "new_zeros": lambda t, x: x.new_zeros(2, 3, 4, 5),
    "resize_as_": resized,
    "resize_as_ preserving": lambda t, x: resized(t, x, memory_format=t.preserve_format),
    "resize_": lambda t, x: x.clone().resize_(2, 3, 5, 4),
    "resize_ in format": lambda t, x: t.ones(2, 3).resize_(x.shape, memory_format=t.channels_last),
    "copy_ into rows": lambda t, x: t.zeros(x.shape).copy_(x),
    "copy_ from rows": lambda t, x: t.zeros_like(x).copy_(t.arange(120.0).reshape(x.shape)),
    "item assignment": lambda t, x: x.clone().index_fill_(1, t.tensor([0]), 1.0),
    "out kept": lambda t, x: t.add(x, 1, out=t.empty(x.shape)),
    "out kept in format": lambda t, x: t.add(t.ones(x.shape), 1, out=t.empty_like(x)),
    "out resized": lambda t, x: t.add(x, 1, out=t.empty(0)),
    "out resized from rows": lambda t, x: t.exp(t.ones(2, 3, 4), out=t.empty(3, 2).t()),
    "out of cat": lambda t, x: t.cat([x, x], 1, out=t.empty(0)),
    "out of sort": lambda t, x: t.sort(x, 2, out=(t.empty(0), t.empty(0, dtype=t.int64)))[1],
    "out of sum": lambda t, x: t.sum(x, 1, keepdim=True, out=t.empty(0)),
    "out of max": lambda t, x: t.max(x, 1, out=(t.empty(0), t.empty(0, dtype=t.int64)))[0],
    "gradient of a weight": lambda t, x: conv_grad(t, x, lambda y, _: y.sum().backward()),
    "accumulated gradient": lambda t, x: conv_grad(t, x, twice),
    "gradient onto rows": lambda t, x: conv_grad(t, x, onto_rows),
    "gradient with a graph": lambda t, x: conv_grad(
        t, x, lambda y, _: y.square().sum().backward(create_graph=True)
    ),
    "optimizer state": optimizer_state,
    "from_dlpack": lambda t, x: t.from_dlpack(x),
    "from_numpy": lambda t, x: t.from_numpy(x.numpy()),
    "from_numpy transposed": lambda t, x: t.from_numpy(x[0].numpy().T),
    "tensor of an array": lambda t, x: t.tensor(x.numpy()),
    "as_tensor": lambda t, x: t.as_tensor(x.numpy()),
}


@pytest.mark.filterwarnings(
    "ignore:Using backward.*create_graph", "ignore:An output with one", "ignore:grad and param do"
)
@pytest.mark.parametrize("name", LAYOUTS)
def test_factories_copies_and_gradients_lie_as_in_pytorch(name):
    found = []
    for t in LIBRARIES:
        x = t.arange(120.0).reshape(2, 3, 4, 5).contiguous(memory_format=t.channels_last)
        y = LAYOUTS[name](t, x)
        found.append((tuple(y.shape), y.stride()))
    assert found[0] == found[1]


def test_exports_have_the_strides_of_the_tensor():
    for view in (lambda x: x, lambda x: x[:, 1:], lambda x: x[0].expand(2, 3, 4, 5)):
        arrays = []
        for t in LIBRARIES:
            x = view(t.arange(120.0).reshape(2, 3, 4, 5).contiguous(memory_format=t.channels_last))
            arrays.append([x.numpy(), np.asarray(x), np.from_dlpack(x)])
        for ours, theirs in zip(*arrays, strict=True):
            assert ours.strides == theirs.strides
            assert (ours == theirs).all()


@pytest.mark.parametrize("layout", [(0,), (0, 0), (0, 2), (-1, 0)])
def test_what_is_no_order_of_dimensions_is_refused(layout):
    for t in LIBRARIES:
        with pytest.raises(RuntimeError, match=r"physical_layout|Duplicate dim|out of range"):
            t.empty_permuted((2, 3), layout)
