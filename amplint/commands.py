"""The commands: `check`, which is meant where none is named, `rule`, and `verify` by its own module."""

from __future__ import annotations

import argparse
import io
import os
import sys
from functools import partial
from typing import Any, NoReturn, TextIO

from amplint import __version__
from amplint.discovery import discover
from amplint.paths import visible
from amplint.report import FORMATS, Report, render
from amplint.report.summary import diff_summary, statistics, summary
from amplint.rules import all_rules
from amplint.run import Job, Mode, describe, process, processors, run
from amplint.selection import Selection, SettingsError, codes_of
from amplint.settings import Overrides, Resolver

CLEAN, FOUND, FAILED = 0, 1, 2


class _Parser(argparse.ArgumentParser):
    def __init__(self, prog: str, description: str, **more: Any) -> None:
        # To ask for the terminal's width, as argparse would for each option, takes the import of shutil.
        lines = partial(argparse.HelpFormatter, width=88)
        super().__init__(prog, description=description, formatter_class=lines, allow_abbrev=False, **more)

    def error(self, message: str) -> NoReturn:
        """One line, and not the whole usage, is what a mistake in the arguments deserves."""
        self.exit(FAILED, f"amplint: error: {visible(message)}\n")


def dispatch(arguments: list[str]) -> int:
    """Run the command that `arguments` name and return its exit code.

    Raises:
        OSError: the output can't be written.
    """
    try:
        if sys.stdout is None or sys.stderr is None:  # closed by who has started this
            nowhere = open(os.devnull, "w")  # noqa: SIM115 - as long as the streams are
            sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
        arguments = _named(arguments)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                # A file name or a source line that the terminal's encoding lacks must not end the run.
                stream.reconfigure(errors="backslashreplace")
        if arguments[:1] == ["rule"]:
            code = _rule(arguments[1:])
        elif arguments[:1] == ["verify"]:
            from amplint.verify_command import run_verify  # noqa: PLC0415 - no other command needs it

            code = run_verify(arguments[1:], _Parser)
        else:
            code = _check(arguments[1:] if arguments[:1] == ["check"] else arguments)
        sys.stdout.flush()
        return code
    except SettingsError as error:
        return _fail(str(error))
    except SystemExit as stop:  # argparse, after --help and after mistakes
        return int(stop.code or CLEAN)
    except OSError:
        raise
    except Exception as error:  # a bug of ours is said in one line, too
        return _fail(describe(error))


def _named(arguments: list[str]) -> list[str]:
    """The arguments without `--`; what starts with a dash behind it is a path. (argparse fails to mix the two.)"""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    paths = (f"{os.curdir}{os.sep}{each}" if each.startswith("-") else each for each in arguments[at + 1 :])
    return [*arguments[:at], *paths]


def _fail(message: str) -> int:
    print(f"amplint: error: {visible(message)}", file=sys.stderr)
    return FAILED


def _warn(message: str) -> None:
    print(f"amplint: warning: {visible(message)}", file=sys.stderr)


