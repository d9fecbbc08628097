"""The tape: leaves, the graph's structure, backward and grad with all their arguments."""

import pytest

import rushlight as torch
from rushlight.autograd import grad
from support import check, leaf, randleaf


class TestLeaves:
    def test_requires_grad_and_is_leaf(self):
        x = leaf([1.0])
        y = x * 2
        assert x.is_leaf
        assert x.grad_fn is None
        assert x.grad is None
        assert not y.is_leaf
        assert y.requires_grad
        assert y.grad_fn is not None
        assert torch.zeros(1).is_leaf
        assert not torch.zeros(1).requires_grad
        assert (torch.zeros(1) * 2).is_leaf

    def test_requires_grad_can_be_set_on_leaves_only(self):
        t = torch.zeros(1)
        assert t.requires_grad_() is t
        assert t.requires_grad
        t.requires_grad = False
        assert not t.requires_grad
        y = leaf([1.0]) * 2
        y.requires_grad_()
        with pytest.raises(RuntimeError, match="you can only change requires_grad flags of leaf"):
            y.requires_grad_(False)

    def test_only_floating_tensors_can_require_grad(self):
        with pytest.raises(RuntimeError, match="floating point"):
            torch.zeros(1, dtype=torch.int64).requires_grad_()
        with pytest.raises(RuntimeError, match="floating point"):
            torch.zeros(1, dtype=torch.bool, requires_grad=True)
        assert torch.zeros(1, dtype=torch.complex64, requires_grad=True).requires_grad

    def test_reading_grad_of_a_non_leaf_warns(self):
        y = leaf([1.0]) * 2
        with pytest.warns(UserWarning, match="not a leaf Tensor is being accessed"):
            assert y.grad is None

    def test_retain_grad(self):
        x = leaf([1.0, 2.0])
        y = x * 3
        y.retain_grad()
        assert y.retains_grad
        (y * y).sum().backward()
        assert y.grad.tolist() == [6, 12]
        assert not x.retains_grad
        x.retain_grad()
        assert not x.retains_grad
        with pytest.raises(RuntimeError, match="can't retain_grad"):
            torch.zeros(1).retain_grad()

    def test_retained_gradients_accumulate(self):
        y = leaf([1.0]) * 1
        y.retain_grad()
        for _ in range(2):
            y.sum().backward(retain_graph=True)
        assert y.grad.tolist() == [2]

    def test_assigning_grad_is_checked(self):
        x = leaf([1.0, 2.0, 3.0])
        x.grad = torch.ones(3, dtype=torch.float64)
        x.grad = None
        with pytest.raises(RuntimeError, match="attempting to assign a gradient of size"):
            x.grad = torch.ones(2, dtype=torch.float64)
        with pytest.raises(RuntimeError, match="dtype"):
            x.grad = torch.ones(3, dtype=torch.float32)
        with pytest.raises(RuntimeError, match="can't assign Variable as its own grad"):
            x.grad = x
        with pytest.raises(TypeError, match="expected to be a Tensor or None"):
            x.grad = 1
        assert x.grad is None
        x.grad = torch.ones(3, dtype=torch.float64)
        del x.grad
        assert x.grad is None

    def test_detach_cuts_and_shares(self):
        x = leaf([1.0, 2.0])
        d = (x * 2).detach()
        assert d.is_leaf
        assert not d.requires_grad
        assert grad((x * d).sum(), x)[0].tolist() == [2, 4]
        y = x * 2
        y.detach_()
        assert y.is_leaf
        assert not y.requires_grad


