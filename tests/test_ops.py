"""The laws that every registered op obeys. No op is named here: a new one is tested by existing."""

import re

import numpy as np
import pytest

import reference_pointwise
import references
import rushlight as torch
from registry import (
    ENTRIES,
    is_pointwise,
    is_structural,
    parameters,
    path,
    samples_of,
    tensor_parameters,
)
from rushlight.autograd import gradcheck, gradgradcheck
from samples import DIFFERENTIATED, SAMPLES, Sample, function
from support import check, values

POINTWISE = [e for e in ENTRIES if is_pointwise(e)]
DIFFERENTIABLE = [e for e in POINTWISE if e["derivative"] == "partial"]
STRUCTURAL = sorted(SAMPLES)


def ids(entries):
    return [f"{path(e)}-{i}" for i, e in enumerate(entries)]


def every(entries):
    return pytest.mark.parametrize("entry", entries, ids=ids(entries))


# How an op says that it does not take a dtype, beside NotImplementedError.
REFUSED = re.compile(
    r"argument alpha must not be a floating point number|does not support (complex|bool) dtypes"
    r"|with (a|two) bool tensors? is not supported|on a bool tensor is not supported"
    r"|must be either a floating point or complex dtype|an integer divisor is zero"
    r"|Expected both inputs to be Half, Float or Double|Expected a floating point or complex tensor"
    r"|is only supported for half, float and double tensors"
)


def works(f, sample):
    """The result, or None where the op does not take this dtype."""
    try:
        return f(*sample.args, **sample.kwargs)
    except NotImplementedError:
        return None
    except RuntimeError as e:
        if REFUSED.search(str(e)):
            return None
        raise


def is_many(result):
    return isinstance(result, (tuple, list))


def tensors_of(result):
    if isinstance(result, torch.Tensor):
        return [result]
    return [t for t in result if isinstance(t, torch.Tensor)] if is_many(result) else []


def layouts(t):
    """The same numbers in other places: transposed, spread out, with an offset, expanded."""
    if t.dim() >= 2:
        order = tuple(reversed(range(t.dim())))
        yield t.permute(order).contiguous().permute(order)
    if t.dim() >= 1:
        wide = torch.zeros((*t.shape[:-1], 2 * t.shape[-1] + 1), dtype=t.dtype)
        wide[..., 1::2] = t
        yield wide[..., 1::2]


# ---- law 1: values

REAL = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
OTHER = [torch.int64, torch.int32, torch.uint8, torch.bool, torch.complex64]
PRECISION = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


@every(POINTWISE)
def test_value_is_the_same_in_every_layout(entry):
    f = function(path(entry))
    for dtype in REAL[:2] + OTHER:
        for sample in samples_of(entry, dtype):
            expected = works(f, sample)
            if expected is None:
                continue
            for i, argument in enumerate(sample.args):
                for other in layouts(argument):
                    args = (*sample.args[:i], other, *sample.args[i + 1 :])
                    actual = f(*args, **sample.kwargs)
                    assert actual.dtype == expected.dtype
                    np.testing.assert_array_equal(values(actual), values(expected))


@every(POINTWISE)
def test_value_has_the_precision_of_its_dtype(entry):
    f = function(path(entry))
    for dtype, tolerance in PRECISION.items():
        for sample in samples_of(entry, dtype):
            actual = works(f, sample)
            if actual is None or not actual.dtype.is_floating_point:
                continue
            wide = [a.double() if a.dtype == dtype else a for a in sample.args]
            expected = values(f(*wide, **sample.kwargs))
            np.testing.assert_allclose(values(actual), expected, rtol=tolerance, atol=tolerance)


NUMPY_NAMES = {
    "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
    "atan2": "arctan2", "atanh": "arctanh", "div": "true_divide", "eq": "equal",
    "ge": "greater_equal", "gt": "greater", "le": "less_equal", "lt": "less", "mul": "multiply",
    "ne": "not_equal", "neg": "negative", "pow": "power", "round": "rint", "sub": "subtract",
    "bitwise_not": "invert",
}  # fmt: skip


def has_ufunc(entry):
    name = NUMPY_NAMES.get(entry["name"], entry["name"])
    return isinstance(getattr(np, name, None), np.ufunc)


