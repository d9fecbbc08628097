"""Grad modes: contexts, decorators, generators, threads, and inference mode's tensors."""

import threading

import pytest

import rushlight as torch
from support import leaf


def recorded():
    """Whether an operation made here would be recorded."""
    return (leaf(1.0) * 2).requires_grad


class TestContexts:
    def test_no_grad_stops_recording_and_restores(self):
        assert recorded()
        assert torch.is_grad_enabled()
        with torch.no_grad():
            assert not recorded()
            assert not torch.is_grad_enabled()
            with torch.enable_grad():
                assert recorded()
                with torch.no_grad():
                    assert not recorded()
                assert recorded()
            assert not recorded()
        assert recorded()

    def test_results_under_no_grad_are_leaves(self):
        with torch.no_grad():
            y = leaf(1.0) * 2
        assert y.is_leaf
        assert y.grad_fn is None
        y.requires_grad_()
        (y * 3).backward()
        assert y.grad.item() == 3

    def test_factories_may_require_grad_under_no_grad(self):
        with torch.no_grad():
            assert torch.zeros(1, requires_grad=True).requires_grad

    def test_an_exception_restores_the_mode(self):
        with pytest.raises(ZeroDivisionError), torch.no_grad():
            1 / 0
        assert recorded()

    def test_one_context_object_can_be_entered_again(self):
        off = torch.no_grad()
        for _ in range(2):
            with off:
                assert not recorded()
            assert recorded()

    @pytest.mark.parametrize("mode", [True, False])
    def test_set_grad_enabled_as_a_context(self, mode):
        with torch.set_grad_enabled(mode):
            assert recorded() is mode
        assert recorded()

    def test_set_grad_enabled_as_a_function_persists(self):
        try:
            torch.set_grad_enabled(False)
            assert not recorded()
        finally:
            torch.set_grad_enabled(True)
        assert recorded()

    def test_names_live_in_autograd_too(self):
        assert torch.autograd.no_grad is torch.no_grad
        assert torch.autograd.enable_grad is torch.enable_grad
        assert torch.autograd.grad_mode.set_grad_enabled is torch.set_grad_enabled

    def test_no_grad_updates_leaves_in_place(self):
        x = leaf([1.0])
        with torch.no_grad():
            x.add_(1)
            x[0] = x[0] * 5
        assert x.tolist() == [10]
        assert x.requires_grad
        assert x.is_leaf

    def test_views_of_a_leaf_under_no_grad_have_no_history(self):
        x = leaf([1.0, 2.0])
        with torch.no_grad():
            v = x.view(2, 1)
        assert v._is_view()
        assert v.grad_fn is None


class TestDecorators:
    def test_functions(self):
        @torch.no_grad()
        def off():
            """Says whether it records."""
            return recorded()

        @torch.no_grad
        def bare():
            return recorded()

        assert off() is False
        assert bare() is False
        assert off.__name__ == "off"
        assert off.__doc__ == "Says whether it records."
        assert recorded()

    def test_enable_grad_and_set_grad_enabled(self):
        @torch.enable_grad()
        def on():
            return recorded()

        @torch.set_grad_enabled(False)
        def off():
            return recorded()

        torch.set_grad_enabled(True)
        with torch.no_grad():
            assert on() is True
        assert off() is False
        assert recorded()

    def test_recursion(self):
        @torch.no_grad()
        def down(n):
            return recorded() if n == 0 else down(n - 1)

        assert down(5) is False
        assert recorded()

    def test_generators_run_each_step_in_the_mode_and_leave_the_caller_alone(self):
        @torch.no_grad()
        def steps():
            received = yield recorded()
            while received is not None:
                received = yield (received, recorded())

        g = steps()
        assert next(g) is False
        assert recorded()
        assert g.send("a") == ("a", False)
        assert recorded()
        with torch.enable_grad():
            assert g.send("b") == ("b", False)
        with pytest.raises(StopIteration):
            g.send(None)
        assert recorded()

    def test_generators_receive_exceptions_and_close_in_the_mode(self):
        log = []

        @torch.no_grad()
        def steps():
            try:
                yield 1
            except ValueError:
                log.append(recorded())
                yield 2
            finally:
                log.append(recorded())

        g = steps()
        next(g)
        assert g.throw(ValueError()) == 2
        g.close()
        assert log == [False, False]
        assert recorded()

    def test_exceptions_in_decorated_functions_restore_the_mode(self):
        @torch.no_grad()
        def fails():
            raise KeyError("x")

        with pytest.raises(KeyError):
            fails()
        assert recorded()


