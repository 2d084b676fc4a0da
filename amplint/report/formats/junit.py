"""Findings as failed tests in JUnit's XML, in the shape of ruff's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import groupby
from xml.sax.saxutils import escape, quoteattr

from amplint.base.paths import visible
from amplint.report import Place, Report
from amplint.report.formats.json import file_path
from amplint.report.repository_paths import relative


def render(report: Report, _colour: bool = False) -> str:
    """A test suite for each file with findings, and one for errors; where there is neither, one that passed."""
    places, errors = sum(1 for _ in report.places()), len(report.errors)
    suites: list[str] = []
    for name, group in groupby(report.places(), lambda place: place.filename):
        suites += _file(name, list(group))
    if errors:
        cases = (_case("error", "amplint", f"<error message={_quoted(each)}/>") for each in report.errors)
        suites += _suite("amplint", [line for case in cases for line in case], tests=errors, errors=errors)
    if not suites:
        suites = _suite("amplint", ['        <testcase name="No errors found" classname="amplint"/>'], tests=1)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<testsuites {_counts('amplint', places + errors or 1, places, errors)}>",
        *suites,
        "</testsuites>",
    ]
    # Characters by their numbers: the terminal, or what a shell redirects to, need not be UTF-8.
    return "".join(f"{line}\n" for line in lines).encode("ascii", "xmlcharrefreplace").decode("ascii")


def _file(filename: str, places: list[Place]) -> list[str]:
    name = file_path(filename)
    cases = [line for place in places for line in _finding(place, os.path.splitext(name)[0])]
    return _suite(name, cases, tests=len(places), failures=len(places))


def _finding(place: Place, name: str) -> Iterator[str]:
    ((row, column), _), finding = place.in_file, place.finding
    text = f"{place.in_cell.replace(':', ', ')}line {place.start[0]}, col {place.start[1]}, {finding.said}"
    yield from _case(
        # Of tests with one name some readers keep only the first.
        f"amplint.{finding.code}:{row}:{column}",
        name,
        f'<properties><property name="severity" value="{finding.severity.value}"/></properties>',
        f"<failure message={_quoted(finding.said)}>{escape(visible(text))}</failure>",
        more=f' file={_quoted(relative(place.filename))} line="{row}" column="{column}"',
    )


def _case(name: str, of: str, *inside: str, more: str = "") -> Iterator[str]:
    yield f"        <testcase name={_quoted(name)} classname={_quoted(of)}{more}>"
    yield from (f"            {line}" for line in inside)
    yield "        </testcase>"


def _suite(name: str, cases: list[str], *, tests: int, failures: int = 0, errors: int = 0) -> list[str]:
    head = f'    <testsuite {_counts(name, tests, failures, errors)} package="amplint">'
    return [head, *cases, "    </testsuite>"]


def _counts(name: str, tests: int, failures: int, errors: int) -> str:
    return f'name={_quoted(name)} tests="{tests}" skipped="0" failures="{failures}" errors="{errors}"'


def _quoted(text: str) -> str:
    """A text as the value of an attribute; what XML has no characters for is written as an escape."""
    return quoteattr(visible(text))
