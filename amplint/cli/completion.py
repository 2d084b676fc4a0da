"""The command `completion`: a script for a shell that completes commands, options and rules.

It is made from the parsers of the commands, and has all that they have.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple

from amplint.cli import clean, config, explain, rule, run, server, verify
from amplint.cli.arguments import COMMANDS, Parser, check_parser
from amplint.cli.check import CLEAN
from amplint.registry import all_rules, families

_DESCRIPTION = """\
Print a script that completes amplint's commands, options and rules in a shell.

  bash  eval "$(amplint completion bash)"       in ~/.bashrc
  zsh   eval "$(amplint completion zsh)"        in ~/.zshrc, after compinit
  fish  amplint completion fish | source        in ~/.config/fish/config.fish"""
_EXAMPLES = ('eval "$(amplint completion bash)"',)
_SHELLS = ("bash", "fish", "zsh")


class Value(Enum):
    """What the value of an option, or an argument, is."""

    NONE = "none"
    WORDS = "words"
    RULES = "rules"
    FILE = "file"
    TEXT = "text"


class Option(NamedTuple):
    """An option of a command: its names, what it does, and what its value can be."""

    names: tuple[str, ...]
    help: str
    value: Value
    words: tuple[str, ...] = ()


class Command(NamedTuple):
    """A command: its options, and what its other arguments are."""

    name: str
    help: str
    options: tuple[Option, ...]
    value: Value
    words: tuple[str, ...] = ()


def make_parser() -> Parser:
    """The options of the command."""
    parser = Parser("amplint completion", _DESCRIPTION, examples=_EXAMPLES)
    parser.add_argument("shell", choices=_SHELLS, metavar="SHELL", help=", ".join(_SHELLS))
    return parser


PARSERS: Mapping[str, Callable[[], Parser]] = {
    "check": check_parser,
    "rule": rule.make_parser,
    "explain": explain.make_parser,
    "verify": verify.make_parser,
    "run": run.make_parser,
    "config": config.make_parser,
    "clean": clean.make_parser,
    "server": server.make_parser,
    "completion": make_parser,
}


def run_completion(arguments: list[str]) -> int:
    """Print the script for the shell that `arguments` name and return the exit code."""
    shell = make_parser().parse_args(arguments).shell
    script = {"bash": _bash, "fish": _fish, "zsh": _zsh}[shell]
    sys.stdout.write(script())
    return CLEAN


def commands() -> Iterator[Command]:
    """All commands, as their parsers have them."""
    for name, words in COMMANDS.items():
        parser = PARSERS[name]()
        options = tuple(_option(each) for each in parser._actions if each.option_strings)
        others = [_option(each) for each in parser._actions if not each.option_strings]
        # The program of `run` is not an argument of its parser.
        value, choices = (others[0].value, others[0].words) if others else (Value.FILE, ())
        yield Command(name, words, options, value, choices)


def _option(action: argparse.Action) -> Option:
    named = action.metavar if isinstance(action.metavar, str) else ""
    words = tuple(map(str, action.choices or ()))
    if action.nargs == 0:
        value = Value.NONE
    elif words:
        value = Value.WORDS
    elif named.startswith("RULE"):
        value = Value.RULES
    else:
        value = Value.FILE if named.upper().partition(" ")[0] in ("FILE", "PATH") else Value.TEXT
    return Option(tuple(action.option_strings), (action.help or "").replace("%%", "%"), value, words)


def _selectors() -> dict[str, str]:
    """The words that mean rules, each with what it is."""
    found = {"ALL": "all rules"}
    for name, start in families().items():
        found |= {start: f"the family {name}", name: f"the family {start}"}
    for code, each in all_rules().items():
        found |= {code: each.name, each.name: code}
    return found


_BASH = r"""# Completes amplint's arguments in bash; made by `amplint completion bash`.
_amplint() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=check options before=
    local rules='@RULES@'
    COMPREPLY=()
    # bash takes the = of --option=value for a word.
    if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi
    if (( COMP_CWORD > 1 )); then
        case ${COMP_WORDS[1]} in @COMMANDS@) command=${COMP_WORDS[1]} ;; esac
    fi
    case $command:$prev in
@VALUES@
    esac
    if [[ $cur == -* ]]; then
        case $command in
@OPTIONS@
        esac
        COMPREPLY=( $(compgen -W "$options" -- "$cur") )
        return
    fi
    if (( COMP_CWORD == 1 )); then
        COMPREPLY=( $(compgen -W '@COMMAND_WORDS@' -- "$cur") )
        local IFS=$'\n'
        COMPREPLY+=( $(compgen -f -- "$cur") )
        return
    fi
    case $command in
