"""Which of the messages that are known a text holds, or asks about, or is nearest to."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from enum import Enum
from functools import cache
from typing import NamedTuple

from amplint.explain.concepts import concepts_of, is_elsewhere, is_without_amp
from amplint.explain.languages import english
from amplint.explain.log_reader import Frame, Log, without_places
from amplint.explain.messages import Message, Text, known
from amplint.explain.patterns import Pattern, literals, pattern, squeeze
from amplint.explain.ranking import Decision, decided, is_brief, ranked

# What a message has at most that stands alone, and a question; more is a log.
_SHORT, _SHORT_LINES, _LONGEST_QUESTION = 500, 4, 2000
# Words that identify a message of which only a part is given.
_PART = 3
_EXCEPTION = re.compile(r"^\s*(?:[\w.]*(?:Error|Warning|Exception)\s*:\s*)+")
# Letters that a word has at least, in which one may be wrong.
_LONG = 7
_LETTERS = re.compile(r"[A-Za-z]+")
_ERROR = re.compile(
    r"\b(?:[A-Z]\w*(?:Error|Exception)|(?:CUDA|cuDNN|NCCL) error):\s*\S|^\s*[\w.]*(?:Error|Warning|Exception)\s*:"
)
_OUT_OF_MEMORY = re.compile(r"out of memory|\boom\b", re.IGNORECASE)
# Times that a message stands in a log among which one with a frame of the user's is looked for.
_LOOKED_AT = 100
# What all lines have that `Message.lines` are about.
_SUSPECT = re.compile(
    r"\b(?:nan|inf(?:inity)?)\b|(?:infinite|finite) loss|scale\W{1,3}(?:0\b|\d(?:\.\d+)?e-)|Error: ?.*(?:half|float16)",
    re.IGNORECASE,
)
_WORD = re.compile(r"[a-z_'][\w']*|\d[\d.]*")
_ALIKE, _AT_MOST = 0.4, 3
# How much of a wording's words a message has to have, and of its own to be of the wording, to be another form of it.
_SAME, _OWN = 0.9, 0.6
# What a person writes, and a log doesn't.
_SENTENCE = re.compile(
    r"\b(?:is|are|was|i|my|the|an?|when|with|without|in|at|on|to|after|but|does|gives?|becomes?|gets?|goes|from|of|and|for|"
    r"it|why|how|while|only)\b",
    re.IGNORECASE,
)
_PRINTED = re.compile(r"\s*(?:[\w.]*(?:Error|Exception|Warning)|ERROR|WARNING|INFO)\s*:")
_VALUE = re.compile(r"[:=|]")  # what a log has between a name and its value
_CLAUSE = re.compile(r"[:;,\n\"\u201c\u201d]\s|\([-+\d.e]+\)")
# Messages that one part of a wording may be of: more, and it says nothing.
_FEW = 3
# The weight of a word that no wording has.
_RARE = 5.0
_HALF = re.compile(r"half|float16", re.IGNORECASE)
# What it says of one type on two devices.
_OTHER_DEVICE = re.compile(r"torch\.(?:cuda\.(\w+Tensor)\b.{0,60}torch\.\1|(\w+Tensor)\b.{0,60}torch\.cuda\.\2)\b")
# What a message says of double and single precision.
_DOUBLE = re.compile(r"(?i)\b(?:dtype|type|got|found|expected)\W{1,3}(?:torch\.)?(?:double|float64)\b")
_FLOATING = re.compile(r"half|float|double", re.IGNORECASE)


class Hit(NamedTuple):
    """A message that a text holds: how often, where first (line `at`, from 0), and the frames that led there."""

    message: Message
    text: Text | None
    shown: str
    at: int
    times: int
    stack: tuple[Frame, ...]


class Doubt(Enum):
    """Why it is not sure that a text is about one of its candidates."""

    WHICH = "which"  # a symptom that more than one of them has
    WITHOUT_AMP = "without amp"  # a symptom of which nothing says that it is one of half precision
    UNKNOWN_ERROR = "unknown error"  # an error that is not known, about half precision


class Found(NamedTuple):
    """What a text holds; `asked` says that it is a question, and not what a program printed.

    Else the `candidates` are what it may be about, with the `doubt` that there is, and the `nearest` share words with a
    text about something that is not known.
    """

    hits: tuple[Hit, ...]
    asked: bool
    nearest: tuple[Message, ...] = ()
    candidates: tuple[Message, ...] = ()
    doubt: Doubt = Doubt.WHICH


def decide(text: str) -> Decision:
    """What a question without a message is about."""
    return decided(text, ranked(text), {each.id: each.like for each in known()})


def find(text: str, *, asked: bool = False, decide: Callable[[str], Decision] = decide) -> Found:
    """The messages in a text, each once, in the order in which they first stand there.

    What a person has `asked` may be a question, unless it has a traceback; what a program has printed never is. Where a
    question names no message, and holds none as it is, it is read again without the places that it names, with its
    words spelled as messages spell them, and line by line; if there is none in it, `decide` says of which symptom it
    tells.
    """
    if asked and (named := next((each for each in known() if each.id == text.strip()), None)):
        return Found((Hit(named, None, "", 0, 1, ()),), True)
    log = Log(text)
    short = len(text) <= _SHORT and len(log.lines) <= _SHORT_LINES and not log.frames
    ruled_out = _ruled_out(log)
    if not (asked and len(text) <= _LONGEST_QUESTION and len(log.frames) <= 1):
        printed = _more(_by_text(log, ruled_out, alone=short, asked=False), _by_line(log))
        told = _in_order((each for each in printed if each.message not in ruled_out), "")
        return Found(told, False) if told else _unknown(log, _complaints(log), asked=False)
    for form in _forms(text):
        if hits := [each for each in _messages(form, alone=short) if each.message not in ruled_out]:
            return _unless_without_amp(text, _in_order(hits, text))
    return _symptoms(text, log, decide)


def _unless_without_amp(text: str, hits: tuple[Hit, ...]) -> Found:
    """The answer to a question that holds these messages: it doubts those as common without AMP."""
    if is_brief(text) or not is_without_amp(concepts_of(text)) or not all(each.message.anywhere for each in hits):
        return Found(hits, True)
    return Found((), True, (), tuple(each.message for each in hits), Doubt.WITHOUT_AMP)


def _ruled_out(log: Log) -> set[Message]:
    """The messages that something else in a text rules out."""
    return {message for message in known() if any(re.search(each, log.squeezed) for each in message.never)}


def _forms(text: str) -> Iterable[str]:
    """A question as it is, and what may be read in its place."""
    bare = without_places(text)
    spelled = _spelled(bare)
    lines = [each for each in spelled.splitlines() if len(_words_of(each)) >= _PART] if "\n" in spelled else []
    return dict.fromkeys(each for each in (text, bare, spelled, *lines) if each)


def _messages(text: str, *, alone: bool) -> list[Hit]:
    """The messages that a question quotes: as they are, in another form, or a part of one."""
    log = Log(text)
    elsewhere = is_elsewhere(text)
    return _by_text(log, _ruled_out(log), alone=alone and not elsewhere, asked=True) or [
        each
        for each in _by_words(text) or _by_part(text)
        if _is_beside(each.message, log) or not (elsewhere or each.message.general)
    ]


def _symptoms(text: str, log: Log, decide: Callable[[str], Decision]) -> Found:
    """What a question without a message is about, if that is sure; else what is nearest."""
    ids = {each.id: each for each in known()}
    # A line that a program prints says more than the words in it.
    printed = not is_elsewhere(text) and (_PRINTED.match(text) or not _SENTENCE.search(english(text)))
    hits = _by_line(log, alone=True) if printed else []
    if hits and (is_elsewhere(text) or _is_another_error(text)):
        return Found(_in_order(hits, text), True)
    if is_elsewhere(text):
        return Found((), True, _nearest(text))
    if _is_another_error(text):
        return _unknown(log, text, asked=True)
    decision = decide(text)
    if decision.sure:
        said = Hit(ids[decision.sure], None, text.strip().splitlines()[0], 0, 1, ())
        hits = _more([said], hits if _VALUE.search(text) else [])
    if hits:
        return Found(_in_order(hits, text), True)
    concepts = concepts_of(text)
    candidates = tuple(ids[name].ordered_for(concepts) for name in decision.near)
    return Found((), True, (), candidates, Doubt.WITHOUT_AMP if is_without_amp(concepts) else Doubt.WHICH)


def _unknown(log: Log, text: str, *, asked: bool) -> Found:
    """What an error that is not known may be about, or is nearest to."""
    concepts = concepts_of(text)
    if candidates := tuple(each.ordered_for(concepts) for each in _perhaps(log)):
        return Found((), asked, (), candidates, Doubt.UNKNOWN_ERROR)
    return Found((), asked, _nearest(text))


def _perhaps(log: Log) -> list[Message]:
    """The messages of whose kind an error may be that is not known."""
    errors = [line for line in log.lines if _ERROR.search(line)]
    expressions = ((each, re.compile(form, re.IGNORECASE)) for each in known() for form in each.perhaps)
    return list(dict.fromkeys(each for each, form in expressions if any(map(form.search, errors))))


def _is_another_error(text: str) -> bool:
    """Whether a question has an error that is not known, wherever it stands, unless it is about numbers or memory."""
    if _OTHER_DEVICE.search(text) or (_DOUBLE.search(text) and not _HALF.search(text)):
        return True
    return bool(_ERROR.search(text)) and "nan" not in concepts_of(text) and not _OUT_OF_MEMORY.search(text)


def _in_order(hits: Iterable[Hit], question: str) -> tuple[Hit, ...]:
    """Hits as they stand in a text, each with its likeliest cause first."""
    return tuple(sorted((_ordered(each, question) for each in hits), key=lambda each: each.at))


def _ordered(hit: Hit, question: str) -> Hit:
    """A hit with its causes in the order that the question suggests; in a log, what led to the message."""
    if not any(each.about or each.unless for each in hit.message.causes):
        return hit
    text = question or "\n".join([hit.shown, *(frame.source for frame in hit.stack)])
    return hit._replace(message=hit.message.ordered_for(concepts_of(text)))


def _more(hits: list[Hit], others: list[Hit]) -> list[Hit]:
    """Hits, and others by lines that no wording explains."""
    lines = {each.at for each in hits if each.text}
    return hits + [
        each for each in others if each.at not in lines and each.message not in [hit.message for hit in hits]
    ]


@cache
def _patterns() -> tuple[tuple[Message, Text, Pattern], ...]:
    return tuple((each, text, pattern(text.text, half=each.half)) for each in known() for text in each.says)


def _by_text(log: Log, ruled_out: set[Message], *, alone: bool, asked: bool) -> list[Hit]:
    """The messages that a text quotes, but for those that are `ruled_out`."""
    at_place: dict[int, list[tuple[Message, Text]]] = {}

    def elsewhere(message: Message, text: Text) -> bool:
        """Whether a message that is general is likely to be about something else."""
        return text.origin == "python" or message.general

    for message, text, wording in _patterns():
        places = wording.places(log.squeezed)
        # What is said of anything is a question about AMP only next to a word that is.
        if (
            places
            and message not in ruled_out
            and ((alone and not (asked and elsewhere(message, text))) or _is_beside(message, log))
        ):
            for place in places:
                at_place.setdefault(place, []).append((message, text))
    found: dict[Message, tuple[Text, list[int]]] = {}
    for place, wordings in at_place.items():
        # Of a general wording and one that names the op, the second says what it is.
        message, text = max(wordings, key=lambda each: sum(map(len, literals(each[1].text))))
        found.setdefault(message, (text, []))[1].append(log.line_of(place))
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


def _by_line(log: Log, *, alone: bool = False) -> list[Hit]:
    """The messages of which lines say, each in its own words; one that stands `alone` may lack the error's name."""
    hits = []
    forms = [(line, f"Error: {line}") if alone and not _EXCEPTION.match(line) else (line,) for line in log.lines]
    suspects = [at for at, lines in enumerate(forms) if any(map(_SUSPECT.search, lines))]
    for message in known():
        if message.lines:
            expressions = [re.compile(each, re.IGNORECASE) for each in message.lines]
            but = [re.compile(each, re.IGNORECASE) for each in message.but]
            found = [at for at in suspects if any(_says(line, expressions, but) for line in forms[at])]
            if found:
                hits.append(Hit(message, None, log.lines[found[0]], found[0], len(found), ()))
    return hits


