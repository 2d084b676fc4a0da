"""The command `verify`: its options, its progress and its exit code."""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import sys
from collections import Counter, deque
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from amplint.adoption.baseline import Baseline
from amplint.base.paths import contents, shown, visible
from amplint.cli.arguments import Parser, add_settings, device_of, overrides, tell_notices, warn
from amplint.config.selection import SettingsError
from amplint.config.settings import Resolver
from amplint.engine.file import Wanted
from amplint.engine.result import Outcome
from amplint.files.discovery import discover
from amplint.files.progress import say
from amplint.runner import Job, Mode, reason, tidy, write
from amplint.verify.fixtures import output as proofs
from amplint.verify.fixtures.find import DEVICES, Fixture, NotAFixture, has_fixtures
from amplint.verify.fixtures.proof import REFUTED
from amplint.verify.fixtures.run import MEMORY, TIMEOUT, CannotRun, Row, verify
from amplint.verify.steps import output as steps
from amplint.verify.steps.confirm import Confirmation
from amplint.verify.steps.verdict import MISBEHAVES, NOT_CHECKABLE
from amplint.verify.steps.verify import Checked, Limits, StepRow, Verifier

_DESCRIPTION = """\
Check the AMP training steps of a program on real tensors, before and after amplint's
fixes. No file is changed, and the program itself is not executed: amplint interprets its
training steps line by line, with a small model instead of yours. Each step is checked
once for each combination of the program's AMP options (such as use_amp on and off). Steps
in other files of the project are checked too, if PATH calls them or they call PATH. The
options for rules and settings choose which fixes are tried, in memory."""
_EPILOG = """\
Each step is compared with the same step without AMP (autocast and GradScaler made with
enabled=False). Verdicts:

  confirmed         wrong before the fixes, right after them
  clean             right as it is
  misbehaves        wrong, and still wrong after the fixes: amplint has no fix for some of it,
                    or only an unsafe one (try --unsafe-fixes)
  refuted           a fix doesn't remove the fault that it is for, or it adds a new one:
                    a bug in amplint, please report it
  not checkable     could not be checked; the reason is printed
  no training step  a function that has AMP and trains nothing, such as evaluation

Exit codes:

  0  every verdict is confirmed, clean or no training step (so 0 doesn't mean that the code
     is right: a confirmed step still needs its fix)
  1  a verdict is refuted or misbehaves
  2  a verdict is not checkable, whatever the others are; or an error

JSON is a list with one object per step (with --run, per fixture). Its keys are in
https://amplint.github.io/amplint/verify/#json.

Fixtures are the small programs that test a rule. You need fixtures and --run only if you
write rules of your own."""


_EXAMPLES = ("amplint verify train.py", "amplint verify --device cpu --explain train.py")


def run_verify(arguments: list[str]) -> int:
    """Verify what `arguments` name, print what was found and return the exit code."""
    options = make_parser().parse_intermixed_args(arguments)
    paths = options.paths or ["."]
    fixtures = [path for path in paths if options.run and has_fixtures(path)]
    code = [path for path in paths if path not in fixtures]
    try:
        rows = _fixtures(fixtures, options) if fixtures else []
        checked, errors = _code(code, options) if code else ({}, [])
    except (NotAFixture, CannotRun) as error:
        print(f"amplint: error: {visible(str(error))}", file=sys.stderr)
        return 2
    finally:
        say("")
    _tell(checked, errors, options)
    found = [row for of_file in checked.values() for row in of_file.rows]
    if options.output_format == "json":
        objects = [*proofs.as_json(rows), *steps.as_json(found)]
        sys.stdout.write(json.dumps(objects, indent=2, allow_nan=False) + "\n")
    else:
        width = shutil.get_terminal_size((160, 24)).columns
        tables = proofs.as_table(rows, width) if fixtures else ""
        tables += _tables(checked, found, width, options, len(errors)) if code else ""
        sys.stdout.write("\n".join(map(visible, tables.split("\n"))))
    return 2 if errors else _exit_code(rows, found)


