"""``saved_tensors_hooks`` inside one another."""

from rushlight.autograd.graph import saved_tensors_hooks
from rushlight.utils.checkpoint import checkpoint
from support import check, leaf


def pairs(log):
    def pair(name, factor):
        return (
            lambda t: log.append(f"pack {name}") or t.detach() * factor,
            lambda t: log.append(f"unpack {name}") or t / factor,
        )

    return pair("outer", 2), pair("inner", 4)


def test_the_innermost_pair_alone():
    log, x = [], leaf([3.0])
    outer, inner = pairs(log)
    with saved_tensors_hooks(*outer), saved_tensors_hooks(*inner):
        y = x.exp()
    y.backward()
    assert log == ["pack inner", "unpack inner"]
    check(x.grad, x.exp())


def test_composed():
    log, x = [], leaf([3.0])
    outer, inner = pairs(log)
    with saved_tensors_hooks(*outer), saved_tensors_hooks(*inner, compose=True):
        y = x.exp()
    y.backward()
    assert log == ["pack inner", "pack outer", "unpack outer", "unpack inner"]
    check(x.grad, x.exp())


def test_a_block_inside_a_checkpointed_region():
    log, x = [], leaf([3.0])
    _, inner = pairs(log)

    def region(t):
        with saved_tensors_hooks(*inner):
            u = t.exp()
        return u.sin()

    checkpoint(region, x).backward()
    check(x.grad, x.exp().cos() * x.exp())
    assert log[0] == "pack inner"