@ARGUMENTS@
    esac
}
# Where the function has nothing to say, files are named.
complete -o default -o filenames -F _amplint amplint
"""


def _bash() -> str:
    """The script for bash, also for 3.2, which macOS has."""
    values, options, arguments = [], [], []
    for command in commands():
        options.append(f"        {command.name}) options='{_joined(command)}' ;;")
        if command.value in (Value.RULES, Value.WORDS):
            words = "$rules" if command.value is Value.RULES else " ".join(command.words)
            arguments.append(f'        {command.name}) COMPREPLY=( $(compgen -W "{words}" -- "$cur") ) ;;')
        for option in command.options:
            pattern = "|".join(f"{command.name}:{name}" for name in option.names)
            if option.value is Value.WORDS:
                made = f"COMPREPLY=( $(compgen -W '{' '.join(option.words)}' -- \"$cur\") ); "
            elif option.value is Value.RULES:
                made = "if [[ $cur == *,* ]]; then before=${cur%,*},; fi\n            "
                made += 'COMPREPLY=( $(compgen -P "$before" -W "$rules" -- "${cur##*,}") ); '
            else:
                made = ""
            if option.value is not Value.NONE:
                values.append(f"        {pattern}) {made}return ;;")
    return _filled(
        _BASH,
        RULES=" ".join(_selectors()),
        COMMANDS="|".join(COMMANDS),
        COMMAND_WORDS=" ".join(COMMANDS),
        VALUES="\n".join(values),
        OPTIONS="\n".join(f"    {each}" for each in options),
        ARGUMENTS="\n".join(arguments),
    )


def _joined(command: Command) -> str:
    return " ".join(name for option in command.options for name in option.names)


_FISH = r"""# Completes amplint's arguments in fish; made by `amplint completion fish`.
function __amplint_command
    set -l words (commandline -opc)
    if set -q words[2]; and contains -- $words[2] @COMMAND_WORDS@
        echo $words[2]
    else
        echo check
    end
end
function __amplint_is
    test (__amplint_command) = $argv[1]
end
function __amplint_rules
    printf '%s\t%s\n' @RULES@
end
function __amplint_rule_list
    set -l before (string match -r '^(?:--[^=]*=)?(.*,)?' -- (commandline -ct))[2]
    __amplint_rules | string replace -r '^' -- "$before"
end
complete -c amplint -e
@LINES@
"""


def _fish() -> str:
    """The script for fish."""
    lines = [
        f"complete -c amplint -n 'test (count (commandline -opc)) -eq 1' -a {name} -d {_quoted(what)}"
        for name, what in COMMANDS.items()
    ]
    for command in commands():
        condition = f"complete -c amplint -n '__amplint_is {command.name}'"
        if command.value is Value.RULES:
            lines.append(f"{condition} -f -a '(__amplint_rules)'")
        elif command.value is Value.WORDS:
            lines.append(f"{condition} -f -a {_quoted(' '.join(command.words))}")
        for option in command.options:
            names = " ".join(f"-l {each[2:]}" if each.startswith("--") else f"-s {each[1:]}" for each in option.names)
            value = {
                Value.NONE: "",
                Value.WORDS: f" -x -a {_quoted(' '.join(option.words))}",
                Value.RULES: " -x -a '(__amplint_rule_list)'",
                Value.FILE: " -r -F",
                Value.TEXT: " -x",
            }[option.value]
            lines.append(f"{condition} {names}{value} -d {_quoted(option.help)}")
    rules = " ".join(_quoted(each) for pair in _selectors().items() for each in pair)
    return _filled(_FISH, COMMAND_WORDS=" ".join(COMMANDS), RULES=rules, LINES="\n".join(lines))


_ZSH = r"""#compdef amplint
# Completes amplint's arguments in zsh; made by `amplint completion zsh`.
_amplint_rules() {
    local -a rules
    rules=(@RULES@)
    _describe -t rules rule rules
}
_amplint_rule_list() {
    compset -P '*,'
    _amplint_rules
}
@FUNCTIONS@
_amplint() {
    local -a commands
    commands=(@COMMANDS@)
    if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then
        _describe -t commands command commands
    fi
    if (( CURRENT > 2 && $+functions[_amplint_command_$words[2]] )); then
        local command=$words[2]
        shift words
        (( CURRENT-- ))
        _amplint_command_$command
    else
        _amplint_command_check
    fi
}
if [[ $funcstack[1] == _amplint ]]; then
    _amplint "$@"
else
    compdef _amplint amplint
fi
"""


def _zsh() -> str:
    """The script for zsh: to be evaluated, or to be a file `_amplint` in its `fpath`."""
    functions = []
    for command in commands():
        others = {Value.RULES: "_amplint_rules", Value.WORDS: f"({' '.join(command.words)})"}
        specs = [_quoted(f"*:{command.value.value}:{others.get(command.value, '_files')}")]
        for option in command.options:
            value = {
                Value.NONE: "",
                Value.WORDS: f":value:({' '.join(option.words)})",
                Value.RULES: ":rules:_amplint_rule_list",
                Value.FILE: ":file:_files",
                Value.TEXT: ":value: ",
            }[option.value]
            said = option.help.replace("[", "(").replace("]", ")").replace(":", r"\:")
            for name in option.names:
                equals = "=" if value and name.startswith("--") else ""
                specs.append(_quoted(f"*{name}{equals}[{said}]{value}"))
        lines = " \\\n        ".join(specs)
        functions.append(f"_amplint_command_{command.name}() {{\n    _arguments -S \\\n        {lines}\n}}")

    def described(pairs: dict[str, str]) -> str:
        return " ".join(_quoted(f"{name}:{what}") for name, what in pairs.items())

    return _filled(_ZSH, RULES=described(_selectors()), COMMANDS=described(COMMANDS), FUNCTIONS="\n".join(functions))


def _quoted(text: str) -> str:
    """A text in single quotes, as bash, zsh and fish read it alike."""
    return "'" + text.replace("'", r"'\''") + "'"


def _filled(template: str, **parts: str) -> str:
    for name, text in parts.items():
        template = template.replace(f"@{name}@", text)
    return template