def _tell(checked: dict[str, Checked], errors: list[str], options: argparse.Namespace) -> None:
    """Say on stderr what was looked at, if that is asked for, and what failed."""
    if options.verbose:
        start = overrides(options, docs=False).start
        sys.stderr.writelines(f"{visible(line)}\n" for line in steps.looked_at(checked, start))
    for error in errors:
        print(f"amplint: error: {visible(error)}", file=sys.stderr)


def _tables(
    checked: dict[str, Checked], found: Sequence[StepRow], width: int, options: argparse.Namespace, failed: int
) -> str:
    return steps.as_tables(found, min(width, 160), explain=options.explain, files=checked.values(), failed=failed)


def _exit_code(rows: Sequence[Row], found: Sequence[StepRow]) -> int:
    """What the verdicts on fixtures and steps come to."""
    verdicts = {row.verdict for row in found}
    if NOT_CHECKABLE in verdicts:
        return 2
    return int(any(row.verdict == REFUTED for row in rows) or bool(verdicts & {REFUTED, MISBEHAVES}))


def make_parser() -> Parser:
    """The options of the command."""
    command = Parser("amplint verify", _DESCRIPTION, epilog=_EPILOG, examples=_EXAMPLES)
    add = command.add_argument
    what = "file or folder with training code, or with fixtures (see below) [default: the current folder]"
    add("paths", nargs="*", metavar="PATH", help=what)
    of_runs = ("cpu", *DEVICES)  # for all steps, where the setting is for those that name none
    add(
        "--device",
        dest="run_on",
        type=device_of(of_runs),
        choices=of_runs,
        help="device to check on; simulated on the CPU if this machine has no such device [default: the device that "
        "the code names]",
    )
    add(
        "-v",
        "--verbose",
        action="store_true",
        help="list on stderr the functions that use AMP, and why each is or is not a training step",
    )
    add(
        "--explain",
        action="store_true",
        help="print each line that was interpreted, and what replaced your model and data",
    )
    add(
        "--run",
        action="store_true",
        help="only for fixtures (see below): execute their code instead of interpreting it",
    )
    add(
        "--timeout",
        type=_seconds,
        default=TIMEOUT,
        metavar="SECONDS",
        help="time limit for one check of one step, with one combination of options, before or after the fixes "
        "[default: 60]",
    )
    add(
        "--memory",
        type=_size,
        default=MEMORY,
        metavar="MIB",
        help="memory limit for one check of one step, not counting torch itself [default: 2048]",
    )
    add("--output-format", choices=("text", "json"), default="text", help="[default: text]")
    add_settings(command, device=False)
    return command


def _fixtures(paths: Sequence[str], options: argparse.Namespace) -> list[Row]:
    def tell(done: int, total: int, fixture: Fixture) -> None:
        say(f"[{done + 1}/{total}] {fixture.rule} {fixture.name}")

    device = options.run_on if options.run_on in DEVICES else None
    return verify(paths, device=device, timeout=options.timeout, memory=options.memory, progress=tell)


def _code(paths: Sequence[str], options: argparse.Namespace) -> tuple[dict[str, Checked], list[str]]:
    """What was found of each file that is named, and of those that one of them leads to; and what failed."""
    resolver = Resolver(overrides(options, docs=False))
    files = discover(paths, resolver)
    for path in files.empty:
        warn(f"no Python files in {path}")
    errors = list(files.errors)
    checked: dict[str, Checked] = {}
    todo = [*files.files]
    known = {os.path.realpath(path) for path in todo}
    with Verifier(options.run_on, Limits(options.timeout, options.memory)) as verifier:
        for at, path in enumerate(todo):

            def tell(text: str, at: int = at) -> None:
                say(f"[{at + 1}/{len(todo)}] {text}")

            try:
                data, settings = contents(path), resolver.for_file(path)
                checked[path] = verifier.check(path, data, settings, progress=tell)
                for each in checked[path].looked.follow:
                    if os.path.realpath(each) not in known:
                        known.add(os.path.realpath(each))
                        todo.append(shown(each))  # the loop comes to it
            except CannotRun:
                raise
            except SettingsError as error:
                errors.append(str(error))
            except Exception as error:  # a bug of ours in one file must not cost the user the others
                errors.append(f"{path}: {reason(error)}")
    say("")
    tell_notices(resolver)
    return checked, errors


