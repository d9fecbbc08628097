"""The law of vmap, for every registered op: it is the stack of slices. No op is named here."""

import itertools

import pytest

import rushlight as torch
from registry import ENTRIES, path, samples_of
from rushlight.func import vjp, vmap
from samples import SAMPLES, function
from support import check
from test_ops import DIFFERENTIABLE, every, gradient_cases
from test_ops_forward import every_op

SAMPLES_IN_BATCH = 3


def tensor_places(value, trail=()):
    """Where the tensors of arguments are: paths into nested tuples, lists and dicts."""
    if isinstance(value, torch.Tensor):
        yield trail
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from tensor_places(item, (*trail, key))
    elif isinstance(value, (tuple, list)):
        for i, item in enumerate(value):
            yield from tensor_places(item, (*trail, i))


def at(value, trail):
    for key in trail:
        value = value[key]
    return value


def replaced(value, trail, new):
    """The arguments with another tensor at one place."""
    if not trail:
        return new
    key, rest = trail[0], trail[1:]
    if isinstance(value, dict):
        return {**value, key: replaced(value[key], rest, new)}
    items = [replaced(v, rest, new) if i == key else v for i, v in enumerate(value)]
    return type(value)(items) if type(value) in (tuple, list) else type(value)(*items)


def variations(t):
    """Tensors like t with other values of the same kind."""
    if t.dtype == torch.bool:
        return [t, ~t, t]
    if not (t.is_floating_point() or t.is_complex()):
        return [t, t.flip(0) if t.dim() else t, t]
    return [t, t * 0.9 + t.abs() * 0.03, t * 0.85]


def call(f, arguments, places, tensors):
    for trail, tensor in zip(places, tensors, strict=True):
        arguments = replaced(arguments, trail, tensor)
    args, kwargs = arguments
    return outputs(f(*args, **kwargs))


def outputs(result):
    flat = list(result) if isinstance(result, (tuple, list)) else [result]
    return [y for y in flat if isinstance(y, torch.Tensor)]


def batched_choices(count):
    """Which tensors are batched: each alone, and all of them."""
    yield from ([i == k for i in range(count)] for k in range(count))
    if count > 1:
        yield [True] * count


def slices(stacks, chosen, dims, n):
    return [
        s.select(d, n) if is_batched else s
        for s, is_batched, d in zip(stacks, chosen, dims, strict=True)
    ]


def expected(f, arguments, places, given, chosen, dims):
    """The stack of slices, or None when a slice is refused or they differ in shape."""
    rows = []
    for n in range(SAMPLES_IN_BATCH):
        try:
            rows.append(call(f, arguments, places, slices(given, chosen, dims, n)))
        except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError):
            return None
    if any([y.shape for y in row] != [y.shape for y in rows[0]] for row in rows):
        return None
    return [torch.stack(column) for column in zip(*rows, strict=True)]


def batch_of(t, is_batched, dim):
    return torch.stack(variations(t), dim) if is_batched else t


def decides_shapes(given, chosen):
    """Shapes may depend on indices and masks, and then may not differ between samples."""
    return any(c and not t.is_floating_point() for c, t in zip(chosen, given, strict=True))


OPS = [*ENTRIES, *sorted(set(SAMPLES) - {path(e) for e in ENTRIES})]


def name_of(op):
    return op if isinstance(op, str) else path(op)


def why_not(op):
    """Why the law cannot say anything about an op, or None."""
    if isinstance(op, str):
        return None
    if op["family"] == "random":
        return "draws numbers"
    if op["family"] == "creation":
        return "makes new tensors"
    if op["name"].endswith("_"):
        return "changes its argument, which the slices share"
    if "function" not in op["forms"] and path(op) not in SAMPLES:
        return "is not a function"
    if op["result"] == "object":
        return "does not give tensors of one shape for all samples"
    if op["name"] in ("is_complex", "is_conj", "is_neg"):
        return "says of a tensor what no element decides"
    if "int[] size, int[] stride" in op["signature"]:
        return "depends on the layout in memory, which is another one in a batch"
    return None


def compare_slices(op, limit=12, dtype=torch.float64):
    """Compares vmap with the stack of slices on samples; the number of comparisons."""
    f, count = function(name_of(op)), 0
    drawn = SAMPLES[op](dtype, 0) if isinstance(op, str) else samples_of(op, dtype)
    for sample in list(drawn)[:limit]:
        arguments = (sample.args, sample.kwargs)
        places = list(tensor_places(arguments))
        for chosen in batched_choices(len(places)):
            for dim in (0, -1):
                given, dims = [], []
                for trail, is_batched in zip(places, chosen, strict=True):
                    given.append(batch_of(at(arguments, trail), is_batched, dim))
                    dims.append(dim if is_batched else None)
                wanted = expected(f, arguments, places, given, chosen, dims)
                if wanted is None or not wanted:
                    continue
                try:
                    found = vmap(
                        lambda *ts, a=arguments, p=places: tuple(call(f, a, p, ts)), tuple(dims)
                    )(*given)
                except RuntimeError as error:
                    if decides_shapes(given, chosen) and str(error).startswith("vmap: "):
                        continue
                    raise
                for got, right in zip(found, wanted, strict=True):
                    check(got, right)
                count += 1
    return count


