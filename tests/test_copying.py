"""copy, deepcopy and pickle: one policy for all three.

Values, dtype, strides, requires_grad, .grad, class and attributes are kept. History never is:
deepcopy refuses a tensor with history; of the others the copy is a leaf, and a warning says so.
"""

import copy
import pickle
import warnings

import pytest

import rushlight as torch
from support import leaf, values

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128,
    torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool,
]  # fmt: skip
LOST = "copies values, never history"


def pickled(t):
    return pickle.loads(pickle.dumps(t))


WAYS = {"copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": pickled}
every_way = pytest.mark.parametrize("again", WAYS.values(), ids=WAYS)


class Marked(torch.Tensor):
    pass


@every_way
class TestWhatIsKept:
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_values_dtype_and_strides(self, again, dtype):
        t = torch.tensor([[1, 0, 1], [0, 1, 1]], dtype=dtype).t()
        u = again(t)
        assert u.dtype == dtype
        assert u.stride() == (1, 3)
        assert u.tolist() == t.tolist()

    @pytest.mark.parametrize("shape", [(), (0,), (0, 3), (2, 3)])
    def test_every_shape(self, again, shape):
        assert again(torch.ones(shape)).shape == shape

    def test_requires_grad_of_a_leaf_without_a_warning(self, again):
        x = again(leaf([1.0, 2.0]))
        assert x.requires_grad
        assert x.is_leaf
        assert not again(torch.zeros(1)).requires_grad

    def test_the_gradient(self, again):
        x = leaf([1.0, 2.0])
        (x * x).sum().backward()
        y = again(x)
        assert y.grad.tolist() == [2, 4]
        assert (y.grad is x.grad) == (again is copy.copy)

    def test_a_gradient_of_another_dtype(self, again):
        x = leaf([1.0], torch.bfloat16)
        x.grad_dtype = torch.float32
        x.sum().backward()
        y = again(x)
        assert y.grad_dtype == y.grad.dtype == torch.float32

    def test_class_and_attributes(self, again):
        t = torch.ones(2).as_subclass(Marked)
        t.note = "kept"
        u = again(t)
        assert type(u) is Marked
        assert u.note == "kept"

    def test_parameters(self, again):
        p = torch.nn.Parameter(torch.ones(2))
        (p * 3).sum().backward()
        q = again(p)
        assert type(q) is torch.nn.Parameter
        assert q.requires_grad
        assert q.grad is None
        assert p.grad.tolist() == [3, 3]