class TestGraph:
    def test_names_and_edges(self):
        x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
        loss = (x * w + 1).sum()
        node = loss.grad_fn
        assert node.name() == "SumBackward0"
        assert type(node).__name__ == "SumBackward0"
        (add, index) = node.next_functions[0]
        assert (add.name(), index) == ("AddBackward0", 0)
        mul = add.next_functions[0][0]
        assert mul.name() == "MulBackward0"
        (a, i), (b, j) = mul.next_functions
        assert type(a).__name__ == type(b).__name__ == "AccumulateGrad"
        assert i == j == 0
        assert a.name().endswith("AccumulateGrad")
        assert a.variable is x
        assert b.variable is w
        assert a.next_functions == ()

    def test_inputs_without_gradient_have_no_edge(self):
        y = leaf([1.0]) * torch.ones(1, dtype=torch.float64)
        assert y.grad_fn.next_functions[1] == (None, 0)

    def test_node_is_the_same_object_each_time(self):
        y = leaf([1.0]) * 2
        assert y.grad_fn is y.grad_fn
        assert (y + 1).grad_fn.next_functions[0][0] is y.grad_fn
        assert isinstance(y.grad_fn, torch.autograd.graph.Node)

    def test_metadata_is_a_dict_of_the_users(self):
        y = leaf([1.0]) * 2
        assert y.grad_fn.metadata == {}
        y.grad_fn.metadata["note"] = 1
        assert y.grad_fn.metadata["note"] == 1

    def test_outputs_of_one_node_are_numbered(self):
        parts = randleaf(4).unbind()
        assert [p.output_nr for p in parts] == [0, 1, 2, 3]
        assert all(p.grad_fn is parts[0].grad_fn for p in parts)

    def test_saved_tensors_can_be_read(self):
        x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
        y = x * w
        assert y.grad_fn._saved_self is x
        assert y.grad_fn._saved_other is w
        e = x.exp()
        assert e.grad_fn._saved_result.tolist() == e.tolist()
        assert x.pow(3).grad_fn._saved_exponent == 3

    def test_saved_tensors_are_gone_after_backward(self):
        y = leaf([1.0]) ** 2
        y.backward()
        with pytest.raises(RuntimeError, match="after they have already been freed"):
            y.grad_fn._saved_self

    def test_backward_on_a_graph_needs_something_that_requires_grad(self):
        with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad"):
            torch.zeros(1).backward()
        with pytest.raises(RuntimeError, match="does not require grad"):
            leaf([1.0]).detach().sum().backward()

    def test_sequence_numbers_grow(self):
        x = leaf([1.0])
        first, second = x.exp(), x.exp()
        assert first.grad_fn._sequence_nr() < second.grad_fn._sequence_nr()

    def test_what_a_node_says_of_its_gradients(self):
        y = leaf([[1.0, 2.0]]) * 2
        (entry,) = y.grad_fn._input_metadata
        assert tuple(entry.shape) == (1, 2)
        assert entry.dtype == torch.float64

    def test_the_hooks_of_a_tensor_can_be_listed(self):
        x = leaf([1.0])
        x.register_hook(print)
        x.register_post_accumulate_grad_hook(repr)
        assert list(x._backward_hooks.values()) == [print]
        assert list(x._post_accumulate_grad_hooks.values()) == [repr]

    def test_switches_for_what_rushlight_does_not_have(self):
        graph = torch.autograd.graph
        graph.set_warn_on_accumulate_grad_stream_mismatch(True)
        graph.set_override_stale_capture_stream(False)
        with pytest.raises(RuntimeError, match="memory_budget"):
            graph.region_activation_memory_budget(0.5)

    def test_grad_fn_prints_its_name(self):
        assert repr(leaf([1.0]).exp().grad_fn).startswith("<ExpBackward0")


