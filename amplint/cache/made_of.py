"""What a result was made of, in plain values, and whether all of that is still so."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from typing import Any, NamedTuple

from amplint.base import reads
from amplint.base.paths import QUESTIONS, fingerprint, remembered, size
from amplint.base.project_root import Start, started_at
from amplint.base.reads import Kind, Look, Question, Read
from amplint.base.tree import View, state, view

# The modules of `amplint.model.project` that have questions.
_WITH_QUESTIONS = ("importers", "module_index", "python_files")
_SAME: dict[frozenset[str], frozenset[str]] = {}  # sets of folders: those that are equal are one, quick to see


class Asked(NamedTuple):
    """A question, by its name, with what it was given, and what tells its answer from others."""

    name: str
    given: tuple[object, ...]
    answer: str


class MadeOf(NamedTuple):
    """What was read for a result, and the questions that were asked: only their answers count.

    As long as `states`, of the trees that the questions look at, and `others`, which were read for the answers and
    don't follow from these, are what they were, so are the answers.
    """

    reads: frozenset[Read]
    questions: tuple[Asked, ...] = ()
    others: frozenset[Read] = frozenset()
    states: tuple[tuple[str, str], ...] = ()


def made_of(look: Look) -> MadeOf | None:
    """What was read for a result; None: something has changed while it was made."""
    found, questions = _below(look)
    asked = {_asked(each.question): each for each in questions if each.question is not None}
    if len(asked) < len(questions) and any(each.question is None for each in questions):
        return None  # what is in a tree counts as an answer to a question only
    with reads.recorded():  # where trees are remembered that were walked while something was recorded
        inside = _inside(list(asked.values()))
    if inside is None:
        return None
    others, states = inside
    every = found | others
    if len({each[:2] for each in every}) < len(every):
        return None
    return MadeOf(frozenset(found), tuple(sorted(asked, key=repr)), others, tuple(sorted(states.items())))


def _below(look: Look) -> tuple[set[Read], list[Look]]:
    """What was read for an answer, but for questions; and these."""
    found, questions = set(look.reads), []
    seen, todo = {id(look)}, [*look.others.values()]
    while todo:
        each = todo.pop()
        if id(each) not in seen:
            seen.add(id(each))
            if each.question is not None or each.trees:
                questions.append(each)
            else:
                found.update(each.reads)
                todo += each.others.values()
    return found, questions


def _inside(questions: list[Look]) -> tuple[frozenset[Read], dict[str, str]] | None:
    """What was read for the answers to questions and doesn't follow from the states of their trees, and these.

    None where a file has come or gone meanwhile.
    """
    roots = frozenset(root for each in questions for other in each.others.values() for root in other.trees)
    roots = _SAME.setdefault(roots, roots)
    views = [view(root) for root in sorted(roots)]
    found: set[Read] = set()
    for each in questions:
        rest = _rest(each, roots, views)
        if rest is None:
            return None
        found |= rest
    return frozenset(found), {root: state(root) for root in sorted(roots)}


def _rest(look: Look, roots: frozenset[str], views: list[View]) -> frozenset[Read] | None:
    """What was read for an answer that doesn't follow from the states of trees; None where it contradicts them.

    It is put together of what others have read, which is known first.
    """
    todo = [look]
    while todo:
        each = todo[-1]
        new = [other for other in each.others.values() if other.roots is not roots] if each.roots is not roots else []
        todo += new
        if not new:
            todo.pop()
            if each.roots is not roots:
                each.roots, each.rest = roots, _put_together(each, views)
    return look.rest


def _put_together(look: Look, views: list[View]) -> frozenset[Read] | None:
    rest = []
    for read in look.reads:
        shown = next((each for each in views if each.tells(read)), None)
        if shown is None:
            rest.append(read)
        elif shown.contradicts(read):
            return None
    whole = frozenset(rest)
    for other in look.others.values():
        if other.rest is None:
            return None
        if other.rest:
            whole |= other.rest
    return whole


def _asked(question: Question) -> Asked:
    return Asked(question.name, question.given, _answered(question.answer))


def _answered(answer: object) -> str:
    return reads.digest(repr(sorted(answer) if isinstance(answer, frozenset) else answer).encode())


def still(known: MadeOf, src: tuple[str, ...] | None, start: Start, *, ask: bool) -> MadeOf | None:
    """What a result is made of, if all of that is what it was: as it was known, or with other files in a tree that make
    no difference. Without `ask` questions aren't asked again, which can take as long as to lint the file.
    """
    if not _holds(known.reads, start):
        return None
    if not known.questions or (_holds(known.others, start) and _are(known.states)):
        return known
    if not ask:
        return None
    for module in _WITH_QUESTIONS:
        import_module(f"amplint.model.project.{module}")
    import_module("amplint.model.project.resolve_import").look_in(src, start)
    with reads.recorded() as look:
        for each in known.questions:
            if _answered(QUESTIONS[each.name](*each.given)) != each.answer:
                return None
    now = made_of(look)
    return known._replace(others=now.others, states=now.states) if now is not None else None


def _are(states: Iterable[tuple[str, str]]) -> bool:
    with reads.recorded():
        return all(of and of == state(root) for root, of in states)


def _holds(every: Iterable[Read], start: Start) -> bool:
    return all(
        (started_at(start) if each.kind is Kind.START else _now(each.kind, each.path)) == each.found for each in every
    )


@remembered
def _now(kind: Kind, path: str) -> str:
    """What is found if something is asked of a path."""
    if kind is Kind.CONTENTS:
        return fingerprint(path)
    if kind is Kind.SIZE:
        return size(path)
    with reads.recorded() as look, suppress(OSError):
        _ASK[kind](path)
    return look.reads[-1].found


_ASK = {
    Kind.FILE: reads.is_file,
    Kind.FOLDER: reads.is_folder,
    Kind.PRESENT: reads.is_present,
    Kind.LINK: reads.is_link,
    Kind.REAL: reads.real,
    Kind.NAMES: reads.lists_in,
}


def plain(made: MadeOf) -> list[Any]:
    """It as JSON has it."""
    asked = [[name, [_written(each) for each in given], answer] for name, given, answer in made.questions]
    return [_grouped(made.reads), asked, _grouped(made.others), [list(each) for each in made.states]]


def from_plain(value: Any) -> MadeOf:
    """What `plain` was made of.

    Raises:
        ValueError, TypeError, KeyError: it was made of nothing.
    """
    found, asked, others, states = value
    questions = []
    for name, given, answer in asked:
        questions.append(Asked(str(name), tuple(map(_read, given)), str(answer)))
    return MadeOf(_apart(found), tuple(questions), _apart(others), tuple((str(a), str(b)) for a, b in states))


def _grouped(every: Iterable[Read]) -> dict[str, dict[str, list[str]]]:
    """By what was asked, and what was found: much of it is the same."""
    groups: dict[str, dict[str, list[str]]] = {}
    for kind, path, found in sorted(every):
        groups.setdefault(kind.value, {}).setdefault(found, []).append(path)
    return groups


def _apart(groups: dict[str, dict[str, list[str]]]) -> frozenset[Read]:
    return frozenset(
        Read(Kind(kind), str(path), found)
        for kind, by_found in groups.items()
        for found, paths in by_found.items()
        for path in paths
    )


def _written(value: object) -> Any:
    """An argument of a question as JSON has it."""
    if isinstance(value, (str, int)):
        return value
    if isinstance(value, bytes):
        return {"bytes": value.decode("latin-1")}
    if isinstance(value, re.Pattern):
        return {"pattern": value.pattern.decode("latin-1"), "flags": value.flags}
    if isinstance(value, frozenset):
        return {"names": sorted(value)}
    raise TypeError(f"{value!r} can't be written")


def _read(value: Any) -> object:
    if isinstance(value, (str, int)):
        return value
    if "bytes" in value:
        return value["bytes"].encode("latin-1")
    if "pattern" in value:
        return re.compile(value["pattern"].encode("latin-1"), value["flags"])
    return frozenset(value["names"])
