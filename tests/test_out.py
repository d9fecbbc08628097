"""out=: results are stored in tensors that users give, and a refused call leaves them alone."""

import pytest

import rushlight as torch


def float_pair():
    return torch.zeros(2), torch.zeros(2, dtype=torch.int64)


def wants_grad(*shape):
    return torch.ones(shape, requires_grad=True)


# name -> (the tensors given, the call)
REFUSED = {
    "dtype": (lambda: torch.zeros(2, dtype=torch.int64), lambda o: torch.add(ones(), 1.5, out=o)),
    "dtype of mm": (lambda: torch.zeros(2, dtype=torch.int64), lambda o: torch.mm(e(), e(), out=o)),
    "grad": (lambda: torch.zeros(2), lambda o: torch.mul(wants_grad(3), 2, out=o)),
    "grad of out": (lambda: wants_grad(2), lambda o: torch.mul(ones(), 2, out=o)),
    "grad of mm": (lambda: torch.zeros(2), lambda o: torch.mm(wants_grad(3, 3), e(), out=o)),
    "nan_to_num": (
        lambda: torch.zeros(2, dtype=torch.int64),
        lambda o: torch.nan_to_num(ones(), out=o),
    ),
    "grad of nan_to_num": (
        lambda: torch.zeros(2),
        lambda o: torch.nan_to_num(wants_grad(3), out=o),
    ),
    "expanded": (lambda: torch.zeros(1).expand(2), lambda o: torch.add(ones(), 1.5, out=o)),
    "expanded mm": (lambda: torch.zeros(1).expand(2), lambda o: torch.mm(e(), e(), out=o)),
    "foreign": (
        lambda: torch.frombuffer(bytearray(8), dtype=torch.float32),
        lambda o: torch.add(ones(), 1.5, out=o),
    ),
    "first of two": (
        lambda: (torch.zeros(2, dtype=torch.int64), torch.zeros(2, dtype=torch.int64)),
        lambda o: torch.sort(ones(), out=o),
    ),
    "second of two": (
        lambda: (torch.zeros(2), torch.zeros(1, dtype=torch.int64).expand(2)),
        lambda o: torch.max(e(), 0, out=o),
    ),
    "grad of two": (float_pair, lambda o: torch.topk(wants_grad(3), 2, out=o)),
    "not a tensor": (lambda: (torch.zeros(2),), lambda o: torch.sort(ones(), out=(*o, None))),
    "shapes": (lambda: torch.zeros(2), lambda o: torch.add(ones(), torch.ones(4), out=o)),
    "bad index": (lambda: torch.zeros(2), lambda o: torch.take(ones(), torch.tensor([9]), out=o)),
    "division by zero": (
        lambda: torch.zeros(2, dtype=torch.int64),
        lambda o: torch.floor_divide(torch.ones(3, dtype=torch.int64), 0, out=o),
    ),
    "quantile": (lambda: torch.zeros(2), lambda o: torch.quantile(double(), 0.5, out=o)),
    "grad of renorm": (
        lambda: torch.zeros(2),
        lambda o: torch.renorm(wants_grad(3, 3), 2, 0, 1.0, out=o),
    ),
    "gcd": (
        lambda: torch.zeros(2, dtype=torch.bool),
        lambda o: torch.gcd(torch.tensor(4), torch.tensor(6), out=o),
    ),
    "expanded gcd": (
        lambda: torch.zeros(1, dtype=torch.int64).expand(2),
        lambda o: torch.gcd(torch.tensor(4), torch.tensor(6), out=o),
    ),
    "device": (lambda: torch.zeros(2), lambda o: torch.mm(e().to("meta"), e().to("meta"), out=o)),
    "device of two": (
        float_pair,
        lambda o: torch.sort(ones(), out=(o[0], o[1].to("meta"))),
    ),
    "not implemented": (lambda: torch.zeros(2), lambda o: torch.bitwise_and(ones(), ones(), out=o)),
}


def ones():
    return torch.ones(3)


def double():
    return torch.ones(3, dtype=torch.float64)


def e():
    return torch.eye(3)


def state(outs):
    outs = outs if isinstance(outs, tuple) else (outs,)
    return [(tuple(t.shape), t.stride(), t.tolist(), t._version) for t in outs]


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_call_changes_nothing(name):
    make, call = REFUSED[name]
    outs = make()
    before = state(outs)
    with pytest.raises((RuntimeError, TypeError, NotImplementedError, IndexError)):
        call(outs)
    assert state(outs) == before


def test_a_warning_that_is_an_error_changes_nothing():
    out = torch.zeros(2)
    with pytest.raises(UserWarning, match="was resized"):
        torch.add(torch.ones(3), 1, out=out)
    assert out.tolist() == [0, 0]


def test_an_output_that_becomes_larger_than_its_input_it_shares():
    x = torch.arange(4.0)
    with pytest.warns(UserWarning, match="was resized"):
        torch.add(x[:3].clone(), 1, out=x)
    assert x.tolist() == [1, 2, 3]


def test_an_output_that_would_grow_over_its_input_is_refused():
    x = torch.arange(6.0)
    out = x[1:2]
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.add(x[:3], 1, out=out)
    assert out.tolist() == [1]
    assert x.tolist() == [0, 1, 2, 3, 4, 5]


def test_functions_written_in_python_resize_as_ops_do():
    out = torch.zeros(2)
    with pytest.warns(UserWarning, match="was resized"):
        result = torch.quantile(torch.arange(5.0), 0.5, out=out)
    assert result is out
    assert out.tolist() == 2
    assert out._version == 1


def test_out_is_refused_in_vmap():
    with pytest.raises(RuntimeError, match="not supported under vmap"):
        torch.vmap(lambda x: torch.mm(x, x, out=torch.zeros(3, 3)))(torch.ones(2, 3, 3))
