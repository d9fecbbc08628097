"""The command line."""

import ast
import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight
from rushlight import _demo, cli
from rushlight._commands import bench


def test_info_tells_what_is_installed(capsys):
    assert cli.main(["info"]) == 0
    text = capsys.readouterr().out
    for word in (rushlight.__version__, "python", "threads", "OpenBLAS", "memory"):
        assert word in text


@pytest.mark.parametrize("command", ["info", "--help", "doctor --list", "doctor --help"])
def test_a_reader_that_leaves_is_no_error(command):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "rushlight", *command.split()],
        stdout=writing, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    os.close(writing)
    assert done.stderr == ""
    assert done.returncode in (0, 1)  # argparse does not mind that its help was not read


def test_version(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"rushlight {rushlight.__version__}\n"


def test_demo_learns_checks_and_writes(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["demo", "--steps", "60", "--seconds", "300"]) == 0
    text = capsys.readouterr().out
    assert f"report  {tmp_path / 'rushlight-demo.html'}" in text
    page = (tmp_path / "rushlight-demo.html").read_text(encoding="utf-8")
    assert "A gradient against differences" in page
    assert page.count("<polyline") == 1
    for phrase in ("step  60/60", "tokens per second", "by chance", "they agree", "a sample"):
        assert phrase in text
    assert "\r" not in text
    first, last = map(float, re.search(r"loss +(\S+) -> (\S+) nats per letter", text).groups())
    frequencies = float(re.search(r"by the letters' frequencies (\S+)", text)[1])
    assert last < frequencies < math.log(97) < first


def test_demo_stops_in_time(capsys):
    cli.main(["demo", "--steps", "100000", "--seconds", "0.5", "--no-report"])
    assert "nats per letter" in capsys.readouterr().out


@pytest.mark.parametrize(
    "command",
    ["demo --report", "run --report", "doctor --html", "doctor --json", "graph -o", "profile -o",
     "bench --json"],
)  # fmt: skip
def test_a_file_that_cannot_be_written_is_named_before_anything_runs(command, capsys, tmp_path):
    (tmp_path / "folder.html").mkdir()
    for path, why in (("/no/such/x.html", "no folder"), (tmp_path / "folder.html", "a folder")):
        with pytest.raises(SystemExit, match="2"):
            cli.main([*command.split(), str(path), "train.py"])
        error = capsys.readouterr().err
        assert f"cannot write {path}" in error
        assert why in error


def test_a_file_is_written_where_it_was_asked_for(tmp_path):
    """Whatever folder the program goes to."""
    (tmp_path / "inner").mkdir()
    (tmp_path / "train.py").write_text(
        "import os, torch\nos.chdir('inner')\ntorch.ones(2, requires_grad=True).sum().backward()\n"
    )
    for command in (["run", "--report"], ["doctor", "--html"], ["graph", "-o"], ["profile", "-o"]):
        line = [sys.executable, "-m", "rushlight", *command, f"{command[0]}.html", "train.py"]
        subprocess.run(line, cwd=tmp_path, check=True, capture_output=True)
        assert (tmp_path / f"{command[0]}.html").exists()


def test_characters_survive_the_round_trip():
    codec = _demo.Characters()
    text = "def f(x):\n    return {'a': x}  # 1.5\n"
    assert codec.decode(codec.encode(text)) == text
    assert codec.decode(codec.encode("é")) == "?"


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        ([], "expected a command: "),
        (["dance"], "unknown command 'dance'"),
        (["dmeo"], "did you mean demo?"),
        (["help"], "did you mean --help?"),
        (["profile", "--wait", "-1", "x.py"], "expected a number of steps, got -1"),
        (["launch", "--nproc-per-node", "x", "x.py"], "expected a number, auto, cpu or gpu, got x"),
        (["launch", "--nnodes", "2:", "x.py"], "expected a number, or least:most, got 2:"),
        (["--versoin"], "did you mean --version?"),
        (["demo", "--steps", "0"], "expected a positive number, got 0"),
        (["demo", "--steps", "x"], "invalid int value: 'x'"),
        (["demo", "--step", "3"], "unknown option --step; did you mean --steps?"),
        (["demo", "now"], "unexpected argument: now"),
        (["run"], "expected a program: script.py, -m module, or - for standard input"),
        (["run", "-m"], "expected a program"),
        (["run", "--reprot", "x.py"], "unknown option --reprot"),
        (["bench", "overhed"], "did you mean overhead?"),
        (["bench", "--plots", __file__], "it is no folder"),
        (["completion", "tcsh"], "no such choice: tcsh; there are bash, zsh, fish"),
        (["doctor", "--silence", "tiny-op", "x.py"], "did you mean tiny-ops?"),
    ],
)
def test_wrong_arguments_are_explained(argv, text, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(argv)
    assert caught.value.code == 2
    shown = capsys.readouterr().err
    assert "error:" in shown
    assert text in shown


class TestHelp:
    def test_every_command_stands_in_the_list(self, capsys):
        with pytest.raises(SystemExit) as caught:
            cli.main(["--help"])
        assert caught.value.code == 0
        shown = capsys.readouterr().out
        assert len(cli.commands()) > 4
        assert [name for name in cli.commands() if f"\n  {name} " not in shown] == []

    @pytest.mark.parametrize("name", cli.commands())
    def test_a_command_has_help_with_examples_that_parse(self, name):
        parser = cli.parser_of(name)
        text = parser.format_help()
        told = text.split("examples:")[1]
        lines = re.findall(rf"(?m)^  .*(rushlight {name}\b.*?)(?:   |$)", told)
        assert lines
        for line in lines:
            given = shlex.split(re.split(r" [|<>] |\)", line)[0])[2:]
            cli._parse(name, given)

    def test_every_command_stands_in_the_guide(self):
        guide = Path(__file__).parent.parent / "docs" / "guide" / "command-line.md"
        text = guide.read_text(encoding="utf-8")
        assert [name for name in cli.commands() if f"| `rushlight {name}" not in text] == []

    @pytest.mark.parametrize("name", cli.commands())
    def test_lines_fit_a_terminal(self, name):
        lines = cli.parser_of(name).format_help().splitlines()
        assert [line for line in lines if len(line) > 100] == []

    def test_options_of_a_program_are_its_own(self):
        _, arguments = cli._parse("run", ["x.py", "--help", "--epochs", "3"])
        assert arguments.program == ["x.py", "--help", "--epochs", "3"]


class TestBench:
    def test_it_compares_and_draws(self, tmp_path):
        rows, plots = tmp_path / "rows.json", tmp_path / "plots"
        options = ["--rounds=1", "--threads=1", "--only=add, size (), no graph"]
        command = [sys.executable, "-m", "rushlight", "bench", "overhead", *options]
        done = subprocess.run(
            [*command, f"--json={rows}", f"--plots={plots}"], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        (row,) = json.loads(rows.read_text())
        assert row["script"] == "overhead.py"
        assert 0 < row["ours"] < 1e-3
        assert "add, size (), no graph" in done.stdout
        drawn = (plots / "overhead.svg").exists()
        assert drawn == (row["theirs"] is not None)

    def test_a_text_that_no_row_contains(self):
        command = [sys.executable, "-m", "rushlight", "bench", "overhead", "--only=nothing"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 1
        assert "no row's name contains 'nothing'" in done.stderr

    def test_interrupted_it_says_so(self):
        child = subprocess.Popen(
            [sys.executable, "-u", "-m", "rushlight", "bench", "overhead"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        while "add, size ()" not in child.stdout.readline():
            assert child.poll() is None
        os.killpg(child.pid, signal.SIGINT)  # as a terminal does
        _, errors = child.communicate(timeout=60)
        assert child.returncode == 130
        assert errors.strip() == "interrupted"

    def test_the_readme_shows_what_it_runs(self):
        text = (Path(bench.folder()) / "run.py").read_text()
        listed = ast.literal_eval(re.search(r"HEADLINES = (\[.*?\])", text, re.S)[1])
        readme = (Path(__file__).parent.parent / "README.md").read_text()
        shown = set(re.findall(r"\| `(\w+)\.py` \|", readme))
        assert shown == set(listed)
        assert shown <= set(bench.subjects())


def test_a_closed_pipe_is_no_traceback():
    command = [sys.executable, "-c", "from rushlight.cli import main; raise SystemExit(main())"]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        done = subprocess.run(
            [*command, "info"], stdout=pipe, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr == ""
