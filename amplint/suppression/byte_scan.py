"""Whether bytes may hold a comment that silences a rule. Each file is searched for it: little is imported."""

from __future__ import annotations

import re

from amplint.registry import families, known

UNUSED = "AMP002"
# As people write it: a search without regard to case is slow.
_NOQA = (b"noqa", b"NOQA", b"NoQA")


def names_codes(data: bytes) -> bool:
    """Whether a file's bytes may hold a comment that AMP002 judges: with one of our codes, or with a rule's name."""
    return b"amplint:" in data or any(word in data and _names_ours(word, data) for word in _NOQA)


def _names_ours(word: bytes, data: bytes) -> bool:
    prefixes, named = "|".join(known().prefixes).encode(), "|".join(families()).encode()
    codes = rb"[^\r\n]*?(?i:" + prefixes + rb")"
    names = rb"\s*:\s*(?i:\w+-\w|(?:" + named + rb")\b)"
    return re.search(word + rb"(?:" + codes + rb"|" + names + rb")", data) is not None