class TestBackward:
    def test_gradients_add_up_over_calls(self):
        x = leaf([1.0, 2.0])
        for n in (1, 2, 3):
            (x * x).sum().backward()
            check(x.grad, [2.0 * n, 4.0 * n])

    def test_a_leaf_used_many_times_gets_the_sum(self):
        x = leaf(2.0)
        (x * x + x * x * x + x).backward()
        assert x.grad.item() == 4 + 12 + 1

    def test_diamond_shaped_graphs_visit_each_node_once(self):
        x = leaf(1.0)
        y = x * 2
        seen = []
        y.register_hook(lambda g: seen.append(g.item()))
        (y * 3 + y * 4).backward()
        assert seen == [7]
        assert x.grad.item() == 14

    def test_gradient_argument(self):
        x = leaf([1.0, 2.0])
        (x * x).backward(torch.tensor([1.0, 10.0], dtype=torch.float64))
        assert x.grad.tolist() == [2, 40]
        y = leaf([1.0])
        (y * 3).backward(gradient=torch.tensor([2.0], dtype=torch.float64))
        assert y.grad.item() == 6

    def test_implicit_gradient_only_for_one_element(self):
        x = leaf([1.0, 2.0])
        with pytest.raises(RuntimeError, match="implicitly created only for scalar outputs"):
            (x * 2).backward()
        (x[:1] * 2).reshape(1, 1, 1).backward()
        assert x.grad.tolist() == [2, 0]

    def test_gradient_of_wrong_shape_or_kind_raises(self):
        x = leaf([1.0, 2.0])
        with pytest.raises(RuntimeError, match="Mismatch in shape"):
            (x * 2).backward(torch.ones(3, dtype=torch.float64))
        with pytest.raises(TypeError):
            (x * 2).backward("x")
        assert x.grad is None

    def test_backward_inside_no_grad_works(self):
        x = leaf(3.0)
        y = x * x
        with torch.no_grad():
            y.backward()
        assert x.grad.item() == 6
        assert not x.grad.requires_grad

    def test_second_backward_needs_retain_graph(self):
        x = leaf(3.0)
        y = x * x
        y.backward(retain_graph=True)
        y.backward()
        assert x.grad.item() == 12
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            y.backward()

    def test_graph_without_saved_tensors_can_run_twice(self):
        x = leaf([1.0])
        y = (x + x).sum()
        y.backward()
        y.backward()
        assert x.grad.item() == 4

    def test_inputs_argument_limits_where_gradients_go(self):
        x, w = leaf(2.0), leaf(3.0)
        y = x * w
        z = y * y
        z.backward(inputs=[x], retain_graph=True)
        assert x.grad.item() == 36
        assert w.grad is None
        z.backward(inputs=w)
        assert w.grad.item() == 24
        assert x.grad.item() == 36

    def test_inputs_may_be_non_leaves(self):
        x = leaf(2.0)
        y = x * 3
        (y * y).backward(inputs=[y])
        assert y.grad.item() == 12
        assert x.grad is None

    def test_non_leaves_given_as_inputs_keep_their_gradients_from_then_on(self):
        x = leaf(2.0)
        y = x * 3
        z = y * y
        z.backward(inputs=[y], retain_graph=True)
        assert y.retains_grad
        z.backward(inputs=[y], retain_graph=True)
        z.backward()
        assert y.grad.item() == 36
        assert x.grad.item() == 36

    def test_empty_inputs_raise(self):
        with pytest.raises(RuntimeError, match="inputs"):
            leaf(1.0).backward(inputs=[])

    def test_several_roots(self):
        x = leaf([1.0, 2.0])
        y, z = (x * 2).sum(), x * 3
        torch.autograd.backward([y, z], [None, torch.ones(2, dtype=torch.float64)])
        assert x.grad.tolist() == [5, 5]
        torch.autograd.backward((x * 1).sum())
        assert x.grad.tolist() == [6, 6]

    def test_backward_on_a_leaf(self):
        x = leaf(2.0)
        x.backward()
        assert x.grad.item() == 1

    def test_order_is_latest_forward_first(self):
        order = []
        x = leaf(1.0)
        a, b = x * 2, x * 3
        a.register_hook(lambda g: order.append("a"))
        b.register_hook(lambda g: order.append("b"))
        (b + a).backward()
        assert order == ["b", "a"]

    def test_gradient_is_summed_to_the_shape_of_the_input(self):
        row, column = leaf([[1.0, 2.0, 3.0]]), leaf([[1.0], [2.0]])
        scalar = leaf(2.0)
        (row * column * scalar).sum().backward()
        check(row.grad, [[6.0, 6.0, 6.0]])
        check(column.grad, [[12.0], [12.0]])
        check(scalar.grad, 18.0)

    def test_gradient_has_the_dtype_of_the_input(self):
        x = leaf([1.0], torch.float32)
        (x.double() * leaf([2.0])).sum().backward()
        assert x.grad.dtype == torch.float32


