from __future__ import annotations

import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amplint.base.edits import apply, unified_diff, validate
from amplint.base.findings import Applicability, Edit, Finding, Fix, Severity


def fix(*edits: tuple[int, int, str], message: str = "") -> Fix:
    return Fix(Applicability.SAFE, message, tuple(Edit(*edit) for edit in edits))


def finding(code: str, fix: Fix | None = None) -> Finding:
    return Finding(0, 1, code, "some-name", Severity.ERROR, "Message", fix)


def test_edits_are_made_by_place() -> None:
    text, applied = apply("abcdef", [fix((4, 5, "E"), (0, 1, "A"))])
    assert text == "AbcdEf"
    assert len(applied) == 1


def test_the_first_of_two_overlapping_fixes_wins() -> None:
    one, two, three = fix((0, 3, "x")), fix((2, 4, "y"), (5, 6, "z")), fix((4, 5, "w"))
    assert apply("abcdef", [one, two, three]) == ("xdwf", [one, three])
    assert apply("abcdef", [two, one, three]) == ("abyez", [two])


@pytest.mark.parametrize("other", [(2, 3, "y"), (2, 2, "y"), (0, 0, "y"), (0, 2, "y"), (1, 1, "y"), (0, 5, "y")])
def test_fixes_that_touch_wait_for_the_next_round(other: tuple[int, int, str]) -> None:
    first = fix((0, 2, "x"))
    assert apply("abcdef", [first, fix(other)]) == ("xcdef", [first])


def test_two_different_insertions_at_one_place_are_not_ordered_by_guess() -> None:
    one, two = fix((1, 1, "x")), fix((1, 1, "y"))
    assert apply("ab", [one, two]) == ("axb", [one])


def test_an_edit_that_two_fixes_share_is_made_once() -> None:
    one, two = fix((0, 0, "import x\n"), (3, 4, "D")), fix((0, 0, "import x\n"), (5, 6, "F"))
    assert apply("abcdef", [one, two]) == ("import x\nabcDeF", [one, two])


def test_findings_that_share_a_fix_are_all_fixed_by_it() -> None:
    one = fix((0, 1, "A"), message="first")
    two = fix((0, 1, "A"), message="second")
    assert apply("ab", [one, two]) == ("Ab", [one, two])


def test_what_one_fix_inserts_at_one_place_keeps_its_order() -> None:
    text, _ = apply("ab", [fix((1, 1, "z"), (1, 1, "y"), (1, 2, "B"))])
    assert text == "azyB"


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 3), st.sampled_from(["", "x", "yy"])), max_size=8))
def test_applied_fixes_are_apart_and_the_rest_of_the_text_stays(places: list[tuple[int, int, str]]) -> None:
    text = "abcdefghijkl"
    fixes = [fix((start, start + length, content)) for start, length, content in places]
    new, applied = apply(text, fixes)
    made = sorted({each.edits[0] for each in applied})
    assert all(one.end < other.start for one, other in pairwise(made))
    for edit in reversed(made):
        text = text[: edit.start] + edit.content + text[edit.end :]
    assert new == text
    for each in fixes:
        start, end, _ = each.edits[0]
        assert each in applied or any(other.start <= end and start <= other.end for other in made)


@pytest.mark.parametrize(
    "found",
    [
        finding("AMP900", fix((0, 11, ""))),
        finding("AMP900", fix((-1, 1, ""))),
        finding("AMP900", fix((3, 2, ""))),
        finding("AMP900", fix((0, 3, ""), (2, 4, ""))),
        finding("AMP900", fix((1, 4, "a"), (1, 4, "b"))),
        finding("AMP900")._replace(start=4, end=3),
        finding("AMP900")._replace(start=4, end=11),
        finding("AMP900")._replace(start=-1),
    ],
)
def test_findings_outside_of_the_text_are_refused(found: Finding) -> None:
    with pytest.raises(ValueError, match=r"finding at|edit outside|overlap"):
        validate(found, 10)


def test_findings_within_the_text_are_fine() -> None:
    validate(finding("AMP900", fix((0, 10, ""), (0, 0, "a"), (10, 10, "b"))), 10)


