from __future__ import annotations

import ast
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amplint.api import check, fix
from amplint.base.paths import TooLargeError
from amplint.config.settings import Settings
from amplint.engine.file import check_bytes, fix_bytes, fix_text
from amplint.registry import all_rules
from tests.conftest import processor_time

EVERYTHING = Settings(frozenset(all_rules()), isolated=True)
LEGACY = b"\nfrom torch.cuda.amp import GradScaler\nscaler = GradScaler()\n"


def found(data: bytes) -> list[tuple[str, int, int, str]]:
    """Code, row, column and message of each finding."""
    result = check_bytes(data, "file.py", EVERYTHING)
    if result.source is None:
        assert result.findings == ()
        return []
    return [(each.code, *result.source.location(each.start), each.message) for each in result.findings]


@pytest.mark.parametrize("data", [b"", b"\n", b"\xef\xbb\xbf", b"\x0c", b"#", b"# \xc3\xa9", b"\r\r\r", b"\t"])
def test_there_is_nothing_in_nothing(data: bytes) -> None:
    assert found(data) == []
    assert fix_bytes(data, "file.py", EVERYTHING, unsafe=True).data == data


@pytest.mark.parametrize("amp", [b"", LEGACY], ids=["without", "with AMP"])
@pytest.mark.parametrize(
    ("data", "row", "message"),
    [
        (b"a = 1\nb = '\xe9'\n", 2, "not valid utf-8: invalid continuation byte at byte 11"),
        (b"a = 1\nb = \0\n", 2, "source code cannot contain null bytes"),
        (b"# coding: latin-1\n\0", 2, "source code cannot contain null bytes"),
        ("a = 1\n".encode("utf-16"), 1, "source code cannot contain null bytes"),
        (b"\x80\x04\x95\x00\x00 a pickle", 1, "source code cannot contain null bytes"),
    ],
)
def test_bytes_that_are_no_text_are_one_line(data: bytes, row: int, message: str, amp: bytes) -> None:
    assert found(data + amp) == [("AMP001", row, 1, message)]


@pytest.mark.parametrize("cookie", [b"# coding: latin-1", b"# -*- coding: cp1252 -*-", b"# coding: latin-1-unix"])
def test_declared_encodings_are_honoured(cookie: bytes) -> None:
    data = cookie + b"\n# \xe9\xe8" + LEGACY
    assert [each[:3] for each in found(data)] == [("AMP102", 4, 10)]
    fixed = fix_bytes(data, "file.py", EVERYTHING, unsafe=False).data
    assert fixed == cookie + b'\n# \xe9\xe8\nfrom torch.amp import GradScaler\nscaler = GradScaler("cuda")\n'


def test_an_unknown_encoding_is_one_line() -> None:
    assert found(b"# coding: nope" + LEGACY) == [("AMP001", 1, 1, "unknown encoding 'nope'")]


@pytest.mark.parametrize(
    ("data", "row", "message"),
    [
        (b"x = 1\nz = [\n", 2, "was never closed"),
        (b"def f(:\n    pass\n", 1, "invalid syntax"),
        (b"print 'hello'\n", 1, "Missing parentheses"),
        (b"x = " + b"(" * 3000 + b")" * 3000, 1, "too many nested parentheses"),
        (b"if a:\n    pass\n" + b"elif b:\n    pass\n" * 10_000, None, "can't read it"),
        (b"x = " + b" + ".join([b"a"] * 10_000), None, "can't read this code"),
        (b"x = a" + b".b()" * 10_000, None, "can't read this code"),
        (b"\n".join(b" " * n + b"if a:" for n in range(150)), 101, "too many levels of indentation"),
    ],
)
def test_what_can_t_be_parsed_is_one_line(data: bytes, row: int | None, message: str) -> None:
    with processor_time(at_most=30):
        ((code, found_row, _, said),) = found(data + LEGACY)
    assert code == "AMP001"
    assert row in (None, found_row)
    assert message in said
    assert fix_bytes(data + LEGACY, "file.py", EVERYTHING, unsafe=True).data == data + LEGACY


