"""From fixes to a new text: overlap and order, and the diff."""

from __future__ import annotations

import os
import re
from bisect import bisect_left, insort
from collections.abc import Iterable
from itertools import pairwise

from amplint.base.findings import Edit, Finding, Fix


def apply(text: str, fixes: Iterable[Fix]) -> tuple[str, list[Fix]]:
    """The text with as many of `fixes` applied as don't get in each other's way, the first ones first, and those.

    Edits that several fixes share are made once. Fixes whose edits touch are not applied together.
    """
    chosen: dict[Edit, None] = {}
    places: list[Edit] = []  # the same, by place
    applied: list[Fix] = []
    for fix in fixes:
        own = [edit for edit in fix.edits if edit not in chosen]
        if any(_touches(edit, places) for edit in own):
            continue
        applied.append(fix)
        for edit in own:
            chosen[edit] = None
            insort(places, edit)
    pieces: list[str] = []
    done = 0
    # What one fix inserts at one place keeps the order in which the fix lists it.
    for start, end, content in sorted(chosen, key=lambda edit: edit[:2]):
        pieces += (text[done:start], content)
        done = end
    return "".join((*pieces, text[done:])), applied


def _touches(edit: Edit, places: list[Edit]) -> bool:
    """Whether `edit` overlaps or adjoins one of `places`, so that their order or their sum would be a guess."""
    at = bisect_left(places, edit)
    return any(other.start <= edit.end and edit.start <= other.end for other in places[max(at - 1, 0) : at + 1])


def origins(length: int, steps: Iterable[Iterable[Edit]]) -> list[int | str]:
    """Of each character that edits, made one after the other, leave of a text: where it stood, or else what it is."""
    kept: list[int | str] = list(range(length))
    for edits in steps:
        for edit in sorted(edits, key=lambda edit: edit[:2])[::-1]:  # what stands at one place keeps its order
            kept[edit.start : edit.end] = edit.content
    return kept


def composed(text: str, steps: Iterable[Iterable[Edit]]) -> tuple[Edit, ...]:
    """The edits that do to a text at once what others do to it one after the other."""
    found: list[Edit] = []
    at, new = 0, ""
    for each in (*origins(len(text), steps), len(text)):
        if isinstance(each, str):
            new += each
            continue
        if text[at:each] != new:
            found.append(Edit(at, each, new))
        at, new = each + 1, ""
    return tuple(found)


def validate(finding: Finding, length: int) -> None:
    """Check that a finding and its edits lie within a text of `length` characters, and that no two edits overlap.

    Raises:
        ValueError: they don't.
    """
    if not 0 <= finding.start <= finding.end <= length:
        raise ValueError(f"finding at {finding.start}-{finding.end} of {length} characters")
    edits = sorted(finding.fix.edits) if finding.fix else []
    if any(not 0 <= edit.start <= edit.end <= length for edit in edits):
        raise ValueError(f"edit outside of the text's {length} characters")
    for one, other in pairwise(edits):
        if other.start < one.end:
            raise ValueError(f"two edits of one fix overlap at {other.start}")


def unified_diff(old: bytes, new: bytes, path: str) -> bytes:
    """The diff that makes `new` of `old`, as `git apply` and `patch -p1` take it; empty where they are equal.

    It is made of bytes: encodings and line ends stay what they are, and only `\\n` ends a line, as for those tools.
    """
    import difflib  # noqa: PLC0415 - most runs make no diff

    before, after = (re.findall(r"[^\n]*\n|[^\n]+", data.decode("latin-1")) for data in (old, new))
    a, b = (_name(f"{side}/{path.replace(os.sep, '/').lstrip('/')}") for side in "ab")
    parts: list[bytes] = []
    for number, line in enumerate(difflib.unified_diff(before, after)):
        if number < 2:
            parts.append((b"--- " + a if number == 0 else b"+++ " + b) + b"\n")
        else:
            parts.append(line.encode("latin-1"))
            if not line.endswith("\n"):
                parts.append(b"\n\\ No newline at end of file\n")
    return b"".join(parts)


def _name(path: str) -> bytes:
    """A file name as it stands in a diff's header: quoted as git does it where it would be misread."""
    data = os.fsencode(path)
    if re.search(rb'[\x00-\x1f"\\\x7f]', data):
        escaped = re.sub(rb'[\x00-\x1f"\\\x7f]', lambda found: b"\\%03o" % ord(found.group()), data)
        return b'"' + escaped + b'"'
    # The tab ends the name, which would otherwise end at its first space.
    return data + b"\t" if b" " in data else data