@every([e for e in POINTWISE if not has_ufunc(e)])
def test_value_is_its_definitions(entry):
    """Of every op that NumPy has no ufunc for."""
    f, reference = function(path(entry)), reference_pointwise.REFERENCES[entry["name"]]
    for sample in samples_of(entry, torch.float64):
        expected = reference(*map(values, sample.args), **sample.kwargs)
        actual = values(f(*sample.args, **sample.kwargs))
        np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)


@every([e for e in POINTWISE if has_ufunc(e)])
def test_value_is_numpys(entry):
    f, reference = function(path(entry)), getattr(np, NUMPY_NAMES.get(entry["name"], entry["name"]))
    for dtype in (torch.float64, torch.int64, torch.bool, torch.complex128):
        for sample in samples_of(entry, dtype):
            if sample.kwargs:
                continue
            actual = works(f, sample)
            if actual is None:
                continue
            arrays = [values(a) for a in sample.args]
            if actual.dtype.is_floating_point and not dtype.is_complex:
                arrays = [a.astype(np.float64) for a in arrays]
            try:
                with np.errstate(all="ignore"):
                    expected = reference(*arrays)
            except TypeError:  # NumPy has no loop for these types
                continue
            tolerance = 1e-6 if actual.dtype == torch.float32 else 1e-12
            np.testing.assert_allclose(values(actual), expected, rtol=tolerance, atol=1e-12)


@pytest.mark.parametrize("name", [n for n in STRUCTURAL if n in references.REFERENCES])
def test_structural_value_is_the_references(name):
    f = function(name)
    for dtype in (torch.float64, torch.float32, torch.int64, torch.bool):
        for sample in SAMPLES[name](dtype, 0):
            actual = works(f, sample)
            if actual is None:
                continue
            expected = references.reference(name, *sample.args, **sample.kwargs)
            if not is_many(expected):
                actual, expected = [actual], [expected]
            for a, e in zip(actual, expected, strict=True):
                if (a.dtype == torch.bool) != (np.asarray(e).dtype == bool):
                    continue  # NumPy counts where torch stays bool, or the reverse
                coarse = a.dtype in (torch.float32, torch.complex64)
                check(a, e, rtol=1e-4 if coarse else 1e-9, atol=1e-5 if coarse else 1e-10)


# ---- law 2: one op, many spellings


@every([e for e in ENTRIES if {"function", "method"} <= set(e["forms"])])
def test_method_is_the_function(entry):
    f = function(path(entry))
    for sample in samples_of(entry, torch.float64):
        if not (sample.args and isinstance(sample.args[0], torch.Tensor)):
            continue
        if works(f, sample) is None:
            continue
        if len(sample.args) < len([p for p in parameters(entry) if not p[2]]):
            continue  # a sample of another overload
        method = getattr(sample.args[0], entry["name"])
        for a, b in zip(
            tensors_of(f(*sample.args, **sample.kwargs)),
            tensors_of(method(*sample.args[1:], **sample.kwargs)),
            strict=True,
        ):
            np.testing.assert_array_equal(values(a), values(b))


@every([e for e in ENTRIES if {"function", "inplace"} <= set(e["forms"])])
def test_in_place_form_is_the_function(entry):
    f = function(path(entry))
    home = function(entry["namespace"]) if entry["namespace"] else torch
    for sample in samples_of(entry, torch.float64):
        expected = works(f, sample)
        if not (isinstance(expected, torch.Tensor) and isinstance(sample.args[0], torch.Tensor)):
            continue
        target = sample.args[0].clone()
        if target.shape != expected.shape or expected.dtype != target.dtype:
            continue
        version = target._version
        in_place = getattr(
            torch.Tensor if "method" in entry["forms"] else home, entry["name"] + "_"
        )
        result = in_place(target, *sample.args[1:], **sample.kwargs)
        assert result is target
        assert target._version > version
        np.testing.assert_array_equal(values(target), values(expected))


@every([e for e in ENTRIES if "out" in e["forms"]])
def test_out_form_is_the_function(entry):
    f = function(path(entry))
    for sample in samples_of(entry, torch.float64):
        expected = works(f, sample)
        if expected is None:
            continue
        outs = tuple(torch.empty(t.shape, dtype=t.dtype) for t in tensors_of(expected))
        out = outs if is_many(expected) else outs[0]
        result = f(*sample.args, **sample.kwargs, out=out)
        for r, o, e in zip(tensors_of(result), outs, tensors_of(expected), strict=True):
            assert r is o
            np.testing.assert_array_equal(values(o), values(e))


