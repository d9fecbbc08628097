"""Sequences that change while they are read: an exception or a value, never a crash."""

import contextlib
import warnings

import pytest

import rushlight as torch

pytestmark = pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")


class Number:
    """Clears a list when it is asked for its value."""

    def __init__(self, act):
        self.act = act

    def __float__(self):
        self.act()
        return 1.0

    def __index__(self):
        self.act()
        return 1

    __int__ = __index__


class Whole(Number):
    __float__ = None


class Row:
    """A sequence that acts when its length or an item is asked for."""

    def __init__(self, act, on, length=2):
        self.act, self.on, self.length = act, on, length

    def __len__(self):
        if self.on == "len":
            self.act()
        return self.length

    def __getitem__(self, i):
        if self.on == "item":
            self.act()
        if i >= self.length:
            raise IndexError
        return object() if self.on == "fresh" else 0


CHANGES = {
    "clear": lambda items: items.clear(),
    "grow": lambda items: items.extend([0] * 1000),
    "replace": lambda items: items.__setitem__(slice(None), [[0] * 100] * len(items)),
    "nest": lambda items: items.append(items),
}


def lists(change, item):
    """Lists with such an item first, in the middle, last, and in a nested list."""
    for length, at in ((1, 0), (5, 0), (5, 2), (5, 4), (5000, 0)):
        items = [0] * length
        items[at] = item(lambda items=items: change(items))
        yield items
    outer = [[0, 0], [0, 0], [0, 0]]
    outer[1][0] = item(lambda: change(outer))
    yield outer
    inner = [[0, 0], [0, 0]]
    inner[0][0] = item(lambda: change(inner[1]))
    yield inner


def uses():
    x = torch.arange(12.0).reshape(6, 2)
    yield "tensor", torch.tensor
    yield "as_tensor", torch.as_tensor
    yield "new_tensor", x.new_tensor
    yield "floats", lambda items: torch.tensor(items, dtype=torch.float32)
    yield "complex", lambda items: torch.tensor(items, dtype=torch.complex64)
    yield "read", lambda items: x[items]
    yield "read in a tuple", lambda items: x[items, 0]
    yield "written", lambda items: x.clone().__setitem__(items, 1.0)
    yield "value", lambda items: x.clone().__setitem__(0, items)
    yield "sizes", lambda items: torch.zeros(items)
    yield "view", lambda items: x.view(items)
    yield "permute", lambda items: x.permute(items)
    yield "sum", lambda items: x.sum(items)
    yield "tensordot", lambda items: torch.tensordot(x, x, items)
    yield "roll", lambda items: x.roll(items, items)


@pytest.mark.parametrize("item", [Number, Whole], ids=["number", "index"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize("use", [f for _, f in uses()], ids=[n for n, _ in uses()])
def test_a_number_that_changes_its_list(use, change, item):
    for items in lists(change, item):
        with contextlib.suppress(TypeError, ValueError, IndexError, RuntimeError):
            use(items)


@pytest.mark.parametrize("on", ["len", "item", "fresh"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize("use", [f for _, f in uses()], ids=[n for n, _ in uses()])
def test_a_sequence_that_changes_its_list(use, change, on):
    for items in lists(change, lambda act: Row(act, on)):
        with contextlib.suppress(TypeError, ValueError, IndexError, RuntimeError):
            use(items)


def test_a_list_that_shrinks_says_so():
    items = [0.0, 1.0, 2.0]
    items[1] = Number(items.clear)
    with pytest.raises(ValueError, match=r"length 3.*got 0"):
        torch.tensor(items)


def test_a_list_that_only_looks_is_read():
    seen = []
    assert torch.tensor([1.0, Number(lambda: seen.append(1)), 3.0]).tolist() == [1, 1, 3]
    assert seen


def test_out_lists_that_change_while_they_are_written():
    outs = [torch.empty(3), torch.empty(2, dtype=torch.int64)]

    def warn(*args, **kwargs):
        outs.clear()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.showwarning", warn)
        patch.setattr("warnings._showwarnmsg", warn)
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            torch.sort(torch.rand(4), out=outs)
