"""The command `config`: what holds for a file, key by key, and where each value comes from."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from amplint.arguments import Parser, add_settings, overrides
from amplint.keys import KEYS
from amplint.paths import absolute, shown, visible
from amplint.rules import all_rules
from amplint.settings import Resolver, Settings, ignores_of
from amplint.target import ASSUMED

if TYPE_CHECKING:
    from amplint.config import Config

_DESCRIPTION = """\
Print the settings that hold for a file, and where each comes from: a flag, a line of the configuration file, what the
project requires, or amplint's default. Of values for one key the last prevails; lists of rules and `extend-exclude` add
up. JSON has: file, configuration, excluded, rules, unfixable, and settings, a list of objects with key, item (of a
table), value, origin, holds (false: what a pattern says is not for this file)."""
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


def run_config(arguments: list[str]) -> int:
    """Print what `arguments` ask for and return the exit code."""
    parser = Parser(prog="amplint config", description=_DESCRIPTION)
    parser.add_argument("path", nargs="?", default=".", metavar="FILE", help="or a directory [default: .]")
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of configuration files instead")
    parser.add_argument("--output-format", choices=("text", "json"), default="text", help="[default: text]")
    add_settings(parser)
    options = parser.parse_args(arguments)
    if options.schema:
        from amplint.schema import text  # noqa: PLC0415 - asked for once in an editor's life

        sys.stdout.write(text())
        return 0
    resolver = Resolver(overrides(options))
    path = absolute(options.path)
    is_directory = os.path.isdir(path)
    directory = path if is_directory else os.path.dirname(path)
    config = resolver.config(directory)
    settings = resolver.settings(path) if is_directory else resolver.for_file(path)
    rows = list(_rows(resolver, config, settings, path))
    # For what walks leave out, only what is below the directory in which they start counts.
    excluded = resolver.leaves_out(path, os.getcwd())
    if options.output_format == "json":
        sys.stdout.write(_as_json(rows, config, settings, path, excluded))
    else:
        sys.stdout.write(_as_text(rows, config, settings, path, excluded))
    return 0


def _rows(resolver: Resolver, config: Config | None, settings: Settings, path: str) -> Iterator[Row]:
    flags = resolver.overrides.said
    ignored = {each.written for each in ignores_of(config, resolver.overrides) if each.apply(path)}
    for key, known in KEYS.items():
        begins = next((first for first, others in _BEGINS.items() if key in others), key)
        layers: list[Row] = []
        if config is not None and key in config.said and (begins not in flags or key == begins):
            for item, value in _items(config.said[key]):
                layers.append(Row(key, item, value, config.place(key, *([item] if item is not None else []))))
        if key in flags:
            off = "no-" * (flags[key] is False)
            given = [Row(key, item, value, f"--{off}{key}") for item, value in _items(flags[key])]
            layers = layers + given if key in _ADDS else given
        if key == "per-file-ignores":
            layers = [each._replace(holds=each.item in ignored) for each in layers]
        if key in ("target-torch", "targets"):
            layers += _required(key, layers, settings, path)
        yield from layers or [Row(key, None, known.default, "default")]


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


def _as_json(rows: list[Row], config: Config | None, settings: Settings, path: str, excluded: bool) -> str:
    told = {
        "file": path,
        "configuration": config.path if config else None,
        "excluded": excluded,
        "rules": sorted(settings.codes),
        "unfixable": sorted(settings.unfixable),
        "settings": [row._asdict() for row in rows],
    }
    return json.dumps(told, indent=2) + "\n"


def _as_text(rows: list[Row], config: Config | None, settings: Settings, path: str, excluded: bool) -> str:
    lines = [visible(f"{shown(path)}: {shown(config.path) if config else 'no configuration file'}")]
    if excluded:
        lines.append("It is left out where a directory is walked.")
    cells = [
        (
            visible(row.key if row.item is None else f"{row.key}.{json.dumps(row.item, ensure_ascii=False)}"),
            visible(row.origin if row.holds else f"{row.origin} (not this file)"),
            visible(KEYS[row.key].unset if row.value is None else json.dumps(row.value, ensure_ascii=False)),
        )
        for row in rows
    ]
    codes, every = sorted(settings.codes), all_rules()
    cells.append(("rules", f"{len(codes)} of {len(every)}", " ".join(codes)))
    if settings.unfixable:
        cells.append(("not fixed", f"{len(settings.unfixable)} of {len(every)}", " ".join(sorted(settings.unfixable))))
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
