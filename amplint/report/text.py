"""What the formats for people have in common."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from amplint.base.about import rule_url
from amplint.base.findings import Applicability, Confidence, Severity
from amplint.base.paths import visible
from amplint.report import Place

BOLD, CYAN, BLUE = "1", "36", "1;34"
# Terminals that show links, by what they say of themselves.
_LINKING = frozenset({"iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "Tabby", "rio"})
_LINKING_TERMS = ("xterm-kitty", "xterm-ghostty", "alacritty", "foot", "contour", "wezterm")
SEVERITY_COLOUR = {Severity.ERROR: "1;31", Severity.WARNING: "1;33", Severity.NOTE: CYAN}


def shown_name(place: Place) -> str:
    """The name of a file at the start of a line, where GitHub would take one that starts with `::` for a command."""
    return f"{'./' * place.filename.startswith('::')}{visible(place.filename)}"


def header(place: Place, colour: bool) -> str:
    """`AMP401 [*] error: message`, the star where `--fix` with the flags given would fix it.

    How sure it is comes after the severity: `warning (likely)`.
    """
    finding = place.finding
    mark = f"[{paint('*', CYAN, colour)}] " if place.fixable else ""
    code = linked(paint(finding.code, SEVERITY_COLOUR[finding.severity], colour), finding.code, colour)
    severity = paint(finding.severity.value, SEVERITY_COLOUR[finding.severity], colour)
    sure = "" if finding.confidence is Confidence.CERTAIN else f" ({finding.confidence.value})"
    return f"{code} {mark}{severity}{sure}: {visible(finding.message)}"


def advice(place: Place) -> Iterator[tuple[str, str]]:
    """What to do about a finding, and what to know of its fix: lines with their labels."""
    finding = place.finding
    if finding.fix:
        yield "help", finding.fix.advice
        if finding.fix.edits and finding.fix.applicability is Applicability.UNSAFE:
            unsafe = "this fix is unsafe: it may change what the program does"
            yield "note", f"{unsafe}; `--unsafe-fixes` applies it" if place.hidden else unsafe
        elif finding.fix.applicability is Applicability.DISPLAY and finding.fix.edits:
            yield "note", "this fix is only shown, never applied"
    if finding.refusal:
        yield "help", finding.refusal
    if finding.unconfirmed:
        yield "help", f"fix not applied: {finding.unconfirmed}"


def paint(text: str, code: str, colour: bool) -> str:
    """A text in a terminal's colour, or as it is."""
    return f"\033[{code}m{text}\033[0m" if colour else text


def linked(text: str, code: str, colour: bool) -> str:
    """A text that leads to the page of the rule `code`, on a terminal that can; else as it is."""
    url = rule_url(code)
    return f"\033]8;;{url}\033\\{text}\033]8;;\033\\" if url and colour and shows_links(os.environ) else text


def shows_links(environment: Mapping[str, str]) -> bool:
    """Whether the terminal of an environment is one that shows links (OSC 8). Others may show their codes."""
    if environment.get("TERM") == "dumb" or environment.get("CI"):
        return False
    if environment.get("TERM_PROGRAM") in _LINKING or environment.get("TERM", "").startswith(_LINKING_TERMS):
        return True
    return bool(environment.get("WT_SESSION") or environment.get("KONSOLE_VERSION")) or _vte(environment)


def _vte(environment: Mapping[str, str]) -> bool:
    """Whether it is GNOME's terminal, or another one made of VTE, since 0.50."""
    version = environment.get("VTE_VERSION", "")
    return version.isdecimal() and int(version) >= 5000
