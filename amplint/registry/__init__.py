"""The rules, one module each; found by their file names, imported when a file holds their trigger words.

Installed distributions add rules of their own by entry points of the group `amplint.rules`
(`amplint.registry.plugins`).
"""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import TYPE_CHECKING

from amplint.registry.rule import GROUP, OURS, Known, Rule, Shows

if TYPE_CHECKING:
    from collections.abc import Iterator

_RULES = os.path.join(os.path.dirname(os.path.dirname(__file__)), "rules")
# Where installers put distributions. What else may be on sys.path, the current directory first of all, can be what is
# linted, and nothing of that is ever imported.
INSTALLED = ("site-packages", "dist-packages")


def all_rules() -> dict[str, Rule]:
    """Every rule by its code, in the order of the codes."""
    return known().rules


def shows_of(code: str) -> Shows | None:
    """Whether a run can show what the rule with a code says; None where the rule doesn't say, or there is none."""
    rule = all_rules().get(code)
    return None if rule is None else rule.shows


def page_of(code: str) -> Rule:
    """The rule with a code, which may be one that was removed."""
    return all_rules().get(code) or known().removed[code]


def meant_by(word: str) -> str:
    """The code, or the start of codes, that a word means: itself, unless it is a name or a former code.

    A rule can be named by its code, by its name, and by those that it had before; a family by its name.
    """
    if word in all_rules():
        return word
    named = names()
    return named.get(word) or named.get(word.lower(), word)


@cache
def redirects() -> dict[str, str]:
    """The codes and names that rules had before, and the codes that they have now."""
    return {former: code for code, rule in _ours_last() for former in rule.formerly}


@cache
def families() -> dict[str, str]:
    """The names of the families of this package's rules, and what their codes start with."""
    ours = (rule for code, rule in all_rules().items() if code.startswith(OURS))
    return {rule.module_name.split(".")[-2]: rule.code[: len(OURS) + 1] for rule in ours}


@cache
def names() -> dict[str, str]:
    """All words that mean codes, or the start of codes, and are neither."""
    removed = {rule.name: code for code, rule in known().removed.items()}
    return {**removed, **redirects(), **{rule.name: code for code, rule in _ours_last()}, **families()}


def _ours_last() -> list[tuple[str, Rule]]:
    """The rules, in an order in which a later one takes a name from an earlier one."""
    return sorted(all_rules().items(), key=lambda each: each[0].startswith(OURS))


@cache
def known() -> Known:
    """The rules of this package and of plugins."""
    found = {}
    for file, family in sorted(_modules()):
        with open(f"{_RULES}/{family}/{file}", encoding="utf-8") as text:
            rule = Rule.from_text(f"amplint.rules.{family}.{file[:-3]}", text.read())
        found[rule.code] = rule
    declared = _declared()
    if not declared:
        return Known.of(found)
    from amplint.registry.plugins import load  # noqa: PLC0415 - most environments have none

    return load(found, declared)


def _modules() -> Iterator[tuple[str, str]]:
    """The files of this package's rules, with the folder of their family."""
    for family in os.scandir(_RULES):
        if family.is_dir():
            for file in os.listdir(family.path):
                if file.startswith("amp") and file.endswith(".py"):
                    yield file, family.name


def _declared() -> dict[str, bytes]:
    """The entry points of distributions that speak of our group, by the names of their folders.

    importlib.metadata knows them as well, and takes longer to import than a file takes to lint.
    """
    found: dict[str, bytes] = {}
    for folder in dict.fromkeys(sys.path):
        if os.path.basename(folder) not in INSTALLED or not os.path.isabs(folder):
            continue
        try:
            names = os.listdir(folder) if folder != os.getcwd() else []
        except OSError:
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                data = _read(f"{folder}/{name}/entry_points.txt")
                if GROUP in data:
                    found.setdefault(name, data)
    return found


def _read(path: str) -> bytes:
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(file, 1 << 20)
    except OSError:
        return b""
    finally:
        os.close(file)
