"""Lint published packages and hold the findings against the verdicts.

Exit status 0: every finding has a verdict, every verdict its finding, the bars are met, nothing crashed, and fixed
copies parse and stay as they are. 1: something of that is not so. 2: it could not be found out.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tests.field.fetch import default_cache, fetch, folder_of
from tests.field.fixing import fix_copies
from tests.field.lint import REPOSITORY, installed_version, lint
from tests.field.packages import FieldError, Package, choose, read_packages
from tests.field.report import PackageResult, count_files, row_to_judge, tables
from tests.field.verdicts import Key, compare, read_verdicts, show


def main(arguments: list[str] | None = None) -> int:
    """Parse the arguments, do the work, return the exit status."""
    options = _parser().parse_args(arguments)
    try:
        packages = read_packages()
        chosen = choose(packages, options.package, ci=options.ci)
        cache: Path = options.cache.expanduser().resolve()
        if cache.is_relative_to(REPOSITORY):
            raise FieldError(f"the cache must not lie inside the repository: {cache}")
        if options.list:
            for package in chosen:
                state = "fetched" if folder_of(package, cache).is_dir() else "not fetched"
                print(f"{package}{' ci' if package.ci else ''}: {state}")
            return 0
        verdicts = read_verdicts()
        print(f"amplint {installed_version()}, sources in {cache}")
        folders = _fetch_all(chosen, cache)
        good = _judge(folders, verdicts, packages)
    except (FieldError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if len(folders) < len(chosen):
        return 2
    return 0 if good else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.field", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--package", action="append", default=[], metavar="NAME", help="only this one; repeatable")
    parser.add_argument("--ci", action="store_true", help="only the packages marked ci")
    cache = default_cache()
    parser.add_argument("--cache", type=Path, default=cache, metavar="DIR", help=f"keep sources there, not in {cache}")
    parser.add_argument("--list", action="store_true", help="list the packages and stop")
    return parser


def _fetch_all(chosen: list[Package], cache: Path) -> dict[Package, Path]:
    """The sources of the packages that can be had; a line for each that can't."""
    folders: dict[Package, Path] = {}
    for number, package in enumerate(chosen, start=1):
        place = f"[{number}/{len(chosen)}] {package}"
        if not folder_of(package, cache).is_dir():
            print(f"{place}: fetching", flush=True)
        try:
            folders[package] = fetch(package, cache)
        except FieldError as error:
            print(f"error: {error}", file=sys.stderr, flush=True)
    return folders


def _judge(folders: Mapping[Package, Path], verdicts: Mapping[Key, str], packages: list[Package]) -> bool:
    """Lint and fix each package, print all there is to say, and tell whether all of it is good."""
    results: dict[str, PackageResult] = {}
    for number, (package, folder) in enumerate(folders.items(), start=1):
        start = time.monotonic()
        run = lint(folder)
        linted = time.monotonic()
        fixes = fix_copies(folder)
        results[str(package)] = PackageResult(*count_files(folder), run, fixes)
        seconds = f"linted in {linted - start:.1f} s, fixed in {time.monotonic() - linted:.1f} s"
        print(f"[{number}/{len(folders)}] {package}: {len(run.findings)} findings, {seconds}", flush=True)

    comparison = compare({name: result.run.findings for name, result in results.items()}, verdicts, map(str, packages))
    by_name = {str(package): folder for package, folder in folders.items()}
    sections = {
        "findings without a verdict": [row_to_judge(p, f, by_name[p]) for p, f in comparison.without_verdict],
        "verdicts without a finding": [show(key) for key in comparison.without_finding],
        "crashes": [f"{name}: {line}" for name, result in results.items() for line in result.run.crashes],
        "problems after fixing": [
            f"{name}, {mode}: {problem}"
            for name, result in results.items()
            for mode, fix in result.fixes.items()
            for problem in fix.problems
        ],
        "bars not met": comparison.broken_bars(),
    }
    for title, lines in sections.items():
        if lines:
            print(f"\n{len(lines)} {title}:", *lines, sep="\n")
    print(f"\n{tables(results, comparison)}")
    return not any(sections.values())


if __name__ == "__main__":
    sys.exit(main())
