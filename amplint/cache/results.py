"""What was found in files by runs before, one file of the cache for each file with AMP.

It counts as long as the file's bytes, its settings, amplint itself and all that was read or looked for are what they
were. What failed, or took too long, is looked at anew each time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from amplint.base import reads
from amplint.base.findings import Applicability, Confidence, Edit, Finding, Fix, Location, Severity
from amplint.base.paths import absolute
from amplint.base.reads import Look
from amplint.cache.folder import Folder
from amplint.cache.made_of import MadeOf, from_plain, made_of, plain, still
from amplint.cache.program import identity
from amplint.config.settings import Settings
from amplint.engine.result import Result
from amplint.sources.load import load
from amplint.sources.source import Source, SourceError

# Settings that decide which files are linted, how that is shown, and what a project is where nothing marks one, which
# is among what was read.
_OF_OTHERS = {
    "exclude",
    "force_exclude",
    "output_format",
    "cache_dir",
    "start",
    "fix",
    "show_fixes",
    "exit_on",
    "baseline",
}


class Known(NamedTuple):
    """A file's bytes, as a digest, and what was found in it."""

    data: str
    findings: tuple[Finding, ...]
    given_up: tuple[str, ...]
    renamed: tuple[tuple[str, str], ...]
    made: MadeOf


class Results:
    """What is kept in a cache's folder."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._settings: dict[Settings, str] = {}

    def find(self, data: bytes, filename: str, settings: Settings, *, ask: bool = True) -> Result | None:
        """What is found in a file with these bytes; None where that isn't known, or, without `ask`, not quickly."""
        name = self._name(filename, settings)
        stored = self._folder.read(name)
        known = _opened(stored) if stored is not None else None
        if known is None or known.data != reads.digest(data):
            return None
        made = still(known.made, settings.src, settings.start, ask=ask)
        if made is None:
            return None
        if made is not known.made:
            self._write(name, known._replace(made=made))
        else:
            self._folder.touch(name)
        source = _source(data, filename) if known.findings else None
        return Result(filename, source, known.findings, known.given_up, settings.unsafe_fixes, renamed=known.renamed)

    def keep(self, data: bytes, filename: str, settings: Settings, result: Result, look: Look) -> None:
        """Keep what was found in a file with these bytes, and what was read for it."""
        if result.too_long or any(each.code == "AMP000" for each in result.findings):
            return
        made = made_of(look)
        if made is not None:
            known = Known(reads.digest(data), result.findings, result.given_up, result.renamed, made)
            self._write(self._name(filename, settings), known)

    def _write(self, name: str, known: Known) -> None:
        import json  # noqa: PLC0415 - where nothing is found in the bytes of files none is needed

        findings = [_plain(each) for each in known.findings]
        value = [identity(), known.data, findings, list(known.given_up), list(known.renamed), plain(known.made)]
        self._folder.write(name, json.dumps(value, separators=(",", ":")).encode())

    def _name(self, filename: str, settings: Settings) -> str:
        if settings not in self._settings:
            said = {key: value for key, value in settings._asdict().items() if key not in _OF_OTHERS}
            self._settings[settings] = repr(
                [(key, sorted(value) if isinstance(value, frozenset) else value) for key, value in said.items()]
            )
        key = f"{self._settings[settings]}\0{absolute(filename)}"
        return f"{reads.digest(key.encode('utf-8', 'surrogateescape'))}.json"


def _opened(stored: bytes) -> Known | None:
    """What a file of the cache says; None where that is nothing, or of another amplint."""
    import json  # noqa: PLC0415 - see above

    try:
        program, data, findings, given_up, renamed, made = json.loads(stored)
        if program != identity():
            return None
        pairs = tuple((str(code), str(row)) for code, row in renamed)
        return Known(data, tuple(map(_finding, findings)), tuple(map(str, given_up)), pairs, from_plain(made))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _source(data: bytes, filename: str) -> Source:
    """The text in which something was found, which need not be one (`amplint.engine.file.check_bytes`)."""
    try:
        return load(data, filename)
    except SourceError:
        return Source(filename, data.decode("utf-8", "replace"))


def _plain(finding: Finding) -> list[Any]:
    fix = finding.fix and [finding.fix.applicability.value, finding.fix.message, [list(e) for e in finding.fix.edits]]
    values = finding._replace(fix=None, severity=None, confidence=None)._asdict()  # type: ignore[arg-type]
    return [values, fix, finding.severity.value, finding.confidence.value]


def _finding(value: Any) -> Finding:
    values, fix, severity, confidence = value
    given = {
        **values,
        "location": Location(*values["location"]),
        "end_location": Location(*values["end_location"]),
        "severity": Severity(severity),
        "confidence": Confidence(confidence),
    }
    if fix is not None:
        applicability, message, edits = fix
        given["fix"] = Fix(Applicability(applicability), message, tuple(Edit(*each) for each in edits))
    return Finding(**given)