def compare_gradients(op, limit=6):
    """Compares vmap of gradients, and gradients of vmap, with the stack of gradients of slices.

    The number of comparisons.
    """
    count = 0
    for inputs, f in itertools.islice(gradient_cases(op), limit):
        moving = [i for i, x in enumerate(inputs) if x.requires_grad]
        if not moving or not any(y.requires_grad for y in f(*inputs)):
            continue
        stacks = [torch.stack(variations(inputs[i].detach())) for i in moving]

        def one(*rows, inputs=inputs, f=f, moving=moving):
            fresh = list(inputs)
            for i, row in zip(moving, rows, strict=True):
                fresh[i] = row.detach().clone().requires_grad_()
            return tuple(gradients(f, fresh))

        wanted = [one(*(s[n] for s in stacks)) for n in range(SAMPLES_IN_BATCH)]

        def run(*rows, inputs=inputs, f=f, moving=moving):
            fresh = [x.detach() for x in inputs]
            for i, row in zip(moving, rows, strict=True):
                fresh[i] = row
            return tuple(f(*fresh))

        outer = [s.requires_grad_() for s in stacks]
        of_vmap = gradients(lambda *rows, run=run: vmap(run)(*rows), outer)
        of_samples = vmap(one)(*(s.detach() for s in stacks))
        for *both, right in zip(of_samples, of_vmap, zip(*wanted, strict=True), strict=True):
            for got in both:
                check(got, torch.stack(right))
        count += 1
    return count


def gradients(f, inputs):
    results = [y for y in f(*inputs) if y.requires_grad]
    scalars = [(y.real if y.is_complex() else y).sum() for y in results]
    moving = [x for x in inputs if x.requires_grad]
    found = torch.autograd.grad(scalars, moving, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(moving, found, strict=True)]


@pytest.mark.parametrize("op", OPS, ids=[f"{name_of(op)}-{i}" for i, op in enumerate(OPS)])
def test_vmap_is_the_stack_of_slices(op):
    reason = why_not(op)
    if reason:
        pytest.skip(f"{reason}: tests/test_vmap.py")
    assert compare_slices(op) or compare_slices(op, dtype=torch.int64)


WRITING = [e for e in ENTRIES if {"function", "inplace"} <= set(e["forms"]) and not why_not(e)]


@pytest.mark.parametrize("entry", WRITING, ids=[f"{path(e)}-{i}" for i, e in enumerate(WRITING)])
def test_vmap_of_a_write_is_the_stack_of_writes(entry):
    write = function(path(entry) + "_")

    def f(first, *args, **kwargs):
        copy = first.clone()
        write(copy, *args, **kwargs)
        return copy

    for sample in samples_of(entry, torch.float64)[:6]:
        arguments = (sample.args, sample.kwargs)
        places = list(tensor_places(arguments))
        if (0, 0) not in places:
            continue
        for chosen in batched_choices(len(places)):
            if not chosen[places.index((0, 0))]:
                continue
            given = [
                batch_of(at(arguments, trail), c, 0)
                for trail, c in zip(places, chosen, strict=True)
            ]
            dims = tuple(0 if c else None for c in chosen)
            wanted = expected(f, arguments, places, given, chosen, dims)
            if not wanted:
                continue
            try:
                found = vmap(lambda *ts, a=arguments, p=places: tuple(call(f, a, p, ts)), dims)(
                    *given
                )
            except RuntimeError as error:
                if decides_shapes(given, chosen) and str(error).startswith("vmap: "):
                    continue
                raise
            for got, right in zip(found, wanted, strict=True):
                check(got, right)


@every_op
def test_vmap_of_gradients_is_the_stack_of_gradients(op):
    compare_gradients(op)


@every(DIFFERENTIABLE)
def test_vmap_of_a_backward_gives_the_digits_of_the_plain_one(entry):
    for dtype in (torch.float32, torch.float64):
        for inputs, f in gradient_cases(entry, dtype):
            plain = [x.detach() for x in inputs]
            weight = torch.linspace(0.5, 1.5, f(*plain)[0].numel(), dtype=dtype)
            weight = weight.reshape(f(*plain)[0].shape)

            def pull(*xs, f=f, weight=weight):
                return vjp(lambda *ts: f(*ts)[0], *xs)[1](weight)

            found = vmap(pull)(*[torch.stack([x, x]) for x in plain])
            for got, right in zip(found, pull(*plain), strict=True):
                assert torch.equal(got[1].nan_to_num(7.0), right.nan_to_num(7.0))
