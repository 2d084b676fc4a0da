"""Which of the messages that are known a text holds, or asks about, or is nearest to."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from amplint.explain.log_reader import Frame, Log
from amplint.explain.messages import Message, Text, known
from amplint.explain.patterns import Pattern, literals, pattern, squeeze

# What a question has at most, or a message that stands alone; more is a log.
_SHORT, _SHORT_LINES = 300, 3
# Words that identify a message of which only a part is given.
_PART = 3
_EXCEPTION = re.compile(r"^\s*(?:[\w.]*(?:Error|Warning|Exception)\s*:\s*)+")
# Times that a message stands in a log among which one with a frame of the user's is looked for.
_LOOKED_AT = 100
# What all lines have that `Message.lines` are about.
_SUSPECT = re.compile(
    r"\b(?:nan|inf(?:inity)?)\b|(?:infinite|finite) loss|scale\W{1,3}(?:0\b|\d(?:\.\d+)?e-)", re.IGNORECASE
)
_WORD = re.compile(r"[a-z_'][\w']*|\d[\d.]*")
_ALIKE, _AT_MOST = 0.4, 3


class Hit(NamedTuple):
    """A message that a text holds: how often, where first (line `at`, from 0), and the frames that led there."""

    message: Message
    text: Text | None
    shown: str
    at: int
    times: int
    stack: tuple[Frame, ...]


class Found(NamedTuple):
    """What a text holds; `asked` says that it is a question, and not what a program printed; else what is `nearest`."""

    hits: tuple[Hit, ...]
    asked: bool
    nearest: tuple[Message, ...] = ()


def find(text: str, *, asked: bool = False) -> Found:
    """The messages in a text, each once, in the order in which they first stand there.

    What a person has `asked` may be a question, if it is short; what a program has printed never is.
    """
    log = Log(text)
    short = len(text) <= _SHORT and len(log.lines) <= _SHORT_LINES and not log.frames
    question = asked and short
    hits = _by_text(log, alone=short)
    if question and not hits:
        hits = _more(_asked(log), _by_line(log)) or _by_part(text)
    elif not question:
        hits = _more(hits, _by_line(log))
    if hits:
        return Found(tuple(sorted(hits, key=lambda each: each.at)), question)
    return Found((), question, _nearest(text if question else _complaints(log)))


def _more(hits: list[Hit], others: list[Hit]) -> list[Hit]:
    return hits + [each for each in others if each.message not in [hit.message for hit in hits]]


@cache
def _patterns() -> tuple[tuple[Message, Text, Pattern], ...]:
    return tuple((each, text, pattern(text.text, half=each.half)) for each in known() for text in each.says)


def _by_text(log: Log, *, alone: bool) -> list[Hit]:
    found: dict[Message, tuple[Text, list[int]]] = {}
    for message, text, wording in _patterns():
        places = wording.places(log.squeezed)
        if places and (alone or _is_beside(message, log)):
            found.setdefault(message, (text, []))[1].extend(map(log.line_of, places))
    hits = []
    for message, (text, lines) in found.items():
        printed = sorted({at for at in lines if not log.is_source(at)}) or sorted(set(lines))
        stacks = [log.stack(at) for at in printed[:_LOOKED_AT]]
        stack = next((each for each in stacks if any(not frame.is_theirs for frame in each)), stacks[0])
        hits.append(Hit(message, text, log.lines[printed[0]], printed[0], len(printed), tuple(stack)))
    return hits


def _is_beside(message: Message, log: Log) -> bool:
    """Whether the text speaks of what a general message needs to be about AMP."""
    return not message.beside or any(squeeze(word) in log.squeezed for word in message.beside)


def _by_line(log: Log) -> list[Hit]:
    hits = []
    suspects = [at for at, line in enumerate(log.lines) if _SUSPECT.search(line)]
    for message in known():
        if message.lines:
            expressions = [re.compile(each, re.IGNORECASE) for each in message.lines]
            but = [re.compile(each, re.IGNORECASE) for each in message.but]
            lines = [at for at in suspects if _says(log.lines[at], expressions, but)]
            if lines:
                hits.append(Hit(message, None, log.lines[lines[0]], lines[0], len(lines), ()))
    return hits


def _says(line: str, expressions: Iterable[re.Pattern[str]], but: Iterable[re.Pattern[str]]) -> bool:
    for each in but:
        line = each.sub("", line)
    return any(each.search(line) for each in expressions)


def _asked(log: Log) -> list[Hit]:
    """The symptoms that a question has all words of: those of which it has the most."""
    words = _words_of(" ".join(log.lines).replace("\u2019", "'"))
    scores: Counter[Message] = Counter()
    for message in known():
        for each in message.asked:
            wanted = [word.strip() for word in each.split("&")]
            if all(any(_is_word(given, word) for given in words) for word in wanted):
                scores[message] = max(scores[message], len(wanted))
    best = max(scores.values(), default=0)
    line = log.lines[0] if log.lines else ""
    return [Hit(message, None, line, 0, 1, ()) for message, score in scores.items() if score == best]


def _is_word(given: str, wanted: str) -> bool:
    return given.startswith(wanted[:-1]) if wanted.endswith("*") else given == wanted


def _by_part(text: str) -> list[Hit]:
    """The messages of which a text is a part: what one remembers of it, or what a narrow window shows."""
    part = _words_of(_EXCEPTION.sub("", text))
    found: dict[Message, Text] = {}
    for message, wording, _ in _patterns() if len(part) >= _PART else ():
        # Python's own wordings have the name that matters at their end.
        if wording.origin != "python" and any(_has(_words_of(each), part) for each in literals(wording.text)):
            found.setdefault(message, wording)
    return [Hit(message, wording, text.strip(), 0, 1, ()) for message, wording in found.items()]


def _words_of(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _has(words: list[str], part: list[str]) -> bool:
    return any(words[at : at + len(part)] == part for at in range(len(words) - len(part) + 1))


def _complaints(log: Log) -> str:
    """What a log says went wrong."""
    return "\n".join([line for line in log.lines if _EXCEPTION.match(line)][-3:])


def _nearest(text: str) -> tuple[Message, ...]:
    """The messages that share most of a text's words, rare ones weighing more."""
    words = set(_words_of(_EXCEPTION.sub("", text)))
    of = {each: _words(each) for each in known()}
    spread = Counter(word for found in of.values() for word in found)
    weight = {word: math.log(1 + len(of) / (1 + spread[word])) for word in words}
    total = sum(weight.values())

    def alike(message: Message) -> float:
        common = words & of[message]
        return sum(weight[word] for word in common) / total if len(common) > 1 else 0.0

    near = sorted(((alike(each), each) for each in of), key=lambda each: -each[0])
    return tuple(each for score, each in near[:_AT_MOST] if score >= _ALIKE)


def _words(message: Message) -> frozenset[str]:
    told = " ".join([message.id.replace("-", " "), *message.asked, *(each.text for each in message.says)])
    return frozenset(_words_of(told))
