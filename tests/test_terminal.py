"""Colour and progress: on a terminal, and not elsewhere."""

import io
import sys

import pytest

from rushlight import _terminal
from rushlight._terminal import Progress, paint


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    return Terminal()


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass only when a test says so."""
    now = [100.0]
    monkeypatch.setattr(_terminal.time, "perf_counter", lambda: now[0])

    def wait(seconds):
        now[0] += seconds

    return wait


def test_colour_is_for_terminals(terminal, monkeypatch):
    assert paint("no", "bold", "red", stream=terminal) == "\x1b[1;31mno\x1b[0m"
    assert paint("no", "red", stream=io.StringIO()) == "no"
    monkeypatch.setenv("NO_COLOR", "1")
    assert paint("no", "red", stream=terminal) == "no"


def test_a_dumb_terminal_gets_none(terminal, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    assert paint("no", "red", stream=terminal) == "no"


def test_quick_work_shows_nothing(terminal, clock):
    with Progress(2, "files", stream=terminal) as progress:
        clock(1.0)
        progress.update(1)
        clock(0.5)
        progress.update(2)
    assert terminal.getvalue() == ""


def test_on_a_terminal_it_is_one_line_with_the_time_left(terminal, clock):
    with Progress(4, "files", stream=terminal) as progress:
        clock(3.0)
        progress.update(1, "a.py")
        clock(9.0)
        progress.update(4)
    first, second = terminal.getvalue().split("\r")[1:]
    assert first == f"  {'━' * 6}{'─' * 18} files  1/4  a.py  9 s left\x1b[K"
    assert second == f"  {'━' * 24} files  4/4  12 s\x1b[K\n"


def test_elsewhere_it_is_a_line_now_and_then(clock):
    stream = io.StringIO()
    with Progress(1000, "step", stream=stream, delay=0) as progress:
        for done in range(1, 1001):
            clock(0.01)
            progress.update(done)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 8
    assert lines[0] == "  step   125/1000  9 s left"
    assert lines[-1] == "  step  1000/1000  10 s"
    assert "\r" not in stream.getvalue()


def test_a_share_that_is_not_the_count(clock):
    stream = io.StringIO()
    with Progress(1000, stream=stream, delay=0) as progress:
        clock(5.0)
        progress.update(10, share=0.5)
    assert stream.getvalue() == "    10/1000  5 s left\n"


def test_tqdm_draws_where_it_is_installed(terminal, clock, monkeypatch):
    made = []

    class Bar:
        def __init__(self, **options):
            self.options, self.notes, self.closed = options, [], False
            made.append(self)

        def set_postfix_str(self, note, refresh):
            self.notes.append(note)

        def refresh(self):
            pass

        def close(self):
            self.closed = True

    monkeypatch.setitem(sys.modules, "tqdm", type(sys)("tqdm"))
    sys.modules["tqdm"].tqdm = Bar
    with Progress(4, "files", stream=terminal) as progress:
        clock(3.0)
        progress.update(1, "a.py")
    (bar,) = made
    assert bar.n == 25
    assert bar.notes == ["a.py"]
    assert bar.closed
    assert terminal.getvalue() == ""
