"""The command `check`: the files that are named, linted, fixed where asked, and reported."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TextIO

from amplint.arguments import FAILED, check_parser
from amplint.discovery import discover
from amplint.paths import visible
from amplint.report import Report, render
from amplint.report.summary import diff_summary, statistics, summary
from amplint.run import Job, Mode, process, processors, run
from amplint.selection import Selection, SettingsError
from amplint.settings import Overrides, Resolver

CLEAN, FOUND = 0, 1


def fail(message: str) -> int:
    """Say what ends the run, or costs it a file, and return the exit code that goes with it."""
    print(f"amplint: error: {visible(message)}", file=sys.stderr)
    return FAILED


def _warn(message: str) -> None:
    print(f"amplint: warning: {visible(message)}", file=sys.stderr)


def check(arguments: list[str]) -> int:
    """Lint what `arguments` name and return the exit code."""
    parser = check_parser()
    options = parser.parse_intermixed_args(arguments)
    if options.statistics and options.output_format == "github":
        parser.error("--statistics goes with --output-format concise, full or json")
    if "-" in options.paths and len(options.paths) > 1:
        parser.error("- (standard input) can't be combined with other paths")
    if options.verify and (not options.fix or options.diff or "-" in options.paths):
        parser.error("--verify goes with --fix, on files")
    stdin = options.paths == ["-"]
    mode = Mode.DIFF if options.diff else Mode.FIX if options.fix else Mode.CHECK
    resolver = Resolver(_overrides(options))
    errors: list[str] = []
    if stdin:
        if sys.stdin is None:
            raise SettingsError("standard input is closed")
        name = options.stdin_filename or "-"
        job = Job(name, resolver.for_file(name), mode)
        outcomes = [process(sys.stdin.buffer.read(), job)]
        names = [name]
    else:
        found = discover(options.paths or ["."], resolver)
        errors += found.errors
        for path in [] if options.quiet else found.empty:
            _warn(f"no Python files in {path}")
        if options.verify:
            from amplint.verify_command import fix_verified  # noqa: PLC0415 - torch's parts are for those who ask

            outcomes = list(fix_verified(found.files, resolver, found.outside))
        else:
            jobs = options.jobs or processors()
            outcomes = list(run(found.files, resolver, mode, jobs, outside=found.outside))
        names = list(found.files)

    for path, outcome in zip(names, outcomes, strict=True) if options.verbose else ():
        for line in outcome.given_up:
            print(f"amplint: {visible(path)}: {visible(line)}", file=sys.stderr)
    for warning in [] if options.quiet else [outcome.warning for outcome in outcomes if outcome.warning]:
        _warn(warning)
    errors += [outcome.error for outcome in outcomes if outcome.error]
    results = tuple(outcome.result for outcome in outcomes if outcome.result)
    report = Report(results, sum(outcome.fixed for outcome in outcomes))
    internal = [finding.message for finding in report.findings if finding.code == "AMP000"]
    for message in dict.fromkeys([*errors, *internal] if mode is Mode.DIFF else errors):
        fail(message)
    failed = bool(errors or internal)
    output = b"".join(outcome.output for outcome in outcomes)
    if mode is Mode.DIFF or (mode is Mode.FIX and stdin):
        # What a program reads goes to stdout, so what a person reads goes to stderr.
        sys.stdout.buffer.write(output)
        sys.stdout.buffer.flush()
        _tell(report, sys.stderr, mode, options, clean=not failed)
    else:
        _tell(report, sys.stdout, mode, options, clean=not failed)
    if failed:
        return FAILED
    return FOUND if (output if mode is Mode.DIFF else results) and not options.exit_zero else CLEAN


def _overrides(options: argparse.Namespace) -> Overrides:
    if options.target_torch is not None:
        from amplint.target import from_option  # noqa: PLC0415 - only to say here what is wrong with it

        try:
            from_option(options.target_torch, "--target-torch")
        except ValueError as error:
            raise SettingsError(f"--target-torch: {error}") from None
    select = None if options.select is None else _selectors(options.select)
    if select == ():
        # An empty variable in a script, most likely: to pass every check would be the wrong answer.
        raise SettingsError("--select: no rule is named")
    selection = Selection(select, _selectors(options.extend_select), _selectors(options.ignore))
    return Overrides(selection, options.target_torch, options.isolated, options.unsafe_fixes)


def _selectors(given: list[str] | None) -> tuple[str, ...]:
    return tuple(name.strip() for each in given or () for name in each.split(",") if name.strip())


def _tell(report: Report, to: TextIO, mode: Mode, options: argparse.Namespace, *, clean: bool) -> None:
    """Write what people, or the programs that the output format is for, are to know."""
    if mode is Mode.DIFF:
        to.write("" if options.quiet else diff_summary(report))
        return
    if options.statistics:
        to.write(statistics(report, options.output_format))
    else:
        to.write(render(options.output_format, report, _colour(to)))
    if not options.quiet and options.output_format in ("concise", "full"):
        to.write(summary(report, clean=clean))


def _colour(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
