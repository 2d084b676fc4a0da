"""The command `rule`: the list of all rules, and the pages of some."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from amplint.cli.arguments import Parser, warn
from amplint.cli.check import CLEAN, fail
from amplint.config.selection import codes_of, renamed
from amplint.guide import glossary, rule_list, rule_pages
from amplint.registry import all_rules, known, meant_by, page_of, redirects

_EXAMPLES = (
    "amplint rule",
    "amplint rule AMP401",
    "amplint rule clip-without-unscale",
    "amplint rule scaler --output-format json",
)


def make_parser() -> Parser:
    """The options of the command."""
    parser = Parser("amplint rule", "List all rules, or print the pages of some.", examples=_EXAMPLES)
    parser.add_argument(
        "rules",
        nargs="*",
        metavar="RULE",
        help="a code (AMP401), a name (clip-without-unscale), a prefix (AMP4) or a family (scaler) [default: list all]",
    )
    parser.add_argument("--all", action="store_true", help="print the pages of all rules")
    parser.add_argument("--glossary", action="store_true", help="define the terms that the pages use")
    parser.add_argument("--output-format", choices=("text", "json"), default="text", help="[default: text]")
    return parser


def run_rule(arguments: list[str]) -> int:
    """Print what `arguments` ask for and return the exit code."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    if bool(options.rules) + options.all + options.glossary > 1:
        parser.error("give only one of: rules, --all, --glossary")
    if options.glossary:
        sys.stdout.write(glossary())
        return CLEAN
    rules = [page_of(code) for code in (_codes(options.rules) if options.rules else all_rules())]
    one = bool(options.rules) and len(rules) == 1
    broken = {rule.code: why for rule in rules if (why := rule.broken()) is not None}
    rules = [rule for rule in rules if rule.code not in broken]
    failed = [*(() if one else known().errors), *broken.values()]
    if options.rules or options.all:
        if options.output_format == "text":
            sys.stdout.write(rule_pages.as_text(rules))
        elif rules or not one:
            sys.stdout.write(rule_pages.as_json(rules, as_list=not one))
    else:
        write = rule_list.as_table if options.output_format == "text" else rule_list.as_json
        sys.stdout.write(write(rules))
    return max((fail(each) for each in failed), default=CLEAN)


def _codes(given: Iterable[str]) -> list[str]:
    """The codes of rules that are given by their names, present or former, their codes, or what these start with."""
    found: list[str] = []
    for each in map(_as_code, given):
        code = meant_by(each)
        if each in redirects():
            warn(renamed(each))
        found += [code] if code in known().removed else codes_of(each)
    return list(dict.fromkeys(found))


def _as_code(given: str) -> str:
    """What may be typed for a code: amp401."""
    return given.upper() if given[:3].isalpha() and given[3:].isdecimal() else given