class TestGrad:
    def test_returns_a_tuple_and_leaves_grad_alone(self):
        x, w = leaf(2.0), leaf(3.0)
        gx, gw = grad(x * w, [x, w])
        assert (gx.item(), gw.item()) == (3, 2)
        assert x.grad is None
        assert isinstance(grad(x * w, x), tuple)

    def test_grad_outputs_and_several_outputs(self):
        x = leaf([1.0, 2.0])
        v = torch.tensor([1.0, 10.0], dtype=torch.float64)
        assert grad(x * x, x, v)[0].tolist() == [2, 40]
        assert grad([x.sum(), (x * x).sum()], x)[0].tolist() == [3, 5]
        y = (x * x).sum()
        assert grad([y, y], x)[0].tolist() == [4, 8]

    def test_same_input_twice_and_leaf_as_output(self):
        x = leaf(3.0)
        a, b = grad(x * x, [x, x])
        assert a.item() == b.item() == 6
        assert grad(x, x)[0].item() == 1
        assert grad(x.sum(), x)[0].item() == 1

    def test_intermediate_inputs(self):
        x = leaf(2.0)
        y = x * 3
        z = y * y
        assert grad(z, y, retain_graph=True)[0].item() == 12
        assert [g.item() for g in grad(z, [x, y])] == [36, 12]

    def test_unused_inputs(self):
        x, w = leaf(2.0), leaf(3.0)
        with pytest.raises(RuntimeError, match="at index 1 appears to not have been used"):
            grad(x * 2, [x, w])
        assert grad(x * 2, [x, w], allow_unused=True)[1] is None
        zero = grad(x * 2, [x, w], materialize_grads=True)[1]
        assert zero.item() == 0
        assert not zero.requires_grad
        with pytest.raises(ValueError, match="allow_unused"):
            grad(x * 2, [w], allow_unused=False, materialize_grads=True)

    def test_inputs_must_not_be_empty(self):
        with pytest.raises(RuntimeError, match=r"`grad\(\)` cannot be empty"):
            grad(leaf(1.0) * 2, [])

    def test_inputs_must_require_grad(self):
        with pytest.raises(RuntimeError, match="does not require grad"):
            grad(leaf(1.0) * 2, torch.zeros(1))

    def test_shape_of_grad_outputs_must_match(self):
        x = leaf([1.0, 2.0])
        with pytest.raises(RuntimeError, match="Mismatch in shape"):
            grad(x * 2, x, torch.ones(3, dtype=torch.float64))

    def test_create_graph_implies_retain_graph(self):
        x = leaf(2.0)
        y = x**3
        (g,) = grad(y, x, create_graph=True)
        assert g.requires_grad
        assert grad(y, x)[0].item() == 12

    def test_higher_orders(self):
        x = leaf(2.0)
        y = x**5
        for expected in (80.0, 160.0, 240.0, 240.0, 120.0, 0.0):
            (y,) = grad(y, x, create_graph=True)
            assert y.item() == pytest.approx(expected)

    def test_double_backward_of_a_product(self):
        x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
        (g,) = grad((x * x * w).sum(), x, create_graph=True)
        g.sum().backward()
        check(w.grad, [2.0, 4.0])
        check(x.grad, [6.0, 8.0])

    def test_grad_mode_in_backward_follows_create_graph(self):
        x = leaf(2.0)
        y = x * x
        modes = []
        y.register_hook(lambda g: modes.append(torch.is_grad_enabled()))
        grad(y, x, retain_graph=True)
        with torch.no_grad():
            grad(y, x, create_graph=True)
        assert modes == [False, True]

    def test_several_inputs_of_one_node(self):
        x = leaf([1.0, 2.0, 3.0])
        first, second = x.split([1, 2])
        y = (first * 2).sum() + (second * second).sum()
        one, whole, two, again = grad(y, (first, x, second, first))
        check(one, [2.0])
        check(two, [4.0, 6.0])
        check(again, [2.0])
        check(whole, [2.0, 4.0, 6.0])

    @pytest.mark.parametrize("create_graph", [False, True])
    def test_results_can_be_written_to(self, create_graph):
        x = leaf([[1.0, 2.0], [3.0, 4.0]])
        for y, value in ((x.mean(), 0.5), (x.sum(), 2.0), (x.mean(0).sum(), 1.0)):
            (g,) = grad(y, x, create_graph=create_graph)
            g.mul_(2)[0, 0] = 7
            check(g, [[7.0, value], [value, value]])


