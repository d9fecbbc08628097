"""Anomaly mode and trace_nan: where NaN comes from, and what errors say of the forward pass."""

import threading
import warnings

import pytest

import rushlight as torch
from rushlight.autograd import NonFiniteError, detect_anomaly, set_detect_anomaly, trace_nan
from support import leaf, location_text


def state():
    return torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()


@pytest.fixture(autouse=True)
def anomaly_is_off_afterwards():
    yield
    assert not torch.is_anomaly_enabled()


class TestSwitches:
    def test_detect_anomaly_warns_when_made_and_acts_when_entered(self):
        with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
            mode = detect_anomaly(check_nan=False)
        assert not torch.is_anomaly_enabled()
        with mode:
            assert state() == (True, False)

    def test_set_detect_anomaly_acts_at_once_without_a_warning(self):
        with set_detect_anomaly(True):
            assert state() == (True, True)
            with set_detect_anomaly(False):
                assert not torch.is_anomaly_enabled()
            assert state() == (True, True)
        set_detect_anomaly(True, check_nan=False)
        assert state() == (True, False)
        set_detect_anomaly(False)

    def test_set_anomaly_enabled(self):
        torch.set_anomaly_enabled(True, False)
        assert state() == (True, False)
        torch.set_anomaly_enabled(False)

    def test_an_exception_ends_the_block(self):
        with pytest.raises(ZeroDivisionError), set_detect_anomaly(True):
            1 / 0


def root_of_a_negative(x):
    return (x - 2).sqrt()


class TestNaN:
    def test_the_node_is_named(self):
        x = leaf([1.0])
        with (
            set_detect_anomaly(True),
            pytest.raises(
                RuntimeError, match="'SqrtBackward0' returned nan values in its 0th output"
            ),
        ):
            root_of_a_negative(x).sum().backward()
        assert x.grad is None

    def test_the_exception_carries_the_forward_traceback(self):
        with set_detect_anomaly(True), pytest.raises(RuntimeError) as info:
            root_of_a_negative(leaf([1.0])).sum().backward()
        frames = info.value.forward_traceback
        assert frames[-1][0] == __file__
        assert frames[-1][2] == "root_of_a_negative"
        assert [f[2] for f in frames][-2].endswith(
            "test_the_exception_carries_the_forward_traceback"
        )
        text = location_text(info.value)
        assert "return (x - 2).sqrt()" in text
        assert f'File "{__file__}", line {frames[-1][1]}' in text

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
    def test_every_floating_dtype(self, dtype):
        x = torch.tensor([-1.0, 4.0], dtype=dtype, requires_grad=True)
        with set_detect_anomaly(True), pytest.raises(RuntimeError, match="returned nan"):
            x.sqrt().sum().backward()

    def test_infinities_are_no_nan(self):
        x = leaf([0.0, 0.0])
        with set_detect_anomaly(True):
            (x.sqrt() * torch.tensor([1.0, -1.0])).sum().backward()
        assert x.grad.tolist() == [float("inf"), -float("inf")]

    def test_empty_gradients_pass(self):
        x = torch.zeros(0, requires_grad=True)
        with set_detect_anomaly(True):
            x.sqrt().sum().backward()
        assert x.grad.shape == (0,)

    def test_without_check_nan_only_errors_are_traced(self):
        x = leaf([-1.0])
        with set_detect_anomaly(True, check_nan=False):
            x.sqrt().sum().backward()
        assert x.grad.isnan().all()

    def test_a_conflict_gets_its_traceback_too(self):
        with set_detect_anomaly(True), pytest.raises(RuntimeError, match="inplace") as info:
            y = leaf([1.0]).exp()
            y.add_(1)
            y.sum().backward()
        assert info.value.forward_traceback[-1][0] == __file__

    def test_an_error_in_a_hook_too(self):
        with set_detect_anomaly(True), pytest.raises(KeyError) as info:
            y = leaf([1.0]) * 2
            y.register_hook(lambda g: {}["missing"])
            y.sum().backward()
        assert info.value.forward_traceback[-1][0] == __file__

    def test_nan_in_a_second_derivative(self):
        x = leaf([0.0])
        with set_detect_anomaly(True):
            (g,) = torch.autograd.grad((x**1.5).sum(), x, create_graph=True)
            with pytest.raises(RuntimeError, match="returned nan"):
                (g * g / g).sum().backward()


