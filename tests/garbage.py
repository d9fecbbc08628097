"""Call every registered operation with random arguments; only exceptions may come out.

Run as a program so that a crash ends this process and not the test run:
`python garbage.py JOURNAL SHARD SHARDS EXAMPLES`. JOURNAL holds the last call made.
"""

import contextlib
import sys
import warnings

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

import rushlight as torch

DTYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.complex64,
    torch.int64,
    torch.int32,
    torch.int8,
    torch.uint8,
    torch.bool,
]
SHAPES = [(), (0,), (1,), (3,), (2, 3), (3, 3), (1, 0, 2), (2, 3, 4), (1, 1, 1, 2)]
NUMBERS = [0, 1, -1, 2, 3, 5, -4, 10**18, -(10**18), 2**63 - 1, 2**63, -(2**70)]
REALS = [0.0, 0.5, -2.5, float("inf"), float("nan"), 1e308]
WORDS = ["", "mean", "sum", "none", "constant", "ij,jk->ik", "i->", "...", "\x00", "é"]
KEYWORDS = ["dim", "axis", "keepdim", "dtype", "other", "input", "alpha", "size", "index", "src"]


def tensors():
    def make(shape, dtype, requires_grad, layout):
        t = torch.ones(shape, dtype=dtype)
        if layout == "transposed" and t.ndim >= 2:
            t = t.transpose(0, -1)
        if layout == "expanded":
            t = torch.ones((), dtype=dtype).expand(shape)
        if requires_grad and (dtype.is_floating_point or dtype.is_complex):
            t = t.requires_grad_()
        return t

    layouts = st.sampled_from(["plain", "transposed", "expanded"])
    return st.builds(make, st.sampled_from(SHAPES), st.sampled_from(DTYPES), st.booleans(), layouts)


def garbage():
    scalars = st.one_of(
        st.sampled_from(NUMBERS),
        st.sampled_from(REALS),
        st.sampled_from(WORDS),
        st.sampled_from([None, True, False, 2j, ..., object(), object, slice(None), b"x"]),
        st.sampled_from(DTYPES),
    )
    nested = st.lists(st.one_of(scalars, tensors()), max_size=4)
    return st.one_of(
        tensors(), tensors(), scalars, nested, nested.map(tuple), st.just({}), st.just({1: 2})
    )


def targets(entry):
    """The callables of one registry row: (text, takes a tensor first, callable)."""
    path = [p for p in entry["namespace"].split(".") if p not in ("", "torch", "rushlight")]
    home = torch
    for part in path:
        home = getattr(home, part, None)
    name = entry["name"]
    if "function" in entry["forms"] and hasattr(home, name):
        yield f"{name}(...)", False, getattr(home, name)
    if "out" in entry["forms"] and hasattr(home, name):

        def with_out(*args, **kwargs):
            return getattr(home, name)(*args, out=torch.zeros(2, 3), **kwargs)

        yield f"{name}(..., out=)", False, with_out
    for form, method in (("method", name), ("inplace", name + "_")):
        if form in entry["forms"] and hasattr(torch.Tensor, method):
            yield f"Tensor.{method}(...)", True, getattr(torch.Tensor, method)


def touch(result):
    """Read what came out and run its backward: a broken tensor would crash here."""
    for t in result if isinstance(result, (tuple, list)) else [result]:
        if isinstance(t, torch.Tensor) and t.numel() < 10_000:
            t.tolist()
            repr(t)
            if t.requires_grad and t.dtype.is_floating_point:
                t.sum().backward()


def attacker(journal, shard, examples, text, needs_tensor, function):
    @seed(shard)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(
        tensors(),
        st.lists(garbage(), max_size=4),
        st.dictionaries(st.sampled_from(KEYWORDS), garbage(), max_size=2),
    )
    def attack(first, args, kwargs):
        args = [first, *args] if needs_tensor else args
        with open(journal, "w") as f:
            f.write(f"{text} args={[str(type(a)) for a in args]} kwargs={sorted(kwargs)}\n")
            with contextlib.suppress(Exception):
                f.write(repr((args, kwargs)))
        with warnings.catch_warnings(), contextlib.suppress(Exception):
            warnings.simplefilter("ignore")
            touch(function(*args, **kwargs))

    return attack


def main(journal, shard, shards, examples):
    calls = [call for entry in torch._C._registry() for call in targets(entry)]
    calls = calls[shard::shards]
    assert calls, "nothing to call"
    for call in calls:
        attacker(journal, shard, examples, *call)()
    total = torch.ones(3, dtype=torch.float64, requires_grad=True)
    (total * 2).sum().backward()
    assert total.grad.tolist() == [2, 2, 2]
    print("survived", len(calls))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
