"""print what makes a shell complete commands, options and their values

Read by the shell's start-up file; the commands and options are those of this installation.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator

EXAMPLES = (
    ('eval "$(rushlight completion bash)"', "in ~/.bashrc"),
    ('eval "$(rushlight completion zsh)"', "in ~/.zshrc, after compinit"),
    ("rushlight completion fish | source", "in ~/.config/fish/config.fish"),
)

# What can stand in a place: one of some words, a file, a folder, or what nobody can guess.
FILES, FOLDERS, ANYTHING = "files", "folders", "anything"
Values = str | list[str]

# Files are left to the shell itself (-o default), which knows how to quote their names.
_BASH = """\
_rushlight() {
  local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD - 1]}"
  local options="" words="" kind=words
  COMPREPLY=()
  if [ "$current" = = ]; then
    current=""
  elif [ "$before" = = ]; then
    before="${COMP_WORDS[COMP_CWORD - 2]}"
  fi
  if [ "$COMP_CWORD" -eq 1 ]; then
    options="-h --help --version" words="@COMMANDS@"
  else
    case "${COMP_WORDS[1]}" in
@CASES@
    esac
  fi
  case "$current" in
    -*) words="$options" kind=words ;;
  esac
  case "$kind" in
    files) return ;;
    folders) compopt -o dirnames +o default 2> /dev/null ;;
    *)
      compopt +o default 2> /dev/null
      COMPREPLY=($(compgen -W "$words" -- "$current"))
      ;;
  esac
}
complete -o default -F _rushlight rushlight
"""

_ZSH = """\
_rushlight() {
  local -a commands
  commands=(
@COMMANDS@
  )
  if (( CURRENT == 2 )); then
    if [[ "$PREFIX" == -* ]]; then
      _arguments '(-)'{-h,--help}'[show the commands]' '(-)--version[show the version]'
    else
      _describe command commands
    fi
    return
  fi
  case "${words[2]}" in
@CASES@
  esac
}
compdef _rushlight rushlight
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def run(arguments: argparse.Namespace) -> int:
    print({"bash": bash, "zsh": zsh, "fish": fish}[arguments.shell](), end="")
    return 0


class _Command:
    """What can follow the name of a command."""

    def __init__(self, name: str) -> None:
        from rushlight import cli

        parser = cli.parser_of(name)
        self.name = name
        self.what = (parser.description or "").partition("\n")[0]
        self.takes_program = parser.takes_program
        self.options = [action for action in parser._actions if action.option_strings]
        others = [action for action in parser._actions if not action.option_strings]
        if self.takes_program:
            self.rest: Values = FILES
        else:
            self.rest = _values(others[0], FILES) if others else ANYTHING


def _commands() -> Iterator[_Command]:
    from rushlight import cli

    return map(_Command, cli.commands())


def _values(action: argparse.Action, otherwise: Values) -> Values:
    """What can stand for the value of an option, or in the place of an argument."""
    if action.choices is not None:
        return [str(choice) for choice in action.choices]
    return {"FILE": FILES, "FOLDER": FOLDERS}.get(str(action.metavar), otherwise)


def _spellings(action: argparse.Action) -> list[str]:
    """An option's names; not those that torchrun has with underscores, too."""
    return [name for name in action.option_strings if "_" not in name]


def _takes_value(action: argparse.Action) -> bool:
    return action.nargs != 0


def bash() -> str:
    """For bash: commands, options, and what can follow them."""
    cases = []
    for command in _commands():
        options = " ".join(name for action in command.options for name in _spellings(action))
        cases += [f"      {command.name})", f'        options="{options}" {_bash(command.rest)}']
        valued = [action for action in command.options if _takes_value(action)]
        if valued:
            cases.append('        case "$before" in')
            for action in valued:
                names, values = "|".join(action.option_strings), _values(action, ANYTHING)
                cases.append(f"          {names}) {_bash(values)} ;;")
            cases.append("        esac")
        cases.append("        ;;")
    text = _BASH.replace("@COMMANDS@", " ".join(command.name for command in _commands()))
    return text.replace("@CASES@", "\n".join(cases))


def _bash(values: Values) -> str:
    if isinstance(values, list):
        return f'kind=words words="{" ".join(values)}"'
    return f"kind={values}"


def zsh() -> str:
    """For zsh: with what each command and option does."""
    rows, cases = [], []
    for command in _commands():
        rows.append(f"    {shlex.quote(f'{command.name}:{command.what}')}")
        options = [shlex.quote(_zsh_option(o, a)) for a in command.options for o in _spellings(a)]
        rest = [] if command.rest == ANYTHING else [f"*: :{_zsh(command.rest)}"]
        if command.takes_program:  # whose arguments are its own
            rest = [f"(-)1: :{_zsh(FILES)}", f"*: :{_zsh(FILES)}"]
        arguments = " ".join([*options, *map(shlex.quote, rest)])
        cases.append(f"    {command.name}) shift words; (( CURRENT-- )); _arguments {arguments} ;;")
    return _ZSH.replace("@COMMANDS@", "\n".join(rows)).replace("@CASES@", "\n".join(cases))


def _zsh(values: Values) -> str:
    if isinstance(values, list):
        return f"({' '.join(values)})"
    return {FILES: "_files", FOLDERS: "_path_files -/", ANYTHING: " "}[values]


def _zsh_option(option: str, action: argparse.Action) -> str:
    what = (action.help or "").replace("[", "(").replace("]", ")").replace(":", " -")
    if not _takes_value(action):
        return f"{option}[{what}]"
    equals = "=" if option.startswith("--") else ""
    return f"{option}{equals}[{what}]:{action.dest}:{_zsh(_values(action, ANYTHING))}"


def fish() -> str:
    """For fish: with what each command and option does."""
    top = "complete -c rushlight -n __fish_use_subcommand -f"
    lines = [
        f"{top} -s h -l help -d 'show the commands'",
        f"{top} -l version -d 'show the version'",
    ]
    for command in _commands():
        lines.append(f"{top} -a {command.name} -d {shlex.quote(command.what)}")
        inside = f"complete -c rushlight -n 'contains -- {command.name} (commandline -opc)[2]'"
        if command.rest != FILES:
            lines.append(f"{inside} {_fish(command.rest, '-f')}")
        for action in command.options:
            names = [
                f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
                for name in _spellings(action)
            ]
            takes = [_fish(_values(action, ANYTHING), "-x")] if _takes_value(action) else []
            told = f"-d {shlex.quote(action.help or '')}"
            lines.append(" ".join([inside, *names, *takes, told]))
    return "\n".join(lines) + "\n"


def _fish(values: Values, without_files: str) -> str:
    if isinstance(values, list):
        return f"{without_files} -a {shlex.quote(' '.join(values))}"
    folders = f"{without_files} -a '(__fish_complete_directories)'"
    return {FILES: "-r -F", FOLDERS: folders, ANYTHING: without_files}[values]
