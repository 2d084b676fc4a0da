"""What was found in a text, for people and as JSON."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap
from typing import Any

from amplint.base.about import SCHEMA_VERSION
from amplint.base.paths import visible
from amplint.explain.log_reader import place_of
from amplint.explain.messages import Cause, Message, plain
from amplint.explain.search import Doubt, Found, Hit
from amplint.explain.traceback_files import Linted, here
from amplint.registry import all_rules
from amplint.report import Report
from amplint.report.formats.concise import render as concise
from amplint.report.formats.json import as_dict

# Messages of one text that are told in full, and characters of one that are shown.
_MOST, _LONGEST = 8, 160
# Causes that are told in full of a message that has so many that each has a sign, and of one that may be meant.
_LIKELIEST = 3
# The rules of which a run shows what they find, beyond what torch says itself.
_SHOWN_BY_A_RUN = frozenset(
    f"AMP{number}"
    for number in (201, 203, 206, 207, 210, 213, 301, 302, 307, 308, 309, *range(401, 412), 415, 418, 419, 421, 424)
    + (501, 504, 507, 510)
)
_DOUBTS = {
    Doubt.WHICH: "amplint is not sure which of these it is. `if` says how they differ; the likeliest causes follow.",
    Doubt.WITHOUT_AMP: (
        "The text doesn't say that mixed precision is on. Switch it off first (`fp16`, `bf16`, `amp`, `precision`, "
        "`enabled=False`): if nothing changes, mixed precision is not the cause, and the rest doesn't apply. If that "
        "helps, these are the usual causes."
    ),
    Doubt.UNKNOWN_ERROR: "amplint does not know this error. By its words it may be this.",
}
_MORE = (
    "`amplint explain --list` prints all known messages, `--guide` starts from symptoms; `amplint check` also finds "
    "misuse that prints nothing."
)


def as_text(found: Found, files: Sequence[Linted], width: int, *, whole: bool = False) -> str:
    """What people read; `whole` tells each of many causes in full."""
    if found.candidates:
        lines = _differential(found, width)
        lines += [f"Next: {each}" for each in _next(found, files)]
    elif not found.hits:
        lines = _nothing(found, width)
    else:
        lines = [line for hit in found.hits[:_MOST] for line in _hit(hit, found, width, whole=whole)]
        if more := found.hits[_MOST:]:
            lines += [f"And {len(more)} more: {', '.join(each.message.id for each in more)}.", ""]
        lines += _files(files)
        lines += [f"Next: {each}" for each in _next(found, files)]
    return "".join(f"{visible(line)}\n" for line in lines)


def as_json(found: Found, files: Sequence[Linted]) -> str:
    """What programs read."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "messages": [_hit_object(each, found) for each in found.hits],
        "files": [
            {
                "path": each.path,
                "codes": list(each.codes),
                "error": each.problem,
                "findings": [as_dict(place) for place in _report(each).places()],
            }
            for each in files
        ],
        "candidates": [_object(each) for each in found.candidates],
        "nearest": [each.id for each in found.nearest],
        "next": _next(found, files),
    }
    return json.dumps(document, indent=2) + "\n"


def list_text(messages: Iterable[Message]) -> str:
    """All messages, each with its rules and its wordings."""
    lines = []
    for each in messages:
        lines.append(f"{each.id}: {', '.join(each.codes) or 'no rule'}")
        lines += [f"  {plain(text.text)}  [{text.releases}]" for text in each.says]
        lines += [f"  {question}" for question in each.questions]
    return "".join(f"{line}\n" for line in lines)


def list_json(messages: Iterable[Message]) -> str:
    """All messages as a list of objects."""
    return json.dumps([{"schema_version": SCHEMA_VERSION, **_object(each)} for each in messages], indent=2) + "\n"


def _hit(hit: Hit, found: Found, width: int, *, whole: bool) -> Iterator[str]:
    message = hit.message
    yield _title(hit, found)
    facts = []
    if not found.asked:
        facts.append(f"line {hit.at + 1}{f' and {hit.times - 1} more' if hit.times > 1 else ''} of the text")
    if place := place_of(list(hit.stack)):
        facts.append(f"comes from {place.path}:{place.row}")
    if hit.text:
        facts.append(hit.text.releases)
    if facts:
        yield f"  [{'; '.join(facts)}]"
    yield ""
    yield from _wrapped(message.means, "  ", width)
    told = len(message.causes) if whole or not message.causes[0].sign else _LIKELIEST
    if message.causes[told:]:
        yield from ["", f"  Which of {len(message.causes)} causes it is shows in this (the likeliest first):"]
        for number, cause in enumerate(message.causes, 1):
            yield from _wrapped(f"{number:>2}. {cause.sign}", "   ", width, "       ")
    for number, cause in enumerate(message.causes[:told], 1):
        yield ""
        yield from _cause(cause, f"{number}. ", "  ", width)
        if cause.change:
            yield ""
            yield from (f"       {line}" for line in cause.change.split("\n"))
    if left := len(message.causes[told:]):
        yield from ["", f"  `amplint explain --all` prints the other {left} in full."]
    yield ""


def _cause(cause: Cause, number: str, indent: str, width: int) -> Iterator[str]:
    inner = indent + " " * len(number)
    yield from _wrapped(f"{number}{cause.why}", indent, width, inner)
    yield from _wrapped(cause.do, inner, width)
    yield from _wrapped(_rules(cause), inner, width)


