"""Result dtypes: every pair of dtypes, as tensors, 0-d tensors and Python scalars."""

import itertools

import pytest

from oracle.harness import LIBRARIES, run

DTYPES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
SCALARS = {"bool": True, "int": 3, "float": 2.5, "complex": 1 + 2j}
OPERATIONS = {
    "add": lambda L, a, b: a + b,
    "mul": lambda L, a, b: a * b,
    "div": lambda L, a, b: a / b,
    "floordiv": lambda L, a, b: a // b,
    "mod": lambda L, a, b: a % b,
    "pow": lambda L, a, b: a**b,
    "sub": lambda L, a, b: a - b,
    "eq": lambda L, a, b: a == b,
    "lt": lambda L, a, b: a < b,
    "where": lambda L, a, b: L.where(L.tensor([True, False]), a, b),
    "maximum": lambda L, a, b: L.maximum(a, b),
    "add_": lambda L, a, b: a.add_(b),
    "mul_": lambda L, a, b: a.mul_(b),
    "div_": lambda L, a, b: a.div_(b),
    "cat": lambda L, a, b: L.cat([a, b]),
    "stack": lambda L, a, b: L.stack([a, b]),
    "result_type": lambda L, a, b: L.result_type(a, b),
}
UNARY = ["sin", "exp", "sqrt", "abs", "neg", "sigmoid", "floor", "sum", "prod", "mean", "cumsum"]
UNARY += ["relu", "square", "sign", "reciprocal", "log1p", "tanh", "erf", "round", "any", "all"]
UNARY += ["amax", "argmax", "max", "std", "softmax", "logsumexp", "norm", "isnan", "logical_not"]


def outcome_of(function, library):
    """The result's dtype, or the class of the exception."""
    outcome = run(lambda L: dtype_of(function(L)), library)
    return outcome.value if outcome.error is None else type(outcome.error)


def dtype_of(value):
    return str(
        value
        if hasattr(value, "is_floating_point") and not hasattr(value, "dtype")
        else value.dtype
    )


def assert_same_dtypes(function, cases):
    wrong = {}
    for case in cases:
        ours, theirs = (
            outcome_of(lambda L, case=case: function(L, *case), library) for library in LIBRARIES
        )
        agree = (
            issubclass(ours, theirs)
            if isinstance(ours, type) and isinstance(theirs, type)
            else ours == theirs
        )
        if not agree:
            wrong[case] = (ours, theirs)
    assert not wrong, "\n".join(f"{c}: rushlight {o}, torch {t}" for c, (o, t) in wrong.items())


def make(library, dtype, shape):
    return library.ones(shape, dtype=getattr(library, dtype))


PAIRS = list(itertools.product(DTYPES, DTYPES))


@pytest.mark.parametrize("shapes", [((2,), (2,)), ((2,), ()), ((), (2,)), ((), ())], ids=str)
@pytest.mark.parametrize("name", OPERATIONS)
def test_two_tensors(name, shapes):
    def program(L, a, b):
        return OPERATIONS[name](L, make(L, a, shapes[0]), make(L, b, shapes[1]))

    # Half-precision complex is not one of rushlight's dtypes.
    half_complex = {("float16", "complex64"), ("float16", "complex128")}
    cases = [p for p in PAIRS if p not in half_complex and p[::-1] not in half_complex]
    assert_same_dtypes(program, cases)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("shape", [(2,), ()], ids=str)
@pytest.mark.parametrize("name", [n for n in OPERATIONS if n not in ("cat", "stack", "maximum")])
def test_tensor_and_python_scalar(name, shape, side):
    def program(L, dtype, kind):
        t, scalar = make(L, dtype, shape), SCALARS[kind]
        pair = (scalar, t) if side == "left" else (t, scalar)
        return OPERATIONS[name](L, *pair)

    in_place = name.endswith("_") and side == "left"
    cases = [
        (dtype, kind)
        for dtype, kind in itertools.product(DTYPES, SCALARS)
        if (dtype, kind) != ("float16", "complex") and not in_place
    ]
    assert_same_dtypes(program, cases)


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_tensor(name):
    def program(L, dtype):
        t = make(L, dtype, (2,))
        extra = (0,) if name in ("cumsum", "softmax", "logsumexp") else ()
        return getattr(t, name)(*extra)

    assert_same_dtypes(program, [(d,) for d in DTYPES])


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "cumsum", "softmax"])
def test_explicit_dtype(name):
    def program(L, a, b):
        extra = () if name in ("sum", "prod", "mean") else (0,)
        return getattr(make(L, a, (2,)), name)(*extra, dtype=getattr(L, b))

    # Discarding an imaginary part only warns, and how often is not part of the rule.
    assert_same_dtypes(program, PAIRS)


def test_promote_types_and_can_cast():
    assert_same_dtypes(
        lambda L, a, b: L.promote_types(getattr(L, a), getattr(L, b)),
        [p for p in PAIRS if "float16" not in p],
    )
    for a, b in PAIRS:
        ours, theirs = (L.can_cast(getattr(L, a), getattr(L, b)) for L in LIBRARIES)
        assert ours == theirs, (a, b)


@pytest.mark.parametrize("default", ["float16", "bfloat16", "float32", "float64"])
def test_default_dtype_decides_for_integers_and_scalars(default):
    def program(L, text):
        before = L.get_default_dtype()
        L.set_default_dtype(getattr(L, default))
        try:
            return eval(text, {"torch": L})
        finally:
            L.set_default_dtype(before)

    texts = [
        "torch.zeros(1)",
        "torch.tensor(1.5)",
        "torch.tensor([1])",
        "torch.ones(2, dtype=torch.int64) / 2",
        "torch.ones(2, dtype=torch.int64) * 1.5",
        "torch.ones(2, dtype=torch.int64).exp()",
        "torch.arange(0, 1, 0.5)",
        "torch.linspace(0, 1, 3)",
        "torch.full((2,), 1.5)",
        "torch.eye(2)",
        "torch.ones(2, dtype=torch.float64) * 1.5",
        "torch.ones(2, dtype=torch.float16) * 1.5",
    ]
    assert_same_dtypes(program, [(t,) for t in texts])
