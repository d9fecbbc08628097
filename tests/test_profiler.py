"""The profiler: what is recorded and how it nests, sums, tables, traces, schedules, misuse."""

import gzip
import json
import sys
import threading
import time
import warnings

import pytest

import rushlight as torch
from rushlight.autograd import profiler as single
from rushlight.autograd import profiler_util
from rushlight.nn import functional as F
from rushlight.profiler import ProfilerAction, ProfilerActivity, profile, record_function, schedule


def line_here(offset=0):
    return sys._getframe(1).f_lineno + offset


def names(prof):
    return [e.name for e in prof.function_events]


def row(averages, key):
    (found,) = [r for r in averages if r.key == key]
    return found


# What is recorded


def test_ops_backward_nodes_and_leaves():
    x = torch.ones(3, requires_grad=True)
    with single.profile() as prof:
        (x * 2).sum().backward()
    assert [n for n in names(prof) if n != "aten::expand"] == [
        "aten::mul",
        "aten::sum",
        "SumBackward0",
        "MulBackward0",
        "torch::autograd::AccumulateGrad",
    ]


def test_every_backward_event_carries_its_forward_line():
    x = torch.ones(3, 3, requires_grad=True)
    with single.profile() as prof:
        first = line_here(1)
        y = x.exp()
        z = (y @ y).sum()
        z.backward()
    lines = {e.name: e.place[1] for e in prof.function_events if e.is_backward}
    assert lines["ExpBackward0"] == first
    assert lines["MmBackward0"] == lines["SumBackward0"] == first + 1
    assert all(e.place[0] == __file__ for e in prof.function_events)
    table = prof.key_averages().table()
    assert "Source Location" in table
    assert f"test_profiler.py:{first}" in table


def test_a_row_of_several_forward_lines_shows_the_longest_and_counts_the_others():
    x = torch.ones(100_000, requires_grad=True)
    with single.profile() as prof:
        y = x[:1] * 2
        z = x * 2
        slow = line_here(-1)
        (y.sum() + z.sum()).backward()
    lines = row(prof.key_averages(), "MulBackward0").line_times
    assert len(lines) == 2
    text = [t for t in prof.key_averages().table().splitlines() if "MulBackward0" in t]
    assert len(text) == 1
    assert "(+1 more)" in text[0]
    assert any(line.endswith(f":{slow}") for line in lines)


def test_in_place_forms_have_their_names():
    x = torch.ones(3)
    with single.profile() as prof:
        x.add_(1)
        x += 1
        x.fill_(2)
        x.mul(3)
    assert names(prof) == ["aten::add_", "aten::add_", "aten::fill_", "aten::mul"]


def test_forward_and_backward_events_share_their_number():
    x = torch.ones(4, 4, requires_grad=True)
    with single.profile() as prof:
        x.detach().exp()
        F.linear(x, x).tanh().sum().backward()
    backward = {e.sequence_nr: e.name for e in prof.function_events if e.is_backward}
    pairs = {
        e.name: backward[e.sequence_nr]
        for e in prof.function_events
        if not e.is_backward and e.sequence_nr >= 0
    }
    assert pairs["aten::tanh"] == "TanhBackward0"
    assert pairs["aten::sum"] == "SumBackward0"
    assert "aten::exp" not in pairs


def test_ranges_nest_and_self_times_add_up():
    with single.profile() as prof:
        with record_function("outer"):
            with record_function("inner"):
                torch.ones(3).exp()
            time.sleep(0.002)
        torch.ones(2)
    events = {e.name: e for e in prof.function_events}
    outer, inner, exp = events["outer"], events["inner"], events["aten::exp"]
    assert exp.cpu_parent is inner
    assert inner.cpu_parent is outer
    assert outer.cpu_parent is None
    assert outer.self_cpu_time_total >= 2000
    assert outer.cpu_time_total >= inner.cpu_time_total >= exp.cpu_time_total > 0
    top = sum(e.cpu_time_total for e in prof.function_events if e.cpu_parent is None)
    assert prof.self_cpu_time_total == pytest.approx(top)
    assert prof.total_average().self_cpu_time_total == pytest.approx(top)


