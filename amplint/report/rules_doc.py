"""The documentation of rules, as `amplint rule` prints it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from amplint.rules.base import Rule


def as_text(rules: Sequence[Rule]) -> str:
    """The rules' pages in Markdown, one after the other."""
    return "\n".join(_page(rule) for rule in rules)


def _page(rule: Rule) -> str:
    state = "On by default." if rule.default else f'Off by default; `extend-select = ["{rule.code}"]` turns it on.'
    return f"# {rule.name} ({rule.code})\n\nSeverity: {rule.severity.value}. {state}\n\n{rule.doc.strip()}\n"


def as_json(rules: Sequence[Rule], *, as_list: bool) -> str:
    """The rules as JSON: one object, or a list of them."""
    pages = [
        {
            "name": rule.name,
            "code": rule.code,
            "severity": rule.severity.value,
            "default": rule.default,
            "summary": rule.summary,
            "explanation": rule.doc.strip() + "\n",
        }
        for rule in rules
    ]
    return json.dumps(pages if as_list else pages[0], indent=2) + "\n"