def _says(line: str, expressions: Iterable[re.Pattern[str]], but: Iterable[re.Pattern[str]]) -> bool:
    for each in but:
        line = each.sub("", line)
    return any(each.search(line) for each in expressions)


def _by_words(text: str) -> list[Hit]:
    """The message of which a text is another form: nearly all words of a wording, and few others."""
    if _OTHER_DEVICE.search(text):
        return []
    said = _EXCEPTION.sub("", text)
    words = set(_words_of(said))
    weight = _weights()
    own = sum(weight.get(word, _RARE) for word in words)
    best: tuple[float, Message, Text] | None = None
    for message, wording, _ in _patterns():
        of = _words_in(wording.text)
        common = sum(weight[word] for word in words & of)
        share = common / sum(weight[word] for word in of)
        if (
            len(words & of) > _PART
            and wording.origin != "python"
            and "{half}" not in wording.text
            and share >= _SAME
            and common >= _OWN * own
            and (not message.half or _HALF.search(said))
            and ("{dtype}" not in wording.text or _FLOATING.search(said))
            and (best is None or share > best[0])
        ):
            best = share, message, wording
    return [Hit(best[1], best[2], text.strip(), 0, 1, ())] if best else []


@cache
def _words_in(wording: str) -> frozenset[str]:
    """The words that a wording always has."""
    return frozenset(word for each in literals(wording) for word in _words_of(each))


