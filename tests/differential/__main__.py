"""`python -m tests.differential`: many programs, with what they cover and where the verdicts differ."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator

import torch

from tests.differential.codes import Observed
from tests.differential.compare import Tried, Verdict, all_tried, compare
from tests.differential.draft import FAMILIES
from tests.differential.fixing import fixed
from tests.differential.generate import generate
from tests.differential.ledger import UnsuitableError


def main() -> int:
    """Run as the arguments say; 1 where a verdict differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--programs", type=int, default=300, help="how many")
    parser.add_argument("--seed", type=int, default=1, help="the first program's")
    parser.add_argument("--family", choices=sorted(FAMILIES), default="", help="programs of one family only")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--shown", type=int, default=20, help="how many disagreements to print, the smallest first")
    parser.add_argument("--show", type=int, metavar="SEED", help="print one program and both verdicts")
    parser.add_argument("--fix", action="store_true", help="make the fixes, and see what they leave")
    parser.add_argument("--code", default="", help="print only disagreements about this code")
    options = parser.parse_args()
    if options.show is not None:
        program = generate(options.show, options.family)
        try:
            print(compare(program))
        except UnsuitableError as error:
            print(program.numbered(), f"unsuitable: {error}", sep="\n")
        return 0
    if options.fix:
        return fixes(range(options.seed, options.seed + options.programs), options.family, options.shown)
    tasks = [(seed, options.family) for seed in range(options.seed, options.seed + options.programs)]
    return report(all_tried(tasks, options.jobs), options.shown, options.code)


def fixes(seeds: range, family: str, shown: int) -> int:
    """Fix programs; print those in which something is new."""
    torch.set_num_threads(1)
    changed, refused, bad = 0, 0, []
    for seed in seeds:
        program = generate(seed, family)
        try:
            result = fixed(program)
        except UnsuitableError:
            refused += 1
            continue
        changed += result is not None
        if result is not None and result.new:
            bad.append(result)
    bad.sort(key=lambda each: each.text.count("\n"))
    for result in reversed(bad[:shown]):
        print(result, end="\n\n")
    print(f"{len(seeds)} programs, {refused} unsuitable, {changed} changed by fixes, {len(bad)} with something new")
    return int(bool(bad))


def flag_only(verdict: Verdict, each: Observed) -> str:
    """Says whether an observation shows for one value of the mutations' own flag only."""
    own = {"extra", "warm"} & set(verdict.program.flags)
    values = {f"{name}=True" in label for name in own for label in verdict.seen.observed[each]}
    return f" (for one value of `{own.pop()}`)" if len(values) == 1 else ""


def codes_about(verdict: Verdict) -> set[str]:
    """The codes that are wrong, and those that would have done where something is missed."""
    return {code for code, _ in verdict.wrong} | {code for each in verdict.missed for code, _ in each.allowed()}


def report(results: Iterator[Tried], shown: int, code: str = "") -> int:
    """Print what was covered, how far the verdicts agree, and where they don't."""
    events: Counter[str] = Counter()
    shapes: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    unsuitable: Counter[str] = Counter()
    total: Counter[str] = Counter()
    right: Counter[str] = Counter()
    clean: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    different: list[Verdict] = []
    runs = 0
    for family, verdict, reason in results:
        if verdict is None:
            unsuitable[reason] += 1
            continue
        total[family] += 1
        runs += verdict.seen.runs
        events += verdict.seen.events
        shapes.update(verdict.program.shapes)
        kinds.update(each.kind for each in verdict.seen.observed if not each.secondary)
        clean[family] += not verdict.seen.observed
        right[family] += verdict.agrees
        if not verdict.agrees:
            different.append(verdict)
            reasons.update(f"missed: {each.kind}{flag_only(verdict, each)}" for each in verdict.missed)
            reasons.update(f"wrong: {code}" for code, _ in verdict.wrong)
    different = [each for each in different if not code or code in codes_about(each)]
    different.sort(key=lambda verdict: (verdict.program.text.count("\n"), verdict.program.seed))
    for verdict in reversed(different[:shown]):
        print(verdict, end="\n\n")
    for title, counts in (("events", events), ("shapes", shapes), ("observed", kinds), ("unsuitable", unsuitable)):
        print(f"{title}: " + ", ".join(f"{name} {number}" for name, number in sorted(counts.items())))
    print(f"{sum(total.values())} programs, {runs} runs")
    for family in sorted(total):
        agreed = 100 * right[family] / total[family]
        print(f"  {family:24}{total[family]:6} programs {clean[family]:6} clean {agreed:6.1f} % agree")
    for reason, number in reasons.most_common():
        print(f"  {number:6} {reason}")
    print(f"{sum(right.values())} of {sum(total.values())} agree")
    return int(right.total() < total.total())


if __name__ == "__main__":
    sys.exit(main())