class TestTraceNaN:
    def test_the_forward_operation_that_made_it(self):
        x = leaf([1.0, 3.0])
        with trace_nan(), pytest.raises(NonFiniteError) as info:
            root_of_a_negative(x) * 2
        error = info.value
        assert (error.phase, error.op) == ("forward", "sqrt")
        assert error.line[0] == __file__
        assert error.line[2] == "root_of_a_negative"
        (operand,) = error.operands
        assert (operand.minimum, operand.maximum, operand.nan) == (-1, 1, 0)
        assert error.results[0].nan == 1
        assert "sqrt" in str(error)
        assert f"{__file__}:{error.line[1]}" in str(error)

    def test_a_nan_loss_is_blamed_on_its_origin_not_on_a_later_operation(self):
        x = leaf([1.0])
        with trace_nan(stop=False) as tracer:
            loss = ((-x).log() * 2).sum() + 1
        assert loss.isnan()
        assert tracer.first.op == "log"

    def test_the_backward_of_an_operation(self):
        x = leaf([0.0, 1.0])
        with trace_nan(), pytest.raises(NonFiniteError) as info:
            x.sqrt().sum().backward()
        error = info.value
        assert (error.phase, error.op) == ("backward", "SqrtBackward0")
        assert error.line[0] == __file__
        assert error.results[0].inf == 1

    def test_values_that_were_odd_already_are_not_blamed(self):
        x = torch.tensor([float("nan"), float("inf")], requires_grad=True)
        with trace_nan() as tracer:
            (x * 2).exp().sum().backward()
        assert tracer.first is None

    def test_division_by_zero_and_overflow(self):
        for f in (lambda x: x / 0, lambda x: (x * 1000).exp(), lambda x: (x * 0).log()):
            with trace_nan(stop=False) as tracer:
                f(leaf([1.0]))
            assert tracer.first is not None

    def test_in_place_operations(self):
        t = torch.tensor([-1.0])
        with trace_nan(), pytest.raises(NonFiniteError, match="log_"):
            t.log_()

    def test_sound_programs_pass(self):
        x = leaf([1.0, 2.0])
        with trace_nan() as tracer:
            (x.log() / x).sum().backward()
        assert tracer.first is None
        assert x.grad.isfinite().all()

    def test_complex_integer_and_empty_operands(self):
        with trace_nan() as tracer:
            torch.tensor([1 + 2j]) * 2
            torch.tensor([1, 2]) * 2
            torch.zeros(0) / 0
        assert tracer.first is None

    def test_other_threads_are_left_alone(self):
        with trace_nan() as tracer:
            thread = threading.Thread(target=lambda: leaf([-1.0]).sqrt())
            thread.start()
            thread.join()
        assert tracer.first is None

    def test_after_the_block_nothing_is_watched(self):
        x = leaf([0.0])
        with trace_nan():
            y = x + 1
        (-y).log()
        (y - 1).sqrt().sum().backward()


class TestWithoutAnyMode:
    @pytest.mark.parametrize(
        "fail", [lambda g: 1 / 0, lambda g: g[:0], lambda g: "text", lambda g: torch.ones(7)]
    )
    def test_every_error_in_backward_names_the_forward_line(self, fail):
        y = leaf([1.0, 2.0]).exp()
        line = y.grad_fn._where[1]
        y.register_hook(fail)
        with pytest.raises((ZeroDivisionError, RuntimeError, TypeError)) as info:
            y.sum().backward()
        assert f"{__file__}:{line}" in location_text(info.value)
        ((file, number, _),) = info.value.forward_traceback
        assert (file, number) == (__file__, line)


def warnings_of(program):
    """What a program that fails in anomaly mode warns of."""
    with (
        warnings.catch_warnings(record=True) as record,
        set_detect_anomaly(True),
        pytest.raises(RuntimeError),
    ):
        warnings.simplefilter("always")
        program()
    return [str(w.message) for w in record]


class TestWarnings:
    def test_the_forward_call_is_shown(self):
        x = leaf([1.0])
        with (
            set_detect_anomaly(True),
            pytest.warns(
                UserWarning, match="Error detected in SqrtBackward0. Traceback of forward"
            ),
            pytest.raises(RuntimeError, match="'SqrtBackward0' returned nan"),
        ):
            root_of_a_negative(x).backward()

    def test_its_lines_are_the_users(self):
        x = leaf([1.0])
        (text,) = warnings_of(lambda: root_of_a_negative(x).backward())
        assert "in root_of_a_negative" in text
        assert "return (x - 2).sqrt()" in text

    def test_without_the_mode_in_forward_there_are_no_lines(self):
        y = root_of_a_negative(leaf([1.0]))
        with (
            set_detect_anomaly(True),
            pytest.warns(UserWarning, match="No forward pass information available"),
            pytest.raises(RuntimeError, match="'SqrtBackward0' returned nan"),
        ):
            y.backward()

    @pytest.mark.parametrize("kind", ["hook", "function"])
    def test_any_exception_of_a_node(self, kind):
        def fail(*_):
            raise LookupError("mine")

        class Fails(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            backward = staticmethod(fail)

        x = leaf([1.0])
        with set_detect_anomaly(True):
            y = Fails.apply(x) if kind == "function" else x * 2
            if kind == "hook":
                y.register_hook(fail)
            name = "FailsBackward" if kind == "function" else "MulBackward0"
            with (
                pytest.warns(UserWarning, match=f"Error detected in {name}"),
                pytest.raises(LookupError, match="mine"),
            ):
                y.backward()

    def test_what_induced_a_derivative_of_higher_order(self):
        x = leaf([0.0])

        def twice():
            (g,) = torch.autograd.grad((x + 1).sqrt(), x, create_graph=True)
            g.register_hook(lambda grad: grad * float("nan"))
            g.backward()

        texts = warnings_of(twice)
        assert texts[0].startswith("Error detected in ")
        assert texts[1].startswith("Previous calculation was induced by SqrtBackward0")

    def test_a_node_that_passes_nan_on_is_told_from_one_that_makes_it(self):
        x = leaf([1.0])
        with set_detect_anomaly(True):
            with pytest.raises(RuntimeError, match="only passed them on"):
                x.exp().backward(torch.tensor([float("nan")]))
            with pytest.raises(RuntimeError) as error:
                root_of_a_negative(x).backward()
        assert "only passed them on" not in str(error.value)