def test_tabs_that_libcst_does_not_take_are_named_with_their_line() -> None:
    """Python takes a function whose body is indented by tabs and blanks in a class that is indented by blanks."""
    text = b"class F:\n    def f(\n    self):\n        if self:\n            x()\n        return 1\n"
    text += b"    def g(self):\n\t\t    return torch.cuda.amp.GradScaler()\n"
    ast.parse(text)
    ((code, row, _, message),) = found(b"import torch\n" + text)
    assert (code, row) == ("AMP001", 9)
    assert (
        message
        == "amplint can't read this code yet: blanks indent some lines of a block and tabs others: use one of them"
    )


def test_syntax_newer_than_the_interpreter_names_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amplint.sources.parsing._PYTHON", "Python 3.5")
    ((_, row, _, message),) = found(b"x = 1\nnewer import torch\n" + LEGACY)
    assert (row, message) == (
        2,
        "invalid syntax (as Python 3.5 reads it; for code of a newer Python run amplint on that)",
    )


def test_syntax_that_only_python_knows_is_said_to_be_our_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when libcst is older than the interpreter."""
    monkeypatch.setattr("amplint.engine.reading.parse", lambda source: ast.parse(source.text.replace("newer ", "")))
    ((code, _, _, message),) = found(b"x = 1\nnewer import torch\n" + LEGACY)
    assert code == "AMP001"
    assert message.startswith("amplint can't read this code yet: ")


@pytest.mark.parametrize(
    "text",
    [
        b"x = " + b" + ".join([b"a"] * 500),
        b"x = a" + b".b()" * 300,
        b"if a:\n    pass\n" + b"elif b:\n    pass\n" * 300,
    ],
)
def test_what_is_long_hides_nothing(text: bytes) -> None:
    ((code, row, column, _),) = found(text + LEGACY)
    assert (code, row, column) == ("AMP102", text.count(b"\n") + 3, 10)


@pytest.mark.parametrize(
    "head", [b"\\\n", b"x = 1\n\\\n", b"\x0c", b"x = 1\n\x0c", b"x = 1\n\\\r\n\\\n", b"\\\r", b"x = 1\r\\\r"]
)
def test_what_libcst_forgets_shifts_nothing(head: bytes) -> None:
    """Its tree lacks form feeds and continued empty lines in front of a statement."""
    data = head + b"import torch; s = torch.cuda.amp.GradScaler()\n"
    after = head + b'import torch; s = torch.amp.GradScaler("cuda")\n'
    fixed = fix_bytes(data, "file.py", EVERYTHING, unsafe=False)
    assert "AMP000" not in [each.code for each in fixed.result.findings]
    assert fixed.data == after or (fixed.data == data and b"\\" in head)


@settings(max_examples=15)
@given(
    st.lists(st.sampled_from(["", "", "", "\f", "\f\f", " \f", "\t\f"]), min_size=9, max_size=9),
    st.sampled_from(["\n", "\r\n"]),
)
def test_form_feeds_before_code_shift_nothing(feeds: list[str], end: str) -> None:
    lines = [
        "import torch",
        "",
        "def train(model, loss):",
        "    with torch.cuda.amp.autocast():",
        "        loss(model(",
        "            1)).backward()",
        "    # a comment",
        "    if model: s = torch.cuda.amp.GradScaler()",
        "class A: s = torch.cuda.amp.GradScaler()",
    ]
    plain, fed = (end.join(each) + end for each in (lines, map("".join, zip(feeds, lines, strict=True))))
    expected = [(code, row, column + len(feeds[row - 1])) for code, row, column, _ in found(plain.encode())]
    assert len(expected) == 4
    assert [each[:3] for each in found(fed.encode())] == expected
    left = [fix_bytes(each.encode(), "file.py", EVERYTHING, unsafe=True).data for each in (plain, fed)]
    one, other = (re.sub(rb"[ \t\f]", b"", each) for each in left)  # a form feed goes with the line that it starts
    assert one == other


@pytest.mark.parametrize(
    "step",
    [
        "loss = loss(model(x))",
        "loss = criterion(model(x))\n        criterion = loss(model(x))",
    ],
)
def test_what_is_made_by_itself_has_an_end(step: str) -> None:
    text = f"""\
