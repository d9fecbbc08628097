"""The formulas of pointwise ops as text: what device compilers will read says what the kernels do.

All texts, of the values and of the partial derivatives, are compiled as C++ in one file and run on
numbers of every kind beside the kernels.
"""

import ctypes
import itertools
import os
import shutil
import subprocess

import numpy as np
import pytest

import rushlight as torch
from rushlight import _C

FORMULAS = [(number, e) for number, e in enumerate(_C._registry()) if "formula" in e]
ELEMENTS = {"float": np.float32, "double": np.float64, "uint8": np.uint8, "int64": np.int64,
            "bool": np.bool_, "C64": np.complex64, "C128": np.complex128}  # fmt: skip
INF, NAN = float("inf"), float("nan")
NUMBERS = (-INF, -7.5, -2.0, -1.0, -0.3, -0.0, 0.0, 0.1, 0.5, 1.0, 2.0, 3.7, 5.0, 40.0, INF, NAN)
FEWER = (-2.5, -0.0, 0.0, 0.4, 1.0, INF, NAN)
INTEGERS = (-(2**63), -70, -3, -1, 0, 1, 2, 5, 63, 64, 100, 2**40)
WHOLE = {"uint8": (0, 1, 2, 3, 5, 7, 8, 100, 200, 255), "int64": INTEGERS, "bool": (False, True)}
# The parts of complex numbers, by the number of inputs.
PARTS = {1: (-INF, -3.5, -1.0, -0.6, -0.0, 0.0, 1e-3, 0.4, 1.0, 2.0, 30.0, INF, NAN),
         2: (-2.5, -1.0, -0.0, 0.0, 0.5, INF, NAN), 3: (-1.5, 0.0, 1.0)}  # fmt: skip
PARAMETERS = (0.5, 1.5, 2.0, 0.25)
NARROW = {"next_half": torch.float16, "next_bfloat": torch.bfloat16}  # all that they are given
ULPS = 64  # a kernel may take a product and a sum in one step
LONG = {"laguerre", "laguerre_polynomial_l"}  # forty of them, whose terms cancel
PRELUDE = """
#include <cmath>
#include <cstdint>
using namespace std;
typedef unsigned char uint8;
typedef signed char int8;
typedef short int16;
typedef int int32;
typedef long long int64;
typedef unsigned long long uint64;
#define RL_DEVICE static inline
static inline double erfinv(double x) {
  if (!(fabs(x) <= 1)) return NAN;
  if (x == 0) return x;
  if (fabs(x) == 1) return copysign(INFINITY, x);
  double low = 0, high = 30, a = fabs(x);
  for (int i = 0; i < 200; i++) {
    double middle = (low + high) / 2;
    bool below = a < 0.5 ? erf(middle) < a : erfc(middle) > 1 - a;
    (below ? low : high) = middle;
  }
  return copysign((low + high) / 2, x);
}
"""


def parts(entry):
    """(element, part, text): part -1 is the value, others the partial derivatives."""
    for element, texts in entry["texts"].items():
        if element == "double" and entry["name"] in NARROW:
            continue  # halves are computed as floats
        for part, text in enumerate(texts, -1):
            if text is not None:
                yield element, part, text


def function_name(number, element, part):
    return f"f{number}_{element}_{part + 1}"


PUT = """
template <class V> static void put(V r, C128& number, int64& whole) {
  number = C128(double(r));
  whole = int64(r);
}
template <class R> static void put(Complex<R> r, C128& number, int64&) {
  number = C128(r.re, r.im);
}
"""


def source():
    lines = [PRELUDE, _C._formula_prelude(), PUT]
    for number, entry in FORMULAS:
        for element, part, text in parts(entry):
            params = "".join(f"const {element} p{i} = {element}(P[{i}]); " for i in range(4))
            lines.append(
                f'extern "C" void {function_name(number, element, part)}(const {element}* A, '
                f"const {element}* B, const {element}* C, const {element}* Y, const double* P, "
                f"C128* R, int64* I, long n) {{ {params} for (long k = 0; k < n; k++) {{ "
                f"const {element} a = A[k], b = B[k], c = C[k], y = Y[k]; "
                f"put([&] {{ {text} }}(), R[k], I[k]); }} }}"
            )
    return "\n".join(lines)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    names = (os.environ.get("CXX", "g++"), "c++", "clang++")
    compiler = next(filter(None, map(shutil.which, names)), None)
    if compiler is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("formulas")
    (folder / "all.cpp").write_text(source())
    command = [compiler, "-std=c++17", "-O1", "-w", "-ffp-contract=off", "-shared", "-fPIC"]
    subprocess.run([*command, "all.cpp", "-o", "all.so"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "all.so"))


