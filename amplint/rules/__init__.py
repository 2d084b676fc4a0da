"""The rules, one module each; found by their file names, loaded on first use."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from os import listdir
from pathlib import Path

from amplint.rules.base import Rule


@cache
def all_rules() -> dict[str, Rule]:
    """Every rule by its code, in the order of the codes."""
    stems = sorted(name[:-3] for name in listdir(Path(__file__).parent) if name.startswith("amp") and name[-3:] == ".py")
    rules = [import_module(f"{__name__}.{stem}").rule for stem in stems]
    return {rule.code: rule for rule in rules}
