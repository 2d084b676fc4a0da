"""Which rules are on: codes, prefixes and ALL, from `select`, `extend-select` and `ignore`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from amplint.registry import FORMER_NAMES, all_rules, known
from amplint.registry.rule import OURS

# A file that can't be read as Python, or a rule that failed, is no matter of taste: `select` leaves these on.
ALWAYS = frozenset({"AMP000", "AMP001"})


class SettingsError(Exception):
    """The configuration or the command line can't be used as it is. The message is one line for the user."""


class Selection(NamedTuple):
    """What one place (a configuration file, the command line) says about rules. `select` None: nothing."""

    select: tuple[str, ...] | None = None
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


def codes_of(selector: str) -> list[str]:
    """The codes that a code, a prefix of codes or ALL stands for; none where a plugin that has them is broken.

    Raises:
        SettingsError: it stands for none; the message names the nearest that does.
    """
    rules = all_rules()
    if selector == "ALL":
        return list(rules)
    found = [code for code in rules if code.startswith(selector)] if selector.startswith(known().prefixes) else []
    if not found and not selector.startswith(known().broken):
        raise SettingsError(f"unknown rule {selector!r}{_suggestion(selector)}")
    return found


def _suggestion(selector: str) -> str:
    rules = all_rules()
    if numbered := re.fullmatch(rf"({'|'.join(known().prefixes)})([\dO]{{1,6}})", selector.upper()):
        wanted = int(numbered[2].replace("O", "0")[:3].ljust(3, "0"))
        same = [code for code in rules if code.startswith(numbered[1])]
        return f"; the nearest is {min(same, key=lambda code: abs(int(code[3:]) - wanted))}"
    names = {**FORMER_NAMES, **{rule.name: code for code, rule in rules.items()}}
    near = nearest(selector, [*rules, "ALL", *names])
    if re.fullmatch(r"[A-Z]{3}\d{0,3}", selector) and selector[:3] not in known().prefixes:
        meant = f"did you mean {near}, or is" if near else "is"
        return f"; {meant} the plugin with the {selector[:3]} rules not installed?"
    return f"; did you mean {names.get(near, near)}?" if near else f"; the rules are {_range()}"


def _range() -> str:
    ours = [code for code in all_rules() if code.startswith(OURS)]
    return f"{min(ours)} to {max(ours)}"


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The one of `known` that is most like `word`, or None where nothing is."""
    from difflib import get_close_matches  # noqa: PLC0415 - only an error needs it

    return next(iter(get_close_matches(word, known, n=1, cutoff=0.5)), None)


def enabled_codes(layers: Iterable[Selection]) -> frozenset[str]:
    """The codes that are on after `layers`, of which each later one prevails.

    Within a layer the more specific selector prevails: `select = ["AMP4"], ignore = ["AMP401"]` leaves AMP401 out,
    and `ignore = ["AMP4"], extend-select = ["AMP401"]` leaves it in.

    Raises:
        SettingsError: a selector is unknown.
    """
    on = {code for code, rule in all_rules().items() if rule.default} | ALWAYS
    return frozenset(_prevailing(on, layers, ALWAYS) | {"AMP000"})


def fixable_codes(layers: Iterable[Selection]) -> frozenset[str]:
    """The codes whose findings may be fixed: `select` and `ignore` of the layers are `fixable` and `unfixable`.

    Raises:
        SettingsError: a selector is unknown.
    """
    return frozenset(_prevailing(set(all_rules()), layers, frozenset()))


def _prevailing(on: set[str], layers: Iterable[Selection], always: frozenset[str]) -> set[str]:
    for layer in layers:
        if layer.select is not None:
            on = set(always)
        wanted = [(_specificity(each), each, True) for each in (*(layer.select or ()), *layer.extend_select)]
        unwanted = [(_specificity(each), each, False) for each in layer.ignore]
        # The sort is stable: at the same specificity what is ignored comes last and prevails.
        for _, selector, keep in sorted(wanted + unwanted, key=lambda each: each[0]):
            (on.update if keep else on.difference_update)(codes_of(selector))
    return on


def _specificity(selector: str) -> int:
    return 0 if selector == "ALL" else len(selector)