def test_recursion_counts_its_time_once():
    @record_function("down")
    def down(n):
        """Doc."""
        time.sleep(0.001)
        if n:
            down(n - 1)

    with single.profile() as prof:
        down(4)
    found = row(prof.key_averages(), "down")
    assert found.count == 5
    assert down.__doc__ == "Doc."
    assert found.cpu_time_total == pytest.approx(found.self_cpu_time_total)
    assert found.cpu_time_total == prof.function_events[0].cpu_time_total


def test_an_exception_closes_ranges_and_profiler():
    def failing():
        with single.profile() as prof:
            failing.prof = prof
            with record_function("block"):
                torch.ones(2) + torch.ones(3)

    with pytest.raises(RuntimeError, match="must match"):
        failing()
    assert "block" in names(failing.prof)
    assert "aten::add" in names(failing.prof)
    with single.profile() as prof:
        torch.ones(2)
    assert names(prof) == ["aten::ones"]


def test_an_exception_in_a_backward_pass_closes_its_events():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: 1 / 0)
    with single.profile() as prof:
        with pytest.raises(ZeroDivisionError):
            y.sum().backward()
        torch.ones(1)
    assert prof.function_events[-1].cpu_parent is None


def test_memory_is_what_was_allocated_less_what_was_freed():
    with single.profile(profile_memory=True) as prof:
        with record_function("kept"):
            x = torch.ones(1024)
        with record_function("freed"):
            torch.ones(2048)
        del x
    averages = prof.key_averages()
    assert row(averages, "kept").cpu_memory_usage == 4096
    assert row(averages, "kept").self_cpu_memory_usage == 0
    assert row(averages, "freed").cpu_memory_usage == 0
    assert row(averages, "aten::ones").cpu_memory_usage == 4096 + 8192
    table = averages.table()
    assert "Self CPU Mem" in table
    assert "12.00 KB" in table
    assert "Mem" not in prof.key_averages().__class__([*averages]).table()


def test_shapes_group_and_show():
    a, b = torch.ones(2, 3), torch.ones(3, 4)
    with single.profile(record_shapes=True) as prof:
        for _ in range(3):
            a @ b
        b.T @ a.T
    assert prof.function_events[0].input_shapes == [[2, 3], [3, 4]]
    grouped = prof.key_averages(group_by_input_shape=True)
    products = [r for r in grouped if r.key == "aten::mm"]
    assert sorted(r.count for r in products) == [1, 3]
    assert "[[2, 3], [3, 4]]" in grouped.table()
    assert row(prof.key_averages(), "aten::mm").count == 4


def test_flops_of_products():
    with single.profile(with_flops=True) as prof:
        torch.ones(2, 3) @ torch.ones(3, 4)
        F.linear(torch.ones(5, 3), torch.ones(7, 3))
    averages = prof.key_averages()
    assert row(averages, "aten::mm").flops == 2 * 2 * 3 * 4
    assert row(averages, "aten::linear").flops == 2 * 5 * 3 * 7
    assert "Total FLOPs" in averages.table()
    assert prof.function_events[0].input_shapes is None


def test_stacks(tmp_path):
    def inner():
        return torch.ones(100_000).exp()

    def outer():
        return inner()

    with single.profile(with_stack=True) as prof:
        outer()
    stack = prof.function_events[-1].stack
    assert [frame.replace(":", ".").rsplit(".", 1)[-1].strip() for frame in stack[:3]] == [
        "inner",
        "outer",
        "test_stacks",
    ]
    grouped = prof.key_averages(group_by_stack_n=1)
    assert row(grouped, "aten::exp").stack == stack[:1]
    path = tmp_path / "stacks.txt"
    prof.export_stacks(str(path))
    assert any(
        "test_stacks" in line and "aten::exp" in line for line in path.read_text().split("\n")
    )
    with pytest.raises(ValueError, match="metric should be one of"):
        prof.export_stacks(str(path), "nothing")
    with single.profile() as plain:
        outer()
    with pytest.raises(AssertionError, match="requires with_stack=True"):
        plain.export_stacks(str(path))


