"""The command `check`: the files that are named, linted, fixed where asked, and reported."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TextIO

from amplint.base.paths import LARGEST, absolute, shown, visible
from amplint.base.project_root import CACHE, project_of, told
from amplint.cli.arguments import COMMANDS, FAILED, INTERRUPTED, MEANT, check_parser, overrides, tell_notices, warn
from amplint.config.formats import FOR_PEOPLE, SEVERITIES, STATISTICS
from amplint.config.selection import SettingsError, nearest, renamed
from amplint.config.settings import Overrides, Resolver, Settings
from amplint.engine.result import HeldBack, Linted, Outcome
from amplint.files.discovery import discover
from amplint.registry import known
from amplint.report import Fixed, Report, render
from amplint.report.summary import diff_summary, fixes, held_back, silenced, statistics, summary
from amplint.runner import MANY, Job, Mode, process, processors, run

if TYPE_CHECKING:
    from amplint.adoption.baseline import Baseline, Compared

CLEAN, FOUND = 0, 1
# Options that a configuration can set, too, and that are the same for all files: those of the current folder.
_OF_A_RUN = ("output_format", "fix", "show_fixes", "exit_on", "baseline")


def fail(message: str) -> int:
    """Say what ends the run, or costs it a file, and return the exit code that goes with it."""
    print(f"amplint: error: {visible(message)}", file=sys.stderr)
    return FAILED


def check(arguments: list[str]) -> int:
    """Lint what `arguments` name and return the exit code."""
    options = _options(arguments)
    resolver = Resolver(overrides(options, **{key: getattr(options, key) for key in _OF_A_RUN}, docs=options.docs))
    errors = _settled(options, resolver)
    tell_notices(resolver, quiet=options.quiet)
    baseline = _baseline(options)
    if options.watch:
        return _watched(options, resolver.overrides, errors, baseline)
    linted = _from_stdin(options, resolver, baseline) if options.stdin else _from_files(options, resolver, baseline)
    linted, ended = _finished(linted)
    if ended and options.write_baseline:
        raise KeyboardInterrupt  # the file would say that what was not linted has no findings
    linted = _held_back(linted, baseline, resolver, options) if baseline else linted
    if options.verbose:
        _assumed(linted.names, resolver)
    tell_notices(resolver, quiet=options.quiet)  # of the files' own configurations
    code = _told(linted._replace(errors=[*linted.errors, *errors]), options)
    return INTERRUPTED if ended else code


def _finished(linted: Linted) -> tuple[Linted, bool]:
    """What a run has come to before the user has ended it, which it then says; and whether the user has."""
    done = [(name, each) for name, each in zip(linted.names, linted.outcomes, strict=True) if not each.unfinished]
    left = len(linted.outcomes) - len(done)
    if not left:
        return linted, False
    said = f"interrupted: {left} of {len(linted.names)} files were not linted"
    return Linted([name for name, _ in done], [each for _, each in done], [*linted.errors, said]), True


def _watched(options: argparse.Namespace, given: Overrides, errors: list[str], baseline: Baseline | None) -> int:
    """Lint again whatever changes, until the user ends it."""
    if options.output_format not in FOR_PEOPLE:
        raise SettingsError(f"--watch needs --output-format {', '.join(FOR_PEOPLE[:-1])} or {FOR_PEOPLE[-1]}")
    from amplint.cli.watch import Hands, Watch  # noqa: PLC0415 - a run of its own kind

    def lint(files: Sequence[str], outside: Collection[str], resolver: Resolver) -> list[Outcome]:
        outcomes = _lint(files, outside, options, resolver, baseline)
        if any(each.unfinished for each in outcomes):
            raise KeyboardInterrupt
        return _compared(Linted(list(files), outcomes, []), baseline, resolver).outcomes if baseline else outcomes

    terse = argparse.Namespace(**{**vars(options), "quiet": True})
    hands = Hands(
        lambda: Resolver(given),
        lint,
        lambda linted, whole: _told(linted, options if whole else terse),
        lambda linted: len(_report(linted, options).findings),
    )
    for each in errors:
        fail(each)
    try:
        Watch(options.paths or ["."], hands).run()
    except KeyboardInterrupt:
        print()
    return CLEAN


def _options(arguments: list[str]) -> argparse.Namespace:
    """The options, those that follow from others among them."""
    parser = check_parser()
    _check_commands(parser, arguments[:1], helps=len(arguments) == 1 or not {"-h", "--help"}.isdisjoint(arguments))
    # What comes after it is a path, and not a reason.
    options = parser.parse_intermixed_args([f"{each}=" if each == "--add-noqa" else each for each in arguments])
    _check_paths(parser, options)
    if options.watch:
        _check_watch(parser, options)
    if options.verify:
        if options.docs:
            parser.error("--verify can't be combined with --docs: snippets can't be run")
        options.docs = False
    if options.output_file is not None:
        _check_output_file(parser, options)
    if options.add_noqa is not None:
        _check_reason(parser, options)
    if options.baseline == "":
        parser.error("--baseline needs the name of a file")
    if options.no_baseline and (options.baseline is not None or options.write_baseline):
        parser.error("--no-baseline can't be combined with --baseline or --write-baseline")
    return options


def _check_paths(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """See that what is read is files or standard input."""
    if options.stdin_filename is not None:
        if options.paths not in ([], ["-"]):
            parser.error("--stdin-filename can't be combined with paths: it names the file on standard input")
        options.paths = ["-"]
    _check_commands(parser, options.paths)
    if "-" in options.paths and len(options.paths) > 1:
        parser.error("- (standard input) can't be combined with other paths")
    options.stdin = options.paths == ["-"]


def _check_commands(parser: argparse.ArgumentParser, paths: Sequence[str], *, helps: bool = False) -> None:
    """See that no path that isn't there was meant for a command; `helps`: nothing but a command can be meant."""
    for path in paths:
        if path.isalpha() and not os.path.lexists(path) and (why := _command(path, paths, helps=helps)):
            what = "command, file" if path == paths[0] and path not in COMMANDS else "file"
            parser.error(f"{path}: no such {what} or directory; {why}")


