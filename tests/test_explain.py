"""explain() and grad_status: why a tensor has, or lacks, a history and a gradient."""

import inspect

import pytest

import rushlight as torch
from support import leaf


def here():
    """file:line of the caller."""
    frame = inspect.currentframe().f_back
    return f"{__file__}:{frame.f_lineno}"


class TestExplain:
    def test_a_recorded_tensor_names_its_operation_and_line(self):
        y, line = leaf([1.0]).exp(), here()
        text = torch.explain(y)
        assert "output 0 of ExpBackward0" in text
        assert line in text

    def test_a_leaf(self):
        text = torch.explain(leaf([1.0, 2.0]))
        assert "float64 tensor of shape [2]" in text
        assert "a leaf: gradients are added to its .grad" in text

    def test_a_plain_tensor(self):
        assert "nothing it was computed from requires grad" in torch.explain(torch.zeros(2) * 3)

    def test_no_grad_is_named_with_the_line_of_the_operation_and_of_the_block(self):
        with torch.no_grad():
            block = here().rsplit(":", 1)[0] + f":{int(here().rsplit(':', 1)[1]) - 1}"
            y, line = leaf([1.0]) * 2, here()
        text = torch.explain(y)
        assert "no_grad" in text
        assert line in text
        assert block in text

    def test_what_is_computed_from_a_cut_tensor_remembers_the_cut(self):
        with torch.no_grad():
            y, line = leaf([1.0]) * 2, here()
        assert line in torch.explain((y + 1).sum())

    def test_inference_mode(self):
        x = leaf([1.0])
        with torch.inference_mode():
            y, line = x * 2, here()
        text = torch.explain(y)
        assert "inference_mode" in text
        assert line in text

    @pytest.mark.parametrize(
        ("cut", "word"),
        [
            (lambda y: y.detach(), "detach()"),
            (lambda y: y.data, ".data"),
            (lambda y: y > 0, "gt has no derivative"),
            (lambda y: y.argmax(), "argmax has no derivative"),
            (lambda y: y.detach().clone() + 1, "detach()"),
        ],
    )
    def test_other_ways_out_of_the_graph(self, cut, word):
        y = cut(leaf([1.0, 2.0]) * 2)
        assert word in torch.explain(y)
        assert __file__ in torch.explain(y)

    def test_tensors_copied_by_tensor(self):
        x = leaf([1.0, 2.0])
        y, line = torch.tensor([x[0], 1.0]), here()
        text = torch.explain(y)
        assert "tensor() copied the values" in text
        assert line in text
        assert "copied the values" in torch.explain(torch.as_tensor([x[0]]))

    def test_a_cut_whose_record_was_dropped_is_still_a_cut(self):
        x = leaf([1.0])
        y = x.detach()
        for _ in range(20_000):
            x.detach()
        text = torch.explain(y)
        assert "nothing it was computed from requires grad" not in text
        assert "cut" in text

    def test_only_tensors_can_be_explained(self):
        with pytest.raises(TypeError, match="explain"):
            torch.explain(3)


class TestErrorsThatExplain:
    def test_backward_on_a_cut_tensor_names_the_cut(self):
        with torch.no_grad():
            y, line = leaf([1.0]) * 2, here()
        with pytest.raises(RuntimeError, match="does not require grad") as info:
            (y * 3).sum().backward()
        assert "no_grad" in str(info.value)
        assert line in str(info.value)

    def test_backward_on_a_plain_tensor_says_what_to_do(self):
        with pytest.raises(RuntimeError, match="requires_grad_"):
            torch.zeros(1).backward()

    def test_grad_of_an_unused_input_explains_it(self):
        x, w = leaf(1.0), leaf(2.0)
        cut = w.detach().requires_grad_()
        with pytest.raises(RuntimeError, match="appears to not have been used") as info:
            torch.autograd.grad(x * cut, w)
        assert "a leaf" in str(info.value)
        with pytest.raises(RuntimeError, match=r"detach\(\)"):
            torch.autograd.grad(x * 2, cut)

    @pytest.mark.parametrize("cut_by", ["detach", "data", "no_grad"])
    def test_an_unused_input_names_the_cut_of_what_elements_were_computed_from(self, cut_by):
        x, w = leaf(1.0), leaf(2.0)
        y = x * 3
        if cut_by == "detach":
            cut, line = y.detach(), here()
        elif cut_by == "data":
            cut, line = y.data, here()
        else:
            with torch.no_grad():
                cut, line = y.exp(), here()
        with pytest.raises(RuntimeError, match="was left out of the graph") as info:
            torch.autograd.grad((cut + w).exp() * 2, x)
        assert line in str(info.value)


class TestGradStatus:
    def test_a_leaf_before_and_after_backward(self):
        x = leaf([1.0])
        assert "no backward pass has reached it" in x.grad_status
        (x * 2).sum().backward()
        assert x.grad_status.startswith("it has a gradient")
        x.grad = None
        assert "no backward pass has reached it" in x.grad_status

    def test_a_non_leaf_names_its_maker_and_the_way_out(self):
        y, line = leaf([1.0]) * 2, here()
        assert "MulBackward0" in y.grad_status
        assert line in y.grad_status
        assert "retain_grad()" in y.grad_status

    def test_a_retained_gradient(self):
        y = leaf([1.0]) * 2
        y.retain_grad()
        assert "no backward pass has reached it yet" in y.grad_status
        y.sum().backward()
        assert "it has a gradient" in y.grad_status

    def test_tensors_outside_the_graph(self):
        assert "requires_grad_()" in torch.zeros(1).grad_status
        assert "detach()" in (leaf([1.0]) * 2).detach().grad_status

    def test_reading_it_warns_of_nothing_and_changes_nothing(self):
        y = leaf([1.0]) * 2
        version, node = y._version, y.grad_fn
        y.grad_status
        assert (y._version, y.grad_fn) == (version, node)