_MOST_WRITTEN = 4  # times that one file is, so that others are tried once more


class _Tried(NamedTuple):
    """What became of a file, whether it was written, and whether fixes of it were left out that a run may confirm."""

    outcome: Outcome
    is_written: bool = False
    is_left_out: bool = False


def fix_verified(
    files: Sequence[str], resolver: Resolver, outside: Collection[str] = (), baseline: Baseline | None = None
) -> Iterator[Outcome]:
    """Fix files, but only with fixes that their runs confirm; the findings of others say why they are not made.

    Where one was written, those before it are tried once more whose fixes were left out: their steps may run it. Those
    that are `outside` of what the user named are not written, and what the `baseline` holds is not fixed.

    Raises:
        SettingsError: torch is missing.
    """
    try:
        verifier = Verifier()
    except CannotRun as error:
        raise SettingsError(str(error)) from None
    tidy(files)
    done: dict[str, Outcome] = {}
    left: dict[str, None] = {}  # files of which fixes were left out, since a file was written last
    written: Counter[str] = Counter()
    with verifier:
        todo = deque(files)
        while todo:
            path = todo.popleft()
            wanted = baseline.known(path).new if baseline else None
            tried = _fixed(verifier, path, resolver, wanted, outside=path in outside)
            done[path] = _joined(done.get(path), tried.outcome)
            written[path] += tried.is_written
            if tried.is_written and written[path] <= _MOST_WRITTEN:
                verifier.forget()
                todo += left
                left.clear()
            if tried.is_left_out:
                left[path] = None
    yield from (done[path] for path in files)


def _fixed(verifier: Verifier, path: str, resolver: Resolver, wanted: Wanted | None, *, outside: bool) -> _Tried:
    """Write those fixes of a file that its runs confirm."""
    try:
        job = Job(path, resolver.for_file(path), Mode.FIX, outside)
        data = contents(path)
        confirmed = Confirmation(verifier, path, data, job.settings, wanted)
        fixed = confirmed.fixed
        warning = write(job, data, fixed.data) if fixed.data != data else None
    except (SettingsError, CannotRun) as error:
        return _Tried(Outcome(error=str(error)))
    except Exception as error:  # a bug of ours in one file must not cost the user the others
        return _Tried(Outcome(error=f"{path}: {reason(error)}"))
    left = [(each, confirmed.why(each)) for each in fixed.result.findings]
    findings = tuple(each._replace(fix=None, unconfirmed=why) if why else each for each, why in left)
    result = fixed.result._replace(findings=findings) if findings else None
    applied, of_file = tuple(sorted(fixed.applied.items())), fixed.result
    outcome = Outcome(result, None, b"", applied, of_file.given_up, warning, renamed=of_file.renamed)
    return _Tried(outcome, fixed.data != data, any(why for _, why in left))


def _joined(before: Outcome | None, outcome: Outcome) -> Outcome:
    """What became of a file that was fixed once more: all that was fixed."""
    if before is None:
        return outcome
    applied = tuple(sorted((Counter(dict(before.applied)) + Counter(dict(outcome.applied))).items()))
    return outcome._replace(applied=applied, warning=before.warning or outcome.warning)


def _seconds(text: str) -> float:
    value = float(text)
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def _size(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of MiB")
    return int(text)
