"""Findings that stand in what a file takes from others of its project: whose they are, and where they are shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from amplint.base import reads
from amplint.base.findings import Finding
from amplint.base.paths import contents, seen_from, version
from amplint.engine.reading import UnfoldableError, UnreadableError, read
from amplint.model.calls.call_graph import CallGraph
from amplint.model.flow.analysis import Flow, flows
from amplint.model.half.analysis import leading_to, may_run
from amplint.model.project.resolve_import import looked_in
from amplint.model.syntax import ir
from amplint.model.syntax.control import conditions_round
from amplint.rules.shared.default_values import holds_by_default, in_words
from amplint.sources.load import load
from amplint.sources.source import SourceError

if TYPE_CHECKING:
    from amplint.base.target import Target
    from amplint.model import Module
    from amplint.registry.rule import Rule

_MOST = 16  # files that are kept with what they mean
# A line of this file, in a message that also names lines of another one.
_OWN_LINE = re.compile(r"\blines? \d+\b(?! of | and )")


def at_home(module: Module, rule: Rule, finding: Finding) -> Finding | None:
    """A finding as the file is told of it; None where another file is, or nothing here leads to the place.

    What a call from this file brings about in another one is shown at the call. No fix changes another file.
    """
    if not module.parts:
        return finding
    if finding.start <= module.own_length:
        reached = [edit.start for edit in finding.fix.edits if edit.end > module.own_length] if finding.fix else []
        if not reached:
            return finding
        return finding._replace(
            fix=None,
            withheld=f"the fix would also change {_where(module, reached[0])}; make that change by hand",
        )
    path, row = module.place(finding.start)
    assert path is not None
    call = _call(module, finding.start)
    if call is None or any(_is_reported(part.filename, (path, row), rule, module.target) for part in module.parts):
        return None
    start, end = module.span(call)
    where = _where(module, finding.start)
    said = _OWN_LINE.sub(r"\g<0> of this file", finding.message)
    asked = _condition(module, finding.start)
    only = f" (if {asked})" if asked is not None else ""
    shown = finding if asked is None else finding.as_likely()
    return shown._replace(
        start=start,
        end=end,
        message=f"this runs line {row} of {where}{only}, where {said}",
        fix=None,
        withheld=f"a fix can change only one file, and {where} may have to change too; make the change by hand",
    )


def _condition(module: Module, start: int) -> str | None:
    """The innermost test of settings that a place in another file is under, in words: None if it holds by default."""
    place = module.statement_at(start)
    for test, holds in conditions_round(place) if place is not None else ():
        if _asks_for_text(test) and holds_by_default(module, test) is not holds:
            return in_words(module.on_one_line(test), holds)
    return None


def _asks_for_text(test: ir.Value) -> bool:
    """Whether a test compares a setting with a text: `args.net == "small"`."""
    return isinstance(test, ir.Compare) and any(
        isinstance(each, ir.Constant) and isinstance(each.value, str) for each in (test.left, *test.rights)
    )


def _where(module: Module, offset: int) -> str:
    return seen_from(module.place(offset)[0] or "", module.source.filename)


def _call(module: Module, start: int) -> ir.Value | None:
    """The first call of this file that leads to a place in another one."""
    for flow in flows(module):
        for reached in flow.in_order:
            node = reached.event.call
            if not module.is_own(node) and module.span(node)[0] == start:
                site = next((site for site in _sites(module, flow, node) if module.is_own(site)), None)
                if site is not None:
                    return site
    leading = leading_to(module, start)
    if leading is not None:
        return leading
    function = _function(module, start)
    for call in module.calls if function is not None else ():
        if function in _run_by(module, call):
            return call
    return None


def _run_by(module: Module, call: ir.Call) -> list[ir.Function]:
    """The functions that run in a call, if it is one of another file's, or of a module made there."""
    calls = module.once(CallGraph)
    first = calls.run_by(call)
    found = [each for each in ([first] if first is not None else may_run(module, call)) if not module.is_own(each)]
    for function in found:  # grows
        for value in ir.values_below(function.body):
            run = calls.run_by(value) if isinstance(value, ir.Call) else None
            if run is not None and run not in found:
                found.append(run)
    return found


def _sites(module: Module, flow: Flow, node: ir.Node, depth: int = 8) -> Iterator[ir.Call]:
    for site in flow.call_sites(node) if depth else ():
        yield site
        if not module.is_own(site):
            yield from _sites(module, flow, site, depth - 1)


def _function(module: Module, start: int) -> ir.Function | None:
    """The innermost function of another file round a place."""
    found = None
    for each in module.whole.functions:
        if not module.is_own(each):
            first, last = module.span(each)
            found = each if first <= start < last else found
    return found


def _is_reported(path: str, place: tuple[str, int], rule: Rule, target: Target) -> bool:
    """Whether a rule reports something at a place, a file and line, in another file by itself, or from there.

    A suspicion counts, too: there the rule may know why the code is right, such as that it only measures.
    """
    try:
        alone = _alone(path, place[0], target)
    except (OSError, SourceError, UnreadableError):
        return False
    if rule.code not in alone.reported:
        module = alone.module
        with reads.part(alone.look):
            found = [each.start for each in rule.run(module)] if rule.run is not None else []
            at = [module.place(each) for each in found if each <= module.own_length or _call(module, each) is not None]
        alone.reported[rule.code] = {(other or path, row) for other, row in at}
    return place in alone.reported[rule.code]


class _Alone(NamedTuple):
    """What a file means by itself, the versions of the files that this depends on, and what rules find there."""

    module: Module
    files: dict[str, tuple[int, int, int]]
    reported: dict[str, set[tuple[str, int]]]
    look: reads.Look


_known: dict[tuple[str, Target, object], _Alone] = {}  # the last asked for at the end


def _alone(path: str, other: str, target: Target) -> _Alone:
    """What a file means by itself, with what it takes from `other`; read again where one of its files has changed."""
    src, start = looked_in()
    known = _known.pop((path, target, (src, start)), None)
    if known is None or other not in known.files or any(version(each) != was for each, was in known.files.items()):
        look = reads.Look()
        with reads.part(look):
            source = load(contents(path), path)
            try:
                module = read(source, target, src=src, start=start)
            except UnfoldableError:
                module = read(source, target, fold=False, follow=False, src=src, start=start)
        files = {path, other, *(part.filename for part in module.parts), *(known.files if known is not None else ())}
        known = _Alone(module, {each: version(each) for each in files}, {}, look)
    else:
        reads.again(known.look)
    _known[path, target, (src, start)] = known
    if len(_known) > _MOST:
        del _known[next(iter(_known))]
    return known
