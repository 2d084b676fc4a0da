"""One file from bytes to findings, and back to bytes with its fixes made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from amplint.base.edits import apply
from amplint.base.findings import Finding, Fix, Kind, Location, Severity, withhold
from amplint.base.paths import is_always_utf8, is_document
from amplint.base.patience import of_file, patience
from amplint.engine import analysis, prefilter, reading
from amplint.engine.causes import one_per_cause
from amplint.engine.code_words import without_prose
from amplint.engine.reading import INTERNAL_ERROR, UnreadableError
from amplint.engine.result import FixResult, Result
from amplint.engine.trial import counted_as, try_out
from amplint.registry import all_rules
from amplint.sources.load import load, with_commands
from amplint.sources.parsing import refusal, require_size, with_room
from amplint.sources.source import Source, SourceError
from amplint.suppression.byte_scan import UNUSED
from amplint.suppression.suppressions import Suppressions

if TYPE_CHECKING:
    from amplint.base.target import Target
    from amplint.config.settings import Settings
    from amplint.model import Module
    from amplint.registry.rule import Rule

P = ParamSpec("P")
T = TypeVar("T")
# Which of all findings in a text are to be fixed.
Wanted = Callable[[Source, Sequence[Finding]], Sequence[Finding]]
# A file settles after two or three rounds; one whose fixes undo each other never would.
ROUNDS = 100
_FEW = 3  # rules


class _NoTimeError(Exception):
    """There is no time left in which to try a fix."""


def _forgets(work: Callable[P, T]) -> Callable[P, T]:
    """Keep nothing, when it is done, of what is only of use for the same file once more."""

    @wraps(work)
    def done(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return work(*args, **kwargs)
        finally:
            reading.forget()

    return done


@_forgets
def check_text(text: str, filename: str, settings: Settings, *, noqa: bool = True) -> Result:
    """The findings in a file's text, which is what it is, whatever encoding it declares; as `check_bytes`."""
    data = text.encode("utf-8", "surrogatepass")
    if is_always_utf8(filename):
        return check_bytes(data, filename, settings, noqa=noqa)
    if not prefilter.matters(data, settings.codes) and "\0" not in text and prefilter.is_utf8(data):
        return Result(filename, None, ())
    return _check(with_commands(Source.from_text(text, filename)), settings, noqa=noqa)


def draft_text(text: str, filename: str, settings: Settings) -> tuple[Result, Callable[[], Result]]:
    """The findings in a file's text as `check_text` has them, but that no fix is tried; and what tries the fixes.

    Who asks for it edits the text, and asks again: the syntax trees are kept.
    """
    data = text.encode("utf-8", "surrogatepass")
    if settings.docs or is_always_utf8(filename) or not prefilter.matters(data, settings.codes):
        done = check_text(text, filename, settings)
        return done, lambda: done
    source = with_commands(Source.from_text(text, filename))
    comments = Suppressions(source)
    if comments.whole_file:
        done = Result(filename, source, ())
        return done, lambda: done
    require_size(source)
    draft = with_room(lambda: _folded(lambda fold: _drafted(source, settings, comments, fold)))
    more = comments.keep(reading.refused(source))

    def tried() -> Result:
        try:
            return with_room(draft.tried).result(more)
        except reading.UnfoldableError:  # it is read at once then, and not by pieces
            return check_text(text, filename, settings)

    return draft.result(more), tried


@_forgets
def fix_text(
    text: str, filename: str, settings: Settings, *, unsafe: bool | None = None, wanted: Wanted | None = None
) -> str:
    """A file's text with its fixes made; as `fix_bytes`."""
    if is_always_utf8(filename):
        data = text.encode("utf-8", "surrogatepass")
        fixed = fix_bytes(data, filename, settings, unsafe=unsafe, wanted=wanted).data
        return fixed.decode("utf-8", "surrogatepass")
    unsafe = settings.unsafe_fixes if unsafe is None else unsafe
    before = check_text(text, filename, settings)
    if before.source is None or not _offered(before, unsafe):
        return text
    source, _, _ = _fix(before.source, before, settings, unsafe, wanted)
    return "\ufeff" * source.bom + source.original


