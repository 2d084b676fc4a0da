"""The command line's front door. `amplint --version` imports no more than this file."""

from __future__ import annotations

import sys

from amplint import __version__

INTERRUPTED = 130
BROKEN_PIPE = 141


def main(argv: list[str] | None = None) -> int:
    """Run amplint with `argv` (by default the program's own) and return its exit code: 0 clean, 1 findings, 2 error."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments in (["--version"], ["-V"]):
        print(f"amplint {__version__}")
        return 0
    try:
        from amplint.commands import dispatch  # noqa: PLC0415 - see above

        code = dispatch(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("amplint: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has left. Python would say so once more when it closes stdout at its end.
        import os  # noqa: PLC0415

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return code


if __name__ == "__main__":
    sys.exit(main())
