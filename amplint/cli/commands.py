"""The commands: `check`, which is meant where none is named, and the others, each imported when it is called."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable

from amplint.cli.check import CLEAN, check, fail
from amplint.config.selection import SettingsError
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
    from amplint.cli.rule import run_rule  # noqa: PLC0415 - no other command needs it

    return run_rule(arguments)


def _verify(arguments: list[str]) -> int:
    from amplint.cli.verify import run_verify  # noqa: PLC0415 - no other command needs it

    return run_verify(arguments)


def _server(arguments: list[str]) -> int:
    from amplint.cli.server import run_server  # noqa: PLC0415 - no other command needs it

    return run_server(arguments)


def _completion(arguments: list[str]) -> int:
    from amplint.cli.completion import run_completion  # noqa: PLC0415 - no other command needs it

    return run_completion(arguments)


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
    "completion": _completion,
    "config": _config,
    "explain": _explain,
    "rule": _rule,
    "server": _server,
    "verify": _verify,
}
