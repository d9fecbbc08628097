"""Deprecated orders of arguments: ops that state one take it, and say once that it is old."""

import itertools
import subprocess
import sys
import warnings

import pytest

import rushlight as torch
from registry import ENTRIES, parameters, path
from samples import SAMPLES, function
from support import check

FORMER = [e for e in ENTRIES if e["former"]]
ORDERS = [(e, order.split()) for e in FORMER for order in e["former"].split(";")]
NUMBERS = {"float": 2.0, "Number": 2.0 + 1.0j}


def cases(entry):
    """Arguments by name: tensors of a sample of the op, and a number for each factor."""
    dtype = torch.complex128 if "Number " in entry["signature"].split("*")[1] else torch.float64
    for kind, _, _ in parameters(entry):
        assert kind in ("Tensor", "Tensor|Number", *NUMBERS)
    kinds = {name: kind for kind, name, _ in parameters(entry)}
    tensors = [name for name, kind in kinds.items() if kind not in NUMBERS]
    if path(entry) in SAMPLES:
        for sample in itertools.islice(SAMPLES[path(entry)](dtype, 3), 3):
            yield dict(zip(tensors, sample.args, strict=False)), kinds
    else:
        random = torch.Generator().manual_seed(3)
        yield {n: torch.rand(2, 3, dtype=dtype, generator=random) + 1 for n in tensors}, kinds


def ids(entry_and_order):
    entry, order = entry_and_order
    return f"{entry['name']}-{'-'.join(order)}-{len(entry['signature'])}"


@pytest.mark.parametrize("entry_and_order", ORDERS, ids=ids)
def test_function_method_and_in_place_form(entry_and_order):
    entry, order = entry_and_order
    for tensors, kinds in cases(entry):
        given = {**tensors, **{n: NUMBERS[kinds[n]] for n in order if kinds[n] in NUMBERS}}
        expected = function(path(entry))(**given)
        others = [given[name] for name in order if name != "input"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check(function(path(entry))(*[given[name] for name in order]), expected)
            check(getattr(given["input"], entry["name"])(*others), expected)
            if given["input"].shape == expected.shape:
                check(getattr(given["input"].clone(), entry["name"] + "_")(*others), expected)


def test_the_warning_comes_once_per_op_and_names_the_new_order():
    program = """
import warnings, rushlight as torch
x = torch.ones(2)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(3):
        x.add_(2, x)
        x.addcmul_(0.5, x, x)
print(*[str(w.message) for w in caught], sep="\\n")
"""
    text = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert text.count("is deprecated") == 2
    assert "add(Tensor|Number input, float alpha, Tensor|Number other)" in text
    assert "*, float alpha)" in text


def test_wrong_arguments_are_reported_by_the_present_order():
    x = torch.ones(2, 2)
    with pytest.raises(TypeError, match="addmm"):
        torch.addmm(x, x)
    with pytest.raises(TypeError, match="addcmul"):
        torch.addcmul(x, "a", x, x)
    with pytest.raises(TypeError, match="add"):
        torch.add(x, 2, "a")
