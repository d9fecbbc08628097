"""print what makes a shell complete commands and options

Read by the shell's start-up file; the commands and options are those of this installation.
"""

from __future__ import annotations

import argparse
import shlex

EXAMPLES = (
    ('eval "$(rushlight completion bash)"', "in ~/.bashrc"),
    ('eval "$(rushlight completion zsh)"', "in ~/.zshrc, after compinit"),
    ("rushlight completion fish | source", "in ~/.config/fish/config.fish"),
)

_BASH = """\
_rushlight() {
  local words="" current="${COMP_WORDS[COMP_CWORD]}"
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="@COMMANDS@ --help --version"
  else
    case "${COMP_WORDS[1]}" in
@CASES@
    esac
    case "$current" in
      -*) ;;
      *) COMPREPLY=($(compgen -W "$words" -- "$current") $(compgen -f -- "$current")); return ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o filenames -F _rushlight rushlight
"""

_ZSH = """\
_rushlight() {
  local -a commands
  commands=(
@COMMANDS@
  )
  if (( CURRENT == 2 )); then
    _describe command commands
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


def _commands() -> dict[str, tuple[str, list[argparse.Action]]]:
    """For each command: its line in the list, and its options."""
    from rushlight import cli

    parsers = {name: cli.parser_of(name) for name in cli.commands()}
    return {
        name: ((parser.description or "").partition("\n")[0], parser._actions)
        for name, parser in parsers.items()
    }


def _words(actions: list[argparse.Action]) -> list[str]:
    words = [option for action in actions for option in action.option_strings]
    return words + [str(c) for a in actions if not a.option_strings for c in a.choices or ()]


def bash() -> str:
    """For bash: commands, then options and files."""
    found = _commands()
    cases = [f'      {name}) words="{" ".join(_words(a))}" ;;' for name, (_, a) in found.items()]
    text = _BASH.replace("@COMMANDS@", " ".join(found))
    return text.replace("@CASES@", "\n".join(cases))


def zsh() -> str:
    """For zsh: with what each command and option does."""
    found = _commands()
    rows = [f"    {shlex.quote(f'{name}:{what}')}" for name, (what, _) in found.items()]
    cases = []
    for name, (_, actions) in found.items():
        options = [shlex.quote(_zsh_option(o, a)) for a in actions for o in a.option_strings]
        choices = [str(c) for a in actions if not a.option_strings for c in a.choices or ()]
        rest = f"'*: :({' '.join(choices)})'" if choices else "'*: :_files'"
        cases.append(f"    {name}) shift words; (( CURRENT-- )); _arguments ")
        cases[-1] += " ".join([*options, rest]) + " ;;"
    return _ZSH.replace("@COMMANDS@", "\n".join(rows)).replace("@CASES@", "\n".join(cases))


def _zsh_option(option: str, action: argparse.Action) -> str:
    what = (action.help or "").replace("[", "(").replace("]", ")").replace(":", " -")
    return f"{option}[{what}]" + ("" if action.nargs == 0 else f":{action.dest}:_files")


def fish() -> str:
    """For fish: with what each command and option does."""
    lines = ["complete -c rushlight -n __fish_use_subcommand -l version -l help -f"]
    for name, (what, actions) in _commands().items():
        lines.append(
            f"complete -c rushlight -f -n __fish_use_subcommand -a {name} -d {shlex.quote(what)}"
        )
        inside = f"complete -c rushlight -n '__fish_seen_subcommand_from {name}'"
        for action in actions:
            spelled = [
                f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
                for option in action.option_strings
            ]
            takes = [] if action.nargs == 0 else ["-r"]
            told = ["-d", shlex.quote(action.help or "")]
            if spelled:
                lines.append(" ".join([inside, *spelled, *takes, *told]))
            elif action.choices:
                lines.append(f"{inside} -f -a {shlex.quote(' '.join(map(str, action.choices)))}")
    return "\n".join(lines) + "\n"