def test_only_the_thread_that_started_it_is_recorded():
    seen = []

    def work():
        torch.ones(2).exp()
        with single.profile() as own:
            torch.ones(2).cos()
        seen.extend(names(own))

    with single.profile() as prof:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        torch.ones(2).sin()
    assert names(prof) == ["aten::ones", "aten::sin"]
    assert seen == ["aten::ones", "aten::cos"]


def test_many_events():
    x = torch.ones(3)
    with single.profile() as prof:
        for _ in range(100_000):
            x + 1
    (found,) = prof.key_averages()
    assert found.count == 100_000
    assert len(prof.key_averages().table().splitlines()) == 6


def test_collection_can_be_paused():
    with single.profile() as prof:
        torch.ones(1).exp()
        prof.toggle_collection_dynamic(False)
        torch.ones(1).sin()
        with record_function("unseen"):
            prof.toggle_collection_dynamic(True)
        torch.ones(1).cos()
    assert names(prof) == ["aten::ones", "aten::exp", "aten::ones", "aten::cos"]


def test_a_range_left_after_its_profiler_harms_no_other():
    block = record_function("left")
    with single.profile():
        block.__enter__()
    with single.profile() as prof, record_function("right"):
        block.__exit__(None, None, None)
        inside = torch.ones(2).exp()
    assert inside is not None
    assert prof.function_events[1].cpu_parent.name == "right"


def test_optimizer_steps_are_ranges():
    w = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)
    w.sum().backward()
    with single.profile() as prof:
        optimizer.step()
    optimizer.step()
    assert names(prof).count("Optimizer.step#SGD.step") == 1


def test_batches_of_a_loader_are_ranges():
    data = torch.utils.data.TensorDataset(torch.ones(4, 2))
    with single.profile() as prof:
        list(torch.utils.data.DataLoader(data, batch_size=2))
    name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    assert names(prof).count(name) == 3  # the last finds no more


# Tables


def test_the_table_sorts_limits_and_titles():
    with single.profile() as prof:
        for _ in range(5):
            torch.ones(1)
        torch.ones(50_000).exp()
    averages = prof.key_averages()
    by_count = averages.table(sort_by="count", row_limit=1, header="Title", time_unit="ms")
    assert "aten::ones" in by_count
    assert "aten::exp" not in by_count
    assert "Title" in by_count
    assert "ms" in by_count
    assert "us" not in by_count.replace("Self CPU time", "")
    assert "aten::exp" in averages.table(row_limit=-1)
    assert str(averages) == averages.table()
    with pytest.raises(AttributeError, match="have no 'nothing' to sort by"):
        averages.table(sort_by="nothing")
    with pytest.raises(ValueError, match="time_unit must be"):
        averages.table(time_unit="h")
    for key in ("cpu_time", "cpu_time_total", "self_cpu_time_total", "cuda_time_total"):
        assert averages.table(sort_by=key)


def test_top_level_events_only():
    with single.profile() as prof, record_function("outer"):
        torch.ones(1)
    text = prof.function_events.table(top_level_events_only=True)
    assert "outer" in text
    assert "aten::ones" not in text


def test_long_names_are_shortened():
    with single.profile() as prof, record_function("x" * 200):
        pass
    text = prof.table(max_name_column_width=30)
    assert "x" * 27 + "..." in text
    assert "x" * 28 not in text
    assert "x" * 200 in prof.table(max_name_column_width=None)


def test_an_empty_profile():
    with single.profile() as prof:
        pass
    assert names(prof) == []
    assert prof.key_averages().table() == ""
    assert prof.self_cpu_time_total == 0
    assert prof.total_average().count == 0


def test_units_of_time_and_memory():
    assert [profiler_util.format_time(t) for t in (0.5, 1500.0, 2e6)] == [
        "0.500us",
        "1.500ms",
        "2.000s",
    ]
    found = [profiler_util.format_memory(n) for n in (3, -2048, 5 << 20, 1 << 31)]
    assert found == ["3 B", "-2.00 KB", "5.00 MB", "2.00 GB"]
    assert profiler_util.Interval(1.0, 3.5).elapsed_us() == 2.5


# Traces


