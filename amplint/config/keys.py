"""The keys of a configuration file: one table, from which files are checked, and the schema and the README are made.

A problem is told with the place below the key where it is (see `amplint.toml`), so that its line can be named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from amplint import __version__
from amplint.base.target import ASSUMED
from amplint.config.declared_target import from_option
from amplint.config.defaults import DEFAULT_EXCLUDE, DEFAULT_SRC, DEVICES, DEVICES_KNOWN_AS
from amplint.config.formats import FORMATS, SEVERITIES
from amplint.config.selection import ASKING, SettingsError, codes_of, nearest
from amplint.config.toml_lines import Place

Problem = tuple[Place, str]
# What a schema calls a selector of rules (`amplint.config.schema` says what that is).
SELECTOR = {"$ref": "#/definitions/rules"}
_FRAMEWORKS = tuple(each for each in ASSUMED if each != "torch")


class Kind(NamedTuple):
    """What a value can be: in words, as JSON Schema, and what is wrong with one."""

    words: str
    schema: dict[str, Any]
    problems: Callable[[str, object], Iterator[Problem]]


class Key(NamedTuple):
    """One key. A `default` of None means what `unset` says."""

    name: str
    kind: Kind
    doc: str
    default: Any
    unset: str = ""


def problem(table: dict[str, Any]) -> Problem | None:
    """What is wrong with a table of keys, if anything is."""
    for name, value in table.items():
        key = KEYS.get(name)
        found = _unknown(name, "", tuple(KEYS)) if key is None else next(key.kind.problems(name, value), None)
        if found is not None:
            return ((name, *found[0]), found[1])
    return None


def _unknown(name: str, before: str, known: Sequence[str]) -> Problem:
    near = nearest(name.replace("_", "-").lower(), known)
    return (), f"unknown key {before + name!r}" + (f"; did you mean {near!r}?" if near else "")


def _list_of_strings(name: str, value: object) -> Iterator[Problem]:
    wrong = f"{name!r} must be a list of strings"
    if not isinstance(value, list):
        yield (), wrong
        return
    for at, each in enumerate(value):
        if not isinstance(each, str):
            yield (at,), wrong
        elif not each:
            yield (at,), f"{name!r} contains an empty string"


def _list_of_rules(name: str, value: object) -> Iterator[Problem]:
    yield from _list_of_strings(name, value)
    assert isinstance(value, list)
    for at, each in enumerate(value):
        message = _unknown_rule(each, asking=name in ASKING)
        if message:
            yield (at,), message


def _unknown_rule(selector: str, *, asking: bool) -> str:
    try:
        codes_of(selector, asking=asking)
    except SettingsError as error:
        return str(error)
    return ""


def _table_of_rules(name: str, value: object) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield (), f"{name!r} must be a table of patterns, each with a list of rules"
        return
    for pattern, rules in value.items():
        if not pattern.lstrip("!"):
            yield (pattern,), f"{name!r} contains an empty pattern"
        for place, message in _list_of_rules(f"{name}.{pattern}", rules):
            yield (pattern, *place), message


def _flag(name: str, value: object) -> Iterator[Problem]:
    if not isinstance(value, bool):
        yield (), f"{name!r} must be true or false"


def _place(what: str) -> Callable[[str, object], Iterator[Problem]]:
    """The check of a value that has to be `what`, such as "the name of a folder"."""

    def problems(name: str, value: object) -> Iterator[Problem]:
        if not isinstance(value, str) or not value:
            yield (), f"{name!r} must be {what}"

    return problems


def _specifier(name: str, value: object) -> Iterator[Problem]:
    wrong = f'{name!r} must be a version specifier such as ">={__version__}"'
    if not isinstance(value, str):
        yield (), wrong
        return
    from amplint.config.specifiers import admits  # noqa: PLC0415 - few configurations say it

    try:
        admits(value, __version__)
    except ValueError as error:
        yield (), f"{wrong}: {error}"


def _release_of(package: str) -> Kind:
    def problems(name: str, value: object) -> Iterator[Problem]:
        if not isinstance(value, str):
            yield (), f"'{name}' must be a string such as \"{ASSUMED[package]}\""
            return
        try:
            from_option(value, "", package)
        except ValueError as error:
            yield (), f"'{name}': {error}"

    schema = {"type": "string", "minLength": 1, "examples": [ASSUMED[package], f">={ASSUMED[package]}"]}
    return Kind("release or specifier", schema, problems)


def _table_of_releases(name: str, value: object) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield (), f"{name!r} must be a table with some of {', '.join(_FRAMEWORKS)}"
        return
    for package, release in value.items():
        known = package in _FRAMEWORKS
        below = _release_of(package).problems(f"{name}.{package}", release) if known else ()
        for place, message in below if known else [_unknown(package, f"{name}.", _FRAMEWORKS)]:
            yield (package, *place), message


def _one_of(values: tuple[str, ...], known_as: Mapping[str, str] = MappingProxyType({})) -> Kind:
    def problems(name: str, value: object) -> Iterator[Problem]:
        if value not in values:
            advice = did_you_mean(value, values, known_as) if isinstance(value, str) else ""
            yield (), f"{name!r} must be one of {', '.join(map(repr, values))}{advice}"

    return Kind("one of " + ", ".join(f'`"{each}"`' for each in values), {"enum": list(values)}, problems)


def did_you_mean(value: str, values: Sequence[str], known_as: Mapping[str, str]) -> str:
    """`; did you mean 'cuda'?`: what was meant, by other names or by its letters; empty if nothing is near."""
    word = value.partition(":")[0].lower()
    near = known_as.get(word) or nearest(word, values)
    return f"; did you mean {near!r}?" if near else ""


_TEXT = {"type": "string", "minLength": 1}
_STRINGS = {"type": "array", "items": _TEXT}
_RULES = Kind("list of rules", {"type": "array", "items": SELECTOR}, _list_of_rules)
_PATTERNS = Kind("list of patterns", _STRINGS, _list_of_strings)
_FOLDERS = Kind("list of folders", _STRINGS, _list_of_strings)
_FOLDER = Kind("folder", _TEXT, _place("the name of a folder"))
_FILE = Kind("file", _TEXT, _place("the name of a file"))
_IGNORES = Kind(
    "table of patterns, each with a list of rules",
    {
        "type": "object",
        "propertyNames": {"pattern": "[^!]"},
        "additionalProperties": {"type": "array", "items": SELECTOR},
    },
    _table_of_rules,
)
_RELEASES = Kind(
    f"table of {', '.join(_FRAMEWORKS)}, each with a release or specifier",
    {
        "type": "object",
        "properties": {each: _release_of(each).schema for each in _FRAMEWORKS},
        "additionalProperties": False,
    },
    _table_of_releases,
)
_PATH = Kind("path", _TEXT, _place("the path of a configuration file"))
_SPECIFIER = Kind(
    "version specifier",
    {"type": "string", "pattern": r"^\s*(~=|={1,3}|!=|[<>]=?)?\s*\d", "examples": [f">={__version__}"]},
    _specifier,
)
_BOOLEAN = Kind("`true` or `false`", {"type": "boolean"}, _flag)

KEYS = {
    key.name: key
    for key in (
        Key("select", _RULES, "Run only these rules.", None, "rules that are on by default"),
        Key("extend-select", _RULES, "Run these rules in addition.", []),
        Key("ignore", _RULES, "Don't run these rules. If two selectors match a rule, the longer one wins.", []),
        Key(
            "per-file-ignores",
            _IGNORES,
            "Don't run these rules in files that match a pattern, selected or not; with `!` in front, in all others.",
            {},
        ),
        Key("fixable", _RULES, "Fix only findings of these rules.", ["ALL"]),
        Key("unfixable", _RULES, "Report findings of these rules, but don't fix them.", []),
        Key("preview", _BOOLEAN, "Whether preview rules run: new rules that may still change.", False),
        Key("fix", _BOOLEAN, "Whether to make fixes, as with `--fix`.", False),
        Key("show-fixes", _BOOLEAN, "Whether to list what was fixed, by file and rule.", False),
        Key("unsafe-fixes", _BOOLEAN, "Whether to make fixes that may change what a program does.", False),
        Key("suspicions", _BOOLEAN, "Whether to show suspicions too. They never affect the exit code.", False),
        Key("docs", _BOOLEAN, "Whether to lint code in documents and docstrings too.", False),
        Key(
            "exclude",
            _PATTERNS,
            "Files and directories to skip inside directories that are linted.",
            list(DEFAULT_EXCLUDE),
        ),
        Key("extend-exclude", _PATTERNS, "Files and directories to skip in addition.", []),
        Key(
            "force-exclude",
            _BOOLEAN,
            "Whether to skip excluded files even if they are named on the command line.",
            False,
        ),
        Key(
            "target-torch",
            _release_of("torch"),
            "The lowest torch release to support, or a range of releases.",
            None,
            "what the project requires",
        ),
        Key("targets", _RELEASES, "The same for frameworks.", None, "what the project requires"),
        Key(
            "device",
            _one_of(DEVICES, DEVICES_KNOWN_AS),
            "The device to assume for code that names none: fixes write it, and `amplint verify` runs the code on it.",
            None,
            "unknown",
        ),
        Key(
            "src",
            _FOLDERS,
            "Where to look for imports, after the folders from the importing file's up to the project's.",
            list(DEFAULT_SRC),
        ),
        Key(
            "cache-dir",
            _FOLDER,
            "Where to keep what was found, to lint only what has changed.",
            None,
            "`.amplint_cache` in the project",
        ),
        Key(
            "baseline",
            _FILE,
            "A file with findings that are not reported, as with `--baseline`. `--write-baseline` makes it.",
            None,
            "none",
        ),
        Key("output-format", _one_of(FORMATS), "How to print findings.", "full"),
        Key("exit-on", _one_of(SEVERITIES), "The lowest severity for which the exit code is 1.", SEVERITIES[-1]),
        Key("extend", _PATH, "A configuration file to start from. What this file says comes on top.", None, "none"),
        Key("required-version", _SPECIFIER, "The releases of amplint that this configuration is for.", None, "any"),
    )
}