@_forgets
def check_bytes(data: bytes, filename: str, settings: Settings, *, noqa: bool = True) -> Result:
    """The findings in a file: sorted, of the selected codes, and only those that no comment silences.

    Without `noqa` the comments that say `noqa` silence nothing: a host sees to them. What was seen of other files holds
    until `amplint.base.paths.look_again`.

    Raises:
        TooLargeError: it is too large to be parsed.
    """
    seen = prefilter.seen(data, filename, settings.codes)
    matters = prefilter.matters(seen, settings.codes)
    if not matters and prefilter.is_text(seen):
        return Result(filename, None, ())
    try:
        source = load(data, filename)
    except SourceError as error:
        if settings.docs and is_document(filename):
            return Result(filename, None, ())
        # Bytes that are no text become U+FFFD, so that the place can be shown.
        source = Source(filename, data.decode("utf-8", "replace"))
        found = [reading.invalid_syntax(source, error.row, str(error), error.column)]
        return _result(source, Suppressions(source).keep(found), settings)
    return _check(source, settings, noqa=noqa) if matters else Result(filename, None, ())


@_forgets
def fix_bytes(
    data: bytes,
    filename: str,
    settings: Settings,
    *,
    unsafe: bool | None = None,
    wanted: Wanted | None = None,
    before: Result | None = None,
) -> FixResult:
    """Make a file's safe fixes, and with `unsafe` the unsafe ones too, until there is nothing left to fix.

    Where `unsafe` isn't given the settings decide. With `wanted` only those of the findings that it gives back.
    `before` is what is found in the file, where that is known.
    """
    before = before or check_bytes(data, filename, settings)
    unsafe = settings.unsafe_fixes if unsafe is None else unsafe
    if before.source is None or not _offered(before, unsafe):
        return FixResult(data, Counter(), before, before)
    if before.source.encode(before.source.text) != data:
        withheld = f"the file's {before.source.encoding} text can't be written back unchanged"
        findings = tuple(each._replace(fix=None, withheld=withheld) if each.fix else each for each in before.findings)
        return FixResult(data, Counter(), before._replace(findings=findings), before)
    fixed, applied, result = _fix(before.source, before, settings, unsafe, wanted)
    return FixResult(fixed.encode(fixed.text), applied, result, before)


def _check(source: Source, settings: Settings, *, noqa: bool = True) -> Result:
    if not settings.docs:
        return _check_program(source, settings, noqa=noqa)
    from amplint.sources import doc_blocks  # noqa: PLC0415 - for those who ask

    def is_about_absence(code: str) -> bool:
        return all_rules()[code].about_absence

    found = doc_blocks.findings(
        source, lambda block: _check_program(block, settings, noqa=noqa).findings, is_about_absence
    )
    if is_document(source.filename):
        return _result(source, found, settings)
    return _check_program(source, settings, found, noqa=noqa)


def _check_program(source: Source, settings: Settings, inside: Iterable[Finding] = (), *, noqa: bool = True) -> Result:
    """What is found in a program, and of what is found `inside` its docstrings what its comments don't silence."""
    comments = Suppressions(source, noqa=noqa)
    if comments.whole_file:
        return Result(source.filename, source, ())
    require_size(source)
    within = comments.keep(inside)  # first, so that what these comments are for is known
    draft, left, too_long = with_room(lambda: _in_time(source, settings, comments))
    result = draft.result((*within, *comments.keep(reading.refused(source))))
    return result._replace(given_up=(*result.given_up, *left), too_long=too_long, renamed=comments.renamed)


def _in_time(source: Source, settings: Settings, comments: Suppressions) -> tuple[_Draft, tuple[str, ...], bool]:
    """What is found in the time that a file has, what was not begun, and whether time was too short for something."""
    with patience(source.filename) as time:
        draft = _folded(lambda fold: _drafted(source, settings, comments, fold).tried())
        return draft, tuple(f"{each} was not begun" for each in time.left), time.has_given_up


def _result(source: Source, findings: Iterable[Finding], settings: Settings) -> Result:
    chosen = [each for each in findings if each.code in settings.codes or each.code == INTERNAL_ERROR]
    if settings.unfixable:
        chosen = _left(chosen, settings.unfixable)
    chosen.sort(key=lambda each: (each.start, each.end, each.code))
    placed = (_placed(source, each) for each in chosen)
    return Result(source.filename, source, tuple(placed), unsafe=settings.unsafe_fixes)


def _placed(source: Source, finding: Finding) -> Finding:
    start, end = (Location.of(*source.place(offset)) for offset in (finding.start, finding.end))
    return finding._replace(location=start, end_location=end)


def _left(findings: list[Finding], unfixable: frozenset[str]) -> list[Finding]:
    """The findings without the fixes that would fix one of a rule that is to be left as it is."""
    why = "is excluded from fixes by `fixable` or `unfixable`"
    left = [each for each in findings if each.code in unfixable]
    return withhold(findings, {each.fix.edits: f"{each.code} {why}" for each in left if each.fix and each.fix.edits})


