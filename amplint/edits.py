"""From fixes to a new text: overlap and order, trial, diff, and the write that replaces a file at once."""

from __future__ import annotations

import difflib
import os
import re
import tempfile
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path

from amplint.findings import Edit, Finding, Fix

# Trials of one file's fixes. They are few where fixes are good: all of them are tried together first.
TRIALS = 40


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


def try_out(
    text: str, findings: list[Finding], before: Counter[str], analyse: Callable[[str], Counter[str]]
) -> list[Finding]:
    """The findings, without the fixes that don't do what they are for.

    A fix is kept if, applied to `text`, it takes away what it belongs to and adds nothing. `before` counts the codes
    found in `text` by all rules, `analyse` those found in another text.
    """
    sharing: dict[tuple[Edit, ...], list[Finding]] = {}
    for finding in findings:
        if finding.fix and finding.fix.edits:
            sharing.setdefault(finding.fix.edits, []).append(finding)
    reasons: dict[tuple[Edit, ...], str] = {}
    left = TRIALS

    def judge(group: list[Fix]) -> None:
        """Try fixes that can be applied together; where that goes wrong, halves of them, down to each alone."""
        nonlocal left
        if left == 0:
            reasons.update((fix.edits, "too many fixes in this file fail when tried out") for fix in group)
            return
        left -= 1
        expected = Counter(before)
        expected.subtract(each.code for fix in group for each in sharing[fix.edits])
        after = analyse(apply(text, group)[0])
        wrong = sorted(code for code, count in after.items() if count > expected[code])
        if wrong and len(group) > 1:
            judge(group[: len(group) // 2])
            judge(group[len(group) // 2 :])
        elif wrong:
            own = {each.code for each in sharing[group[0].edits]}
            reasons[group[0].edits] = _reason(wrong, own, before, after)

    fixes = [each[0].fix for each in sharing.values() if each[0].fix]
    while fixes:
        _, group = apply(text, fixes)
        judge(group)
        fixes = [fix for fix in fixes if fix not in group]
    return [
        finding._replace(fix=None, withheld=reasons[finding.fix.edits])
        if finding.fix and finding.fix.edits in reasons
        else finding
        for finding in findings
    ]


def _reason(wrong: list[str], own: set[str], before: Counter[str], after: Counter[str]) -> str:
    if after["AMP001"]:
        return "the fixed code could not be parsed"
    caused = [code for code in wrong if after[code] > before[code]]
    if caused:
        return f"the fixed code would be reported as {', '.join(caused)}"
    return f"the fixed code would still be reported as {', '.join(sorted(own))}"


def unified_diff(old: bytes, new: bytes, path: str) -> bytes:
    """The diff that makes `new` of `old`, as `git apply` and `patch -p1` take it; empty where they are equal.

    It is made of bytes: encodings and line ends stay what they are, and only `\\n` ends a line, as for those tools.
    """
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


def write_atomically(path: str | Path, data: bytes) -> None:
    """Replace the contents of a file at once, keeping its mode; of a link, those of the file that it points to.

    Raises:
        OSError: the file may not be written, or its directory takes no new file. The file is as it was.
    """
    target = Path(path).resolve()
    mode = target.stat().st_mode
    if not os.access(target, os.W_OK):
        raise PermissionError(13, "Permission denied", str(path))
    handle, temporary = tempfile.mkstemp(prefix=".amplint-", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(temporary).chmod(mode & 0o7777)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