def _differential(found: Found, width: int) -> list[str]:
    """What a question may be about where that is not sure: how that differs, with the likeliest causes of each."""
    lines = _wrapped(_DOUBTS[found.doubt], "", width)
    for number, message in enumerate(found.candidates, 1):
        lines += ["", f"{number}. {message.questions[0] if message.questions else message.title} ({message.id})"]
        lines += _wrapped(f"if {message.when}" if message.when else message.means, "   ", width)
        for letter, cause in zip("abc", message.causes[:_LIKELIEST], strict=False):
            lines += ["", *_cause(cause, f"{letter}. ", "   ", width)]
    return [*lines, "", *_wrapped(f"`amplint explain {found.candidates[0].id}` prints all causes.", "", width), ""]


def _title(hit: Hit, found: Found) -> str:
    """The message as it was printed; where it is spread over lines, as it is known; for a symptom, what is meant."""
    if found.asked and hit.text is None and hit.message.when:
        return f"Understood as: {hit.message.questions[0]} ({hit.message.id})"
    if hit.text and "{" not in hit.text.text:
        return hit.text.text
    if hit.text is None or not hit.shown:
        return hit.shown or hit.message.title
    return hit.shown if len(hit.shown) <= _LONGEST else f"{hit.shown[:_LONGEST]}..."


def _rules(cause: Cause) -> str:
    rules = [all_rules()[code] for code in cause.rules]
    names = [f"{rule.code} {rule.name}{'' if rule.default else ' (off by default)'}" for rule in rules]
    return f"Found by {', '.join(names)}." if names else "No rule finds this."


def _files(files: Sequence[Linted]) -> Iterator[str]:
    for each in files:
        if each.problem:
            yield f"{each.path} could not be read: {each.problem}"
        elif not each.found:
            yield f"None of {', '.join(each.codes)} finds anything in {each.path}."
        else:
            yield f"In {each.path} amplint finds:"
            yield from (f"  {line}" for line in concise(_report(each)).splitlines())
        yield ""


def _report(linted: Linted) -> Report:
    return Report((linted.result,) if linted.result else ())


def _next(found: Found, files: Sequence[Linted]) -> list[str]:
    """The commands to run now, the one that executes the program last."""
    return [*_linting(found, files), *_running(found)]


def _explained(found: Found) -> list[Message]:
    return [*(each.message for each in found.hits), *found.candidates]


def _running(found: Found) -> Iterator[str]:
    """The command that names the cause while the program runs, where it can."""
    if not all(_SHOWN_BY_A_RUN.isdisjoint(each.codes) for each in _explained(found)):
        scripts = (script for each in found.hits if (script := _script(each)) is not None)
        yield f"amplint run {shlex.quote(next(scripts, 'train.py'))}  (executes it, and names the cause)"


def _script(hit: Hit) -> str | None:
    """The program that a traceback begins in."""
    frame = next((each for each in reversed(hit.stack) if not each.is_theirs), None)
    return frame and (here(frame) or frame.path)


def _linting(found: Found, files: Sequence[Linted]) -> list[str]:
    """The commands that look at the text of the program."""
    if not any(each.codes for each in _explained(found)):
        return []
    able = [file for file in files if not file.problem]
    wrong = [file for file in able if file.found]
    if wrong:
        return _next_in(wrong)
    if able:
        looked = _selecting(code for file in able for code in file.codes)
        return [f"amplint check{looked} .  (the cause may be in another file)"]
    places = [place_of(list(hit.stack)) for hit in found.hits if hit.message.codes]
    theirs = dict.fromkeys(shlex.quote(place.path) for place in places if place and not place.is_theirs)
    more = _selecting(code for message in _explained(found) for code in message.codes)
    return [f"amplint check{more} {' '.join(theirs) or 'FILE'}"]


def _selecting(codes: Iterable[str]) -> str:
    """The option that selects those rules that are off by default, after a space; "" where there are none."""
    off = sorted({code for code in codes if not all_rules()[code].default})
    return f" --extend-select {','.join(off)}" if off else ""


def _next_in(wrong: Sequence[Linted]) -> list[str]:
    """The commands for files in which something is found."""
    more = _selecting(code for file in wrong for code in file.found)
    names = " ".join(shlex.quote(file.path) for file in wrong)
    places = [place for file in wrong for place in _report(file).places()]
    commands = [f"amplint check{more} {names}"]
    if any(place.fixable or place.hidden for place in places):
        unsafe = "" if any(place.fixable for place in places) else " --unsafe-fixes"
        commands.append(f"amplint check{more} --diff{unsafe} {names}")
    return commands


def _nothing(found: Found, width: int) -> list[str]:
    lines = ["amplint knows no message in this text."]
    if found.nearest:
        lines += ["", "The nearest known messages, which may mean something else:"]
    for each in found.nearest:
        lines.append(f"  {each.title} ({each.id})")
        if each.when:
            lines.append(f"    if {each.when}")
    return [*lines, "", *_wrapped(_MORE, "", width)]


def _wrapped(text: str, indent: str, width: int, behind: str | None = None) -> list[str]:
    return wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent if behind is None else behind,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _hit_object(hit: Hit, found: Found) -> dict[str, Any]:
    place = place_of(list(hit.stack))
    return {
        **_object(hit.message),
        "text": hit.shown,
        "releases": hit.text.releases if hit.text else None,
        "line": None if found.asked else hit.at + 1,
        "times": hit.times,
        "place": place and {"path": place.path, "row": place.row},
    }


def _object(message: Message) -> dict[str, Any]:
    return {
        "id": message.id,
        "means": message.means,
        "says": [{"text": plain(each.text), "releases": each.releases} for each in message.says],
        "causes": [
            {
                "rules": [{"code": code, "name": all_rules()[code].name} for code in each.rules],
                "sign": each.sign or None,
                "why": each.why,
                "do": each.do,
                "before": each.before or None,
                "after": each.after or None,
            }
            for each in message.causes
        ],
    }