def _folded(work: Callable[[bool], T]) -> T:
    """What `work` makes of a file that is read in pieces, with what it takes from others; else at once, and alone.

    It can be a piece of another file that libcst refuses: it is read when something asks for it.
    """
    try:
        return work(True)
    except reading.UnfoldableError:
        return work(False)


class _Draft:
    """What is found in a program, by reading it, before any of its fixes is tried."""

    def __init__(
        self, source: Source, settings: Settings, module: Module | None, raw: list[Finding], findings: list[Finding]
    ) -> None:
        self.findings = findings  # without what comments silence, and with the comments that silence nothing
        self.given_up = analysis.given_up(module) if module is not None else ()
        self._source = source
        self._settings = settings
        self._module = module
        self._raw = raw  # what the rules have found, silenced or not

    def tried(self) -> _Draft:
        """The same without the fixes that don't do what they are for."""
        to_try = [each for each in self.findings if each.fix and each.fix.edits and all_rules()[each.code].trial]
        if to_try and self._module is not None:
            tried = _tried_out(self._source, self._settings, to_try, self._before(self._module))
            self.findings = [each for each in self.findings if each not in to_try] + tried
        return self

    def result(self, more: Iterable[Finding]) -> Result:
        """What is found, with what is found apart from that."""
        return _result(self._source, (*self.findings, *more), self._settings)._replace(given_up=self.given_up)

    def _before(self, module: Module) -> Counter[str]:
        """The codes that all rules which count find, and what they doubt."""
        counting = _touched(module.texts, _counting(self._settings))
        more, _ = analysis.run([each for each in counting if each.code not in self._settings.codes], module)
        return Counter(each.code for each in (*self._raw, *more)) + analysis.doubts(counting, module)


def _drafted(source: Source, settings: Settings, comments: Suppressions, fold: bool) -> _Draft:
    """What the rules find, less what comments silence, and the comments that silence nothing."""
    raw: list[Finding] = []
    failed: set[str] = set()
    try:
        module = _read(source, settings, settings.codes, fold)
        if module is not None:
            rules = _touched(module.texts, settings.codes)  # with what it takes from other files
            raw, failed = analysis.run(rules, module)
    except UnreadableError as error:
        return _Draft(source, settings, None, [], comments.keep([error.finding]))
    kept = one_per_cause(source, comments.keep(raw))
    if not settings.suspicions:  # before their fixes are tried
        kept = [each for each in kept if not each.is_suspicion]
    if UNUSED in settings.codes:
        kept += comments.keep(list(comments.unused(settings.codes - failed)))
    return _Draft(source, settings, module, raw, kept)


def _tried_out(source: Source, settings: Settings, to_try: list[Finding], before: Counter[str]) -> list[Finding]:
    """The findings without the fixes that don't do what they are for, or that there is no time to try."""

    def in_time() -> None:
        if (time := of_file()) is not None and (time.is_used_up or time.has_given_up):
            raise _NoTimeError

    def analyse(text: str) -> Counter[str]:
        in_time()
        found = _tried(source.like(text), settings)[1]
        in_time()  # what is given up for want of it is not gone
        return found

    try:
        in_time()
        return try_out(source.text, to_try, before, analyse, lambda text: _fixable(source.like(text), settings))
    except _NoTimeError:
        why = "the file takes too long for the fix to be tried"
        return [each._replace(fix=None, withheld=why) for each in to_try]


def _touched(texts: Iterable[str], codes: frozenset[str]) -> list[Rule]:
    return prefilter.touched("\n".join(texts).encode("utf-8", "replace"), codes)


def _read(source: Source, settings: Settings, codes: frozenset[str], fold: bool) -> Module | None:
    """What a text means, if the rules with `codes` can find anything in it; without `fold` by itself.

    Raises:
        UnreadableError: it can't be read.
    """
    tree = reading.check_syntax(source)
    opening = prefilter.opening(codes)
    opened = _touched([without_prose(source.text, tree, prefilter.roots(opening))], opening)
    if opened and len(opened) <= _FEW:
        # The words of so few rules are soon looked for, and all that there is may be an example in a docstring.
        few = frozenset(each.code for each in opened)
        opened = _touched([without_prose(source.text, tree, prefilter.names(opened))], few)
    if not opened:
        return None
    target = settings.target(source.filename)
    follow = fold and any(map(prefilter.follows, opened))

    def frameworks(name: str) -> Target:
        return settings.target(source.filename, name)

    module = reading.read(
        source,
        target,
        frameworks,
        tree=tree,
        fold=fold,
        follow=follow,
        device=settings.device,
        src=settings.src,
        start=settings.start,
    )
    module.selected = settings.codes
    return module