class TestEdges:
    """GradientEdge stands for a tensor wherever gradients start or end."""

    edge = staticmethod(torch.autograd.graph.get_gradient_edge)

    def test_an_edge_is_a_node_and_a_number(self):
        x = leaf([1.0, 2.0])
        a, b = x.unbind()
        assert self.edge(b).node is b.grad_fn
        assert self.edge(b).output_nr == 1
        assert type(self.edge(x).node).__name__ == "AccumulateGrad"
        assert isinstance(self.edge(a), torch.autograd.graph.GradientEdge)

    def test_as_inputs_and_outputs(self):
        x = leaf(2.0)
        y = x * 3
        z = y * y
        one = torch.ones((), dtype=torch.float64)
        gy, gx = grad(self.edge(z), [self.edge(y), self.edge(x)], one)
        assert (gy.item(), gx.item()) == (12, 36)

    def test_the_tensor_need_not_live(self):
        x = leaf(2.0)
        y = x * 3
        edge = self.edge(y)
        z = y * y
        del y
        assert grad(z, [edge])[0].item() == 12

    def test_backward_from_and_to_edges(self):
        x, w = leaf(2.0), leaf(3.0)
        one = torch.ones((), dtype=torch.float64)
        torch.autograd.backward(self.edge(x * w), one, inputs=[self.edge(x)])
        assert x.grad.item() == 3
        assert w.grad is None

    def test_tensors_without_gradient_have_none(self):
        with pytest.raises(RuntimeError, match="not possible to get the gradient edge"):
            self.edge(torch.zeros(1))


class TestDicts:
    def test_grad_answers_a_dict_with_a_dict(self):
        x, w = leaf(2.0), leaf(3.0)
        found = grad(x * w, {"x": x, "w": w})
        assert {k: v.item() for k, v in found.items()} == {"x": 3, "w": 2}

    def test_backward_takes_the_values_of_a_dict(self):
        x, w = leaf(2.0), leaf(3.0)
        (x * w).backward(inputs={"x": x})
        assert x.grad.item() == 3
        assert w.grad is None

    def test_other_mappings_are_refused(self):
        from types import MappingProxyType

        x = leaf(2.0)
        with pytest.raises(TypeError):
            (x * 2).backward(inputs=MappingProxyType({"x": x}))


class TestBatchedGrads:
    def test_one_row_per_gradient(self):
        x = leaf([1.0, 2.0, 3.0])
        (jacobian,) = grad(x**2, x, torch.eye(3, dtype=torch.float64), is_grads_batched=True)
        check(jacobian, [[2.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 6.0]])