@pytest.mark.parametrize("again", [copy.copy, pickled], ids=["copy", "pickle"])
class TestHistory:
    def copied(self, again, t):
        with pytest.warns(UserWarning, match=LOST) as caught:
            u = again(t)
        assert len(caught) == 1
        return u, caught[0]

    def test_the_copy_is_a_leaf_with_the_same_flag(self, again):
        x = leaf([1.0, 2.0])
        y, _ = self.copied(again, x * 3)
        assert y.is_leaf
        assert y.requires_grad
        assert y.tolist() == [3, 6]
        (y * 5).sum().backward()
        assert y.grad.tolist() == [5, 5]
        assert x.grad is None

    def test_the_warning_names_the_operation_and_its_line_and_points_at_the_copy(self, again):
        y = leaf([1.0]).exp()
        _, warning = self.copied(again, y)
        text = str(warning.message)
        assert "ExpBackward0" in text
        assert f"{__file__}:{y.grad_fn._where[1]}" in text
        assert warning.filename == __file__

    def test_explain_tells_of_the_copy(self, again):
        y, _ = self.copied(again, leaf([1.0]) * 2)
        assert "no gradient goes further back" in torch.explain(y)

    def test_a_retained_gradient_is_kept(self, again):
        y = leaf([1.0]) * 2
        y.retain_grad()
        (y * 3).sum().backward()
        assert self.copied(again, y)[0].grad.tolist() == [3]

    def test_a_gradient_with_history_loses_it_too(self, again):
        x = leaf(2.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (x**3).backward(create_graph=True)
            y = again(x)
        assert y.grad.item() == 12
        assert y.grad.requires_grad
        assert y.grad.is_leaf != (again is copy.copy)

    def test_views_with_history(self, again):
        y, _ = self.copied(again, (leaf([1.0, 2.0, 3.0]) * 2)[1:])
        assert y.tolist() == [4, 6]
        assert y.is_leaf


class TestDeepcopy:
    REFUSED = "Only Tensors created explicitly by the user"

    @pytest.mark.parametrize("pick", [lambda t: t, lambda t: t[1:], lambda t: [t.detach(), t]])
    def test_history_is_not_dropped(self, pick):
        with pytest.raises(RuntimeError, match=self.REFUSED):
            copy.deepcopy(pick(leaf([1.0, 2.0, 3.0]) * 2))

    def test_the_error_names_the_operation_and_its_line(self):
        y = leaf([1.0]).exp()
        with pytest.raises(RuntimeError, match="ExpBackward0") as caught:
            copy.deepcopy(y)
        assert f"{__file__}:{y.grad_fn._where[1]}" in str(caught.value)
        assert copy.deepcopy(y.detach()).tolist() == y.tolist()

    @pytest.mark.filterwarnings("ignore:Using backward")
    def test_nor_is_that_of_a_gradient(self):
        x = leaf(2.0)
        (x**3).backward(create_graph=True)
        with pytest.raises(RuntimeError, match=self.REFUSED):
            copy.deepcopy(x)

    def test_a_module_that_holds_a_result(self):
        module = torch.nn.Linear(1, 1)
        module.seen = module.weight * 2
        with pytest.raises(RuntimeError, match="MulBackward0"):
            copy.deepcopy(module)

    def test_memory_is_its_own(self):
        x = leaf([1.0, 2.0])
        (x * x).sum().backward()
        y = copy.deepcopy(x)
        assert y.data_ptr() != x.data_ptr()
        assert y.grad.data_ptr() != x.grad.data_ptr()

    def test_sharing_and_identity_are_kept(self):
        t = torch.zeros(4)
        a, b, c = copy.deepcopy([t, t[:2], t])
        assert a is c
        b.fill_(1)
        assert a.tolist() == [1, 1, 0, 0]
        assert t.tolist() == [0, 0, 0, 0]

    def test_the_gradient_among_the_copied_stays_the_gradient(self):
        x = leaf([1.0])
        (x * 2).sum().backward()
        y, g = copy.deepcopy([x, x.grad])
        assert y.grad is g

    def test_attributes_that_lead_back_to_the_tensor(self):
        t = torch.zeros(1)
        t.around = [t]
        u = copy.deepcopy(t)
        assert u.around[0] is u

    def test_shallow_copies_share_memory(self):
        t = torch.zeros(2)
        copy.copy(t)[0] = 1
        assert t.tolist() == [1, 0]


class TestPickle:
    @pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
    def test_every_protocol(self, protocol):
        x = leaf([1.0, 2.0])
        (x * 3).sum().backward()
        y = pickle.loads(pickle.dumps(x, protocol))
        assert (y.tolist(), y.grad.tolist(), y.requires_grad) == ([1, 2], [3, 3], True)

    def test_attributes_that_lead_back_to_the_tensor(self):
        t = torch.zeros(1)
        t.around = [t]
        u = pickled(t)
        assert u.around[0] is u

    def test_one_tensor_twice_stays_one(self):
        t = torch.zeros(1)
        a, b = pickled([t, t])
        assert a is b

    def test_sizes_and_devices(self):
        size = torch.Size([2, 3])
        again = pickled(size)
        assert again == size
        assert isinstance(again, torch.Size)
        assert pickled(torch.device("cpu")) == torch.device("cpu")

    def test_corrupt_pickles_raise_and_do_not_crash(self):
        good = pickle.dumps(torch.arange(10.0))
        for cut in range(0, len(good) - 1, 7):
            with pytest.raises(Exception):  # noqa: B017
                pickle.loads(good[:cut])
        assert values(pickle.loads(good)).tolist() == list(range(10))