# ---- laws 3 and 5: derivatives


def has_derivative(t):
    return t.dtype.is_floating_point or t.dtype.is_complex


def leaves(sample):
    """The sample with its tensors of real or complex numbers as leaves; a function of these."""
    inputs = []

    def walk(value):
        if isinstance(value, torch.Tensor) and has_derivative(value):
            inputs.append(value.detach().clone().requires_grad_())
            return ("leaf", len(inputs) - 1)
        if isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in value):
            return (type(value), [walk(v) for v in value])
        return ("plain", value)

    plan = [walk(a) for a in sample.args]
    named = {k: walk(v) for k, v in sample.kwargs.items()}

    def build(node, given):
        kind, content = node
        if kind == "leaf":
            return given[content]
        if kind in (list, tuple):
            return kind(build(c, given) for c in content)
        return content

    def wrap(f):
        return lambda *given: f(
            *[build(n, given) for n in plan], **{k: build(n, given) for k, n in named.items()}
        )

    return inputs, wrap


def differentiable_outputs(f):
    def run(*inputs):
        return tuple(t for t in tensors_of(f(*inputs)) if has_derivative(t))

    return run


def gradients(f, inputs, create_graph):
    outputs = [o for o in f(*inputs) if o.requires_grad]
    if not outputs:
        return []
    weights = [
        torch.linspace(0.5, 1.5, o.numel(), dtype=torch.float64).reshape(o.shape).to(o.dtype)
        for o in outputs
    ]
    wanted = [x for x in inputs if x.requires_grad]
    grads = torch.autograd.grad(
        outputs, wanted, weights, create_graph=create_graph, allow_unused=True
    )
    return [None if g is None else values(g) for g in grads]


def refuses(f, inputs):
    """Whether the op says it has no derivative; inputs that may not require grad no longer do."""
    try:
        for i, x in enumerate(inputs):
            given = [t if k == i else t.detach() for k, t in enumerate(inputs)]
            try:
                f(*given)
            except RuntimeError as e:
                if "cannot have requires_grad True" not in str(e):
                    raise
                x.requires_grad_(False)
        gradients(f, inputs, create_graph=False)
    except (RuntimeError, NotImplementedError) as e:
        if not re.search(r"derivative for \S+ is not implemented", str(e)):
            raise
        return True
    return False


def gradient_cases(entry_or_name, dtype=torch.float64):
    if isinstance(entry_or_name, str):
        name, samples = entry_or_name, SAMPLES[entry_or_name](dtype, 1)
    else:
        name, samples = path(entry_or_name), samples_of(entry_or_name, dtype, 1)
    for sample in samples:
        inputs, wrap = leaves(sample)
        f = DIFFERENTIATED.get(name, lambda op: op)(function(name))
        f = differentiable_outputs(wrap(f))
        if not inputs or sum(i.numel() for i in inputs) > 200:
            continue
        with torch.no_grad():
            outputs = f(*inputs)
        if outputs and any(o.numel() for o in outputs) and not refuses(f, inputs):
            yield inputs, f


DERIVATIVES = {path(e) for e in ENTRIES if e["derivative"] != "nondifferentiable"}
CONSTANT = {path(e) for e in ENTRIES} - DERIVATIVES
GRADIENTS = [n for n in STRUCTURAL if n not in CONSTANT]


@every(DIFFERENTIABLE)
def test_gradient_is_the_finite_difference(entry):
    for inputs, f in gradient_cases(entry):
        assert gradcheck(f, inputs, check_undefined_grad=False)


@every(DIFFERENTIABLE)
def test_second_derivative_is_the_finite_difference(entry):
    for inputs, f in gradient_cases(entry):
        if sum(i.numel() for i in inputs) <= 12:
            assert gradgradcheck(f, inputs, check_undefined_grad=False)


@pytest.mark.parametrize("name", GRADIENTS)
def test_structural_gradient_is_the_finite_difference(name):
    for inputs, f in gradient_cases(name):
        if any(o.requires_grad for o in f(*inputs)):
            assert gradcheck(f, inputs, check_undefined_grad=False)


