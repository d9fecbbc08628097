"""What is masked out enters no result and no gradient."""

import copy
import pickle

import pytest

import rushlight as torch
from rushlight import masked

NAN = float("nan")
DATA = [[1.0, NAN, 2.0], [NAN, 4.0, 5.0]]
MASK = [[True, False, True], [False, True, True]]


def both(grad=False):
    data = torch.tensor(DATA, dtype=torch.float64, requires_grad=grad)
    return data, torch.tensor(MASK)


def selected(row):
    return torch.tensor([v for v, m in zip(DATA[row], MASK[row], strict=True) if m]).double()


@pytest.mark.parametrize("name", [
    "sum", "mean", "prod", "amax", "amin", "var", "std", "norm", "logsumexp", "median",
])  # fmt: skip
def test_reductions_are_those_of_the_selected_elements(name):
    data, mask = both(True)
    given = (2.0, 1) if name == "norm" else (1,)
    found = getattr(masked, name)(data, *given, mask=mask)
    plain = torch.linalg.vector_norm if name == "norm" else getattr(torch, name)
    for row in range(2):
        rest = (0,) if name == "logsumexp" else ()
        torch.testing.assert_close(found[row], plain(selected(row), *rest))
    found.sum().backward()
    assert not data.grad.isnan().any()
    assert (data.grad[~mask] == 0).all()


def test_normalisations_leave_masked_elements_out():
    data, mask = both()
    for name in ("softmax", "softmin"):
        found = getattr(masked, name)(data, 1, mask=mask)
        assert found.sum(1).tolist() == pytest.approx([1.0, 1.0])
        assert (found[~mask] == 0).all()
    assert masked.normalize(data, 2, 1, mask=mask).square().sum(1).tolist() == pytest.approx([1, 1])
    assert masked.cumsum(data, 1, mask=mask)[:, -1].tolist() == [3, 9]


def test_masked_tensors_compute_with_what_is_specified():
    data, mask = both(True)
    x = masked.as_masked_tensor(data, mask)
    y = (x * x).sqrt() + 1
    assert isinstance(y, masked.MaskedTensor)
    assert y.get_mask().equal(mask)
    assert y.sum().item() == pytest.approx(16)
    y.sum(1).amax().backward()
    assert data.grad.tolist() == [[0, 0, 0], [0, 1, 1]]


def test_masked_leaves_have_masked_gradients():
    data, mask = both()
    x = masked.masked_tensor(data, mask, requires_grad=True)
    (x * x).sum().backward()
    assert isinstance(x.grad, masked.MaskedTensor)
    assert x.grad.to_tensor(0).tolist() == [[2, 0, 4], [0, 8, 10]]
    (x * x).sum().backward()
    assert x.grad.to_tensor(0).tolist() == [[4, 0, 8], [0, 16, 20]]


def test_masks_follow_the_elements():
    data, mask = both()
    x = masked.masked_tensor(data, mask)
    assert x.t().get_mask().equal(mask.t())
    assert x[1].get_mask().equal(mask[1])
    assert torch.cat([x, x], 1).get_mask().equal(torch.cat([mask, mask], 1))
    assert x.reshape(6).get_mask().equal(mask.reshape(6))
    assert x.sum(1).get_mask().tolist() == [True, True]
    none = masked.masked_tensor(data, torch.zeros_like(mask))
    assert none.sum(1).get_mask().tolist() == [False, False]
    assert repr(none.sum()) == "MaskedTensor(--, False)"


def test_copies():
    data, mask = both()
    x = masked.masked_tensor(data, mask)
    for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.clone()):
        assert other.get_mask().equal(mask)
        assert other.to_tensor(0).equal(x.to_tensor(0))


def test_what_stands_for_the_parts_is_never_shown_or_changed():
    x = torch.masked.masked_tensor(torch.ones(2, 2), torch.eye(2) > 0)
    for call in (
        lambda: x.resize_(2),
        lambda: x.set_(torch.ones(2)),
        lambda: x.t_(),
        lambda: x.__array__(),
        lambda: torch.ones(2, 2).copy_(x),
    ):
        with pytest.raises(RuntimeError):
            call()
    with pytest.raises(BufferError, match="layout other than"):
        torch.from_dlpack(x)
    with pytest.warns(UserWarning, match="copy construct"):
        assert torch.tensor(x).get_mask().equal(x.get_mask())


def test_mistakes_are_explained():
    data, mask = both()
    x = masked.masked_tensor(data, mask)
    with pytest.raises(ValueError, match="Input masks must match"):
        x + masked.masked_tensor(data, ~mask)
    with pytest.raises(ValueError, match="must equal"):
        masked.masked_tensor(data, mask[0])
    with pytest.raises(TypeError, match="dtype bool"):
        masked.masked_tensor(data, data)
    with pytest.raises(NotImplementedError, match=r"x\.get_data\(\)"):
        torch.fft.fft(x)
    with pytest.warns(UserWarning, match="not recommended"):
        masked.MaskedTensor(data.clone().requires_grad_(), mask)
