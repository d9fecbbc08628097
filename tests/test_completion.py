"""Completion in the shells themselves: the line that is typed, and what Tab makes of its end."""

import os
import re
import select
import shlex
import shutil
import subprocess
import sys
import time

import pytest

from rushlight import cli
from rushlight._commands import completion

LINES = [
    ("rushlight de", "demo"),
    ("rushlight --ver", "--version"),
    ("rushlight demo --ste", "--steps"),
    ("rushlight demo --steps tr", "tr"),
    ("rushlight demo tr", "tr"),
    ("rushlight completion z", "zsh"),
    ("rushlight bench over", "overhead"),
    ("rushlight bench overhead trai", "train"),
    ("rushlight bench --plots da", "data/"),
    ("rushlight bench --plots tr", "tr"),
    ("rushlight doctor --silence tiny", "tiny-ops"),
    ("rushlight launch --launcher mp", "mpiexec"),
    ("rushlight launch --nproc", "--nproc-per-node"),
    ("rushlight launch --log-dir da", "data/"),
    ("rushlight launch --tee 3 --log_dir da", "data/"),
    ("rushlight graph -o tr", "train.py"),
    ("rushlight run --report=tr", "--report=train.py"),
    ("rushlight run tr", "train.py"),
    ("rushlight run train.py da", "data/"),
    ("rushlight run my", "my script.py"),
    ("rushlight compat data/x", "data/x.py"),
]
STARTS = {
    "bash": "PS1='ready> '; bind 'set enable-bracketed-paste off' 2> /dev/null",
    "zsh": "PS1='ready> '; autoload -U compinit; compinit -u -D; unsetopt auto_remove_slash",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("train.py", "my script.py", "data/x.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Typist:
    """A person before a terminal."""

    def __init__(self, shell, start):
        import pty

        self.shown = ""
        command = {"bash": ["--noprofile", "--rcfile", ".bashrc", "-i"], "zsh": ["-i", "-d"]}[shell]
        with open(f".{shell}rc", "w") as file:
            file.write(start)
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="dumb", ZDOTDIR=os.getcwd())
            os.execvp(shell, [shell, *command])

    def sees(self, pattern):
        """Reads on until something is shown; returns it."""
        end = time.monotonic() + 30
        while (found := re.search(pattern, self.shown)) is None:
            ready, _, _ = select.select([self.terminal], [], [], max(0, end - time.monotonic()))
            assert ready, f"never shown: {pattern}: {self.shown}"
            self.shown += os.read(self.terminal, 65536).decode()
        self.shown = self.shown[found.end() :]
        return found

    def types(self, keys):
        os.write(self.terminal, keys.encode())

    def leaves(self):
        self.types("\x15exit\r")
        os.waitpid(self.pid, 0)
        os.close(self.terminal)


@pytest.mark.parametrize("shell", ["bash", "zsh"])
@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
def test_tab_completes_a_line(shell, folder):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = getattr(completion, shell)()
    tell = "tell() { printf 'told'; printf '[%s]' \"$@\"; printf ' end\\n'; }"
    typist = Typist(shell, f"{STARTS[shell]}\n{script}\n{tell}\n")
    wrong = {}
    for line, expected in LINES:
        typist.sees("ready> ")
        typist.types(f"{line}\t\x01tell \r")  # Tab, to the line's start, and have its words told
        words = re.findall(r"\[(.*?)\]", typist.sees(r"told(\[.*\]) end")[1])
        if words != [*shlex.split(line)[:-1], expected]:
            wrong[line] = words
    typist.leaves()
    assert wrong == {}


def test_fish_completes_a_line(folder):
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    asked = "; ".join(f"echo '<'; complete -C {shlex.quote(line)}" for line, _ in LINES)
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"{completion.fish()}\n{asked}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    wrong = {}
    for (line, expected), told in zip(LINES, done.stdout.split("<\n")[1:], strict=True):
        first = [row.partition("\t")[0] for row in told.splitlines()] or [line.split()[-1]]
        if first[0] != expected:
            wrong[line] = first
    assert wrong == {}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_every_option(shell, capsys):
    assert cli.main(["completion", shell]) == 0
    text = capsys.readouterr().out
    for name in cli.commands():
        for action in cli.parser_of(name)._actions:
            for option in completion._spellings(action):
                assert (option if shell != "fish" else option.lstrip("-")) in text
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=text, text=True, check=True)
