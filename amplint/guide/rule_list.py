"""The list of rules, as `amplint rule` prints it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby

from amplint.base.about import SCHEMA_VERSION
from amplint.guide.rule_pages import family, fix_words
from amplint.registry import families
from amplint.registry.rule import OURS, Rule, Stage


def as_table(rules: Sequence[Rule]) -> str:
    """The rules in a table, a line each, below the names of their families."""
    names = {start: name for name, start in families().items()}
    width = max((len(rule.name) for rule in rules), default=0)
    lines: list[str] = []
    for start, group in groupby(rules, lambda rule: rule.code[: len(OURS) + (not rule.plugin)]):
        members = list(group)
        named = f"{names[start]}, " if start in names else ""
        lines += ["", f"{family(members[0])} ({named}{start})"]
        for rule in members:
            cells = (f"{rule.code}  {rule.name:<{width}}", rule.severity.value, fix_words(rule) or "-", _shortly(rule))
            lines.append(f"  {cells[0]}  {cells[1]:<7}  {cells[2]:<12}  {cells[3]}".rstrip())
    head = f"  {'code':<6}  {'name':<{width}}  severity fixes         by default"
    foot = "`amplint rule CODE` prints the page of a rule. Codes, names and families can be selected."
    return "\n".join([head, *lines, "", foot, ""])


def _shortly(rule: Rule) -> str:
    default = "" if rule.default or rule.default_in_preview else "off"
    return ", ".join(each for each in (default, "" if rule.stage is Stage.STABLE else rule.stage.value) if each) or "on"


def as_json(rules: Sequence[Rule]) -> str:
    """The rules as a list of JSON objects, without their pages."""
    names = {start: name for name, start in families().items()}
    rows = [
        {
            "schema_version": SCHEMA_VERSION,
            "code": rule.code,
            "name": rule.name,
            "family": None if rule.plugin else names[rule.code[: len(OURS) + 1]],
            "severity": rule.severity.value,
            "default": rule.default,
            "stage": rule.stage.value,
            "fixes": None if rule.fixes is None else [each.value for each in rule.fixes],
            "formerly": list(rule.formerly),
            "summary": rule.summary,
            "plugin": rule.plugin or None,
        }
        for rule in rules
    ]
    return json.dumps(rows, indent=2) + "\n"