def trace(prof, tmp_path, name="trace.json"):
    path = str(tmp_path / name)
    prof.export_chrome_trace(path)
    opened = gzip.open if name.endswith("gz") else open
    with opened(path, "rt") as file:
        return json.load(file)


def test_the_trace_is_json_with_arrows_from_forward_to_backward(tmp_path):
    x = torch.ones(3, requires_grad=True)
    with profile(record_shapes=True) as prof:
        prof.add_metadata("run", 'quote " and \\')
        prof.add_metadata_json("numbers", "[1, 2]")
        with record_function('odd "name"\n'):
            (x * 2).sum().backward()
    found = trace(prof, tmp_path)
    assert found["run"] == 'quote " and \\'
    assert found["numbers"] == [1, 2]
    spans = [e for e in found["traceEvents"] if e["ph"] == "X"]
    assert [s["name"] for s in spans][:2] == ['odd "name"\n', "aten::mul"]
    assert all(s["dur"] >= 0 for s in spans)
    starts = {e["id"]: e for e in found["traceEvents"] if e["ph"] == "s"}
    ends = {e["id"]: e for e in found["traceEvents"] if e["ph"] == "f"}
    assert starts.keys() == ends.keys()
    assert len(starts) == 2
    for number, start in starts.items():
        assert start["ts"] < ends[number]["ts"]
        assert ends[number]["bp"] == "e"
    (span,) = [s for s in spans if s["name"] == "MulBackward0"]
    assert span["args"]["Forward line"].startswith(__file__)
    assert trace(prof, tmp_path, "trace.json.gz") == found


def test_a_handler_writes_every_trace(tmp_path):
    handler = torch.profiler.tensorboard_trace_handler(str(tmp_path / "log"), "me", use_gzip=True)
    plan = schedule(wait=0, warmup=1, active=1, repeat=2)
    with profile(schedule=plan, on_trace_ready=handler) as prof:
        for _ in range(6):
            torch.ones(1)
            prof.step()
    files = sorted((tmp_path / "log").iterdir())
    assert len(files) == 2
    assert all(f.name.startswith("me.") and f.name.endswith(".pt.trace.json.gz") for f in files)


# Schedules


def test_a_schedule_in_words():
    plan = schedule(skip_first=1, wait=2, warmup=1, active=2, repeat=2)
    letters = "".join(
        {"RECORD_AND_SAVE": "S"}.get(plan(i).name, plan(i).name[0]) for i in range(14)
    )
    assert letters == "N" + "NNWRS" * 2 + "NNN"
    early = schedule(skip_first=1, wait=2, warmup=1, active=1, skip_first_wait=1)
    assert [early(i).name for i in (1, 2)] == ["WARMUP", "RECORD_AND_SAVE"]
    with pytest.raises(AssertionError, match="Invalid profiler schedule arguments"):
        schedule(wait=0, warmup=1, active=0)
    with pytest.raises(AssertionError, match="non-negative"):
        plan(-1)
    with pytest.warns(UserWarning, match="won't be using warmup"):
        schedule(wait=0, warmup=0, active=1)


def steps(plan, count, **options):
    """The numbers of ones(), made in each step, that each trace saw."""
    traces = []

    def ready(prof):
        traces.append([e.trace_name for e in prof.events() if e.name == "ProfilerStep*"])

    with profile(schedule=plan, on_trace_ready=ready, **options) as prof:
        for _ in range(count):
            torch.ones(1)
            prof.step()
    return traces, prof


def test_traces_hold_the_steps_of_their_cycle():
    traces, prof = steps(schedule(wait=1, warmup=1, active=2, repeat=2), 10)
    assert traces == [["ProfilerStep#2", "ProfilerStep#3"], ["ProfilerStep#6", "ProfilerStep#7"]]
    assert row(prof.key_averages(), "ProfilerStep*").count == 2
    assert row(prof.key_averages(), "aten::ones").count == 2


def test_traces_may_accumulate():
    traces, prof = steps(schedule(wait=1, warmup=1, active=2, repeat=2), 10, acc_events=True)
    assert [len(t) for t in traces] == [2, 4]
    ones = [e for e in prof.events() if e.name == "aten::ones"]
    assert [e.cpu_parent.trace_name for e in ones] == [f"ProfilerStep#{i}" for i in (2, 3, 6, 7)]