@cache
def _weights() -> dict[str, float]:
    """How rare each word of the wordings is among them."""
    spread = Counter(word for _, wording, _ in _patterns() for word in _words_in(wording.text))
    return {word: math.log(1 + len(_patterns()) / times) for word, times in spread.items()}


def _spelled(text: str) -> str:
    """A text with the long words corrected that are but one letter off a word of the messages."""
    known_words = [each for each in _weights() if len(each) >= _LONG]

    def corrected(found: re.Match[str]) -> str:
        word = found[0]
        if len(word) < _LONG - 1 or word.lower() in _weights():
            return word
        return next((each for each in known_words if _is_one_off(word.lower(), each)), word)

    return _LETTERS.sub(corrected, text)


def _is_one_off(word: str, other: str) -> bool:
    """Whether one letter is missing, added or another, or two are swapped."""
    if abs(len(word) - len(other)) > 1 or word[0] != other[0] or word in (other + "s", other[:-1]):
        return False
    start = next((at for at, (a, b) in enumerate(zip(word, other, strict=False)) if a != b), min(len(word), len(other)))
    one, two = word[start:], other[start:]
    return one[1:] == two[1:] or one[1:] == two or one == two[1:] or (one[:2] == two[:2][::-1] and one[2:] == two[2:])


def _by_part(text: str) -> list[Hit]:
    """The messages of which a text or one of its clauses is a part: what one remembers, or a narrow window shows."""
    whole = _words_of(_EXCEPTION.sub("", text))
    clauses = [words for each in _CLAUSE.split(text) if len(words := _words_of(each)) > _PART]
    parts = [whole, *clauses] if len(whole) >= _PART else []
    found: dict[Message, Text] = {}
    for message, wording, _ in _patterns():
        # Python's own wordings have the name that matters at their end.
        if (
            wording.origin != "python"
            and "{half}" not in wording.text
            and (not message.half or _HALF.search(text) or not _FLOATING.search(text))
            and any(_has(_words_of(each), part) for each in literals(wording.text) for part in parts)
        ):
            found.setdefault(message, wording)
    if len(found) > _FEW:
        return []
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
    told = " ".join([message.id.replace("-", " "), *message.questions, *(each.text for each in message.says)])
    return frozenset(_words_of(told))
