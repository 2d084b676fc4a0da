"""Which rules are on: codes, prefixes, names and ALL, from `select`, `extend-select` and `ignore`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from amplint.registry import all_rules, families, known, meant_by, names, redirects
from amplint.registry.rule import OURS, Stage

# A file that can't be read as Python, or a rule that failed, is no matter of taste: `select` leaves these on.
ALWAYS = frozenset({"AMP000", "AMP001"})
# What asks for rules. The other lists, such as `ignore`, may name what is gone.
ASKING = ("select", "extend-select", "fixable")
_NEAR = 10  # how far apart two numbers of rules may be, of which one is taken for the other
_FEW = 4  # names


class SettingsError(Exception):
    """The configuration or the command line can't be used as it is. The message is one line for the user."""


class Selection(NamedTuple):
    """What one place (a configuration file, the command line) says about rules. `select` None: nothing."""

    select: tuple[str, ...] | None = None
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


def codes_of(selector: str, *, asking: bool = False) -> list[str]:
    """The codes that a selector means: a code, a prefix of codes, the name of a rule or of a family, or ALL.

    There are none where a plugin that has them is broken, or for a rule that was removed.

    Raises:
        SettingsError: it means none, and the message names the nearest that does; or it is `asking` for what is gone.
    """
    rules = all_rules()
    if selector == "ALL":
        return list(rules)
    code = meant_by(selector)
    found = [each for each in rules if each.startswith(code)] if code.startswith(known().prefixes) else []
    if found or code.startswith(known().broken):
        return found
    if code in known().removed:
        if asking:
            raise SettingsError(f"rule {selector} was removed; `amplint rule {selector}` says why")
        return []
    raise SettingsError(f"unknown rule {selector!r}{_suggestion(selector)}")


def notices(key: str, selector: str, *, preview: bool) -> Iterator[str]:
    """What a user should know of a selector in the list `key`, which is valid: what it will be or already is not."""
    code = meant_by(selector)
    if selector in redirects():
        yield renamed(selector)
    if code in known().removed:
        yield f"rule {selector} was removed, so to name it here does nothing"
    if key not in ASKING or selector == "ALL":
        return
    stages = {all_rules()[each].stage for each in codes_of(selector)}
    if stages == {Stage.PREVIEW} and not preview:
        which = "it is" if code in all_rules() else "all its rules are"
        yield f"{selector} has no effect without `--preview`: {which} in preview"
    if code in all_rules() and all_rules()[code].stage is Stage.DEPRECATED:
        yield f"rule {selector} is deprecated and will be removed; `amplint rule {selector}` says more"


def renamed(former: str) -> str:
    """What to tell of a code or name that a rule had before."""
    code = redirects()[former]
    return f"rule {former} is now {code} ({all_rules()[code].name}); the old one still works"


def _suggestion(selector: str) -> str:
    """What may have been meant, or what there is."""
    rules = all_rules()
    if numbered := re.fullmatch(rf"({'|'.join(known().prefixes)})([\dO]{{1,6}})", selector.upper()):
        if any(code.startswith(numbered[0]) for code in rules):  # in small letters
            return f"; did you mean {numbered[0]}?"
        return _near_number(numbered[1], numbered[2].replace("O", "0"))
    word = selector.lower()
    named = {f"{name} ({code})": name for name, code in names().items() if code.startswith(known().prefixes)}
    inside = sorted(shown for shown, name in named.items() if word and word in name)
    if 0 < len(inside) <= _FEW:
        return f"; did you mean {' or '.join(inside)}?"
    near = nearest(selector.upper(), [*rules, "ALL"], 0.7) or nearest(word, list(named.values()))
    near = next((shown for shown, name in named.items() if name == near), near)
    if re.fullmatch(r"[A-Z]{3}\d{0,3}", selector) and selector[:3] not in known().prefixes:
        meant = f"did you mean {near}, or is" if near else "is"
        return f"; {meant} the plugin with the {selector[:3]} rules not installed?"
    if re.fullmatch(r"[A-Z]+\d+", selector) and not near:
        return f"; codes start with {' or '.join(known().prefixes)}"
    return f"; did you mean {near}?" if near else _what_there_is(OURS)


def _near_number(prefix: str, number: str) -> str:
    """The rule whose number is near enough to be meant, or those that there are."""
    same = [code for code in all_rules() if code.startswith(f"{prefix}{number[0]}")]
    if not same:
        named = ", ".join(f"{start} ({name})" for name, start in families().items() if start.startswith(prefix))
        return f"; the families are {named}" if named else _what_there_is(prefix)
    wanted = int(number[:3].ljust(3, "0"))
    near = min(same, key=lambda code: abs(int(code[3:]) - wanted))
    is_near = abs(int(near[3:]) - wanted) <= _NEAR
    return f"; the nearest is {near}" if is_near else _what_there_is(near[:4])


def _what_there_is(prefix: str) -> str:
    first, *others = sorted(code for code in all_rules() if code.startswith(prefix))
    return f"; the rules are {first} to {others[-1]}" if others else f"; the only rule is {first}"


def nearest(word: str, known: Sequence[str], cutoff: float = 0.6) -> str | None:
    """The one of `known` that is most like `word`, or None where nothing is."""
    from difflib import get_close_matches  # noqa: PLC0415 - only an error needs it

    return next(iter(get_close_matches(word, known, n=1, cutoff=cutoff)), None)


def enabled_codes(layers: Iterable[Selection], *, preview: bool = False) -> frozenset[str]:
    """The codes that are on after `layers`, of which each later one prevails; those in preview only with `preview`.

    Within a layer the more specific selector prevails: `select = ["AMP4"], ignore = ["AMP401"]` leaves AMP401 out,
    and `ignore = ["AMP4"], extend-select = ["AMP401"]` leaves it in.

    Raises:
        SettingsError: a selector is unknown.
    """
    rules = all_rules()
    on = {code for code, rule in rules.items() if (rule.default_in_preview if preview else rule.default)} | ALWAYS
    found = _prevailing(on, layers, ALWAYS) | {"AMP000"}
    if not preview:
        found = {code for code in found if rules[code].stage is not Stage.PREVIEW}
    return frozenset(found)


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
            (on.update if keep else on.difference_update)(codes_of(selector, asking=keep))
    return on


def _specificity(selector: str) -> int:
    return 0 if selector == "ALL" else len(meant_by(selector))
