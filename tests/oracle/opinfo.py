"""PyTorch's own samples of its operators (OpInfo), run on both libraries: values, gradients,
gradients of gradients and tangents."""

import builtins
import functools
import sys
import types
import unittest

import numpy as np
import torch

import rushlight
from rushlight.random import torch_streams

if "expecttest" not in sys.modules:  # PyTorch's test tools import it, its samples do not use it
    sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase)
from torch.testing._internal.common_methods_invocations import op_db as op_db

STAGES = ("value", "gradient", "second", "tangent")
PLAIN = (bool, int, float, complex)
OVERLOADS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)


def label(op):
    return f"{op.name}-{op.variant_test_name}" if op.variant_test_name else op.name


def found(name):
    """What rushlight has under PyTorch's name; AttributeError where nothing."""
    value = rushlight
    for part in name.removeprefix("torch.").split("."):
        value = getattr(value, part)
    return value


def functions_of(op):
    """(rushlight's function, PyTorch's), as PyTorch's own tests of derivatives call them."""
    theirs = op.op
    if isinstance(theirs, types.FunctionType) and theirs.__module__.startswith("torch.testing."):
        mine = translated(theirs)
    elif isinstance(theirs, OVERLOADS):
        mine = found(f"ops.{theirs}")
    elif isinstance(theirs, types.MethodDescriptorType) or op.name.startswith("__"):
        mine = getattr(rushlight.Tensor, op.name)
    else:
        mine = found(op.name)
    wrapper = op.gradcheck_wrapper
    return functools.partial(translated(wrapper), mine), functools.partial(wrapper, theirs)


@functools.cache
def translated(function):
    """A function of PyTorch's tests whose text means rushlight where it says torch."""
    if function.__name__ == "wrapper_set_seed":
        return seeded
    if not function.__module__.startswith("torch.testing."):
        return found(f"{function.__module__}.{function.__name__}")
    known = {n: function.__globals__.get(n) for n in names_of(function.__code__)}
    scope = {n: ours(v) for n, v in known.items() if v is not None}
    cells = function.__closure__ and tuple(
        types.CellType(ours(c.cell_contents)) for c in function.__closure__
    )
    copy = types.FunctionType(
        function.__code__, {"__builtins__": builtins, **scope}, function.__name__,
        function.__defaults__, cells,
    )  # fmt: skip
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def names_of(code):
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return set(code.co_names).union(*map(names_of, inner))


def seeded(function, *args, **kwargs):
    """How samples of random operators are run."""
    with torch_streams():
        rushlight.manual_seed(42)
        return function(*args, **kwargs)


def copied(value):
    """A leaf with a storage of its own, laid out as that of the given tensor."""
    given = value.detach().resolve_conj().resolve_neg()
    if given.layout is torch.strided:
        size = given.untyped_storage().nbytes() // given.element_size()
        whole = given.as_strided((size,), (1,), 0).clone()
        given = whole.as_strided(given.shape, given.stride(), given.storage_offset())
    else:
        given = given.clone()
    return given.detach().requires_grad_(value.requires_grad)


def mirrored(value):
    """The same leaf as a tensor of rushlight."""
    given = copied(value).detach()
    if given.layout is torch.strided:
        size = given.untyped_storage().nbytes() // given.element_size()
        whole = rushlight.from_numpy(given.as_strided((size,), (1,), 0).numpy())
        t = whole.as_strided(tuple(given.shape), given.stride(), given.storage_offset())
    elif given.layout is torch.sparse_csr:
        parts = (given.crow_indices(), given.col_indices(), given.values())
        t = rushlight.sparse_csr_tensor(*map(mirrored, parts), tuple(given.shape))
    else:
        parts = (given._indices(), given._values())
        t = rushlight.sparse_coo_tensor(*map(mirrored, parts), tuple(given.shape))
    return t.detach().requires_grad_(value.requires_grad)


