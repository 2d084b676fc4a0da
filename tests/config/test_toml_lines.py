"""Where things stand in a TOML document, held against what its parser reads of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplint.config.toml_lines import Place, lines_of, parse_toml
from tests.conftest import processor_time

DOCUMENT = '''\
# select = ["AMP1"]
[tool.amplint]
select = ["AMP1", # x = [
  'AMP2',

  "AMP3"]
"quo.ted" = 1
a.b . "c" = {x = 1, y = [1, 2]}
date = 1979-05-27 07:32:00
m = """
ignore = "no"
"" a""\\""""
n = \'\'\'
[fake]
\'\'\'\'\'
after = 3
[[arr]]
x = 1
[[arr]]
x = 2
[arr.sub]
y = 3
[tool.amplint.per-file-ignores]
"tests/*" = ["AMP4",
    "AMP9"]
'''


def test_lines() -> None:
    parse_toml(DOCUMENT)
    amplint = ("tool", "amplint")
    expected: dict[Place, int] = {
        ("tool",): 2,
        amplint: 2,
        (*amplint, "select"): 3,
        (*amplint, "select", 0): 3,
        (*amplint, "select", 1): 4,
        (*amplint, "select", 2): 6,
        (*amplint, "quo.ted"): 7,
        (*amplint, "a"): 8,
        (*amplint, "a", "b"): 8,
        (*amplint, "a", "b", "c"): 8,
        (*amplint, "a", "b", "c", "x"): 8,
        (*amplint, "a", "b", "c", "y"): 8,
        (*amplint, "a", "b", "c", "y", 0): 8,
        (*amplint, "a", "b", "c", "y", 1): 8,
        (*amplint, "date"): 9,
        (*amplint, "m"): 10,
        (*amplint, "n"): 13,
        (*amplint, "after"): 16,
        ("arr",): 17,
        ("arr", 0): 17,
        ("arr", 0, "x"): 18,
        ("arr", 1): 19,
        ("arr", 1, "x"): 20,
        ("arr", 1, "sub"): 21,
        ("arr", 1, "sub", "y"): 22,
        (*amplint, "per-file-ignores"): 23,
        (*amplint, "per-file-ignores", "tests/*"): 24,
        (*amplint, "per-file-ignores", "tests/*", 0): 24,
        (*amplint, "per-file-ignores", "tests/*", 1): 25,
    }
    assert lines_of(DOCUMENT) == expected
    assert lines_of(DOCUMENT.replace("\n", "\r\n")) == expected


WORDS = st.text(st.sampled_from("ab.=[]{}#,\"' \\é\n"), max_size=6)
VALUES = st.recursive(
    st.one_of(WORDS, st.booleans(), st.integers(-5, 5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=3)),
    max_leaves=8,
)


class Writer:
    """Writes a document in one of the ways there are, and remembers on which line each thing is."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.text = ""
        self.lines: dict[Place, int] = {}

    def here(self, place: Place) -> None:
        self.lines.setdefault(place, self.text.count("\n") + 1)

    def word(self, word: str) -> str:
        if "'" not in word and "\n" not in word and self.draw(st.booleans()):
            return f"'{word}'"
        escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'

    def gap(self) -> None:
        self.text += self.draw(st.sampled_from(["", " ", "\n", " # ] \" '\n", "\n\n\t"]))

    def value(self, place: Place, value: Any) -> None:
        if isinstance(value, list):
            self.text += "["
            for index, each in enumerate(value):
                self.gap()
                self.here((*place, index))
                self.value((*place, index), each)
                self.gap()
                self.text += ","
            self.gap()
            self.text += "]"
        elif isinstance(value, dict):
            self.text += "{"
            for index, (key, each) in enumerate(value.items()):
                self.text += ", " if index else " "
                self.here((*place, key))
                self.text += f"{self.word(key)} = "
                self.value((*place, key), each)
            self.text += "}"
        elif isinstance(value, str) and "'''" not in value and not value.endswith("'") and self.draw(st.booleans()):
            self.text += f"'''\n{value}'''"
        else:
            self.text += self.word(value) if isinstance(value, str) else str(value).lower()


@given(st.dictionaries(WORDS, VALUES, max_size=4), st.data())
def test_lines_of_any_document(document: dict[str, Any], data: st.DataObject) -> None:
    writer = Writer(data.draw)
    table: Place = ()
    for number, (key, value) in enumerate(document.items()):
        writer.text += data.draw(st.sampled_from(["", "\n", "# [x] = '''\n"]))
        if data.draw(st.booleans()):
            table = (f"t{number}", "u")
            writer.here(table[:1])
            writer.here(table)
            writer.text += f"[ {table[0]} . u ]  # x\n"
        writer.here((*table, key))
        writer.text += f"{writer.word(key)} = "
        writer.value((*table, key), value)
        writer.text += "\n"
    try:
        parse_toml(writer.text)
    except ValueError:  # an inline table has to be on one line, before Python 3.15
        assert "{" in writer.text
        return
    assert lines_of(writer.text) == {place: line for place, line in writer.lines.items() if len(place) <= 8}


@pytest.mark.parametrize(
    "text",
    [
        "a." * 500_000 + "a = 1",
        "[" + "a." * 500_000 + "a]",
        'x = {"=" ' + '."="' * 200_000 + " = 1}",
        ("." + "a" * 9_999) * 100,
        "x = " + "[" * 500_000,
        "x = " + "[" * 300 + "1," * 100_000 + "]" * 300,
        "x = '''" + "'' " * 300_000 + "'''",
        'x = "' + "\\\\" * 500_000 + '"',
        "\n" * 300_000,
        "".join(f"[{'a.' * 90}b{number}]\nx = 1\n" for number in range(500)),
    ],
    ids=["key", "header", "quoted", "long", "nested", "deep", "quotes", "escapes", "lines", "tables"],
)
def test_no_document_takes_for_ever(text: str) -> None:
    with processor_time(at_most=100):
        try:
            parse_toml(text)
        except ValueError:
            pass
        else:
            lines_of(text)
