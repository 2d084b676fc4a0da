from __future__ import annotations

import ast
import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplint.sources.source import Source, SourceError

BOM = codecs.BOM_UTF8


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"", "utf-8"),
        (b"x = 1\n", "utf-8"),
        (b"# coding: latin-1\n", "iso8859-1"),
        (b"#!/usr/bin/python\n# -*- coding: cp1252 -*-\n", "cp1252"),
        (b"\n# vim: set fileencoding=koi8-r :\n", "koi8-r"),
        (b"\x0c# coding: latin-1\n", "iso8859-1"),
        (b"# hello\r# coding: latin-1\r", "iso8859-1"),
        (b"# coding: utf-8-unix\n", "utf-8"),
        (b"# coding: Latin_1-dos\n", "iso8859-1"),
        (b"x = 1\n# coding: latin-1\n", "utf-8"),
        (b"\n\n# coding: latin-1\n", "utf-8"),
        (b"x = 1\r# coding: latin-1\r", "utf-8"),
        (b"'coding: latin-1'\n", "utf-8"),
        (BOM + b"# coding: utf-8\n", "utf-8"),
    ],
)
def test_the_encoding_is_the_one_that_python_takes(data: bytes, encoding: str) -> None:
    assert Source.from_bytes(data, "file.py").encoding == encoding


@pytest.mark.parametrize(
    ("data", "row", "message"),
    [
        (b"# coding: nope\n", 1, "unknown encoding 'nope'"),
        (b"#!python\n# coding: rot13\n", 2, "can't be the encoding"),
        (BOM + b"# coding: latin-1\n", 1, "contradicts"),
        (BOM + b"# coding: utf8\n", 1, "contradicts"),  # Python takes no other name for it
        (b"a\nb = '\xe9'\n", 2, "not valid utf-8"),
        (b"a\r\rb = '\xe9'\r", 3, "not valid utf-8"),
        (b"a\r\nb = '\xe9'\r\n", 2, "not valid utf-8"),
        (b"a\nb\0\n", 2, "null bytes"),
        (b"# coding: utf-16\nx = 1\n", 1, "can't be the encoding"),
        (b"# coding: undefined\n", 1, "not valid undefined"),
        ("x = 1".encode("utf-16"), 1, "null bytes"),
    ],
)
def test_what_is_no_text_is_refused_with_its_line(data: bytes, row: int, message: str) -> None:
    with pytest.raises(SourceError, match=message) as caught:
        Source.from_bytes(data, "file.py")
    assert caught.value.row == row


@given(st.text(alphabet="ab#é\n\r\f\x0b\x1c\u2028 =", max_size=40), st.sampled_from(["utf-8", "latin-1", "cp1252"]))
def test_bytes_come_back_as_they_were(text: str, encoding: str) -> None:
    try:
        data = f"# coding: {encoding}\n{text}".encode(encoding)
    except UnicodeEncodeError:
        return
    for each in (data, BOM + data if encoding == "utf-8" else data):
        source = Source.from_bytes(each, "file.py")
        assert source.encode(source.text) == each


def test_a_character_that_the_encoding_lacks_is_an_error() -> None:
    source = Source.from_bytes(b"# coding: latin-1\n", "file.py")
    with pytest.raises(SourceError, match="€"):
        source.encode("€")


@given(st.text(alphabet="ab\n\r\f\x0b\x1c\x85\u2028", max_size=30))
def test_places_and_offsets_say_the_same(text: str) -> None:
    source = Source("file.py", text)
    for offset in range(len(text) + 1):
        row, column = source.location(offset)
        assert source.row(offset) == row
        assert source.offset(row, column) == offset
    assert "".join(source.line(row) for row in range(1, len(source.line_starts) + 1)) == text.replace("\r", "").replace(
        "\n", ""
    )


@given(st.lists(st.sampled_from(["x = 1", "\n", "\r\n", "\r", "\f", "'\x85'", "'\u2028'", "# \x0b", "'''a\r\nb'''"])))
def test_rows_are_python_s(parts: list[str]) -> None:
    text = "".join(parts)
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    source = Source("file.py", text)
    for node in tree.body:
        if isinstance(node, ast.Assign):
            assert source.line(node.lineno).encode()[node.col_offset :].startswith(b"x = 1")


@pytest.mark.parametrize(("text", "newline"), [("a\nb\r\n", "\n"), ("a\r\nb\n", "\r\n"), ("a\rb\n", "\r"), ("a", "\n")])
def test_the_first_line_end_is_the_file_s(text: str, newline: str) -> None:
    assert Source("file.py", text).newline == newline
