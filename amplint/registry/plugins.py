"""Rules of installed distributions.

An entry point of the group `amplint.rules` is named for the three capital letters with which its rules' codes start,
and its value for the package that has a module for each of them, or for one such module:

    [project.entry-points."amplint.rules"]
    ABC = "house_rules"         # house_rules/abc101_its_name.py is ABC101

What a rule's header says is read from the module's text. Nothing of a plugin is imported before a file holds the words
that a rule of it looks for, unless the header says more than literals.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from amplint.registry.rule import GROUP, OURS, Header, Known, PluginError, Rule, Stage, header_of, reason

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

_PREFIX = re.compile(r"[A-Z]{3}")
_MODULE = re.compile(r"(?!\d)\w+(?:\.(?!\d)\w+)*")
_LITERAL = r"""(?:"[^"\\\n]*"|'[^'\\\n]*')"""
_ARGUMENT = rf"""
    severity\s*=\s*[\w.]+ | (?:trial|simulated|about_absence)\s*=\s*(?:True|False)
    | default\s*=\s*(?P<default>True|False)
    | triggers\s*=\s*\((?P<triggers>\s*{_LITERAL}\s*,\s*(?:{_LITERAL}\s*,\s*)*(?:{_LITERAL}\s*)?)\)
    | stage\s*=\s*Stage\.(?P<stage>[A-Z]+)
    | formerly\s*=\s*\((?P<formerly>\s*{_LITERAL}\s*,\s*(?:{_LITERAL}\s*,\s*)*(?:{_LITERAL}\s*)?)\)
    | fixes\s*=\s*\(\s*(?:Applicability\.[A-Z]+\s*,\s*)*(?:Applicability\.[A-Z]+\s*)?\)
    | not_shown\s*=\s*{_LITERAL}
    | shown_by\s*=\s*\(\s*{_LITERAL}\s*,\s*(?:{_LITERAL}\s*,\s*)*(?:{_LITERAL}\s*)?\)
"""
# A header that means what its text says.
_HEADER = re.compile(rf"\s*__name__\s*,\s*__doc__\s*(?:,\s*(?:{_ARGUMENT})\s*)*,?\s*", re.VERBOSE)


class _Point(NamedTuple):
    """An entry point: a prefix, the module that it names, and the distribution that says so."""

    prefix: str
    value: str
    distribution: str


def load(ours: dict[str, Rule], declared: Mapping[str, bytes]) -> Known:
    """Our rules and those of plugins; `declared` are entry points by the names of distributions' folders."""
    rules = dict(ours)
    prefixes = {OURS}
    errors: list[str] = []
    points: dict[str, list[_Point]] = {}
    for each in _points(declared):
        if not _PREFIX.fullmatch(each.prefix) or each.prefix == OURS:
            what = "is amplint's own" if each.prefix == OURS else "is not three capital letters"
            errors.append(f"plugin {each.distribution}: the prefix {each.prefix!r} {what}")
        else:
            points.setdefault(each.prefix, []).append(each)
    for prefix, sharing in sorted(points.items()):
        prefixes.add(prefix)
        if len(sharing) > 1:
            names = " and ".join(sorted(each.distribution for each in sharing))
            errors.append(f"plugins {names}: both have the prefix {prefix!r}, so neither's rules are on")
            continue
        try:
            rules |= _rules(sharing[0])
        except PluginError as error:
            errors.append(str(error))
    broken = prefixes - {code[: len(OURS)] for code in rules}
    return Known.of(dict(sorted(rules.items())), tuple(sorted(prefixes)), tuple(sorted(broken)), tuple(errors))


