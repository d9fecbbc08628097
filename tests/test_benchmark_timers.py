"""Timers of statements, and tables of what they measured."""

import pytest

import rushlight as torch
from rushlight.utils import benchmark, cpp_extension


def measured(times, **names):
    return benchmark.Measurement(1, times, benchmark.TaskSpec("f()", "pass", **names))


def test_timers_measure():
    timer = benchmark.Timer("y = x + torch.ones(1)", "x = 1", label="add", description="here")
    once = timer.timeit(10)
    assert (once.number_per_run, len(once.times), once.label) == (10, 1, "add")
    blocks = timer.blocked_autorange(min_run_time=0.01)
    assert sum(blocks.raw_times) >= 0.01
    assert blocks.iqr >= 0
    few = timer.adaptive_autorange(threshold=1e9, min_run_time=0.001)
    assert len(few.times) >= 4
    assert torch.get_num_threads() >= 1


def test_statistics():
    m = measured([1e-3, 1.1e-3, 0.9e-3, 5e-3])
    assert m.median == pytest.approx(1.05e-3)
    assert m.mean == pytest.approx(2e-3)
    assert m.iqr == pytest.approx(1.1e-3)
    assert m.has_warnings
    assert "Median: 1.05 ms" in repr(m)
    assert "WARNING" in repr(m)
    (both,) = benchmark.Measurement.merge([m, m])
    assert len(both.times) == 8
    with pytest.raises(ValueError, match="no times"):
        _ = measured([]).median


def test_tables():
    results = [
        measured([t], label="sum", sub_label=str(n), description=d, num_threads=1)
        for n, d, t in ((8, "old", 2e-6), (8, "new", 1e-6), (64, "old", 9e-6))
    ]
    table = benchmark.Compare(results)
    assert str(table).splitlines()[1:5] == [
        "          |  old  |  new",
        "1 threads: --------------",
        "       8  |  2.0  |  1.0",
        "      64  |  9.0  |",
    ]
    table.colorize(rowwise=True)
    table.trim_significant_figures()
    assert "\033[92m" in str(table)
    with pytest.raises(ValueError, match="Expected an instance of `Measurement`"):
        table.extend_results([3])


def test_what_is_not_supported_says_so():
    with pytest.raises(ValueError, match="language"):
        benchmark.Timer("1;", language="c++")
    with pytest.raises(RuntimeError, match=r"torch\.library\.custom_op"):
        cpp_extension.load("mine", ["mine.cpp"])
