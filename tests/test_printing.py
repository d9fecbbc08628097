"""Printing, by example; tests/oracle/test_printing.py compares with PyTorch at length."""

import pytest

import rushlight as torch


@pytest.fixture(autouse=True)
def _default_options():
    yield
    torch.set_printoptions(profile="default")


def test_numbers_share_one_notation():
    assert repr(torch.tensor([1.0, 2.5])) == "tensor([1.0000, 2.5000])"
    assert repr(torch.tensor([1.0, -2.0])) == "tensor([ 1., -2.])"
    assert repr(torch.tensor([1e-5, 1.0])) == "tensor([1.0000e-05, 1.0000e+00])"
    assert repr(torch.tensor([1, 20, -300])) == "tensor([   1,   20, -300])"
    assert repr(torch.tensor([True, False])) == "tensor([ True, False])"
    assert repr(torch.tensor(1 + 2j)) == "tensor(1.+2.j)"


def test_special_values_take_the_room_there_is():
    t = torch.tensor([float("nan"), float("inf"), 1.5])
    assert repr(t) == "tensor([   nan,    inf, 1.5000])"


def test_scalars_and_empty_tensors():
    assert repr(torch.tensor(3)) == "tensor(3)"
    assert repr(torch.zeros(0)) == "tensor([])"
    assert repr(torch.zeros(0, 3)) == "tensor([], size=(0, 3))"
    assert repr(torch.zeros(0, dtype=torch.int64)) == "tensor([], dtype=torch.int64)"


def test_what_the_values_do_not_say_comes_after_them():
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    assert repr(x) == "tensor([1., 1.], dtype=torch.float64, requires_grad=True)"
    assert repr(x + x) == "tensor([2., 2.], dtype=torch.float64, grad_fn=<AddBackward0>)"


def test_matrices_are_aligned_under_the_first_bracket():
    assert repr(torch.zeros(2, 2)) == "tensor([[0., 0.],\n        [0., 0.]])"


def test_many_values_are_summarised():
    assert repr(torch.zeros(1001)) == "tensor([0., 0., 0.,  ..., 0., 0., 0.])"
    text = repr(torch.zeros(100, 100))
    assert text.splitlines()[3] == "        ...,"
    assert len(text.splitlines()) == 7


def test_options():
    torch.set_printoptions(precision=2, sci_mode=True)
    assert repr(torch.tensor([1.5])) == "tensor([1.50e+00])"
    torch.set_printoptions(profile="short")
    assert repr(torch.tensor([1.5])) == "tensor([1.50])"
    torch.set_printoptions(threshold=3, edgeitems=1)
    assert repr(torch.arange(4)) == "tensor([0,  ..., 3])"
    with pytest.raises(ValueError, match="unknown profile 'tiny'"):
        torch.set_printoptions(profile="tiny")


def test_numbers_format_as_numbers():
    assert f"{torch.tensor(0.5)}" == "0.5"
    assert f"{torch.tensor(7)}, {torch.tensor(True)}, {torch.tensor(1j)}" == "7, True, 1j"
    assert f"{torch.tensor(2.5, requires_grad=True) * 2:.2f}" == "5.00"
    assert f"{torch.tensor(0.5):>6}|{torch.tensor(7):05d}" == "   0.5|00007"
    assert f"{torch.tensor([0.5])}" == "tensor([0.5000])"
    assert f"{torch.tensor(0.5)!s} {torch.tensor(0.5)!r}" == "tensor(0.5000) tensor(0.5000)"
    assert f"{torch.nn.Parameter(torch.tensor(0.5))}".startswith("Parameter containing")
    with pytest.raises(TypeError, match=r"unsupported format string passed to Tensor.__format__"):
        f"{torch.ones(1):.2f}"


def test_under_vmap_there_is_no_number_to_format():
    texts = []
    torch.vmap(lambda x: (texts.append(f"{x}"), x)[1])(torch.ones(2))
    assert len(texts) == 1