def _points(declared: Mapping[str, bytes]) -> Iterator[_Point]:
    """The entry points of our group; of a distribution that is installed twice those that Python sees first."""
    seen: set[str] = set()
    for folder, data in declared.items():
        name = folder.rpartition(".")[0]
        project, _, rest = name.partition("-")
        usual = re.sub(r"[-_.]+", "-", project).lower()
        if usual in seen:
            continue
        seen.add(usual)
        release = rest.partition("-")[0]
        section = b""
        for line in data.splitlines():
            text = line.strip()
            if text.startswith(b"["):
                section = text
            elif section == GROUP and b"=" in text and not text.startswith((b"#", b";")):
                prefix, _, value = text.decode("utf-8", "replace").partition("=")
                yield _Point(prefix.strip(), value.partition("[")[0].strip(), f"{usual} {release}".strip())


def _rules(point: _Point) -> dict[str, Rule]:
    """The rules that an entry point names.

    Raises:
        PluginError: it names none.
    """
    if not _MODULE.fullmatch(point.value):
        raise PluginError(f"plugin {point.distribution}: {point.value!r} is not the name of a module")
    rule_module = re.compile(rf"{point.prefix.lower()}\d{{3}}_[a-z0-9_]+")
    found: dict[str, Rule] = {}
    files = dict(_modules(point.value, rule_module))
    for module, file in sorted(files.items()):
        rule = _rule(module, file, point)
        if rule.code in found:
            raise PluginError(f"plugin {point.distribution}: there are two rules {rule.code}")
        found[rule.code] = rule
    if not found:
        example = f"{point.prefix.lower()}101_its_name.py"
        raise PluginError(f"plugin {point.distribution}: {point.value} contains no rule, such as {example}")
    return found


def _modules(named: str, rule_module: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """The modules of rules that a name stands for, and their files. Nothing is imported to tell."""
    first, *rest = named.split(".")
    spec = _spec(first)
    if spec is None:
        return
    folders = [os.path.join(folder, *rest) for folder in spec.submodule_search_locations or ()]
    if rule_module.fullmatch(named.rpartition(".")[2]):
        for file in [f"{folder}.py" for folder in folders] if rest else [spec.origin or ""]:
            if os.path.isfile(file):
                yield named, file
        return
    for folder in folders:
        for file in _listed(folder):
            if file.endswith(".py") and rule_module.fullmatch(file[:-3]):
                yield f"{named}.{file[:-3]}", os.path.join(folder, file)


def _spec(name: str) -> ModuleSpec | None:
    """Where a package or module is."""
    finds = (getattr(finder, "find_spec", None) for finder in sys.meta_path)
    return next((spec for find in finds if find is not None and (spec := find(name, None)) is not None), None)


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _rule(module: str, file: str, point: _Point) -> Rule:
    """A rule as its module's text has it, or, where that takes more than reading, as the module itself does."""
    try:
        with open(file, encoding="utf-8") as opened:
            header = _HEADER.fullmatch(header_of(opened.read()))
        if header:
            said = Header(
                _words(header["triggers"]),
                header["default"] != "False",
                Stage[header["stage"] or "STABLE"],
                _words(header["formerly"]),
            )
            rule = Rule.from_header(module, said, point.distribution)
        else:
            rule = import_module(module).rule
    except (Exception, SystemExit) as error:
        raise PluginError(f"plugin {point.distribution}: {module} can't be loaded: {reason(error)}") from error
    if not isinstance(rule, Rule) or rule.module_name != module:
        raise PluginError(f"plugin {point.distribution}: {module} has no `rule = Rule(__name__, __doc__, ...)`")
    rule.plugin = point.distribution
    if others := [each for each in rule.formerly if each[:3].isupper() and not each.startswith(point.prefix)]:
        raise PluginError(
            f"plugin {point.distribution}: {rule.code} can't have been {others[0]}, which has another prefix"
        )
    if not rule.triggers and rule.stage is not Stage.REMOVED:
        raise PluginError(f"plugin {point.distribution}: {rule.code} has no trigger words, so it would never run")
    return rule


def _words(literals: str | None) -> tuple[str, ...]:
    return tuple(each[1:-1] for each in re.findall(_LITERAL, literals or ""))
