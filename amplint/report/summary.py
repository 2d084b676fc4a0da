"""The last lines of a run, and its counts by rule."""

from __future__ import annotations

from collections import Counter

from amplint.report import Report


def summary(report: Report, *, clean: bool = True) -> str:
    """How many findings there are and how many can be fixed. `clean` False: nothing found doesn't mean all is well."""
    left = len(report.findings)
    if report.fixed:
        total = report.fixed + left
        text = f"Found {_count(total, 'error')} ({report.fixed} fixed, {left} remaining).\n"
    elif left:
        text = f"Found {_count(left, 'error')}.\n"
    else:
        text = "All checks passed!\n" if clean else ""
    fixable = sum(place.fixable for place in report.places())
    hidden = sum(place.hidden for place in report.places())
    more = f"{_count(hidden, 'unsafe fix')} available with `--fix --unsafe-fixes`"
    if fixable:
        text += f"[*] {fixable} fixable with `--fix`{f' ({more})' if hidden else ''}.\n"
    elif hidden:
        text += f"{more}.\n"
    return text


def diff_summary(report: Report) -> str:
    """What `--diff` would have fixed; empty where there is nothing to say."""
    hidden = sum(place.hidden for place in report.places())
    if report.fixed:
        more = f" ({_count(hidden, 'additional fix')} available with `--unsafe-fixes`)" if hidden else ""
        return f"Would fix {_count(report.fixed, 'error')}{more}.\n"
    return f"No errors would be fixed ({_count(hidden, 'fix')} available with `--unsafe-fixes`).\n" if hidden else ""


def _count(number: int, what: str) -> str:
    plural = "" if number == 1 else "es" if what.endswith("x") else "s"
    return f"{number} {what}{plural}"


def statistics(report: Report, output_format: str) -> str:
    """How often each rule was broken, the most frequent first."""
    counts = Counter((finding.code, finding.name) for finding in report.findings)
    fixable = Counter(place.finding.code for place in report.places() if place.fixable)
    rows = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if output_format == "json":
        import json  # noqa: PLC0415 - the text output has no use for it

        table = [
            {
                "code": code,
                "name": name,
                "count": count,
                "fixable": fixable[code] == count,
                "fixable_count": fixable[code],
            }
            for (code, name), count in rows
        ]
        return json.dumps(table, indent=2) + "\n"
    width = max((len(str(count)) for _, count in rows), default=0)
    text = ""
    for (code, name), count in rows:
        share = "[*] " if fixable[code] == count else "[-] " if fixable[code] else "[ ] "
        text += f"{count:>{width}}\t{code}\t{share if fixable else ''}{name}\n"
    return text