def test_a_block_that_ends_in_the_middle_of_a_cycle_is_a_trace_too():
    traces, _ = steps(schedule(wait=0, warmup=1, active=5), 3)
    assert traces == [["ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"]]


def test_without_a_schedule_all_is_recorded():
    seen = []
    with profile(on_trace_ready=lambda p: seen.append(len(p.events()))) as prof:
        torch.ones(1)
        prof.step()
        torch.ones(1)
    assert seen == [2]
    assert prof.step_num == 1


def test_start_and_stop_by_hand():
    prof = profile(custom_trace_id_callback=lambda: "mine")
    prof.start()
    torch.ones(1)
    prof.stop()
    assert [e.name for e in prof.events()] == ["aten::ones"]
    assert prof.get_trace_id() == "mine"
    prof.start()
    torch.ones(1).exp()
    prof.stop()
    assert [e.name for e in prof.events()] == ["aten::ones", "aten::exp"]


# Misuse


def test_profilers_do_not_nest():
    with single.profile() as prof:
        for other in (profile(), single.profile()):
            with pytest.raises(RuntimeError, match="already enabled on this thread"):
                other.__enter__()
        torch.ones(1)
        with pytest.raises(RuntimeError, match="already enabled on this thread"):
            prof.__enter__()
    assert names(prof) == ["aten::ones"]


def test_results_before_the_end_are_refused():
    with profile() as prof, pytest.raises(AssertionError, match="leave its block first"):
        prof.events()
    with pytest.raises(RuntimeError, match=r"step\(\) needs a profiler that runs"):
        prof.step()
    idle = profile(schedule=lambda step: ProfilerAction.NONE)
    with idle:
        pass
    with pytest.raises(AssertionError, match="no step of it was recorded"):
        idle.key_averages()
    with pytest.raises(RuntimeError, match="didn't finish running"):
        _ = single.profile().function_events
    assert str(single.profile()) == "<unfinished profiler>"
    with pytest.raises(TypeError, match="not a ProfilerAction"):
        profile(schedule=lambda step: 1)


def test_devices_that_are_not_there():
    with pytest.warns(UserWarning, match="CUDA is not available, disabling CUDA profiling"):
        prof = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])
    assert prof.activities == {ProfilerActivity.CPU} == torch.profiler.supported_activities()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(AssertionError, match="No valid profiler activities"):
            profile(activities=[ProfilerActivity.CUDA])
    with pytest.raises(TypeError, match="ProfilerActivity members"):
        profile(activities=["cpu"])
    with pytest.warns(UserWarning, match="disabling CUDA profiling"):
        single.profile(use_cuda=True)
    for context in (single.emit_nvtx, single.emit_itt):
        with context(enabled=False):
            pass
        with pytest.raises(RuntimeError, match=r"torch.profiler.profile"), context():
            pass
    with pytest.raises(RuntimeError, match="nvprof"):
        single.load_nvprof("file")
    assert not torch.profiler.itt.is_available()
    with pytest.raises(RuntimeError, match="ITT functions not installed"):
        torch.profiler.itt.mark("here")


def test_a_disabled_profiler_does_nothing():
    with single.profile(enabled=False) as prof:
        assert prof is None
        torch.ones(1)


def test_small_parts():
    keys = single.EnforceUnique()
    keys.see(1)
    with pytest.raises(RuntimeError, match="duplicate key"):
        keys.see(1)
    tracker = single.KinetoStepTracker
    tracker.init_step_count("a")
    before = tracker.current_step()
    tracker.increment_step("a")
    assert tracker.increment_step("a") >= before
    assert tracker.erase_step_count("a")
    assert not tracker.erase_step_count("a")
    table = single.StringTable()
    assert table["x"] == "x"

    class Record:
        def __init__(self, at):
            self.at = at

        def start_ns(self):
            return self.at

    records = single.MemRecordsAcc([(Record(5), 0), (Record(1), 0), (Record(3), 0)])
    assert [r[0].at for r in records.in_interval(2, 5)] == [3, 5]
