"""The rules, one module each; found by their file names, imported when a file holds their trigger words."""

from __future__ import annotations

from functools import cache
from os import listdir
from pathlib import Path

from amplint.rules.base import Rule


@cache
def all_rules() -> dict[str, Rule]:
    """Every rule by its code, in the order of the codes."""
    here = Path(__file__).parent
    found = {}
    for file in sorted(listdir(here)):
        if file.startswith("amp") and file.endswith(".py"):
            rule = Rule.from_text(f"{__name__}.{file[:-3]}", (here / file).read_text("utf-8"))
            found[rule.code] = rule
    return found
