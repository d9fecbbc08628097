"""The command line."""

import math
import os
import re
import subprocess
import sys

import pytest

import rushlight
from rushlight import _demo, cli


def test_info_tells_what_is_installed(capsys):
    assert cli.main(["info"]) == 0
    text = capsys.readouterr().out
    for word in (rushlight.__version__, "python", "threads", "OpenBLAS", "memory"):
        assert word in text


def test_version(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"rushlight {rushlight.__version__}\n"


def test_demo_learns_checks_and_writes(capsys):
    assert cli.main(["demo", "--steps", "60", "--seconds", "300"]) == 0
    text = capsys.readouterr().out
    for phrase in ("step  60/60", "tokens per second", "by chance", "they agree", "a sample"):
        assert phrase in text
    assert "\r" not in text
    first, last = map(float, re.search(r"loss +(\S+) -> (\S+) nats per letter", text).groups())
    frequencies = float(re.search(r"by the letters' frequencies (\S+)", text)[1])
    assert last < frequencies < math.log(97) < first


def test_demo_stops_in_time(capsys):
    cli.main(["demo", "--steps", "100000", "--seconds", "0.5"])
    assert "nats per letter" in capsys.readouterr().out


def test_characters_survive_the_round_trip():
    codec = _demo.Characters()
    text = "def f(x):\n    return {'a': x}  # 1.5\n"
    assert codec.decode(codec.encode(text)) == text
    assert codec.decode(codec.encode("é")) == "?"


@pytest.mark.parametrize(
    "argv", [[], ["dance"], ["demo", "--steps", "0"], ["demo", "--steps", "x"]]
)
def test_wrong_arguments_are_explained(argv, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(argv)
    assert caught.value.code == 2
    assert "error:" in capsys.readouterr().err


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