def _check_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="amplint",
        usage="amplint [check] [options] [path ...]\n       amplint rule (CODE | --all) [--output-format text|json]\n"
        "       amplint verify [options] PATH ...",
        description="Find misuse of PyTorch automatic mixed precision (AMP), and fix it.",
        epilog="Exit codes: 0 nothing found, 1 findings, 2 amplint could not do its work.",
    )
    add = parser.add_argument
    add("paths", nargs="*", metavar="path", help="files and directories, or - for standard input [default: .]")
    fixing = parser.add_argument_group("fixing")
    fixing.add_argument("--fix", action="store_true", help="apply safe fixes")
    fixing.add_argument("--unsafe-fixes", action="store_true", help="take in fixes that may change behaviour")
    fixing.add_argument("--verify", action="store_true", help="with --fix: only fixes that `amplint verify` confirms")
    fixing.add_argument("--diff", action="store_true", help="print what --fix would change, and change nothing")
    rules = parser.add_argument_group("rules (codes such as AMP401, prefixes such as AMP4, or ALL; comma-separated)")
    rules.add_argument("--select", action="append", metavar="RULES", help="these rules only")
    rules.add_argument("--ignore", action="append", metavar="RULES", help="not these rules")
    rules.add_argument("--extend-select", action="append", metavar="RULES", help="these rules as well")
    settings = parser.add_argument_group("settings")
    settings.add_argument(
        "--target-torch", metavar="VERSION", help="lowest release of torch to support: 2.4, or '>=2.0,<2.4'"
    )
    settings.add_argument("--isolated", action="store_true", help="read no configuration files")
    settings.add_argument("--stdin-filename", metavar="PATH", help="the name of what is read from standard input")
    settings.add_argument(
        "-j", "--jobs", type=_positive, metavar="N", help="processes to use for many files [default: one a processor]"
    )
    output = parser.add_argument_group("output")
    output.add_argument("--output-format", choices=FORMATS, default="full", help="[default: full]")
    output.add_argument("--statistics", action="store_true", help="print counts by rule instead of findings")
    output.add_argument("--exit-zero", action="store_true", help="exit with 0 whatever is found")
    output.add_argument("-v", "--verbose", action="store_true", help="say on stderr what could not be analysed")
    output.add_argument("-q", "--quiet", action="store_true", help="print findings and nothing else")
    add("-V", "--version", action="version", version=f"amplint {__version__}")
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processes")
    return int(text)


def _check(arguments: list[str]) -> int:
    parser = _check_parser()
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
        job = Job(name, resolver.for_file(name), mode, options.unsafe_fixes)
        outcomes = [process(sys.stdin.buffer.read(), job)]
        names = [name]
    else:
        found = discover(options.paths or ["."], resolver)
        errors += found.errors
        for path in [] if options.quiet else found.empty:
            _warn(f"no Python files in {path}")
        if options.verify:
            from amplint.verify_command import fix_verified  # noqa: PLC0415 - torch's parts are for those who ask

            outcomes = list(fix_verified(found.files, resolver, options.unsafe_fixes, found.outside))
        else:
            jobs = options.jobs or processors()
            outcomes = list(run(found.files, resolver, mode, options.unsafe_fixes, jobs, outside=found.outside))
        names = list(found.files)

    for path, outcome in zip(names, outcomes, strict=True) if options.verbose else ():
        for line in outcome.given_up:
            print(f"amplint: {visible(path)}: {visible(line)}", file=sys.stderr)
    for warning in [] if options.quiet else [outcome.warning for outcome in outcomes if outcome.warning]:
        _warn(warning)
    errors += [outcome.error for outcome in outcomes if outcome.error]
    results = tuple(outcome.result for outcome in outcomes if outcome.result)
    report = Report(results, sum(outcome.fixed for outcome in outcomes), options.unsafe_fixes)
    internal = [finding.message for finding in report.findings if finding.code == "AMP000"]
    for message in dict.fromkeys([*errors, *internal] if mode is Mode.DIFF else errors):
        _fail(message)
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
    return Overrides(selection, options.target_torch, options.isolated)


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


def _rule(arguments: list[str]) -> int:
    parser = _Parser(prog="amplint rule", description="Print the documentation of a rule, or of all.")
    parser.add_argument("code", nargs="?", metavar="CODE", help="such as AMP401")
    parser.add_argument("--all", action="store_true", help="all rules")
    parser.add_argument("--output-format", choices=("text", "json"), default="text", help="[default: text]")
    options = parser.parse_args(arguments)
    if (options.code is None) != options.all:
        parser.error("give the code of a rule, or --all")
    from amplint.report.rules_doc import as_json, as_text  # noqa: PLC0415 - no other command needs it

    rules = list(all_rules().values()) if options.all else [all_rules()[code] for code in codes_of(options.code)]
    as_list = options.all or len(rules) > 1
    sys.stdout.write(as_json(rules, as_list=as_list) if options.output_format == "json" else as_text(rules))
    return CLEAN
