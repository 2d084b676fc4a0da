"""The command line's front door. `amplint --version` imports no more than this file."""

from __future__ import annotations

import sys

from amplint import __version__

FAILED = 2
INTERRUPTED = 130
BROKEN_PIPE = 141


def main(argv: list[str] | None = None) -> int:
    """Run amplint with `argv` (by default the program's own) and return its exit code: 0 clean, 1 findings, 2 error."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments in (["--version"], ["-V"]):
        print(f"amplint {__version__}")
        return 0
    if arguments[:1] == ["help"]:  # `amplint help verify` is `amplint verify --help`
        arguments = [*arguments[1:2], "--help"]
    if arguments[:1] == ["run"]:  # the program that it runs has the streams and its own way to end
        from amplint.cli.run import run_program  # noqa: PLC0415 - see above

        return run_program(arguments[1:])
    try:
        from amplint.cli.commands import dispatch  # noqa: PLC0415 - see above

        code = dispatch(arguments)
    except KeyboardInterrupt:
        print("amplint: interrupted", file=sys.stderr)
        code = INTERRUPTED
    except OSError as error:
        import os  # noqa: PLC0415

        # Python would fail once more when it writes what is left at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # whoever read the output has left
            return BROKEN_PIPE
        print(f"amplint: error: {error}", file=sys.stderr)
        return FAILED
    if code == INTERRUPTED and argv is None:
        _end_interrupted()
    return code


def _end_interrupted() -> None:
    """End the process, or prepare its end, with the exit code that it has."""
    import os  # noqa: PLC0415 - see above
    import signal  # noqa: PLC0415

    from amplint.sources.parsing import is_busy  # noqa: PLC0415

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is ending
    if is_busy():
        # Python before 3.14 would unwind the thread's stack. If native code is on it, that aborts the process.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)
    # After Ctrl-C inside a text that is executed, as `namedtuple` does, `python -m amplint` would end by a signal,
    # though the KeyboardInterrupt is handled. Python forgets it with the next text.
    exec("")


if __name__ == "__main__":
    sys.exit(main())
