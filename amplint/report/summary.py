"""The last lines of a run, and its counts by rule."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from amplint.base.about import SCHEMA_VERSION
from amplint.base.paths import is_document, visible
from amplint.config.formats import SEVERITIES
from amplint.registry import shows_of
from amplint.report import Report

if TYPE_CHECKING:
    from amplint.base.findings import Finding

SUSPICION = "suspicion"


def summary(report: Report) -> str:
    """How many findings there are, and what to do next. Where a run failed, nothing found doesn't mean all is well."""
    return _found(report) + held_back(report)


def _found(report: Report) -> str:
    left = Counter[str](SUSPICION if each.is_suspicion else each.severity.value for each in report.findings)
    if report.comments:
        text = silenced(report) + (f"Found {_counts(left)}.\n" if left else "")
    elif report.fixed or (report.verified and left):
        remaining = left.total() - left[SUSPICION]
        text = f"Found {_counts(left + _gone(report))} ({report.fixed} fixed, {remaining} remaining).\n"
    elif left:
        text = f"Found {_counts(left)}.\n"
    else:
        return "" if report.errors or (report.held and report.held.written) else "All checks passed!\n"
    return text + _what_next(report)


def _gone(report: Report) -> Counter[str]:
    """How many findings of each severity were fixed, or silenced."""
    gone = Counter[str]()
    for each in report.made:
        for kind, times in each.applied:
            gone[kind.severity.value] += times
    return gone


def _counts(counts: Counter[str]) -> str:
    """`2 errors, 1 warning`, the gravest first."""
    return ", ".join(_count(counts[each], each) for each in (*SEVERITIES, SUSPICION) if counts[each])


def fixes(report: Report, done: str = "Fixed") -> str:
    """What was fixed, by file and rule, with an empty line after it; empty where nothing was."""
    if not report.fixed or report.comments:
        return ""
    text = f"{done} {_counts(_gone(report))}:\n"
    width = max(len(str(times)) for each in report.made for _, times in each.applied)
    for each in report.made:
        text += f"- {visible(each.filename)}:\n"
        by_rule = Counter[tuple[str, str]]()
        for kind, times in each.applied:
            by_rule[kind.code, kind.name] += times
        for (code, name), times in sorted(by_rule.items(), key=lambda item: (-item[1], item[0])):
            text += f"    {times:>{width}} \u00d7 {code} ({name})\n"
    return f"{text}\n"


def _what_next(report: Report) -> str:
    """How many findings can be fixed and checked, with which commands; empty where none can."""
    left = len(report.findings)
    fixable = sum(place.fixable for place in report.places())
    hidden = sum(place.hidden for place in report.places())
    said = []
    if fixable:
        more = f", {hidden} more with `--unsafe-fixes`" if hidden else ""
        said.append(f"{fixable} fixable with `--fix`{more}")
    elif hidden:
        said.append(f"{hidden} fixable with `--fix --unsafe-fixes`")
    if unconfirmed := sum(each.unconfirmed is not None for each in report.findings):
        were, them = ("was", "it") if unconfirmed == 1 else ("were", "them")
        said.append(
            f"{_count(unconfirmed, 'fixable finding')} {were} not fixed, as no run confirms the fix; "
            f"the same command without `--verify` fixes {them}"
        )
    if not report.verified and (shown := _shown(report)):
        # Without the option `amplint verify` tries no unsafe fix, and judges the step as it is.
        unsafe = any(each.is_fixable(unsafe=True) and not each.is_fixable(unsafe=False) for each in shown)
        command = f"`amplint verify{' --unsafe-fixes' * unsafe} FILE`"
        which = "the" if left == 1 else f"all {left}" if len(shown) == left else f"{len(shown)} of the {left}"
        said.append(f"{command} checks {which} finding{'s' * (left > 1)} on real tensors")
    return f"{'[*] ' * bool(fixable)}{'; '.join(said)}.\n" if said else ""


