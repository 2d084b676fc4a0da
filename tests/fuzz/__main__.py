"""Mutated programs, or every file below some folders: nothing crashes or hangs, and fixing loses nothing.

Exit status 0: everything holds for all inputs. 1: something does not; each kind comes with an input that shows it.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.fuzz.apart import Death, apart
from tests.fuzz.corpus import programs, python_files
from tests.fuzz.judging import AMP, Outcome, Problem, judge, judge_both
from tests.fuzz.mutate import Input, made
from tests.fuzz.reducing import reduce

# Of so many inputs one is read without folding as well, and one is fixed, if there is something to fix. What people
# wrote, and nothing was added to, is always fixed.
FOLDED, FIXED = 9, 5
_SHOWN = 3  # inputs of a kind
_SLOWEST = 5
_NUMBER = re.compile(r"\b\d{2,}\b")

Make = Callable[[int], Input]


def main(arguments: list[str] | None = None) -> int:
    """Parse the arguments, do the work, return the exit status."""
    options = _parser().parse_args(arguments)
    if options.lint:
        inputs = list(_as_they_are(options.lint))
        return _run(lambda number: _read(*inputs[number]), range(len(inputs)), options.minutes, every=True)
    known = programs(options.corpus)
    print(f"{len(known):,} programs to mutate, seed {options.seed}", flush=True)
    first = options.first
    return _run(lambda number: made(known, options.seed, number), range(first, first + options.inputs), options.minutes)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=1000, metavar="N", help="how many mutants to make (%(default)s)")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the number of the first (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the same seed makes the same (%(default)s)")
    parser.add_argument("--corpus", type=Path, nargs="+", default=[], metavar="DIR", help="mutate these programs too")
    parser.add_argument("--minutes", type=float, metavar="M", help="stop after these")
    parser.add_argument(
        "--lint", type=Path, nargs="+", default=[], metavar="DIR", help="instead: every .py below, with and without AMP"
    )
    return parser


def _as_they_are(folders: list[Path]) -> Iterator[tuple[Path, bytes]]:
    """Every file as it is, and with AMP behind it."""
    for path in python_files(folders):
        yield path, b""
        yield path, AMP


def _read(path: Path, behind: bytes) -> Input:
    return Input(str(path), path.read_bytes() + behind)


def judge_input(each: Input, fold: bool = True, fix: bool = True) -> Outcome:
    """Judge a file, or two."""
    if each.helper is not None:
        return judge_both(each.data, each.helper, fold=fold, fix=fix)
    return judge(each.data, each.path, fold=fold, fix=fix)


def _run(make: Make, numbers: range, minutes: float | None, every: bool = False) -> int:
    """Judge all inputs, tell of problems as they come, and sum up."""
    started = last = time.monotonic()
    totals: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    slowest: list[tuple[float, int]] = []

    def work(number: int) -> Outcome:
        fix = number % FIXED == 0 or (every and number % 2 == 0)
        return judge_input(make(number), number % FOLDED == 0, fix)

    judge(AMP, "warm.py")  # what is imported now need not be imported by every process
    for number, answer in apart(work, numbers):
        outcome = answer if isinstance(answer, Outcome) else Outcome(problems=(Problem(answer.how),))
        totals["inputs"] += 1
        totals["that Python parses"] += outcome.parsed
        totals["with findings"] += bool(outcome.found)
        totals["fixed"] += outcome.fixed
        totals["with problems"] += bool(outcome.problems)
        slowest = sorted([*slowest, (outcome.seconds, number)], reverse=True)[:_SLOWEST]
        for problem in outcome.problems:
            kind = _NUMBER.sub("N", problem.kind)
            kinds[kind] += 1
            if kinds[kind] <= _SHOWN:
                _show(make, number, problem, small=kinds[kind] == 1)
        now = time.monotonic()
        if now - last > 60:
            last = now
            print(f"... {totals['inputs']:,} of {len(numbers):,} in {now - started:.0f} s", flush=True)
        if minutes is not None and now - started > minutes * 60:
            break
    print("\n" + "\n".join(f"{count:>9,} {what}" for what, count in totals.items()))
    print("slowest: " + ", ".join(f"{seconds:.2f} s ({make(number).path} #{number})" for seconds, number in slowest))
    print(f"{time.monotonic() - started:.0f} s")
    for kind, count in kinds.most_common():
        print(f"{count:>9,} x {kind}")
    return 1 if kinds else 0


def _show(make: Make, number: int, problem: Problem, small: bool) -> None:
    """Tell of a problem, with as little of its input as still shows it."""
    each = make(number)
    if small:
        each = each._replace(data=reduce(each.data, lambda data: problem.kind in _kinds(each._replace(data=data))))
    beside = f"\n  beside {each.helper!r}" if each.helper is not None else ""
    print(f"\n#{number} {problem.kind}: {problem.detail}\n  {each.path}{beside}\n  {each.data!r}"[:6000], flush=True)


def _kinds(each: Input) -> list[str]:
    (_, answer), *_ = apart(lambda _: judge_input(each), [0])
    return [answer.how] if isinstance(answer, Death) else [each.kind for each in answer.problems]


if __name__ == "__main__":
    sys.exit(main())
