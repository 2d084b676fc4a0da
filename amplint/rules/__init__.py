"""The rules, one module each; found by their file names, imported when a file holds their trigger words."""

from __future__ import annotations

from functools import cache
from os import listdir

from amplint.rules.base import Rule


@cache
def all_rules() -> dict[str, Rule]:
    """Every rule by its code, in the order of the codes."""
    found = {}
    for file in sorted(listdir(__path__[0])):
        if file.startswith("amp") and file.endswith(".py"):
            with open(f"{__path__[0]}/{file}", encoding="utf-8") as text:
                rule = Rule.from_text(f"{__name__}.{file[:-3]}", text.read())
            found[rule.code] = rule
    return found