OLD = "".join(f"line {i}\n" for i in range(12))
TEXTS = {
    "plain": (OLD.encode(), OLD.replace("line 6", "other").encode()),
    "crlf": (OLD.replace("\n", "\r\n").encode(), OLD.replace("\n", "\r\n").replace("line 6", "é").encode()),
    "cr only": (OLD.replace("\n", "\r").encode(), OLD.replace("\n", "\r").replace("line 6", "x").encode()),
    "mixed": (b"a\r\nb\nc\rd\n\x0ce\x85\xe2\x80\xa8f\n", b"a\r\nB\nc\rD\n\x0ce\x85\xe2\x80\xa8F\n"),
    "bom": (b"\xef\xbb\xbfa = 1\nb\n", b"\xef\xbb\xbfa = 2\nb\n"),
    "latin-1": (b"# \xe9\xe8\nx\n# \xff\n", b"# \xe9\xe8\ny\n# \xff\n"),
    "no newline at the end": (b"a\nb", b"a\nc"),
    "newline lost": (b"a\nb\n", b"a\nb"),
    "newline added": (b"a\nb", b"a\nb\n"),
    "unchanged end without newline": (OLD.encode() + b"end", OLD.replace("line 10", "x").encode() + b"end"),
    "emptied": (b"a\n", b""),
    "filled": (b"", b"a\n"),
    "first and last line": (OLD.encode(), b"first\n" + OLD.encode() + b"last"),
    "lines like a header": (b"-- a\n++ b\nc\n", b"-- x\n++ y\nc\n"),
}
PATHS = ["file.py", "a directory/with space.py", "pkg/naïve.py", 'quo"te.py', "back\\slash.py", "tab\there.py"]


def patched(tool: list[str], directory: Path, path: str, old: bytes, diff: bytes) -> bytes:
    file = directory / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(old)
    done = subprocess.run(tool, cwd=directory, input=diff, capture_output=True, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr, diff)
    return file.read_bytes() if file.exists() else b""


GIT = ["git", "apply", "--whitespace=nowarn", "-"]
PATCH = ["patch", "-p1", "--binary", "--no-backup-if-mismatch"]


@pytest.mark.parametrize("tool", [GIT, PATCH], ids=["git", "patch"])
@pytest.mark.parametrize("name", TEXTS)
def test_diffs_are_taken_by_the_tools(tmp_path: Path, tool: list[str], name: str) -> None:
    if shutil.which(tool[0]) is None:
        pytest.skip(f"{tool[0]} is not installed")
    old, new = TEXTS[name]
    diff = unified_diff(old, new, "file.py")
    assert patched(tool, tmp_path, "file.py", old, diff) == new


@pytest.mark.parametrize("tool", [GIT, PATCH], ids=["git", "patch"])
@pytest.mark.parametrize("path", PATHS)
def test_diffs_name_their_file_so_that_the_tools_find_it(tmp_path: Path, tool: list[str], path: str) -> None:
    if shutil.which(tool[0]) is None:
        pytest.skip(f"{tool[0]} is not installed")
    diff = unified_diff(b"a\nb\n", b"a\nc\n", path)
    assert patched(tool, tmp_path, path, b"a\nb\n", diff) == b"a\nc\n"


@settings(max_examples=25)
@given(
    *[st.lists(st.sampled_from([b"a", b"b\n", b"\n", b"c\r\n", b"\r", b"\xe9", b"-- x\n"]), max_size=12).map(b"".join)]
    * 2
)
def test_any_diff_is_taken_by_git(tmp_path_factory: pytest.TempPathFactory, old: bytes, new: bytes) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    diff = unified_diff(old, new, "file.py")
    assert bool(diff) == (old != new)
    if diff:
        assert patched(GIT, tmp_path_factory.mktemp("any"), "file.py", old, diff) == new


def test_an_absolute_path_is_named_below_the_prefix() -> None:
    assert unified_diff(b"a\n", b"b\n", "/tmp/x.py").startswith(
        b"--- a/tmp/x.py\n+++ b/tmp/x.py\n@@ -1 +1 @@\n-a\n+b\n"
    )
