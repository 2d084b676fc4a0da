"""Fixes change nothing outside of their edits, whatever a file's encoding, line ends and layout are."""

from __future__ import annotations

import ast
import codecs
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple
from unittest.mock import patch

from amplint.base.findings import Fix
from amplint.engine import file as engine
from amplint.engine.file import check_bytes, fix_bytes
from amplint.sources.load import load
from amplint.sources.source import Source
from tests.unbreakable.tree import DEFAULT, ROOT

_UMLAUTS = "# Größe\n"


def _tabs(text: str) -> str:
    return re.sub(r"^(?: {4})+", lambda found: "\t" * (len(found[0]) // 4), text, flags=re.MULTILINE)


def _mixed(text: str) -> str:
    ends = "\r\n", "\n", "\r"
    return "".join(line[:-1] + ends[at % 3] for at, line in enumerate(text.splitlines(keepends=True)))


VARIANTS: dict[str, Callable[[str], bytes]] = {
    "as it is": str.encode,
    "CRLF": lambda text: text.replace("\n", "\r\n").encode(),
    "CR": lambda text: text.replace("\n", "\r").encode(),
    "mixed newlines": lambda text: _mixed(text).encode(),
    "byte order mark": lambda text: codecs.BOM_UTF8 + text.encode(),
    "no final newline": lambda text: text.rstrip("\n").encode(),
    "tabs": lambda text: _tabs(text).encode(),
    "form feeds": lambda text: re.sub(r"^(?=def |class )", "\f", text, flags=re.MULTILINE).encode(),
    "latin-1": lambda text: ("# coding: latin-1\n" + _UMLAUTS + text).encode("latin-1", "replace"),
}


class Counts(NamedTuple):
    """Files that were fixed, in how many rounds, with how many edits."""

    files: int = 0
    rounds: int = 0
    edits: int = 0


def fixtures(step: int = 1) -> list[str]:
    """The texts of the fixtures' bad halves, or of each `step`-th."""
    folders = (ROOT / "fixtures").glob("AMP*/*")
    paths = (path for folder in folders for path in [*folder.glob("bad.py"), *folder.glob("bad/*.py")])
    return [path.read_text("utf-8") for path in sorted(paths)[::step]]


def check(texts: Iterable[str]) -> Counts:
    """Fix texts in all variants.

    Raises:
        AssertionError: something changed that no edit is about.
    """
    counts = Counts()
    for text in texts:
        for name, make in VARIANTS.items():
            with patch.object(engine, "_round", _recording(rounds := [], engine._round)):
                _check(name, make(text), rounds)
            made = [done for _, done, _ in rounds if done]
            edits = sum(len(fix.edits) for done in made for fix in done)
            counts = Counts(counts.files + bool(made), counts.rounds + len(made), counts.edits + edits)
    return counts


_Round = tuple[str, list[Fix], str]


def _recording(rounds: list[_Round], make: Callable[..., tuple[str, list[Fix], object]]) -> Callable[..., object]:
    def record(source: Source, fixes: list[Fix]) -> object:
        text, done, broken = make(source, fixes)
        rounds.append((source.text, done, text))
        return text, done, broken

    return record


def _check(name: str, data: bytes, rounds: list[_Round]) -> None:
    reported = [finding.fix for finding in check_bytes(data, "file.py", DEFAULT).findings]
    fixed = fix_bytes(data, "file.py", DEFAULT, unsafe=True)
    for at, (old, done, new) in enumerate(rounds):
        assert at > 0 or all(fix in reported for fix in done)
        assert new == _edited(old, done)
        for fix in done:
            # What takes a statement out takes its comment along; all else keeps them.
            added = "".join(edit.content for edit in fix.edits)
            gone = "".join(f"{old[edit.start : edit.end]}\n" for edit in fix.edits)
            assert not added or all(comment in added for comment in re.findall(r"#[^\r\n]*", gone)), fix
    assert (load(fixed.data, "file.py").text == rounds[-1][2]) if rounds else fixed.data == data
    ast.parse(fixed.data)
    again = fix_bytes(fixed.data, "file.py", DEFAULT, unsafe=True)
    assert again.data == fixed.data, "a second run changes more"
    assert fixed.data.startswith(codecs.BOM_UTF8) == data.startswith(codecs.BOM_UTF8)
    assert fixed.data.count(b"\f") == data.count(b"\f")
    assert fixed.data.endswith((b"\n", b"\r")) == data.endswith((b"\n", b"\r"))
    if name in ("CRLF", "CR", "as it is"):
        assert _ends(fixed.data) <= _ends(data)


def _edited(text: str, fixes: list[Fix]) -> str:
    """The text with edits made from its end to its start, and nothing else."""
    edits = dict.fromkeys(edit for fix in fixes for edit in fix.edits)
    for start, end, content in sorted(edits, key=lambda edit: edit[:2])[::-1]:
        text = text[:start] + content + text[end:]
    return text


def _ends(data: bytes) -> set[bytes]:
    return set(re.findall(rb"\r\n|\r|\n", data))
