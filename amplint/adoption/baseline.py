"""`--baseline FILE`: the findings that a project has, written down, so that only those that come are reported.

The file is JSON with a line a finding, sorted: paths are relative to its folder, and fingerprints don't hang on where
in a file a finding stands (`amplint.adoption.fingerprint`).
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from amplint.adoption.fingerprint import fingerprints
from amplint.base.findings import withhold
from amplint.base.paths import absolute, contents
from amplint.config.selection import SettingsError
from amplint.registry import meant_by
from amplint.suppression.suppressions import UNSUPPRESSIBLE

if TYPE_CHECKING:
    from amplint.base.findings import Finding
    from amplint.engine.result import Outcome
    from amplint.sources.source import Source

_FORMAT = "amplint-baseline"
_VERSION = 1


class Entry(NamedTuple):
    """One finding, as it is written down."""

    path: str
    code: str
    fingerprint: str


class Known(NamedTuple):
    """What a baseline holds of one file."""

    path: str
    entries: frozenset[Entry]

    def of(self, source: Source, findings: Sequence[Finding]) -> list[Entry]:
        """How the findings of the file, all of them, would be written down."""
        found = fingerprints(source, findings, self.path)
        return [Entry(self.path, each.code, one) for each, one in zip(findings, found, strict=True)]

    def new(self, source: Source, findings: Sequence[Finding]) -> list[Finding]:
        """Those of the findings of the file, all of them, that are new; no fix is shared with one held back."""
        pairs = list(zip(findings, self.of(source, findings), strict=True))
        new = [each for each, entry in pairs if entry not in self.entries or each.code in UNSUPPRESSIBLE]
        held = [each for each, entry in pairs if entry in self.entries and each.code not in UNSUPPRESSIBLE]
        edits = {each.fix.edits for each in held if each.fix and each.fix.edits}
        return withhold(new, dict.fromkeys(edits, "the fix would also fix a finding of the baseline"))


class Compared(NamedTuple):
    """What a run has found beside the baseline, and what it has seen of that."""

    outcomes: list[Outcome]
    held: int
    stale: list[Entry]
    entries: list[Entry]  # of the baseline, as it would be after this run


class Baseline:
    """The entries of one file, which need not exist where it `may_be_missing`.

    Raises:
        SettingsError: the file can't be read, or is something else.
    """

    def __init__(self, path: str, *, may_be_missing: bool = False) -> None:
        self.path = path
        self._folder = os.path.realpath(os.path.dirname(absolute(path)))
        self._entries: dict[str, set[Entry]] = defaultdict(set)
        for each in self._read(may_be_missing):
            self._entries[each.path].add(each)

    def _read(self, may_be_missing: bool) -> list[Entry]:
        try:
            data = contents(self.path)
        except FileNotFoundError:
            if may_be_missing:
                return []
            raise SettingsError(f"{self.path}: no such file; --write-baseline creates it") from None
        except OSError as error:
            raise SettingsError(f"{self.path}: {error.strerror or error}") from None
        try:
            made = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise SettingsError(f"{self.path}: not a baseline of amplint: {error}") from None
        if not isinstance(made, dict) or _FORMAT not in made:
            raise SettingsError(f"{self.path}: not a baseline of amplint")
        if made[_FORMAT] != _VERSION:
            raise SettingsError(f"{self.path}: a baseline of another version of amplint")
        listed = made.get("findings")
        entries = [_entry(each) for each in listed] if isinstance(listed, list) else [None]
        if None in entries:
            raise SettingsError(f"{self.path}: entry {entries.index(None) + 1} of the baseline is broken")
        return [each for each in entries if each]

    def known(self, filename: str) -> Known:
        """What is held back of a file."""
        path = absolute(filename)
        path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        with suppress(ValueError):  # on another drive of Windows
            path = os.path.relpath(path, self._folder)
        path = path.replace(os.sep, "/")
        return Known(path, frozenset(self._entries.get(path, ())))

    def compare(
        self, files: Iterable[str], outcomes: Iterable[Outcome], codes: Callable[[str], frozenset[str]]
    ) -> Compared:
        """What a run over `files`, each with the rules of `codes`, has come to, without what is held back.

        An entry is stale where its file was read and its rule ran, or where its file is gone. What was not looked at
        stays as it is.
        """
        looked_at: set[str] = set()
        compared: list[Outcome] = []
        entries, stale, held = set[Entry](), list[Entry](), 0
        for filename, outcome in zip(files, outcomes, strict=True):
            known, result = self.known(filename), outcome.result
            findings = result.findings if result else ()
            source = result.source if result else None
            now = known.of(source, findings) if source else []
            new = known.new(source, findings) if source else list(findings)
            compared.append(outcome._replace(result=result._replace(findings=tuple(new)) if result and new else None))
            held += len(findings) - len(new)
            read = _is_read(outcome)
            gone = sorted(each for each in known.entries.difference(now) if read and each.code in codes(filename))
            stale += gone
            entries.update(known.entries.difference(gone), (each for each in now if each.code not in UNSUPPRESSIBLE))
            looked_at.add(known.path)
        for path in sorted(self._entries.keys() - looked_at):
            if self._is_there(path):
                entries.update(self._entries[path])
            else:
                stale += sorted(self._entries[path])
        return Compared(compared, held, stale, sorted(entries))

    def _is_there(self, path: str) -> bool:
        return os.path.exists(os.path.join(self._folder, path))

    def write(self, entries: list[Entry]) -> tuple[int, int, int, int]:
        """Make `entries` what it holds; how many they are, in how many files, how many are new, and how many gone.

        Raises:
            OSError: it can't be written.
        """
        from amplint.files.atomic_write import put  # noqa: PLC0415 - a baseline is mostly read

        before = {each for some in self._entries.values() for each in some}
        put(self.path, _text(entries).encode())
        self._entries.clear()
        for each in entries:
            self._entries[each.path].add(each)
        return len(entries), len(self._entries), len(set(entries) - before), len(before.difference(entries))


def _is_read(outcome: Outcome) -> bool:
    """Whether a file was read, so that what isn't found in it is not there."""
    findings = outcome.result.findings if outcome.result else ()
    return not outcome.error and all(each.code not in UNSUPPRESSIBLE for each in findings)


def _text(entries: list[Entry]) -> str:
    lines = ",".join(f"\n    {json.dumps(each._asdict())}" for each in entries)
    listed = f"[{lines}\n  ]" if entries else "[]"
    return f'{{\n  "{_FORMAT}": {_VERSION},\n  "findings": {listed}\n}}\n'


def _entry(made: Any) -> Entry | None:
    if not isinstance(made, dict):
        return None
    path, code, fingerprint = (made.get(field) for field in Entry._fields)
    if not (isinstance(path, str) and isinstance(code, str) and isinstance(fingerprint, str)):
        return None
    return Entry(path, meant_by(code), fingerprint)  # a rule may have another code by now