def train(model, optimizer, device):
    with torch.autocast(device, dtype=torch.float16):
        {step}
    loss.backward()
    optimizer.step()
"""
    assert [each.message for each in check(text, settings=EVERYTHING) if each.code == "AMP000"] == []


REGION = "import torch\n\nwith torch.autocast('cpu', enabled={}: pass\n"


@pytest.mark.parametrize("value", ["(  # why\n    1))", "(\n    1  # why\n))", "(\n    1\n    # why\n))"])
def test_a_fix_that_would_take_a_comment_away_is_not_offered(value: str) -> None:
    text = REGION.format(value)
    (finding,) = check(text, settings=EVERYTHING)
    assert (finding.code, finding.fix) == ("AMP212", None)
    assert finding.withheld == "the fix would replace a comment"
    assert fix(text, settings=EVERYTHING, unsafe=True) == text


@pytest.mark.parametrize("value", ["1)", "(  \n    1))", "1,  # why\n)", "1, dtype='# no comment')"])
def test_a_comment_beside_a_fix_is_in_nobodys_way(value: str) -> None:
    text = REGION.format(value)
    assert fix(text, settings=EVERYTHING, unsafe=True) == re.sub(r"\(\s*1\)|1", "True", text)


def test_a_big_file_takes_no_long_time() -> None:
    clean = b"".join(b"def f%d(x):\n    return x + %d\n\n" % (i, i) for i in range(160_000))
    assert len(clean) > 5_000_000
    with processor_time(at_most=5):
        assert found(clean) == []
    with processor_time(at_most=30), pytest.raises(TooLargeError, match="not linted: too large"):
        found(clean + LEGACY)


FRAGMENTS = [
    "import torch",
    "from torch.cuda.amp import autocast, GradScaler",
    "torch.cuda.amp.autocast()",
    "GradScaler(",
    "with autocast():",
    "@autocast()",
    "def f(self):",
    "scaler.scale(loss).backward()",
    "scaler.step(optimizer)",
    "for x in y:",
    "if a:",
    "elif b:",
    "else:",
    "try:",
    "finally:",
    "# noqa: AMP102",
    "# amplint: ignore[AMP1]",
    "# amplint: ignore-file[AMP4]",
    "\n",
    "\n    ",
    "\n        ",
    "\r\n",
    "\r",
    "\f",
    "\\",
    "\t",
    " ",
    ";",
    ":",
    "(",
    ")",
    "'",
    '"""',
    'f"{',
    "}",
    "é",
    "\u2028",
    "\ufeff",
    "\0",
    "\ud800",
]


@settings(max_examples=100)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=25).map("".join))
def test_no_text_is_too_odd(text: str) -> None:
    for finding in check(text):
        assert finding.code != "AMP000", finding.message
        assert 0 <= finding.start <= finding.end <= len(text.removeprefix("\ufeff"))


SIMPLE = [
    "import torch",
    "from torch.cuda.amp import autocast, GradScaler",
    "scaler = GradScaler()",
    "scaler = torch.cuda.amp.GradScaler(enabled=flag)",
    "loss = model(x)",
    "loss.backward()",
    "scaler.scale(loss).backward()",
    "scaler.unscale_(optimizer)",
    "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
    "scaler.step(optimizer); scaler.update()",
    "optimizer.step()",
    "x = [autocast() for _ in range(3)]  # noqa: AMP101",
    "return",
    "del scaler",
    "global scaler",
    "x = '''a\n  b'''",
    "x = (1,\n# amplint: ignore[AMP4]\n2)",
    "x = \\\n    GradScaler",
]
HEADERS = [
    "def f(self, scaler=GradScaler()):",
    "async def g():",
    "class A(GradScaler):",
    "@autocast()\ndef h(x):",
    "with autocast():",
    "with torch.autocast('cuda'), other() as y:",
    "for x in y:",
    "while True:",
    "if a:",
    "try:\n    pass\nfinally:",
    "try:\n    pass\nexcept E as scaler:",
    "match x:\n case GradScaler():",
]