def grid(entry, element):
    """Arrays a, b, c: every number with every other."""
    inputs = len(entry["partials"])
    numbers = WHOLE.get(element, NUMBERS if inputs < 3 else FEWER)
    if element in ("C64", "C128"):
        numbers = [complex(*pair) for pair in itertools.product(PARTS[inputs], repeat=2)]
    rows = np.array(list(itertools.product(numbers, repeat=inputs)), ELEMENTS[element])
    if entry["name"] in NARROW:
        rows = torch.from_numpy(rows).to(NARROW[entry["name"]]).to(torch.float32).numpy()
    columns = [np.ascontiguousarray(rows[:, i]) for i in range(inputs)]
    return columns + [np.zeros_like(columns[0])] * (3 - inputs)


def pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)


def run_text(library, number, element, part, columns, y, params):
    n = len(y)
    found, whole = np.zeros(n, np.complex128), np.zeros(n, np.int64)
    given = np.array([*params, *[0.0] * 4][:4])
    with np.errstate(all="ignore"):
        getattr(library, function_name(number, element, part))(
            *map(pointer, columns),
            pointer(y),
            pointer(given),
            pointer(found),
            pointer(whole),
            ctypes.c_long(n),
        )
    if element in WHOLE:
        return whole.astype(ELEMENTS[element])
    return found if element in ("C64", "C128") else found.real.astype(ELEMENTS[element])


def close(text, kernel, element, ulps):
    if element in WHOLE:
        return text == kernel
    kind = ELEMENTS[element]
    kernel = kernel.astype(kind)
    size = np.abs(kernel)
    scale = np.maximum(np.where(np.isfinite(size), size, 0), 0.01)
    same = np.ones(len(text), bool)
    # The sign of an infinity beside a NaN is not specified.
    open_signs = np.isnan(text) & np.isnan(kernel)
    for ours, theirs in ((text.real, kernel.real), (text.imag, kernel.imag)):
        ours, theirs = (np.where(open_signs, np.abs(part), part) for part in (ours, theirs))
        with np.errstate(all="ignore"):
            near = np.abs(ours - theirs) <= ulps * np.finfo(kind).eps * scale
        same &= near | (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    return same


def run_kernel(number, part, arrays, params):
    return _C._run_formula(number, part, tuple(map(torch.from_numpy, arrays)), params).numpy()


@pytest.mark.parametrize(("number", "entry"), FORMULAS, ids=[e["name"] for _, e in FORMULAS])
def test_the_text_says_what_the_kernel_does(number, entry, compiled):
    cases = list(parts(entry))
    assert cases
    for element, part, _ in cases:
        columns = grid(entry, element)
        inputs = columns[: len(entry["partials"])]
        params = PARAMETERS[: entry["parameters"]]
        kernel = y = run_kernel(number, -1, inputs, params)
        if part >= 0:
            y = y.astype(inputs[0].dtype)
            kernel = run_kernel(number, part, [np.ones_like(y), *inputs, y], params)
        y = np.ascontiguousarray(y.astype(inputs[0].dtype))
        text = run_text(compiled, number, element, part, columns, y, params)
        if part >= 0:
            with np.errstate(all="ignore"):
                text = np.ones_like(y) * np.conj(text)  # the gradient times it, as in the kernel
        same = close(text, kernel, element, 8 * ULPS if entry["name"] in LONG else ULPS)
        where = np.flatnonzero(~same)[:5]
        shown = [([c[i] for c in inputs], text[i], kernel[i]) for i in where]
        assert same.all(), (entry["name"], element, part, shown)


def test_what_is_used_twice_is_computed_once():
    tree = next(e["partials"][0] for _, e in FORMULAS if e["name"] == "silu")
    text = next(e["texts"]["double"][1] for _, e in FORMULAS if e["name"] == "silu")
    assert text.count("exp(") == 1
    seen = []

    def walk(part):
        if isinstance(part, tuple):
            if part[0] == "exp":
                seen.append(id(part))
            for inner in part[1:]:
                walk(inner)

    walk(tree)
    assert len(seen) > 1
    assert len(set(seen)) == 1


def test_literals_have_the_precision_of_the_elements():
    texts = next(e["texts"] for _, e in FORMULAS if e["name"] == "gelu")
    assert "float(0.70710678118654757)" in texts["float"][0]
    assert "double" not in texts["float"][0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1, -1, (), ()), "no pointwise op"),
        ((FORMULAS[0][0], 7, (), ()), "no partial"),
        ((FORMULAS[0][0], -1, (), ()), "takes 1 tensors"),
        ((FORMULAS[0][0], -1, (3,), ()), "is no tensor"),
        ((FORMULAS[0][0], -1, (torch.ones(4, 4).t()[1:],), ()), "in rows"),
        ((FORMULAS[0][0], -1, (torch.ones(2, dtype=torch.complex64),), ()), "no kernel"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(RuntimeError, match=message):
        _C._run_formula(*arguments)