def ours(value):
    """The same argument for rushlight."""
    if isinstance(value, torch.Tensor):
        return mirrored(value)
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return found(str(value))
    if isinstance(value, torch.device):
        return rushlight.device(str(value))
    if isinstance(value, torch.nn.Module):
        return found(f"nn.{type(value).__name__}")()
    if value is torch:
        return rushlight
    if isinstance(value, types.ModuleType) and value.__name__.startswith("torch."):
        return found(value.__name__)
    if isinstance(value, types.FunctionType):
        return translated(value) if value.__module__.startswith("torch.") else value
    return mapped(ours, value)


def theirs(value):
    """The same argument with leaves of its own, so that samples do not share gradients."""
    return copied(value) if isinstance(value, torch.Tensor) else mapped(theirs, value)


def mapped(function, value):
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, (list, tuple)):
        return type(value)(map(function, value))
    return {k: function(v) for k, v in value.items()} if isinstance(value, dict) else value


def flat(value, kind):
    if isinstance(value, kind):
        return [value]
    if isinstance(value, dict):
        return [t for v in value.values() for t in flat(v, kind)]
    return [t for v in value for t in flat(v, kind)] if isinstance(value, (list, tuple)) else []


def array(t):
    t = t.detach()
    if str(t.layout) != "torch.strided":
        t = t.to_dense()
    if str(t.dtype) == "torch.bfloat16":
        t = t.float()
    return t.resolve_conj().resolve_neg().numpy(force=True)


def weights(results, library):
    """A fixed cotangent for each result, laid out as it is."""
    return [weight(y, library) for y in results]


def weight(y, library):
    if str(y.layout) == "torch.sparse_csr":
        values = weight(y.values(), library)
        parts = y.crow_indices(), y.col_indices(), values
        return library.sparse_csr_tensor(*parts, tuple(y.shape), check_invariants=True)
    n = max(y.numel(), 1)
    w = np.cos(1.0 + np.arange(y.numel(), dtype=np.float64) * 0.7).reshape(tuple(y.shape)) / n
    w = (w + 0.5j * np.sin(w)) if y.dtype.is_complex else w
    return library.tensor(w).to(y.dtype)


def gradients(library, function, arguments, orders):
    """Arrays per stage: the results, their gradients, and those of the gradients."""
    given = function(*arguments)
    results = flat(given, library.Tensor)
    yield [array(y) for y in results] + [np.asarray(n) for n in flat(given, PLAIN)]
    inputs = [x for x in flat(arguments, library.Tensor) if x.requires_grad]
    for order in range(1, orders + 1):
        moving = [y for y in results if y.requires_grad]
        pulled = [None] * len(inputs)
        if moving and inputs:
            again = order < orders
            pulled = library.autograd.grad(
                moving, inputs, weights(moving, library), create_graph=again, allow_unused=True
            )
        pairs = zip(pulled, inputs, strict=True)
        results = [library.zeros_like(x) if g is None else g for g, x in pairs]
        yield [array(g) for g in results]


def tangents(library, function, arguments):
    forward = library.autograd.forward_ad

    def dual(value):
        if not isinstance(value, library.Tensor):
            return mapped(dual, value)
        if not value.requires_grad:
            return value
        x = value.detach()
        return forward.make_dual(x, weight(x, library))

    with forward.dual_level():
        results = flat(function(*dual(arguments)), library.Tensor)
        moved = [forward.unpack_dual(y).tangent for y in results]
        pairs = zip(moved, results, strict=True)
        return [array(library.zeros_like(y) if t is None else t) for t, y in pairs]


STEP = 5e-7