def _counting(settings: Settings) -> frozenset[str]:
    """The codes that a fix must not add: of rules that are on by default, or selected.

    What is only deprecated does what it did: it counts for those who ask for it.
    """
    rules = all_rules().items()
    return frozenset(code for code, rule in rules if rule.default and not _is_deprecation(rule)) | settings.codes


def _is_deprecation(rule: Rule) -> bool:
    return rule.code.startswith("AMP1") and rule.severity is Severity.WARNING


def _tried(source: Source, settings: Settings) -> tuple[list[Finding], Counter[str]]:
    """What is found in a text by the rules that count; and the codes of that, with what they doubt."""
    return _folded(lambda fold: _count(source, settings, fold))


def _fixable(source: Source, settings: Settings) -> list[Finding]:
    """All that counts in a text, silenced or not; with the fixes that no comment keeps away and the settings allow."""
    found, _ = _tried(source, settings)
    kept = Suppressions(source).keep(found)
    offered = {each.fix for each in kept if each.fix and each.code not in settings.unfixable}
    return [each if each.fix in offered else each._replace(fix=None) for each in found]


def _count(source: Source, settings: Settings, fold: bool) -> tuple[list[Finding], Counter[str]]:
    try:
        module = _read(source, settings, _counting(settings), fold)
    except UnreadableError as error:
        return [error.finding], Counter([counted_as(error.finding)])
    if module is None:
        return [], Counter()
    rules = _touched(module.texts, _counting(settings))
    found, _ = analysis.run(rules, module)
    return found, Counter(map(counted_as, found)) + analysis.doubts(rules, module)


def _offered(result: Result, unsafe: bool) -> list[Finding]:
    return [each for each in result.findings if each.is_fixable(unsafe=unsafe)]


def _fix(
    source: Source, result: Result, settings: Settings, unsafe: bool, wanted: Wanted | None = None
) -> tuple[Source, Counter[Kind], Result]:
    """Rounds of fixing what was found, which `result` is, and finding, until a round changes nothing."""
    applied: Counter[Kind] = Counter()
    for _ in range(ROUNDS):
        chosen = wanted(source, result.findings) if wanted else result.findings
        offered = _offered(result._replace(findings=tuple(chosen)), unsafe)
        text, done, broken = _round(source, [each.fix for each in offered if each.fix])
        if text == source.text:
            return source, applied, _with_broken(result, broken, settings)
        applied.update(each.kind for each in offered if each.fix in done)
        source = source.like(text)
        result = _check(source, settings)
    error = RuntimeError(f"after {ROUNDS} rounds there is still something to fix")
    failure = reading.internal_error(source, "fixing the file", error)
    return source, applied, _result(source, (*result.findings, failure), settings)


def _round(source: Source, fixes: list[Fix]) -> tuple[str, list[Fix], dict[Fix, str]]:
    """The text with fixes made that leave it a program, those fixes, and why others are not made, which are broken."""
    text, done = apply(source.text, fixes)
    if _broken(source, text) is None:
        return text, done, {}
    alone = {fix: _broken(source, apply(source.text, [fix])[0]) for fix in done}
    broken = {fix: why for fix, why in alone.items() if why}
    good = [fix for fix in done if fix not in broken]
    # Where each is good by itself and all together are not, one is made at a time.
    for chosen in (good, good[:1]):
        text, done = apply(source.text, chosen)
        if _broken(source, text) is None:
            return text, done, broken
    return source.text, [], broken


def _broken(source: Source, text: str) -> str | None:
    """Why a text can't be written as it is to the file that a source comes from."""
    try:
        source.encode(text)
    except SourceError as error:
        return str(error)
    if is_document(source.filename):
        from amplint.sources import doc_blocks  # noqa: PLC0415 - see above

        return doc_blocks.broken(source, source.like(text))
    refused = with_room(lambda: refusal(source.like(text)))
    return refused.message if refused else None


def _with_broken(result: Result, broken: dict[Fix, str], settings: Settings) -> Result:
    """The result with fixes taken away that would break the file, each reported as our error."""
    findings: list[Finding] = []
    for each in result.findings:
        if each.fix in broken and result.source:
            error = ValueError(broken[each.fix])
            findings.append(reading.internal_error(result.source, f"the fix of {each.code}", error))
            findings.append(each._replace(fix=None, withheld="the fixed code could not be parsed"))
        else:
            findings.append(each)
    return result if not broken or result.source is None else _result(result.source, findings, settings)