class TestThreads:
    def run(self, f):
        out = []
        thread = threading.Thread(target=lambda: out.append(f()))
        thread.start()
        thread.join()
        return out[0]

    def test_a_new_thread_starts_with_grad_enabled(self):
        with torch.no_grad():
            assert self.run(recorded) is True
        with torch.inference_mode():
            assert self.run(torch.is_inference_mode_enabled) is False

    def test_a_mode_set_in_a_thread_stays_there(self):
        self.run(lambda: torch.set_grad_enabled(False))
        assert recorded()


class TestInferenceMode:
    def test_state_and_nesting(self):
        assert not torch.is_inference_mode_enabled()
        with torch.inference_mode():
            assert torch.is_inference_mode_enabled()
            assert not torch.is_grad_enabled()
            with torch.enable_grad():
                assert not recorded_without_saving()
            with torch.inference_mode(False):
                assert recorded()
            with torch.inference_mode(mode=True):
                assert torch.is_inference_mode_enabled()
        assert recorded()

    def test_tensors_made_inside_are_inference_tensors(self):
        with torch.inference_mode():
            t = torch.zeros(2)
            u = t + 1
        assert t.is_inference()
        assert u.is_inference()
        assert not torch.zeros(1).is_inference()
        assert not t.clone().is_inference()
        assert not (t * 2).is_inference()
        assert t.view(2, 1).is_inference()

    def test_views_of_normal_tensors_made_inside_are_normal(self):
        t = torch.zeros(2)
        with torch.inference_mode():
            assert not t.view(2, 1).is_inference()

    def test_saving_an_inference_tensor_for_backward_raises(self):
        with torch.inference_mode():
            t = torch.ones(1, dtype=torch.float64)
        x = leaf([1.0])
        assert (x + t).requires_grad
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
            x * t
        assert (x * t.clone()).requires_grad

    def test_writing_to_an_inference_tensor_outside_raises(self):
        with torch.inference_mode():
            t = torch.ones(1)
            t.add_(1)
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside"):
            t.add_(1)
        assert t.tolist() == [2]

    def test_inference_tensors_have_no_version_and_cannot_start_to_require_grad(self):
        with torch.inference_mode():
            t = torch.ones(1)
        with pytest.raises(RuntimeError, match="do not track version counter"):
            t._version
        with pytest.raises(RuntimeError, match="requires_grad=True on inference tensor"):
            t.requires_grad_()

    def test_in_place_on_a_normal_tensor_inside_bumps_its_version(self):
        t = torch.zeros(1)
        with torch.inference_mode():
            t.add_(1)
        assert t._version == 1
        assert not t.is_inference()

    def test_as_a_decorator(self):
        @torch.inference_mode()
        def f():
            return torch.zeros(1)

        @torch.inference_mode
        def g():
            return torch.zeros(1)

        assert f().is_inference()
        assert g().is_inference()
        assert not torch.is_inference_mode_enabled()


def recorded_without_saving():
    return (torch.zeros(1, requires_grad=True) + 1).requires_grad