def _shown(report: Report) -> list[Finding]:
    """The findings of which `amplint verify` may show something."""
    files = [result for result in report.results if result.filename != "-" and not is_document(result.filename)]
    findings = [finding for result in files for finding in result.findings]
    return [each for each in findings if (shows := shows_of(each.code)) and shows.how == "yes"]


def diff_summary(report: Report) -> str:
    """What `--diff` would have fixed; empty where there is nothing to say."""
    if report.comments:
        return silenced(report, "Would silence")
    hidden = sum(place.hidden for place in report.places())
    if report.fixed:
        more = f" ({_count(hidden, 'additional fix')} available with `--unsafe-fixes`)" if hidden else ""
        return f"Would fix {_counts(_gone(report))}{more}.\n"
    if hidden:
        return f"No findings would be fixed ({_count(hidden, 'fix')} available with `--unsafe-fixes`).\n"
    left = _count(len(report.findings), "finding")
    return (
        f"No fixes available: correct {left} by hand (run without `--diff` to list them).\n" if report.findings else ""
    )


def silenced(report: Report, done: str = "Silenced") -> str:
    """What `--add-noqa` has added."""
    if not report.comments:
        return ""
    where = f"{_count(sum(report.comments), 'comment')} in {_count(len(report.comments), 'file')}"
    return f"{done} {_counts(_gone(report))} by {where}.\n"


def held_back(report: Report) -> str:
    """What there is to say about the baseline."""
    if report.held is None:
        return ""
    path, held, stale, written = report.held
    path = visible(path)
    if written:
        entries, files, new, gone = written
        return f"{path} lists {_count(entries, 'finding')} in {_count(files, 'file')} ({new} new, {gone} gone).\n"
    text = f"{_count(held, 'finding')} not reported: listed in {path}.\n" if held else ""
    if stale:
        what = "1 entry that no longer occurs" if stale == 1 else f"{stale} entries that no longer occur"
        text += f"{path} lists {what}; run with --write-baseline to remove {'it' if stale == 1 else 'them'}.\n"
    return text


def _count(number: int, what: str) -> str:
    plural = "" if number == 1 else "es" if what.endswith("x") else "s"
    return f"{number} {what}{plural}"


def statistics(report: Report, output_format: str) -> str:
    """How often each rule was broken, the most frequent first."""
    counts = Counter((finding.code, finding.name) for finding in report.findings)
    fixable = Counter(place.finding.code for place in report.places() if place.fixable)
    hidden = Counter(place.finding.code for place in report.places() if place.hidden)
    rows = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if output_format.startswith("json"):
        import json  # noqa: PLC0415 - the text output has no use for it

        table = [
            {
                "code": code,
                "name": name,
                "count": count,
                "fixable": fixable[code] == count,
                "fixable_count": fixable[code],
                "unsafe_fixable_count": hidden[code],
                "schema_version": SCHEMA_VERSION,
            }
            for (code, name), count in rows
        ]
        if output_format == "json":
            return json.dumps(table, indent=2) + "\n"
        return "".join(json.dumps(row) + "\n" for row in table)
    width = max((len(str(count)) for _, count in rows), default=0)
    text = ""
    for (code, name), count in rows:
        share = "[*] " if fixable[code] == count else "[-] " if fixable[code] else "[ ] "
        said = _share(count, fixable[code], hidden[code])
        text += f"{count:>{width}}\t{code}\t{share if fixable else ''}{name}{f' ({said})' if said else ''}\n"
    return text


def _share(count: int, fixable: int, hidden: int) -> str:
    """How many of a rule's findings can be fixed, where that is neither none nor all of them."""
    some = f"{fixable} fixable" if 0 < fixable < count else ""
    unsafe = f"{hidden} {'more' if fixable else 'fixable'} with `--unsafe-fixes`" if hidden else ""
    return ", ".join(filter(None, (some, unsafe)))