def _block(body: list[str], header: str) -> str:
    last = header.rpartition("\n")[2]
    indent = " " * (len(last) - len(last.lstrip()) + 4)
    return header + "".join(f"\n{indent}{line}" for line in "\n".join(body or ["pass"]).split("\n"))


PROGRAMS = st.lists(
    st.recursive(
        st.sampled_from(SIMPLE),
        lambda inner: st.builds(_block, st.lists(inner, max_size=4), st.sampled_from(HEADERS)),
        max_leaves=12,
    ),
    max_size=6,
).map("\n".join)


@settings(max_examples=25)
@given(PROGRAMS)
def test_no_program_is_too_odd(text: str) -> None:
    findings = check(text, settings=EVERYTHING)
    assert [each.message for each in findings if each.code in ("AMP000", "AMP001")] == []
    once = fix(text, settings=EVERYTHING, unsafe=True)
    assert fix(once, settings=EVERYTHING, unsafe=True) == once
    assert [each.message for each in check(once) if each.code in ("AMP000", "AMP001")] == []


@settings(max_examples=100)
@given(
    st.binary(max_size=60),
    st.sampled_from([b"", b"# coding: latin-1\n", b"# coding: utf-7\n", b"# coding: shift_jis\n", b"\xef\xbb\xbf"]),
    st.sampled_from([b"", LEGACY]),
)
def test_no_bytes_are_too_odd(junk: bytes, head: bytes, tail: bytes) -> None:
    data = head + junk + tail
    assert all(code != "AMP000" for code, *_ in found(data))
    once = fix_bytes(data, "file.py", EVERYTHING, unsafe=True)
    again = fix_bytes(once.data, "file.py", EVERYTHING, unsafe=True)
    assert again.data == once.data
    assert again.result.findings == once.result.findings


@pytest.mark.parametrize(
    "line", ["%matplotlib inline", "!pip install -q torch", "%%time", "x = !ls", "out = %time f()", "model?", "?model"]
)
def test_a_command_of_a_notebook_in_a_program_is_called_that(line: str) -> None:
    findings = check(f"import torch\n{line}\nscaler = torch.cuda.amp.GradScaler()\n", "nb.py")
    assert [each.code for each in findings] == ["AMP001", "AMP102"]
    assert findings[0].message == f"line 2, `{line}`, is a command of a notebook: Python can't run it"
    assert findings[1].location.row == 3


EXPORTED = """\
import torch
!nvidia-smi
# %cd in a comment
text = (
    "%d and"
    % 3
)
if text:
    %cd data
scaler = torch.cuda.amp.GradScaler()
out = !ls
"""


def test_the_rest_of_an_exported_notebook_is_fixed_and_its_commands_stay() -> None:
    fixed = fix_bytes(EXPORTED.encode(), "nb.py", EVERYTHING).data.decode()
    assert fixed == EXPORTED.replace("torch.cuda.amp.GradScaler()", 'torch.amp.GradScaler("cuda")')
    assert fix_text(EXPORTED, "nb.py", EVERYTHING) == fixed
    assert [each.location.row for each in check(EXPORTED, "nb.py") if each.code == "AMP102"] == [10]


def test_a_command_beside_another_error_leaves_a_file_unread() -> None:
    [finding] = check(EXPORTED + "x = (\n", "nb.py")
    assert finding.code == "AMP001"


@pytest.mark.parametrize("line", ["x = (", "print 1", "x = 3 !", "% 3", "x = a %% b"])
def test_other_errors_of_syntax_are_python_s(line: str) -> None:
    [finding] = check(f"import torch\n{line}\nscaler = torch.cuda.amp.GradScaler()\n", "nb.py")
    assert "notebook" not in finding.message
