"""The command `config`: what holds for a file, key by key, and where each value comes from."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from amplint.base.about import SCHEMA_VERSION
from amplint.base.paths import absolute, shown, visible
from amplint.base.project_root import Project, project_of, told
from amplint.base.target import ASSUMED
from amplint.cli.arguments import Parser, add_settings, overrides, tell_notices
from amplint.config.keys import KEYS
from amplint.config.requirements import broken
from amplint.config.settings import Layer, Resolver, Settings, ignores_of
from amplint.registry import all_rules

if TYPE_CHECKING:
    from amplint.config.file import Config

_DESCRIPTION = """\
Print the settings that apply to a file, and where each value comes from: a flag, a line
of the configuration file, the project's requirements, or amplint's default. Also print
the project folder: amplint follows imports only inside it.

A command-line option replaces the value in the configuration file. There are two exceptions:

  --extend-select, --ignore, --unfixable, --extend-exclude
      add to the file's values: each value is printed, and all apply
  --select, --fixable
      also replace related keys: --select replaces the file's `select`, `extend-select`
      and `ignore`; --fixable replaces `fixable` and `unfixable`"""
_EPILOG = """\
JSON keys:

  schema_version  version of these keys
  file            FILE, as an absolute path
  configuration   the configuration file, or null
  extends         the files that the configuration file extends
  project         the project folder
  project_origin  why this folder is the project folder
  excluded        true: amplint skips FILE when it lints a directory
  rules           the rules that run
  unfixable       the rules whose findings are never fixed
  settings        a list of objects, one per value:
    key, item     the key; if the key is a table, item is the key inside it, else null
    value         the value
    origin        where the value comes from
    holds         false for a pattern of per-file-ignores that FILE does not match, else
                  true"""
_EXAMPLES = (
    "amplint config train.py",
    "amplint config --select scaler train.py",
    "amplint config --schema > amplint.config.schema.json",
)
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


def make_parser() -> Parser:
    """The options of the command."""
    parser = Parser("amplint config", _DESCRIPTION, epilog=_EPILOG, examples=_EXAMPLES)
    parser.add_argument("path", nargs="?", default=".", metavar="FILE", help="a file or directory [default: .]")
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of configuration files instead")
    parser.add_argument("--output-format", choices=("text", "json"), default="text", help="[default: text]")
    add_settings(parser)
    return parser


def run_config(arguments: list[str]) -> int:
    """Print what `arguments` ask for and return the exit code."""
    parser = make_parser()
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
    tell_notices(resolver)
    sys.stdout.write((_as_json if options.output_format == "json" else _as_text)(rows, about))
    return 0


def _rows(resolver: Resolver, config: Config | None, settings: Settings, path: str) -> Iterator[Row]:
    layers = resolver.layers(config)
    ignored = {each.written for each in ignores_of(layers) if each.apply(path)}
    for key, known in KEYS.items():
        rows = _said(key, layers)
        if key == "per-file-ignores":
            rows = [each._replace(holds=each.item in ignored) for each in rows]
        if key in ("target-torch", "targets"):
            rows += _required(key, rows, settings, path)
        yield from rows or [Row(key, None, known.default, "default")]


def _said(key: str, layers: Sequence[Layer]) -> list[Row]:
    """What configuration files and flags say of a key."""
    begins = next((first for first, others in _BEGINS.items() if key in others), key)
    rows: list[Row] = []
    for layer in layers:
        if begins in layer.said and (key != begins or key not in _ADDS):
            rows = []
        if key in layer.said:
            below = ((item, value, () if item is None else (item,)) for item, value in _items(layer.said[key]))
            rows += [Row(key, item, value, layer.origin(key, *place)) for item, value, place in below]
    return rows


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


def _bases(config: Config | None) -> list[Config]:
    """The files that a configuration file extends, the nearest first."""
    return [*config.chain][1:] if config else []


def _as_json(rows: list[Row], about: _About) -> str:
    found = {
        "schema_version": SCHEMA_VERSION,
        "file": about.path,
        "configuration": about.config.path if about.config else None,
        "extends": [each.path for each in _bases(about.config)],
        "project": about.project.folder,
        "project_origin": about.project.why,
        "excluded": about.excluded or about.refused,
        "rules": sorted(about.settings.codes),
        "unfixable": sorted(about.settings.unfixable),
        "settings": [row._asdict() for row in rows],
    }
    return json.dumps(found, indent=2) + "\n"


def _as_text(rows: list[Row], about: _About) -> str:
    where = shown(about.config.path) if about.config else "no configuration file"
    where += "".join(f", which extends {shown(each.path)}" for each in _bases(about.config))
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
