"""What a file's bytes alone say: whether anything can be found in it, and by which rules.

Most files have nothing to do with AMP. For those this search is all there is: nothing is decoded, parsed or imported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from keyword import iskeyword
from typing import TYPE_CHECKING

from amplint.base.paths import NOTEBOOK
from amplint.config.selection import SettingsError
from amplint.registry import all_rules
from amplint.suppression.byte_scan import UNUSED, names_codes

if TYPE_CHECKING:
    from amplint.registry.rule import Rule

FOLLOWING = "AMP2"  # from this on rules look at what a file takes from others
# Most alternatives of rules' trigger words have one of these in them: what has none of them needs no closer look. They
# are few, and rare in code that has nothing to do with AMP. An alternative without one is sought by its longest word.
ROOTS = (
    b"autocast", b"caler", b".scale(", b"unscale_", b"custom_fwd", b"custom_bwd", b"apex", b".half(", b".bfloat16(",
    b"fp16", b"bf16",
    b"clip_grad", b"ightning", b"TrainingArguments", b"32=self.training", b"32 = self.training",
    b"upcast=self.training",
)  # fmt: skip
_SPECIAL = set(b'"\\/')
_WORD = re.compile(r"\w+")
_ESCAPE = re.compile(rb"\\u00([2-7][0-9A-Fa-f])")


def seen(data: bytes, filename: str, codes: frozenset[str]) -> bytes:
    """The bytes of a file that are searched for what the rules with `codes` look for: of a notebook its code.

    That is looked for only where one of the ROOTS stands anywhere in the file, whether or not JSON escapes hide it.
    Whether `\\u0061` is an escape isn't asked: it only finds more.
    """
    if not filename.endswith(NOTEBOOK):
        return data
    plain = _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), data) if b"\\u00" in data else data
    # Only a plugin's word may have a character that JSON escapes in other ways.
    if any(root in plain or set(root) & _SPECIAL for root in _search(opening(codes))[1]) or (
        UNUSED in codes and names_codes(plain)
    ):
        from amplint.sources.notebook import code_of  # noqa: PLC0415 - reads JSON

        return code_of(data)
    return b"" if is_utf8(data) else data


def opens(data: bytes, codes: frozenset[str]) -> bool:
    """Whether anything can be found in a file when the rules with `codes` are selected."""
    return matters(data, codes) or not is_text(data)


def matters(data: bytes, codes: frozenset[str]) -> bool:
    """Whether a file's bytes hold what a rule with one of `codes` looks for."""
    return any(True for _ in _touched(data, opening(codes))) or (UNUSED in codes and names_codes(data))


@cache
def opening(codes: frozenset[str]) -> frozenset[str]:
    """The codes whose words open a file when the rules with `codes` are selected.

    Where they look at what a file takes from others, their own words may stand there: any file that has to do with AMP
    is opened for them.
    """
    wide = frozenset(code for code, rule in all_rules().items() if rule.default and follows(rule))
    return codes | wide if any(follows(all_rules()[code]) for code in codes if code in all_rules()) else codes


def follows(rule: Rule) -> bool:
    """Whether a rule looks at what a file takes from others; all of plugins do."""
    return bool(rule.plugin) or rule.code >= FOLLOWING


def touched(data: bytes, codes: frozenset[str]) -> list[Rule]:
    """Those of the rules with `codes` whose trigger words are in the bytes of a file."""
    return list(_touched(data, codes))


def _touched(data: bytes, codes: frozenset[str]) -> Iterator[Rule]:
    rules, roots, parts = _search(codes)
    if not any(root in data for root in roots):
        return
    known: dict[bytes, bool] = {}

    def present(word: bytes) -> bool:
        if word not in known:
            known[word] = all(map(present, parts[word])) and word in data
        return known[word]

    yield from (rule for rule in rules if any(all(map(present, words)) for words in rule.triggers))


def roots(codes: frozenset[str]) -> tuple[str, ...]:
    """Words of which a file has one, if it has what the rules with `codes` look for."""
    return tuple(each.decode() for each in _search(codes)[1])


def names(rules: Iterable[Rule]) -> tuple[str, ...]:
    """Those of the trigger words of some rules that are names: in code they can't be anything else."""
    words = {word.decode() for rule in rules for words in rule.triggers for word in words}
    return tuple(sorted(word for word in words if all(map(_is_name, _WORD.findall(word)))))


def _is_name(word: str) -> bool:
    return word.isidentifier() and not iskeyword(word)


@cache
def _search(codes: frozenset[str]) -> tuple[list[Rule], tuple[bytes, ...], dict[bytes, list[bytes]]]:
    """The rules with `codes`, the roots of their words, and what parts these have."""
    if missing := codes - all_rules().keys():  # settings were made where a plugin is that isn't here
        raise SettingsError(f"unknown rule {min(missing)!r}: the plugin with this rule is not installed")
    rules = [all_rules()[code] for code in sorted(codes)]
    words = frozenset(word for rule in rules for words in rule.triggers for word in words)
    return rules, _roots(words for rule in rules for words in rule.triggers), _parts(words)


def _roots(triggers: Iterable[tuple[bytes, ...]]) -> tuple[bytes, ...]:
    """Words of which a file has one, if it has what some rules look for: the ROOTS, as far as they do."""
    found: dict[bytes, None] = {}
    for words in triggers:
        root = next((root for root in ROOTS for word in words if root in word), None)
        found[root or max(words, key=len)] = None
    return tuple(found)


def _parts(words: frozenset[bytes]) -> dict[bytes, list[bytes]]:
    """For each word the others that it contains: where one of them is missing, so is the word."""
    return {word: sorted((part for part in words if part in word and part != word), key=len) for word in words}


def is_text(data: bytes) -> bool:
    """Whether the bytes are certainly a text; where they declare an encoding it takes a closer look to tell."""
    if b"\0" in data:
        return False
    if data.isascii():
        return True
    return b"coding" not in b"\n".join(data.split(b"\n", 2)[:2]) and is_utf8(data)


def is_utf8(data: bytes) -> bool:
    """Whether bytes are UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