class TestQueries:
    def test_inference_of_tensors(self):
        with torch.inference_mode():
            t = torch.zeros(1)
        assert torch.is_inference(t)
        assert not torch.is_inference(torch.zeros(1))

    def test_modes_without_effect_are_accepted(self):
        with torch.autograd.set_multithreading_enabled(False):
            assert recorded()

        @torch.autograd.grad_mode._force_original_view_tracking(True)
        def f():
            return recorded()

        assert f()


class TestDeterministic:
    """Every algorithm is deterministic; the switches are remembered for programs that ask."""

    @pytest.fixture(autouse=True)
    def switched_off_afterwards(self):
        yield
        torch.set_deterministic_debug_mode(0)

    def state(self):
        return (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
            torch.get_deterministic_debug_mode(),
        )

    def test_use_deterministic_algorithms(self):
        assert self.state() == (False, False, 0)
        torch.use_deterministic_algorithms(True)
        assert self.state() == (True, False, 2)
        torch.use_deterministic_algorithms(True, warn_only=True)
        assert self.state() == (True, True, 1)
        torch.use_deterministic_algorithms(False)
        assert self.state() == (False, False, 0)

    @pytest.mark.parametrize(("mode", "level"), [("default", 0), ("warn", 1), ("error", 2), (1, 1)])
    def test_debug_mode(self, mode, level):
        torch.set_deterministic_debug_mode(mode)
        assert torch.get_deterministic_debug_mode() == level

    def test_wrong_values(self):
        with pytest.raises(RuntimeError, match="expected 0, 1, or 2, but got 3"):
            torch.set_deterministic_debug_mode(3)
        with pytest.raises(RuntimeError, match="expected one of `default`, `warn`, `error`"):
            torch.set_deterministic_debug_mode("loud")
        with pytest.raises(TypeError, match="must be bool"):
            torch.use_deterministic_algorithms(1)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad, torch.inference_mode])
def test_decorated_classes_are_made_in_the_mode(mode):
    class Made:
        def __init__(self, x):
            self.recorded = (x * 2).requires_grad

    before = torch.is_grad_enabled()
    with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):
        make = mode()(Made)
    with mode():
        expected = torch.is_grad_enabled()
    assert make(torch.ones(1, requires_grad=True)).recorded == expected
    assert torch.is_grad_enabled() == before


class TestInferenceTensors:
    def test_views_in_inference_mode_belong_to_no_graph(self):
        with torch.inference_mode():
            x = torch.ones(2, 3, requires_grad=True)
            for view in (x.view(-1), x[0], x.t(), x.expand(2, 2, 3), x.unbind()[0]):
                assert not view.requires_grad
                assert view.is_inference()
                assert view._base is None

    def test_views_of_normal_tensors_there_are_views(self):
        x = torch.ones(2, 3, requires_grad=True)
        with torch.inference_mode():
            view = x.view(-1)
        assert view.requires_grad
        assert view.is_leaf
        assert not view.is_inference()
        y = x * 1
        with torch.inference_mode():
            late = y.view(-1)
        with pytest.raises(RuntimeError, match="created in inference mode"):
            late.add_(1)

    @pytest.mark.parametrize(
        "change",
        [
            lambda x: x.resize_(6),
            lambda x: x.resize_as_(torch.ones(6)),
            lambda x: x.transpose_(0, 1),
            lambda x: x.t_(),
            lambda x: x.squeeze_(),
            lambda x: x.unsqueeze_(0),
            lambda x: x.swapaxes_(0, 1),
            lambda x: x.set_(torch.ones(3)),
            lambda x: x.add_(1),
        ],
    )
    def test_no_change_in_place_outside(self, change):
        with torch.inference_mode():
            x = torch.ones(2, 3)
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside"):
            change(x)
        with torch.inference_mode():
            change(x)

    def test_shapes_of_tensors_that_require_grad_may_change_inside(self):
        x = torch.ones(2, 3, requires_grad=True)
        with torch.inference_mode():
            assert x.resize_(4).shape == (4,)
            assert x.detach_().requires_grad
        with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
            x.resize_(2)
