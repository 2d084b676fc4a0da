"""The command `config`: what holds for a file, key by key, and where each value comes from."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from amplint.base.about import SCHEMA_VERSION
from amplint.base.paths import absolute, shown, visible
from amplint.base.project_root import Project, project_of, told
from amplint.base.target import ASSUMED
from amplint.cli.arguments import Parser, add_settings, overrides
from amplint.config.keys import KEYS
from amplint.config.requirements import broken
from amplint.config.settings import Resolver, Settings, ignores_of
from amplint.registry import all_rules

if TYPE_CHECKING:
    from amplint.config.file import Config

_DESCRIPTION = """\
Print the settings of a file and where each value comes from: a flag, a line of the
configuration file, the project's requirements, or amplint's default. Also print the
file's project, the folder in which imports are followed. If a key has several values,
the last one wins; lists of rules and `extend-exclude` add up.

JSON has schema_version, file, configuration, project, project-origin, excluded, rules,
unfixable, and settings: a list of objects with key, item (of a table), value, origin
and holds (false: the value is not for this file)."""
# A key begins these anew, with what it says itself.
_BEGINS = {"select": ("select", "extend-select", "ignore"), "fixable": ("fixable", "unfixable")}
_ADDS = ("extend-select", "ignore", "unfixable", "extend-exclude")
_WIDTH = 120


class Row(NamedTuple):
    """A value of a key, or of an item of a table, and where it comes from. It `holds` unless it is for other files."""

    key: str
    item: str | None
    value: Any
    origin: str
    holds: bool = True


class _About(NamedTuple):
    """A file or directory, and what holds for it."""

    path: str
    config: Config | None
    settings: Settings
    project: Project
    excluded: bool
    refused: bool


def run_config(arguments: list[str]) -> int:
    """Print what `arguments` ask for and return the exit code."""
    parser = Parser(prog="amplint config", description=_DESCRIPTION)
    parser.add_argument("path", nargs="?", default=".", metavar="FILE", help="a file or directory [default: .]")
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of configuration files instead")
    parser.add_argument("--output-format", choices=("text", "json"), default="text", help="[default: text]")
    add_settings(parser)
    options = parser.parse_args(arguments)
    if options.schema:
        from amplint.config.schema import text  # noqa: PLC0415 - asked for once in an editor's life

        sys.stdout.write(text())
        return 0
    resolver = Resolver(overrides(options))
    path = absolute(options.path)
    is_directory = os.path.isdir(path)
    directory = path if is_directory else os.path.dirname(path)
    config = resolver.config(directory)
    settings = resolver.settings(path) if is_directory else resolver.for_file(path)
    rows = list(_rows(resolver, config, settings, path))
    about = _About(
        path,
        config,
        settings,
        project_of(directory, settings.start),
        # For what walks leave out, only what is below the directory in which they start counts.
        excluded=resolver.leaves_out(path, os.getcwd()),
        refused=resolver.refuses(path),
    )
    sys.stdout.write((_as_json if options.output_format == "json" else _as_text)(rows, about))
    return 0


def _rows(resolver: Resolver, config: Config | None, settings: Settings, path: str) -> Iterator[Row]:
    flags = resolver.overrides.said
    ignored = {each.written for each in ignores_of(config, resolver.overrides) if each.apply(path)}
    for key, known in KEYS.items():
        layers = _said(key, config, flags)
        if key == "per-file-ignores":
            layers = [each._replace(holds=each.item in ignored) for each in layers]
        if key in ("target-torch", "targets"):
            layers += _required(key, layers, settings, path)
        yield from layers or [Row(key, None, known.default, "default")]


def _said(key: str, config: Config | None, flags: Mapping[str, Any]) -> list[Row]:
    """What the configuration file and flags say of a key."""
    begins = next((first for first, others in _BEGINS.items() if key in others), key)
    layers: list[Row] = []
    if config is not None and key in config.said and (begins not in flags or key == begins):
        for item, value in _items(config.said[key]):
            layers.append(Row(key, item, value, config.place(key, *([item] if item is not None else []))))
    if key in flags:
        off = "no-" * (flags[key] is False)
        given = [Row(key, item, value, f"--{off}{key}") for item, value in _items(flags[key])]
        layers = layers + given if key in _ADDS else given
    return layers


def _items(value: Any) -> list[tuple[str | None, Any]]:
    """A value as it is, or those in a table."""
    return list(value.items()) if isinstance(value, dict) else [(None, value)]


def _required(key: str, said: Sequence[Row], settings: Settings, path: str) -> Iterator[Row]:
    """The releases that the project requires, of what the settings don't name."""
    for package in ASSUMED:
        item = None if package == "torch" else package
        if (item is None) == (key == "target-torch") and item not in {each.item for each in said}:
            place = os.path.join(path, "any.py") if os.path.isdir(path) else path
            lowest, highest, origin = settings.target(place, package)
            if settings.isolated:
                origin = f"--isolated: {ASSUMED[package]} assumed"
            end = "" if highest is None else f",<={'.'.join(map(str, highest))}"
            yield Row(key, item, f">={'.'.join(map(str, lowest))}{end}", origin)


def _as_json(rows: list[Row], about: _About) -> str:
    found = {
        "schema_version": SCHEMA_VERSION,
        "file": about.path,
        "configuration": about.config.path if about.config else None,
        "project": about.project.folder,
        "project-origin": about.project.why,
        "excluded": about.excluded or about.refused,
        "rules": sorted(about.settings.codes),
        "unfixable": sorted(about.settings.unfixable),
        "settings": [row._asdict() for row in rows],
    }
    return json.dumps(found, indent=2) + "\n"


def _as_text(rows: list[Row], about: _About) -> str:
    where = shown(about.config.path) if about.config else "no configuration file"
    lines = [visible(f"{shown(about.path)}: {where}"), f"Its project: {visible(told(about.project))}."]
    if wrong := broken(Path(about.project.folder)):
        lines.append(visible(f"{wrong}."))
    if about.refused:
        lines.append("It is excluded, even if it is named on the command line (`force-exclude`).")
    elif about.excluded:
        lines.append("It is excluded, unless it is named on the command line.")
    cells = [
        (
            visible(row.key if row.item is None else f"{row.key}.{json.dumps(row.item, ensure_ascii=False)}"),
            visible(row.origin if row.holds else f"{row.origin} (not this file)"),
            visible(KEYS[row.key].unset if row.value is None else json.dumps(row.value, ensure_ascii=False)),
        )
        for row in rows
    ]
    codes, kept, every = sorted(about.settings.codes), sorted(about.settings.unfixable), all_rules()
    cells.append(("rules", f"{len(codes)} of {len(every)}", " ".join(codes)))
    if kept:
        cells.append(("not fixed", f"{len(kept)} of {len(every)}", " ".join(kept)))
    first, second = (max(len(each[at]) for each in cells) + 2 for at in (0, 1))
    indent = " " * (first + second)
    for key, origin, value in cells:
        start = f"{key.ljust(first)}{origin.ljust(second)}"
        lines += textwrap.wrap(
            start + value,
            max(_WIDTH, len(indent) + 40),
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "".join(f"{line}\n" for line in lines)
