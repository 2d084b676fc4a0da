"""The command `verify`: its options, its progress and its exit code."""

from __future__ import annotations

import argparse
import math
import shutil
import sys
from collections.abc import Callable

from amplint.report.proofs import as_json, as_table
from amplint.verify.fixtures import DEVICES, Fixture, NotAFixture
from amplint.verify.proof import REFUTED
from amplint.verify.run import MEMORY, TIMEOUT, CannotRun, verify

_DESCRIPTION = """\
Run fixtures under the real torch.amp: does the bad half misbehave in the way that its first line says, and is the fixed
half right? Programs without such a line are not run; verify can't check them yet."""
_EPILOG = """\
Errors are relative to the same program with AMP switched off: regions and scalers made with enabled=False. JSON is a
list of objects: rule, variant, path, shows, device, simulated, verdict, reason, before, after, seconds, and the numbers
of both halves, bad and fixed. Exit codes: 0 all confirmed, 1 something refuted, 2 could not run."""


def run_verify(arguments: list[str], parser: Callable[..., argparse.ArgumentParser]) -> int:
    """Verify what `arguments` name, print what was found and return the exit code."""
    command = parser(prog="amplint verify", description=_DESCRIPTION, epilog=_EPILOG)
    add = command.add_argument
    add("paths", nargs="+", metavar="PATH", help="folder of fixtures, of a rule, of a variant, or a file bad.py")
    add("--device", choices=DEVICES, help="device for fixtures that name none; simulated where it is missing")
    add("--timeout", type=_seconds, default=TIMEOUT, metavar="SECONDS", help="for each half [default: 60]")
    add("--memory", type=_size, default=MEMORY, metavar="MIB", help="for each half, beyond torch's [default: 2048]")
    add("--output-format", choices=("text", "json"), default="text", help="[default: text]")
    options = command.parse_intermixed_args(arguments)
    try:
        rows = verify(
            options.paths,
            device=options.device,
            timeout=options.timeout,
            memory=options.memory,
            progress=_progress if sys.stderr.isatty() else None,
        )
    except (NotAFixture, CannotRun) as error:
        print(f"amplint: error: {error}", file=sys.stderr)
        return 2
    finally:
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    if options.output_format == "json":
        sys.stdout.write(as_json(rows))
    else:
        sys.stdout.write(as_table(rows, shutil.get_terminal_size((160, 24)).columns))
    return 1 if any(row.verdict == REFUTED for row in rows) else 0


def _progress(done: int, total: int, fixture: Fixture) -> None:
    text = f"[{done + 1}/{total}] {fixture.rule} {fixture.name}"
    print(f"\r\x1b[K{text[: shutil.get_terminal_size().columns - 1]}", end="", file=sys.stderr, flush=True)


def _seconds(text: str) -> float:
    value = float(text)
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time")
    return value


def _size(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of MiB")
    return int(text)
