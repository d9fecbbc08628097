"""The command line: `rushlight <command>`. Commands are the modules of `rushlight._commands`."""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from rushlight import _commands
from rushlight._missing import near

__all__ = ["Parser", "commands", "main", "parser_of", "positive", "written"]


class Parser(argparse.ArgumentParser):
    """A command's parser: options in full, and errors that name what may have been meant.

    >>> from rushlight.cli import Parser
    >>> parser = Parser(prog="rushlight demo")
    >>> action = parser.add_argument("--steps", type=int)
    >>> parser.parse_args(["--steps", "3"]).steps
    3
    """

    def __init__(self, *, takes_program: bool = False, **options: Any) -> None:
        super().__init__(
            formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options
        )
        self.takes_program = takes_program

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse's, but an unknown option is answered with the nearest known one."""
        parsed, rest = self.parse_known_args(args, namespace)
        if rest:
            self.error(self.not_understood(rest))
        return parsed

    def not_understood(self, rest: Sequence[str]) -> str:
        """What to say of arguments that nothing wants."""
        given = rest[0].partition("=")[0]
        if not given.startswith("-"):
            return f"unexpected argument: {rest[0]}"
        return f"unknown option {given}{_meant(given, self._option_string_actions)}"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        # Before Python 3.12 argparse asks this of the empty list of an argument left out, too.
        if action.choices is None or value in action.choices or value == []:
            return
        known = list(map(str, action.choices))
        told = _meant(str(value), known) or f"; there are {', '.join(known)}"
        raise argparse.ArgumentError(action, f"no such choice: {value}{told}")

    def error(self, message: str) -> NoReturn:
        """Prints the usage and what is wrong, and ends with status 2."""
        if sys.stderr is not None:
            self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: error: {message}\n")


def _meant(given: str, known: Any) -> str:
    found = near(given.lstrip("-"), [name.lstrip("-") for name in known])
    spelled = {name.lstrip("-"): name for name in known}
    return f"; did you mean {' or '.join(spelled[name] for name in found)}?" if found else ""


def positive(kind: type[int] | type[float]) -> Callable[[str], float]:
    """The type of an option that is a number above zero.

    >>> from rushlight.cli import positive
    >>> positive(int)("3")
    3
    """

    def parse(text: str) -> float:
        value = kind(text)
        if not value > 0:
            raise argparse.ArgumentTypeError(f"expected a positive number, got {text}")
        return value

    parse.__name__ = kind.__name__
    return parse


def written(text: str) -> str:
    """The type of an option that names a file to write: its full path.

    What cannot be written is said before a program runs for hours.

    >>> import os
    >>> from rushlight.cli import written
    >>> os.path.basename(written("report.html"))
    'report.html'
    """
    path = os.path.abspath(text)
    if os.path.isdir(path):
        raise argparse.ArgumentTypeError(f"cannot write {text}: it is a folder")
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise argparse.ArgumentTypeError(f"cannot write {text}: there is no folder {folder}")
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise argparse.ArgumentTypeError(f"cannot write {text}: it is not allowed")
    return path


# -- the commands ---------------------------------------------------------------------------------


def commands() -> list[str]:
    """The names of the commands.

    >>> from rushlight.cli import commands
    >>> "run" in commands()
    True
    """
    found = (module.name for module in pkgutil.iter_modules(_commands.__path__))
    return sorted(name.replace("_", "-") for name in found if not name.startswith("_"))


def _module(name: str) -> Any:
    return importlib.import_module(f"rushlight._commands.{name.replace('-', '_')}")


def _paragraphs(module: Any) -> list[str]:
    """The first line of a command's docstring, then its first paragraph of text."""
    return [text.strip() for text in (module.__doc__ or "").strip().split("\n\n")[:2]]


def _examples(examples: Sequence[tuple[str, str]]) -> str:
    if not examples:
        return ""
    width = max(len(line) for line, _ in examples)
    return "examples:\n" + "\n".join(f"  {line:<{width}}   {what}" for line, what in examples)


def parser_of(name: str) -> Parser:
    """The parser of one command.

    >>> from rushlight.cli import parser_of
    >>> parser_of("demo").parse_args(["--seed", "7"]).seed
    7
    """
    module = _module(name)
    parser = Parser(
        prog=f"rushlight {name}",
        takes_program=getattr(module, "PROGRAM", False),
        description="\n\n".join(_paragraphs(module)),
        epilog=_examples(module.EXAMPLES),
    )
    if hasattr(module, "add_arguments"):
        module.add_arguments(parser)
    if parser.takes_program:
        options = parser.format_usage().removeprefix("usage: ").strip()
        parser.usage = f"{options} script.py|-m module|- [arguments]"
    return parser


def _split(parser: argparse.ArgumentParser, given: list[str]) -> tuple[list[str], list[str]]:
    """A command's own options, and the program that follows them with its arguments."""
    at = 0
    while at < len(given):
        word = given[at]
        if word == "--":
            return given[:at], given[at + 1 :]
        if word in ("-m", "-") or not word.startswith("-"):
            break
        action = parser._option_string_actions.get(word)
        at += 2 if action is not None and action.nargs != 0 else 1
    return given[:at], given[at:]


def _parse(name: str, given: list[str]) -> tuple[Any, argparse.Namespace]:
    module, parser = _module(name), parser_of(name)
    if not parser.takes_program:
        return module, parser.parse_args(given)
    own, program = _split(parser, given)
    arguments = parser.parse_args(own)
    if not program or program == ["-m"]:
        parser.error("expected a program: script.py, -m module, or - for standard input")
    arguments.program = program
    return module, arguments


_TOP_EXAMPLES = (
    ("rushlight demo", "train a small language model"),
    ("rushlight run train.py", "run a program that says `import torch`"),
    ("rushlight COMMAND --help", "the options and examples of a command"),
)


def _top_parser() -> Parser:
    from rushlight import __version__

    names = commands()
    width = max(map(len, names))
    rows = [f"  {name:<{width}}   {_paragraphs(_module(name))[0]}" for name in names]
    parser = Parser(
        prog="rushlight",
        usage="rushlight [--help] [--version] COMMAND [arguments]",
        description="A PyTorch-compatible autograd engine.\n\ncommands:\n" + "\n".join(rows),
        epilog=_examples(_TOP_EXAMPLES),
    )
    parser.add_argument("--version", action="version", version=f"rushlight {__version__}")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status.

    >>> from rushlight.cli import main
    >>> main(["info"])
    rushlight  ...
    0
    """
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        module, arguments = _understood(given)
    except SystemExit:  # after help, a list or a version
        if not _flushed():
            return 1
        raise
    except BrokenPipeError:
        _flushed()
        return 1
    if getattr(module, "PROGRAM", False):  # whose errors and interruptions are its own affair
        return int(module.run(arguments))
    try:
        status = int(module.run(arguments))
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        status = 1
    return status if _flushed() else 1


def _flushed() -> bool:
    """Whether someone reads standard output to its end; otherwise the rest is for nobody."""
    try:
        sys.stdout.flush()
        return True
    except BrokenPipeError:
        # Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False


def _understood(given: list[str]) -> tuple[Any, argparse.Namespace]:
    """A command and its arguments."""
    if not given or given[0] not in commands():
        parser = _top_parser()
        if given and not given[0].startswith("-"):
            known = [*commands(), "--help", "--version"]
            parser.error(f"unknown command {given[0]!r}{_meant(given[0], known)}")
        parser.parse_args(given)
        parser.error(f"expected a command: {', '.join(commands())}")
    return _parse(given[0], given[1:])


if __name__ == "__main__":
    sys.exit(main())
