"""Tensors of two devices in one call: it is refused, and never reads memory that is not there."""

import warnings

import pytest

import rushlight as torch
from registry import ENTRIES, path, sample_makers
from rushlight import nn
from samples import function

BY_PATH = {path(e): e for e in ENTRIES}
MAKERS = [(name, make) for name, make in sample_makers() if name in BY_PATH]
IDS = [name for name, _ in MAKERS]
# Ops that take such arguments: they read shapes, treat each tensor by itself, or copy.
MIXING = {
    "Tensor.copy_", "Tensor.expand_as", "Tensor.reshape_as", "Tensor.view_as", "atleast_1d",
    "atleast_2d", "atleast_3d", "broadcast_tensors", "lu_unpack",
}  # fmt: skip
# Parts of theirs are numbers of the host, or indices, which go with any tensor.
NUMBERS = {
    "cosine_embedding_loss", "index_put", "nn.functional.cosine_embedding_loss", "tensor_split",
}  # fmt: skip
REFUSED = r"same device|meta tensor"


def places(value, where=()):
    """(where, tensor) of the tensors among nested arguments."""
    if isinstance(value, torch.Tensor):
        yield where, value
    elif isinstance(value, (list, tuple, dict)):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in parts:
            yield from places(part, (*where, key))


def copied(value, chosen, where=()):
    """The arguments again, the tensor in the chosen place on meta."""
    if isinstance(value, torch.Tensor):
        return value.to("meta") if where == chosen else value.clone()
    if isinstance(value, dict):
        return {k: copied(v, chosen, (*where, k)) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(copied(v, chosen, (*where, i)) for i, v in enumerate(value))
    return value


def outcome(f, args, kwargs):
    """The result, or the exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return f(*args, **kwargs)
        except Exception as error:
            return error


def drawn(make):
    for dtype in (torch.float32, torch.int64):
        try:
            yield from make(dtype, 0)
        except RuntimeError:
            assert dtype == torch.int64


def forms(name):
    """The function and its in-place form."""
    entry = BY_PATH[name]
    yield function(name)
    if "inplace" in entry["forms"]:
        home = function(entry["namespace"]) if entry["namespace"] else torch
        holder = torch.Tensor if "method" in entry["forms"] else home
        yield getattr(holder, entry["name"] + "_")


@pytest.mark.parametrize(("name", "make"), MAKERS, ids=IDS)
def test_one_tensor_elsewhere_is_refused(name, make):
    for f in forms(name):
        for args, kwargs in drawn(make):
            found = list(places((args, kwargs)))
            for place, _ in found:
                if not any(t.dim() for where, t in found if where != place):
                    continue
                if isinstance(outcome(f, *copied((args, kwargs), None)), Exception):
                    break
                result = outcome(f, *copied((args, kwargs), place))
                if not isinstance(result, Exception):
                    assert name in MIXING | NUMBERS, (f, place)
                elif name not in MIXING | NUMBERS:
                    assert isinstance(result, (RuntimeError, NotImplementedError))
                    assert any(text in str(result) for text in REFUSED.split("|"))


@pytest.mark.parametrize(
    ("name", "make"), [pytest.param(*m, id=m[0]) for m in MAKERS if "out" in BY_PATH[m[0]]["forms"]]
)
def test_results_are_not_stored_elsewhere(name, make):
    f = function(name)
    for args, kwargs in list(drawn(make))[:4]:
        expected = outcome(f, args, kwargs)
        if isinstance(expected, Exception) or not any(t.dim() for _, t in places((args, kwargs))):
            continue
        many = isinstance(expected, tuple)
        parts = [torch.empty_like(t).to("meta") for t in (expected if many else [expected])]
        result = outcome(f, args, {**kwargs, "out": tuple(parts) if many else parts[0]})
        assert isinstance(result, RuntimeError)
        assert "same device" in str(result)


def meta(*values, **kwargs):
    return torch.tensor(values, device="meta", **kwargs)


INDEX = torch.tensor([1])
REFUSED_CALLS = {
    "a scalar": lambda: torch.zeros(()).add_(torch.ones((), device="meta")),
    "x[i] = v": lambda: torch.ones(3).__setitem__(INDEX, meta(1.0)),
    "x[meta] = v": lambda: torch.ones(3).__setitem__(meta(1), torch.ones(1)),
    "index_put_": lambda: torch.ones(3).index_put_((meta(1),), torch.ones(1)),
    "index_put": lambda: torch.ones(3).index_put((meta(1),), torch.ones(1)),
    "bernoulli_": lambda: torch.ones(3).bernoulli_(torch.ones(3, device="meta")),
    "embedding": lambda: nn.functional.embedding(meta(1), torch.ones(3, 2), max_norm=1.0),
    "Embedding": lambda: nn.Embedding(3, 2, max_norm=1.0)(meta(1)),
    "batch_norm": lambda: nn.functional.batch_norm(
        torch.ones(3, 1), meta(0.0), meta(1.0), training=True
    ),
    "one running statistic": lambda: nn.functional.batch_norm(
        torch.ones(3, 1), torch.zeros(1), meta(1.0), training=True
    ),
    "instance_norm": lambda: nn.functional.instance_norm(
        torch.ones(3, 1, 4), meta(0.0), meta(1.0)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED_CALLS)
def test_refused(name):
    with pytest.raises(RuntimeError, match="same device"):
        REFUSED_CALLS[name]()


def test_what_is_refused_in_place_changes_nothing():
    x = torch.zeros(3)
    with pytest.raises(RuntimeError, match="same device"):
        x.index_fill_(0, meta(1), 2.0)
    assert x.tolist() == [0, 0, 0]
    assert x._version == 0


def test_indices_of_the_host_go_with_any_tensor():
    x = torch.ones(3, device="meta")
    x[INDEX] = torch.tensor(2.0)
    x.index_put_((INDEX,), torch.tensor(2.0))
    x.index_put_((torch.tensor([True, False, True]),), torch.tensor(2.0))
    assert x.index_put((INDEX,), torch.tensor(2.0)).device.type == "meta"


OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
    "Adam": lambda p: torch.optim.Adam(p, 0.1),
    "Adagrad": lambda p: torch.optim.Adagrad(p, 0.1),
    "RMSprop": lambda p: torch.optim.RMSprop(p, 0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_state_elsewhere_stops_the_step(name):
    w = torch.ones(3, requires_grad=True)
    optimizer = OPTIMIZERS[name]([w])
    w.grad = torch.ones(3)
    optimizer.step()
    for key in optimizer.state[w]:
        kept, before = optimizer.state[w][key], w.tolist()
        optimizer.state[w][key] = kept.to("meta")
        with pytest.raises(RuntimeError, match="same device"):
            optimizer.step()
        optimizer.state[w][key] = kept
        assert w.tolist() == before
    optimizer.step()