def differences(function, arguments, stage):
    """(rushlight's derivative along a fixed direction, the same by differences of what it is the
    derivative of) for each result of the stage."""

    def moved(value, step):
        if not isinstance(value, rushlight.Tensor):
            return mapped(lambda v: moved(v, step), value)
        if not value.requires_grad:
            return value
        x = value.detach() + step * weight(value, rushlight)
        return x.requires_grad_()

    def below(step):
        stages = gradients(rushlight, function, moved(arguments, step), 2)
        found = next(stages)
        return next(stages) if stage == "second" else found

    slopes = [(a - b) / (2 * STEP) for a, b in zip(below(STEP), below(-STEP), strict=True)
              if a.dtype.kind in "fc"]  # fmt: skip
    if stage == "tangent":
        found = tangents(rushlight, function, arguments)
        return [t for t in found if t.dtype.kind in "fc"], slopes
    stages = gradients(rushlight, function, arguments, 2)
    found = [next(stages) for _ in range(1 + STAGES.index(stage))][-1]
    inputs = [x for x in flat(arguments, rushlight.Tensor) if x.requires_grad]
    actual = sum(inner(array(weight(x, rushlight)), g) for x, g in zip(inputs, found, strict=True))
    expected = sum(inner(array(weight(rushlight.tensor(s), rushlight)), s) for s in slopes)
    return [actual], [expected]


def inner(a, b):
    return np.asarray((a.conj() * b).real.sum())


def same(actual, expected, tolerance, finite=False):
    """Equal as far as numbers of their dtype can be; `finite`: where the expected ones are."""
    assert len(actual) == len(expected), (len(actual), len(expected))
    for a, b in zip(actual, expected, strict=True):
        assert a.dtype == b.dtype, (a.dtype, b.dtype)
        assert a.shape == b.shape, (a.shape, b.shape)
        if b.dtype.kind not in "fc":
            np.testing.assert_array_equal(a, b)
            continue
        near = max(tolerance, 200 * np.finfo(b.dtype).eps)
        size = max(1.0, float(np.abs(b[np.isfinite(b)]).max(initial=0.0)))
        if finite:
            a, b = a[np.isfinite(b)], b[np.isfinite(b)]
        np.testing.assert_allclose(a, b, rtol=near, atol=near * size)


def chosen(op, dtype, differentiable, limit):
    """At most `limit` samples, evenly from all that there are."""
    torch.manual_seed(0)
    given = list(op.sample_inputs("cpu", dtype, requires_grad=differentiable))
    places = np.unique(np.linspace(0, len(given) - 1, limit).round().astype(int))
    return [given[i] for i in places] if given else []


class Case:
    """One sample of an op, for both libraries."""

    def __init__(self, op, dtype, sample, functions):
        self.given = (sample.input, tuple(sample.args), dict(sample.kwargs))
        ends = ours(sample.output_process_fn_grad), sample.output_process_fn_grad
        self.mine, self.other = (
            lambda first, args, kwargs, f=f, end=end: end(f(first, *args, **kwargs))
            for f, end in zip(functions, ends, strict=True)
        )
        differentiable = is_differentiable(op, dtype)
        self.orders = 0 if not differentiable else 1 + op.supports_gradgrad
        self.tangent = differentiable and op.supports_forward_ad

    def stages(self):
        """For each stage that PyTorch has: (its name, rushlight's arrays, PyTorch's); an exception
        of PyTorch's is given in the place of its arrays."""
        actual = gradients(rushlight, self.mine, ours(self.given), self.orders)
        expected = gradients(torch, self.other, theirs(self.given), self.orders)
        for stage in STAGES[: 1 + self.orders]:
            mine = next(actual)
            try:
                yield stage, mine, next(expected)
            except RuntimeError as error:
                yield stage, mine, error
                break
        if self.tangent:
            mine = tangents(rushlight, self.mine, ours(self.given))
            yield "tangent", mine, tangents(torch, self.other, theirs(self.given))

    def slopes(self, stage):
        return differences(self.mine, ours(self.given), stage)


def is_differentiable(op, dtype):
    return op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")


def cases(op, dtype, limit):
    functions = functions_of(op)
    for sample in chosen(op, dtype, is_differentiable(op, dtype), limit):
        yield Case(op, dtype, sample, functions)
