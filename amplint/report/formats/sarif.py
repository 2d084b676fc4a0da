"""Findings as SARIF 2.1.0, for GitHub's code scanning and other services."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from amplint import __version__
from amplint.base.about import rule_url
from amplint.base.findings import Severity
from amplint.base.paths import absolute
from amplint.registry import all_rules
from amplint.report import Place, Report
from amplint.report.repository_paths import HOME, root, tracked, uri

if TYPE_CHECKING:
    from amplint.registry.rule import Rule

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ROOT = "%SRCROOT%"
# What GitHub calls them.
_PROBLEM = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "recommendation"}
# What GitHub keeps of a description.
_LONGEST = 1024


def render(report: Report, _colour: bool = False) -> str:
    """A log of one run: its findings, the rules that they are of, and how it ended."""
    codes = sorted({finding.code for finding in report.findings})
    results = [_result(place, mark, codes) for place, _, mark in tracked(report)]
    return log([as_rule(all_rules()[code]) for code in codes], _invocation(report), results)


def log(rules: list[dict[str, Any]], invocation: dict[str, Any], results: list[dict[str, Any]]) -> str:
    """A log of one run of amplint."""
    run = {
        "tool": {
            "driver": {
                "name": "amplint",
                "version": __version__,
                "semanticVersion": __version__,
                "informationUri": HOME,
                "rules": rules,
            }
        },
        "invocations": [invocation],
        # Where the root lies is not said: what is found is the same on all machines.
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The root of the repository."}}},
        "columnKind": "unicodeCodePoints",
        "newlineSequences": ["\r\n", "\n", "\r"],
        "results": results,
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def as_rule(rule: Rule) -> dict[str, Any]:
    """A rule as a log describes it."""
    # The first paragraph of what it does.
    what = rule.doc.partition("\n## What it does\n")[2].partition("\n## ")[0].strip().partition("\n\n")[0]
    url = rule_url(rule.code)
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": _cut(rule.summary or rule.name)},
        "fullDescription": {"text": _cut(" ".join(what.split()) or rule.summary or rule.name)},
        **({"helpUri": url} if url else {}),
        "help": {"text": rule.doc.strip() or rule.name, "markdown": rule.doc.strip() or rule.name},
        "defaultConfiguration": {"enabled": rule.default, "level": rule.severity.value},
        "properties": {"tags": ["pytorch", "amp"], "problem.severity": _PROBLEM[rule.severity]},
    }


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4].rpartition(' ')[0]} ..."


def _invocation(report: Report) -> dict[str, Any]:
    notes = [{"level": "error", "message": {"text": each}} for each in report.errors]
    return {
        "executionSuccessful": not notes,
        "exitCode": report.code,
        **({"toolExecutionNotifications": notes} if notes else {}),
    }


def _result(place: Place, fingerprint: str, codes: Sequence[str]) -> dict[str, Any]:
    finding = place.finding
    where = artifact(place.filename)
    found = {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": finding.severity.value,
        "message": {"text": finding.said},
        "locations": [{"physicalLocation": {"artifactLocation": where, "region": _region(*place.in_file)}}],
        "partialFingerprints": {"amplint/v1": fingerprint},
        "properties": {
            "confidence": finding.confidence.value,
            **({"withheld": finding.withheld} if finding.withheld else {}),
            **({"unconfirmed": finding.unconfirmed} if finding.unconfirmed else {}),
        },
    }
    return {**found, "fixes": [_fix(place, where)]} if place.suggested else found


def artifact(filename: str, base: PurePath | None = None) -> dict[str, str]:
    """Where a file lies: from `base`, the root of the repository, if it is in it."""
    if filename == "-":
        return {"uri": filename}
    found, is_below = uri(PurePath(absolute(filename)), base or root())
    return {"uri": found, "uriBaseId": _ROOT} if is_below else {"uri": found}


def _fix(place: Place, where: dict[str, str]) -> dict[str, Any]:
    assert place.finding.fix is not None
    replacements = [
        {
            "deletedRegion": _region(place.at(edit.start), place.at(edit.end)),
            **({"insertedContent": {"text": edit.content}} if edit.content else {}),
        }
        for edit in place.finding.fix.edits
    ]
    changes = [{"artifactLocation": where, "replacements": replacements}]
    return {"description": {"text": place.finding.fix.message}, "artifactChanges": changes}


def _region(start: tuple[int, int], end: tuple[int, int]) -> dict[str, int]:
    return {"startLine": start[0], "startColumn": start[1], "endLine": end[0], "endColumn": end[1]}