@pytest.mark.parametrize("name", GRADIENTS)
def test_structural_second_derivative_is_the_finite_difference(name):
    for inputs, f in gradient_cases(name):
        if sum(i.numel() for i in inputs) <= 16 and any(o.requires_grad for o in f(*inputs)):
            assert gradgradcheck(f, inputs, check_undefined_grad=False, atol=1e-4)


@pytest.mark.parametrize(
    "op", [*GRADIENTS, *DIFFERENTIABLE], ids=[*GRADIENTS, *ids(DIFFERENTIABLE)]
)
def test_fused_backward_is_the_rule(op):
    """Law 7: the kernel that runs without a graph gives what the differentiable rule gives."""
    for inputs, f in gradient_cases(op):
        for a, b in zip(gradients(f, inputs, False), gradients(f, inputs, True), strict=True):
            if a is None or b is None:
                assert a is b
            else:
                np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@every([e for e in DIFFERENTIABLE if tensor_parameters(e) > 1])
@pytest.mark.parametrize("other", [torch.int64, torch.float32], ids=["int64", "float32"])
def test_fused_backward_of_mixed_dtypes_is_the_rule(entry, other):
    for sample in samples_of(entry, torch.float64, 1):
        for i, x in enumerate(sample.args):
            # One argument keeps float64, which the derivative by it must not lose.
            args = [
                a if a is x or a.dtype == torch.bool else (2 * a).to(other) for a in sample.args
            ]
            if x.dtype == torch.bool:
                continue
            result = works(function(path(entry)), Sample(args, {}))
            if result is None or result.dtype != torch.float64:
                continue
            inputs, wrap = leaves(Sample([args[i]], {}))
            f = wrap(
                lambda t, i=i, args=args: (function(path(entry))(*args[:i], t, *args[i + 1 :]),)
            )
            for a, b in zip(gradients(f, inputs, False), gradients(f, inputs, True), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


# ---- law 7: threads


@every(POINTWISE)
def test_threads_do_not_change_a_bit(entry):
    shapes = [(70000,)] * sum(k in ("Tensor", "Tensor|Number") for k, _, _ in parameters(entry))
    from registry import pointwise_call

    sample = pointwise_call(entry, shapes, torch.float32, 3)
    before = torch.get_num_threads()
    results = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            result = works(function(path(entry)), sample)
            if result is None:
                return
            results.append(values(result))
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(results[0], results[1])


# ---- law 8: errors


@every([e for e in ENTRIES if "function" in e["forms"]])
def test_a_wrong_argument_raises_a_type_error_that_names_the_op(entry):
    with pytest.raises(TypeError, match=re.escape(entry["name"])):
        function(path(entry))(object(), object(), object(), object())


@every([e for e in POINTWISE if len(parameters(e)) == 2 and "=" not in e["signature"]])
def test_shapes_that_do_not_broadcast_raise(entry):
    if any(kind not in ("Tensor", "Tensor|Number") for kind, _, _ in parameters(entry)):
        return
    a = torch.ones(2, 3, dtype=torch.int64)
    with pytest.raises((RuntimeError, NotImplementedError), match=r"match|not implemented"):
        function(path(entry))(a, torch.ones(4, dtype=torch.int64))


# ---- laws 9 and 10: what an op keeps and what it says


@every(DIFFERENTIABLE)
def test_gradients_that_nobody_wants_are_not_computed(entry):
    for inputs, f in gradient_cases(entry):
        if len(inputs) < 2:
            return
        for i, wanted in enumerate(inputs):
            given = [x if k == i else x.detach() for k, x in enumerate(inputs)]
            (output,) = f(*given)
            if not output.requires_grad:
                continue
            edges = output.grad_fn.next_functions
            assert sum(node is not None for node, _ in edges) == 1
            (grad,) = torch.autograd.grad(output.sum(), wanted)
            assert grad.shape == wanted.shape
        return


@every(ENTRIES)
def test_every_op_is_documented(entry):
    assert len(entry["doc"]) > 10
    assert entry["doc"].rstrip().endswith(".")
    assert entry["derivative"] in ("composite", "partial", "linear", "general", "nondifferentiable")


@every([e for e in ENTRIES if is_structural(e)])
def test_every_structural_op_has_samples(entry):
    samples = samples_of(entry, torch.float64)
    assert len(samples) >= 3
    for sample in samples:
        function(path(entry))(*sample.args, **sample.kwargs)  # it takes what the laws are tried on
