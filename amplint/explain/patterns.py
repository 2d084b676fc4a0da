"""Wordings as expressions, and texts as they are searched: without what printing and pasting change in them.

Both sides lose white space (lines are wrapped anywhere), backticks and backslashes (Markdown, JSON), and case; all
quotes are one. What varies is a placeholder: `{}` is anything short, `{n}` a number, `{name}` a word, `{quoted}` and
`{op}` something in quotes, `{dtype}` a floating type in any of torch's spellings, `{half}` a half one, `{qhalf}` a
half type in quotes, `{nonfinite}` NaN or infinity; `{start}` and `{end}` are where a message must begin or end.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_FLOATING = "bfloat16|float16|float32|float64|complexhalf|half|float|double"
_PLACEHOLDERS = {
    "": r".{0,160}?",
    "n": r"[-+]?(?:\d[\d.,]*(?:e[-+]?\d+)?|inf|nan)",
    "name": r"[\w.()]{1,80}?",
    "quoted": r"'[^']{1,80}'",
    "op": r"(?:'[\w.:<>-]{1,80}'|[\w.<>-]{1,80}'?)",
    "dtype": rf"((?:c10::|at::|torch\.(?:\w{{1,12}}\.)?)?(?:{_FLOATING})(?:tensor)?)",
    "half": r"((?:c10::|at::|torch\.(?:\w{1,12}\.)?)?(?:bfloat16|float16|half)(?:tensor)?)",
    "qhalf": r"'(?:complexhalf|half|bfloat16)(?:'|(?![\w.]))",
    "nonfinite": r"(?:tensor\()?[-+]?(?:nan|inf(?:inity)?)(?:,[^)]{0,80}\))?",
    "start": r"(?<![\w.])",
    "end": r"(?!,?butgot)",
}
_PLACEHOLDER = re.compile(r"\{(\w*)\}")
_HALF = re.compile(r"half|float16")
_CHANGED = re.compile(r"[\s`\\\u200b\u00ad]+")
_QUOTES = str.maketrans(dict.fromkeys('"\u2018\u2019\u201c\u201d\u00b4', "'"))
# Characters round what identifies a wording in which the whole of it is looked for.
_BEFORE, _BEHIND = 300, 700


class Pattern(NamedTuple):
    """A wording to search for. `anchor` is its longest part that doesn't vary; with `half` a dtype has to be half."""

    anchor: str
    expression: re.Pattern[str]
    half: bool

    def places(self, text: str) -> list[int]:
        """Where the wording starts in a text that was squeezed."""
        found: list[int] = []
        at = text.find(self.anchor)
        while at >= 0:
            end = at + len(self.anchor)
            for each in self.expression.finditer(text, max(0, at - _BEFORE), end + _BEHIND):
                if each.start() <= at < each.end() and self._is_meant(each):
                    found.append(each.start())
                    break
            at = text.find(self.anchor, end)
        return found

    def _is_meant(self, found: re.Match[str]) -> bool:
        dtypes = [each for each in found.groups() if each]
        if len(dtypes) > 1 and len(set(map(_bare, dtypes))) == 1:  # then their devices differ, and not their types
            return False
        return not (self.half and dtypes) or any(map(_HALF.search, dtypes))


def _bare(dtype: str) -> str:
    """A floating type without what is around its name."""
    return dtype.rpartition(":")[2].rpartition(".")[2].removesuffix("tensor")


def squeeze(text: str) -> str:
    """A text as it is searched."""
    return _CHANGED.sub("", text.translate(_QUOTES)).lower()


def pattern(wording: str, *, half: bool = False) -> Pattern:
    """The expression for a wording; its full stop may be missing."""
    parts: list[str] = []
    literals: list[str] = []
    for at, each in enumerate(_PLACEHOLDER.split(wording.removesuffix("."))):
        if at % 2:
            parts.append(_PLACEHOLDERS[each])
            continue
        pieces = squeeze(each).split("'")
        literals += pieces
        parts.append("'?".join(map(re.escape, pieces)))
    if wording.endswith("'"):  # which says where the last name ends
        parts[-1] = parts[-1].removesuffix("'?") + r"(?:'|(?![\w.]))"
    return Pattern(max(literals, key=len), re.compile("".join(parts)), half)


def literals(wording: str) -> list[str]:
    """The parts of a wording that don't vary, as they are printed."""
    return [each for at, each in enumerate(_PLACEHOLDER.split(wording)) if at % 2 == 0 and each]