def _command(path: str, paths: Sequence[str], *, helps: bool) -> str:
    """What to say of a path that may have been meant for a command."""
    if path in COMMANDS:
        return f"a command comes first: `amplint {path} ...`"
    if path != paths[0]:
        return ""
    near = nearest(path, [*COMMANDS], 0.7)
    meant = MEANT.get(path) or (f"amplint {near}" if near else None)
    return f"did you mean `{meant}`?" if meant else "`amplint --help` lists the commands" if helps else ""


def _check_watch(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    others = (options.diff, options.verify, options.statistics, options.write_baseline)
    if any(others) or options.add_noqa is not None or options.output_file is not None:
        parser.error(
            "--watch can't be combined with --diff, --verify, --statistics, --output-file, --add-noqa or "
            "--write-baseline"
        )
    if options.stdin:
        parser.error("--watch works only on files, not on standard input")


def _check_output_file(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    if options.diff:
        parser.error("--output-file can't be combined with --diff")
    folder = os.path.dirname(options.output_file)
    if not options.output_file or os.path.isdir(options.output_file) or not os.path.isdir(folder or "."):
        parser.error(f"--output-file: {options.output_file!r} is not a file in an existing directory")


def _check_reason(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    if options.fix:
        parser.error("--add-noqa can't be combined with --fix: fix first, then silence the remaining findings")
    from amplint.adoption.add_noqa import refused  # noqa: PLC0415 - once in a project's life

    options.add_noqa = options.add_noqa.strip()
    if options.add_noqa and (why := refused(options.add_noqa)):
        parser.error(f"--add-noqa: {options.add_noqa!r} can't be the reason in a comment: {why}")


def _settled(options: argparse.Namespace, resolver: Resolver) -> list[str]:
    """See to what is the same for all files; what is wrong with the configuration of the current directory."""
    errors = []
    try:
        settings = resolver.settings(os.getcwd())
    except SettingsError as error:
        given = {key: getattr(options, key) for key in _OF_A_RUN}
        settings = Settings(frozenset())._replace(**{key: value for key, value in given.items() if value is not None})
        errors = [str(error)]
    for key in _OF_A_RUN:
        setattr(options, key, getattr(settings, key))
    _settle_baseline(options)
    if options.verify and (not options.fix or options.diff or options.stdin):
        raise SettingsError("--verify needs --fix, and works only on files and without --diff")
    writes = options.fix or options.add_noqa is not None
    options.mode = Mode.DIFF if options.diff else Mode.FIX if writes else Mode.CHECK
    if options.statistics and options.output_format not in STATISTICS:
        raise SettingsError(f"--statistics needs --output-format {', '.join(STATISTICS[:-1])} or {STATISTICS[-1]}")
    return errors


def _settle_baseline(options: argparse.Namespace) -> None:
    """See that what is asked for goes with the baseline, which the configuration may name."""
    if options.no_baseline:
        options.baseline = None
    if options.write_baseline and (options.baseline is None or options.diff or options.stdin):
        raise SettingsError(
            "--write-baseline needs --baseline FILE or `baseline` in the configuration, and works only on files and "
            "without --diff"
        )
    if options.baseline is not None:
        options.baseline = shown(options.baseline)
        if options.add_noqa is not None:
            raise SettingsError(
                "--add-noqa can't be combined with a baseline, whose findings it would silence, too; --no-baseline "
                "ignores the configured one"
            )


def _baseline(options: argparse.Namespace) -> Baseline | None:
    if options.baseline is None:
        return None
    from amplint.adoption.baseline import Baseline  # noqa: PLC0415 - only where there is one

    return Baseline(options.baseline, may_be_missing=options.write_baseline)


def _held_back(linted: Linted, baseline: Baseline, resolver: Resolver, options: argparse.Namespace) -> Linted:
    """What a run has come to without what is held back: all of it, where a new baseline is asked for."""
    compared, written = _compared(linted, baseline, resolver), None
    if options.write_baseline:
        try:
            written = baseline.write(compared.entries)
        except OSError as error:
            raise SettingsError(f"{baseline.path}: {error.strerror or error}") from None
        compared = _compared(linted, baseline, resolver)
    path = visible(baseline.path)
    for each in compared.stale if options.verbose else ():
        print(f"amplint: {visible(each.path)}: {each.code}, listed in {path}, no longer occurs", file=sys.stderr)
    held = HeldBack(baseline.path, compared.held, len(compared.stale), written)
    return linted._replace(outcomes=compared.outcomes, held=held)


def _compared(linted: Linted, baseline: Baseline, resolver: Resolver) -> Compared:
    return baseline.compare(linted.names, linted.outcomes, lambda name: resolver.for_file(name).codes)


def _from_stdin(options: argparse.Namespace, resolver: Resolver, baseline: Baseline | None) -> Linted:
    if sys.stdin is None:
        raise SettingsError("standard input is closed")
    name = options.stdin_filename or "-"
    data = sys.stdin.buffer.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise SettingsError(f"standard input is not linted: too large; the limit is {LARGEST >> 20} MiB")
    if options.stdin_filename and resolver.refuses(absolute(name)):
        _refused([name], options)
        return Linted([name], [Outcome(output=data if options.mode is Mode.FIX else b"")], [])
    known = baseline.known(name) if baseline else None
    job = Job(name, resolver.for_file(name), options.mode, noqa=options.add_noqa, known=known)
    outcome = process(data, job)
    if outcome.error and options.mode is Mode.FIX:
        outcome = outcome._replace(output=data)  # who pipes a text through gets it back
    return Linted([name], [outcome], [])


def _from_files(options: argparse.Namespace, resolver: Resolver, baseline: Baseline | None) -> Linted:
    found = discover(options.paths or ["."], resolver)
    for path in [] if options.quiet else found.empty:
        warn(f"no Python files in {path}")
    _refused(found.refused, options)
    return Linted(found.files, _lint(found.files, found.outside, options, resolver, baseline), found.errors)


def _refused(paths: Iterable[str], options: argparse.Namespace) -> None:
    for path in paths if options.verbose else ():
        print(f"amplint: {visible(path)}: not linted: it is excluded, and `force-exclude` is set", file=sys.stderr)


def _assumed(names: Sequence[str], resolver: Resolver) -> None:
    """Say which folders were taken for projects though nothing marks them, and what could not be read of others."""
    from pathlib import Path  # noqa: PLC0415 - only who asks for all of it pays for this

    from amplint.config.requirements import broken  # noqa: PLC0415 - see above

    projects = {resolver.walking(os.path.dirname(absolute(name))).project(name) for name in names if name != "-"}
    for each in sorted((each for each in projects if each.mark is None), key=lambda each: each.folder):
        print(f"amplint: project: {visible(told(each))}", file=sys.stderr)
    for wrong in filter(None, (broken(Path(folder)) for folder in sorted({each.folder for each in projects}))):
        print(f"amplint: {visible(wrong)}", file=sys.stderr)


def _lint(
    files: Sequence[str],
    outside: Collection[str],
    options: argparse.Namespace,
    resolver: Resolver,
    baseline: Baseline | None,
) -> list[Outcome]:
    if options.verify:
        from amplint.cli.verify import fix_verified  # noqa: PLC0415 - torch's parts are for those who ask

        outcomes = fix_verified(files, resolver, outside, baseline)
    else:
        jobs = options.jobs or processors()
        where = None if options.no_cache else partial(cache_of, options.paths, resolver)
        outcomes = run(
            files,
            resolver,
            options.mode,
            jobs,
            outside=outside,
            noqa=options.add_noqa,
            baseline=baseline,
            cache=where,
        )
    if options.quiet or not sys.stderr.isatty():
        return list(outcomes)
    from amplint.base.patience import listen  # noqa: PLC0415 - where nobody looks nothing is shown
    from amplint.files.progress import Steps, counted  # noqa: PLC0415 - see above

    steps = Steps()
    listen(steps.tell)
    try:
        return list(counted(outcomes, len(files)) if options.verify or len(files) >= MANY else outcomes)
    finally:
        listen(None)
        steps.clear()


def cache_of(paths: Sequence[str], resolver: Resolver) -> str | None:
    """The folder (absolute) of the cache of a run: in the project of the first path, unless the settings say where.

    None where nothing marks a project: nobody expects a new folder there.
    """
    first = absolute(paths[0] if paths else os.curdir)
    folder = first if os.path.isdir(first) else os.path.dirname(first)
    settings = resolver.walking(folder)
    if settings.cache_dir is not None:
        return settings.cache_dir
    project = project_of(folder, resolver.overrides.start)
    return os.path.join(project.folder, CACHE) if project.mark is not None else None


def _told(linted: Linted, options: argparse.Namespace) -> int:
    """Say what a run has come to, and return the exit code."""
    outcomes = linted.outcomes
    for path, outcome in zip(linted.names, outcomes, strict=True):
        for line in outcome.given_up if not options.quiet or outcome.too_long else ():
            print(f"amplint: {visible(path)}: {visible(line)}", file=sys.stderr)
    for warning in [] if options.quiet else [outcome.warning for outcome in outcomes if outcome.warning]:
        warn(warning)
    report = _report(linted, options)
    for message in report.errors:
        fail(message)
    for warning in [] if options.quiet else _renamed(linted):
        warn(warning)
    # Where what a program reads goes to stdout, what a person reads goes to stderr.
    to = sys.stdout
    if options.mode is Mode.DIFF or (options.mode is Mode.FIX and options.stdin):
        to = sys.stderr
        _put_out(b"".join(outcome.output for outcome in outcomes), options)
    return report.code if _tell(report, to, options) else FAILED


def _renamed(linted: Linted) -> Iterator[str]:
    """What is to be known of the rules that comments name, once of each."""
    known: set[str] = set()
    for path, outcome in zip(linted.names, linted.outcomes, strict=True):
        for former, place in outcome.renamed:
            if former not in known:
                known.add(former)
                yield f"{path}:{place}: {renamed(former)}"


def _put_out(output: bytes, options: argparse.Namespace) -> None:
    """Write a diff, or the fixed text of what was read from standard input."""
    if options.mode is Mode.DIFF and output and may_colour(sys.stdout):
        from amplint.report.formats.diff import painted  # noqa: PLC0415 - a program that reads it wants none

        output = painted(output)
    sys.stdout.buffer.write(output)
    sys.stdout.buffer.flush()


def _report(linted: Linted, options: argparse.Namespace) -> Report:
    """What a run has come to."""
    outcomes = linted.outcomes
    errors = [*known().errors, *linted.errors, *(outcome.error for outcome in outcomes if outcome.error)]
    results = tuple(outcome.result for outcome in outcomes if outcome.result)
    internal = [each.message for result in results for each in result.findings if each.code == "AMP000"]
    made = tuple(Fixed(name, each.applied) for name, each in zip(linted.names, outcomes, strict=True) if each.applied)
    code = FAILED if errors or internal else FOUND if _fails(outcomes, options) else CLEAN
    if options.mode is Mode.DIFF:  # which shows no findings
        errors += internal
    comments = tuple(outcome.comments for outcome in outcomes if outcome.comments)
    return Report(results, made, tuple(dict.fromkeys(errors)), code, comments, linted.held, options.verify)


def _fails(outcomes: Sequence[Outcome], options: argparse.Namespace) -> bool:
    """Whether what was found makes the run fail; with --diff what would have been fixed."""
    if options.exit_zero:
        return False
    if options.exit_non_zero_on_fix and any(outcome.fixed for outcome in outcomes):
        return True
    if options.mode is Mode.DIFF:
        return any(outcome.output for outcome in outcomes)
    left = (finding for outcome in outcomes if outcome.result for finding in outcome.result.findings)
    grave = SEVERITIES[: SEVERITIES.index(options.exit_on) + 1]
    return any(finding.severity.value in grave and not finding.is_suspicion for finding in left)


def _tell(report: Report, to: TextIO, options: argparse.Namespace) -> bool:
    """Write what people, or the programs that the output format is for, are to know; whether that was possible."""
    if options.mode is Mode.DIFF:
        listed = fixes(report, "Would fix") if options.show_fixes else ""
        to.write("" if options.quiet else listed + diff_summary(report))
        return True
    in_file = options.output_file is not None
    if options.statistics:
        text = statistics(report, options.output_format)
    else:
        text = render(options.output_format, report, not in_file and may_colour(to))
    written = True
    if in_file:
        written = _write(options.output_file, text)
    else:
        to.write(text)
    listed = fixes(report) if options.show_fixes else ""
    if not options.quiet and (in_file or options.output_format in FOR_PEOPLE):
        to.write(listed + summary(report))
    elif not options.quiet:
        sys.stderr.write(listed + silenced(report) + held_back(report))
    return written


def _write(path: str, text: str) -> bool:
    from amplint.files.atomic_write import put  # noqa: PLC0415 - most runs write no file

    try:
        put(path, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        fail(f"{path}: {error.strerror or error}")
        return False
    return True


def may_colour(stream: TextIO) -> bool:
    """Whether to write in colour, as Python decides it for its own messages."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")
