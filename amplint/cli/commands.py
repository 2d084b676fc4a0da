"""The commands: `check`, which is meant where none is named, and the others, each imported when it is called."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable

from amplint.cli.arguments import Parser
from amplint.cli.check import CLEAN, check, fail
from amplint.config.selection import SettingsError, codes_of
from amplint.runner import describe


def dispatch(arguments: list[str]) -> int:
    """Run the command that `arguments` name and return its exit code.

    Raises:
        OSError: the output can't be written.
    """
    try:
        _make_writable()
        arguments = _named(arguments)
        named = arguments[0] if arguments and arguments[0] in _COMMANDS else None
        code = _COMMANDS[named or "check"](arguments[1:] if named else arguments)
        sys.stdout.flush()
        return code
    except SettingsError as error:
        return fail(str(error))
    except SystemExit as stop:  # argparse, after --help and after mistakes
        return int(stop.code or CLEAN)
    except OSError:
        raise
    except Exception as error:  # a bug of ours is said in one line, too
        return fail(describe(error))


def _make_writable() -> None:
    """Let stdout and stderr take any text."""
    if sys.stdout is None or sys.stderr is None:  # closed by who has started this
        nowhere = open(os.devnull, "w")  # noqa: SIM115 - as long as the streams are
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A file name or a source line that the terminal's encoding lacks must not end the run.
            stream.reconfigure(errors="backslashreplace")


def _named(arguments: list[str]) -> list[str]:
    """The arguments without `--`; what starts with a dash behind it is a path. (argparse fails to mix the two.)"""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    paths = (f"{os.curdir}{os.sep}{each}" if each.startswith("-") else each for each in arguments[at + 1 :])
    return [*arguments[:at], *paths]


def _rule(arguments: list[str]) -> int:
    parser = Parser(prog="amplint rule", description="Print the documentation of rules.")
    parser.add_argument(
        "rules", nargs="*", metavar="RULE", help="a code (AMP401), a name (clip-without-unscale) or a prefix (AMP4)"
    )
    parser.add_argument("--all", action="store_true", help="print all rules")
    parser.add_argument("--output-format", choices=("text", "json"), default="text", help="[default: text]")
    options = parser.parse_args(arguments)
    if bool(options.rules) == options.all:
        parser.error("name a rule, or use --all")
    from amplint.guide.rule_pages import as_json, as_text  # noqa: PLC0415 - no other command needs it
    from amplint.registry import all_rules, known  # noqa: PLC0415

    rules = [all_rules()[code] for code in (all_rules() if options.all else _codes(options.rules))]
    as_list = options.all or len(rules) != 1
    failed = list(known().errors) if as_list else []
    for rule in tuple(rules):
        if (why := rule.broken()) is not None:
            failed.append(why)
            rules.remove(rule)
    if rules or as_list:
        sys.stdout.write(as_json(rules, as_list=as_list) if options.output_format == "json" else as_text(rules))
    return max((fail(each) for each in failed), default=CLEAN)


def _codes(given: list[str]) -> list[str]:
    """The codes of rules that are given by their names, present or former, their codes, or what these start with."""
    from amplint.registry import FORMER_NAMES, all_rules  # noqa: PLC0415 - see above

    named = {name: [code] for name, code in FORMER_NAMES.items()}
    named |= {rule.name: [code] for code, rule in all_rules().items()}
    return list(dict.fromkeys(code for word in given for code in named.get(word.lower()) or codes_of(_as_code(word))))


def _as_code(given: str) -> str:
    """What may be typed for a code: amp401."""
    return given.upper() if given[:3].isalpha() and given[3:].isdecimal() else given


def _verify(arguments: list[str]) -> int:
    from amplint.cli.verify import run_verify  # noqa: PLC0415 - no other command needs it

    return run_verify(arguments)


def _server(arguments: list[str]) -> int:
    parser = Parser(prog="amplint server", description="Start the language server, for an editor, on stdin and stdout.")
    parser.add_argument(
        "--stdio", action="store_true", help="use stdin and stdout: the default, which some editors pass"
    )
    parser.parse_args(arguments)
    try:
        from amplint.integrations.lsp_server import make  # noqa: PLC0415 - of an extra of its own
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        return fail("the language server needs pygls: pip install 'amplint[lsp]'")
    # The protocol has stdout for itself: what a library prints by mistake must not get between.
    with open(os.dup(sys.stdout.fileno()), "wb") as to_editor:
        sys.stdout = sys.stderr
        make().start_io(stdout=to_editor)
    return CLEAN


def _explain(arguments: list[str]) -> int:
    from amplint.cli.explain import run_explain  # noqa: PLC0415 - no other command needs it

    return run_explain(arguments)


def _config(arguments: list[str]) -> int:
    from amplint.cli.config import run_config  # noqa: PLC0415 - no other command needs it

    return run_config(arguments)


def _clean(arguments: list[str]) -> int:
    from amplint.cli.clean import run_clean  # noqa: PLC0415 - no other command needs it

    return run_clean(arguments)


_COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "check": check,
    "clean": _clean,
    "config": _config,
    "explain": _explain,
    "rule": _rule,
    "server": _server,
    "verify": _verify,
}