class TestDeprecatedNames:
    def test_grad_variables(self):
        x = leaf([1.0])
        v = torch.ones(1, dtype=torch.float64)
        with pytest.warns(FutureWarning, match="grad_variables"):
            torch.autograd.backward(x * 2, grad_variables=v)
        assert x.grad.item() == 2

    def test_variable(self):
        from rushlight.autograd.variable import Variable, VariableMeta

        assert torch.autograd.Variable is Variable
        assert isinstance(torch.zeros(1), Variable)
        assert isinstance(Variable, VariableMeta)
        x = Variable(torch.ones(2), requires_grad=True)
        assert x.requires_grad
        with pytest.raises(RuntimeError, match="deprecated"):
            torch.autograd.variable(3)

    def test_only_inputs_is_accepted(self):
        x = leaf(2.0)
        assert grad(x * 3, x, only_inputs=True)[0].item() == 3


def test_training_loop_reaches_the_solution():
    truth = torch.tensor([[2.0], [-3.0]], dtype=torch.float64)
    data = torch.tensor([[1.0, 2.0], [3.0, -1.0], [0.5, 0.5], [-2.0, 1.0]], dtype=torch.float64)
    w = torch.zeros(2, 1, dtype=torch.float64, requires_grad=True)
    for _ in range(200):
        loss = ((data @ w - data @ truth) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
        w.grad = None
    check(w, truth, atol=1e-6)


def test_gradcheck_accepts_right_and_rejects_wrong_derivatives():
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * a

        @staticmethod
        def backward(ctx, g):
            return g

    x = randleaf(3)
    assert torch.autograd.gradcheck(lambda t: (t.sin() * t).sum(), (x,))
    assert torch.autograd.gradgradcheck(lambda t: (t.exp() * t).sum(), (x,))
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        torch.autograd.gradcheck(Wrong.apply, (x,))
    assert not torch.autograd.gradcheck(Wrong.apply, (x,), raise_exception=False)


class TestLeafThatNoLongerRequiresGrad:
    def test_it_takes_no_gradient(self):
        w, other = leaf([1.0, 2.0]), leaf([3.0, 4.0])
        y = (w * other).sum()
        w.requires_grad_(False)
        y.backward()
        assert w.grad is None
        check(other.grad, [1.0, 2.0])

    def test_its_hooks_see_the_pass(self):
        w, calls = leaf([1.0, 2.0]), []
        w.register_hook(lambda g: calls.append(g.tolist()))
        w.register_post_accumulate_grad_hook(lambda p: calls.append(p.grad))
        y = (w * 3).sum()
        w.requires_grad_(False)
        y.backward()
        assert calls == [[3.0, 3.0], None]

    def test_one_that_requires_it_again_takes_it(self):
        w = leaf([1.0, 2.0])
        y = (w * 3).sum()
        w.requires_grad_(False)
        w.requires_grad_()
        y.backward()
        check(w.grad, [3.0, 3.0])


def test_grad_has_a_quiet_name():
    p, g = leaf([1.0, 2.0]), torch.tensor([3.0, 4.0], dtype=torch.float64)
    p._grad = g
    assert p.grad is g
    assert p._grad is g
    p._grad = None
    assert p.grad is None
    with pytest.raises(RuntimeError, match="a gradient of size"):
        p._grad = torch.ones(3, dtype=torch.float64)
    assert (p * 2)._grad is None  # no warning, unlike .grad


def test_a_tensor_that_requires_grad_and_leads_nowhere():
    """A view without recording of a tensor with a history: rules find nothing saved."""
    x = torch.tensor([[-0.6, 1.0, -0.2]])
    w = torch.tensor([1.3], requires_grad=True)
    x[x > 0] = w.sum()
    with torch.no_grad():
        view = x[...]
    for norm in (torch.nn.functional.rms_norm, torch.nn.functional.layer_norm):
        norm(view, (3,)).backward(torch.ones(1, 3))
    torch.nn.functional.linear(view, torch.ones(2, 3)).sum().backward()
    assert w.grad is None
