"""Mutations of how a program is written down: line ends, encodings, tabs, what stands before the first line."""

from __future__ import annotations

import codecs
import re
from random import Random

_STATEMENT = re.compile(r"(?m)^(?=[ \t]*[^\s#)\]}])")
_ENCODINGS = [
    "latin-1",
    "cp1252",
    "utf-8",
    "utf-8-unix",
    "shift_jis",
    "utf-7",
    "iso-2022-jp",
    "gbk",
    "utf-16",
    "nope",
    "ascii",
]
_WORDS = ["é", "ß", "名前", "\N{GRINNING FACE}", "e\N{COMBINING ACUTE ACCENT}", "\u202e", "\u2028", "\x85", "\xa0", "ﬁ"]


def written(random: Random, text: str) -> bytes:
    """A program's bytes; most of the time with something unusual."""
    if random.random() < 0.4:
        return text.encode("utf-8", "surrogatepass")
    for _ in range(random.choice((1, 1, 2))):
        text = random.choice(_TEXT)(random, text)
    encoding = "utf-8"
    if random.random() < 0.2:
        encoding = random.choice(_ENCODINGS)
        cookie = random.choice(
            ("# coding: {}\n", "# -*- coding: {} -*-\n", "#!/usr/bin/python\n# vim: fileencoding={}\n")
        )
        text = cookie.format(encoding) + text
    try:
        data = text.encode(encoding.removesuffix("-unix"), "ignore")
    except LookupError:
        data = text.encode("utf-8", "surrogatepass")
    if random.random() < 0.2:
        data = codecs.BOM_UTF8 + data
    if random.random() < 0.03:
        at = random.randrange(len(data) + 1)
        data = data[:at] + random.choice((b"\0", b"\xff", b"\xe9", b"\r", random.randbytes(3))) + data[at:]
    return data


def _ends(random: Random, text: str) -> str:
    return text.replace("\n", random.choice(("\r\n", "\r\n", "\r")))


def _mixed_ends(random: Random, text: str) -> str:
    kinds = random.choice((("\n", "\r\n"), ("\n", "\r\n", "\r"), ("\n", "\n", "\n", "\r")))
    return re.sub("\n", lambda _: random.choice(kinds), text)


def _no_last_end(random: Random, text: str) -> str:
    return text.rstrip("\n") + random.choice(("", "", " ", "\\", "  # end", "\f"))


def _more_ends(random: Random, text: str) -> str:
    return (
        random.choice(("\n", "\n\n\f\n", " \n\t\n", "\\\n", "#!\n")) * 2 + text + random.choice(("", "\n\n", "\n \n\t"))
    )


def _tabs(random: Random, text: str) -> str:
    return re.sub(r"(?m)^( {4})+", lambda found: "\t" * (len(found[0]) // 4), text)


def _form_feeds(random: Random, text: str) -> str:
    kind = random.choice(("\f", "\f\n", " \f", "\n\f\n", "\\\n"))
    return _STATEMENT.sub(lambda _: kind if random.random() < 0.15 else "", text)


def _trailing_space(random: Random, text: str) -> str:
    return re.sub("\n", lambda _: random.choice(("\n", "\n", " \n", "\t\n", " \f\n")), text)


def _wide_words(random: Random, text: str) -> str:
    """Characters that are no ASCII in comments, strings and names."""
    word = random.choice(_WORDS)
    kind = random.choice(("#", '"', "'", r"\b[a-z]\w+\b"))
    return re.sub(kind, lambda found: found[0] + word if random.random() < 0.2 else found[0], text)


def _wide_line(random: Random, text: str) -> str:
    """Statements in front of others on their lines, so that columns in characters and in bytes differ."""
    word = random.choice(_WORDS[:5])
    return re.sub(
        r"(?m)^( +)(?=[a-z_.]+(?: = |\())",
        lambda found: f"{found[0]}'{word}'; " if random.random() < 0.3 else found[0],
        text,
    )


_TEXT = (
    _ends, _ends, _mixed_ends, _no_last_end, _more_ends, _tabs, _form_feeds, _trailing_space, _wide_words, _wide_line,
)  # fmt: skip
