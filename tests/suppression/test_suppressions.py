from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplint import check, fix
from amplint.base.findings import Severity
from amplint.config.settings import Settings
from amplint.engine.file import check_bytes, fix_bytes
from amplint.registry import all_rules
from amplint.sources.source import Source
from amplint.suppression.byte_scan import names_codes
from amplint.suppression.suppressions import Suppressions

EVERYTHING = Settings(frozenset(all_rules()), isolated=True)


def silenced(text: str, code: str, *, at: str = "MARK") -> bool:
    """Whether a finding of `code` at the first `at` is silenced."""
    source = Source("file.py", textwrap.dedent(text))
    start = source.text.index(at)
    finding = all_rules()["AMP101"].finding((start, start + 1), "Message")._replace(code=code)
    return Suppressions(source).keep([finding]) == []


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa",
        "#noqa",
        "# NOQA",
        "#   NoQA",
        "# noqa: AMP101",
        "# noqa:AMP101",
        "# noqa : AMP101",
        "# noqa: amp101",
        "# NOQA:AMP101 for old releases",
        "# noqa: AMP101,AMP4",
        "# noqa: E501 AMP101",
        "# noqa: E501 , AMP101",
        "# noqa: E501,AMP101 # type: ignore",
        "# noqa: AMP1",
        "# noqa: AMP",
        "# noqa:",
        "# type: ignore  # noqa: AMP101",
        "# pragma: no cover # noqa",
        "# amplint: ignore[AMP101]",
        "# amplint:ignore[AMP101,AMP4] old releases",
        "# amplint: ignore[ AMP1 ]",
        "# amplint: ignore [AMP101]",
        "# amplint: ignore\t [AMP401, AMP1]",
        "# amplint: ignore[amp101]",
        "# type: ignore # amplint: ignore[AMP101]",
    ],
)
def test_comments_that_silence(comment: str) -> None:
    assert silenced(f"MARK()  {comment}\n", "AMP101")


@pytest.mark.parametrize(
    "comment",
    [
        "",
        "# noqa: E501",
        "# noqa: AMP102",
        "# noqa: AMP4, E501",
        "# noqa: AMP1010",
        "# noqaAMP101",
        "# no qa",
        "# this is noqa",
        "# flake8: noqa",
        "# amplint: ignore",
        "# amplint: ignore[]",
        "# amplint: ignore[AMP102]",
        "# amplint: ignore [AMP102]",
        "# amplint: ignore[clip]",
        "# amplint: ignore-file",
        "# amplint: ignore-files",
        "# see amplint: ignore[AMP101]",
    ],
)
def test_comments_that_do_not(comment: str) -> None:
    assert not silenced(f"MARK()  {comment}\n", "AMP101")


@pytest.mark.parametrize(
    ("comment", "codes"),
    [
        ("# noqa: AMP401 - clipped on purpose", ["AMP401"]),
        ("# noqa: AMP401 -- see AMP402 and E501", ["AMP401"]),
        ("# noqa: AMP401 because of AMP402", ["AMP401"]),
        ("# noqa: AMP401 (AMP402)", ["AMP401"]),
        ("# noqa: AMP401: AMP402", ["AMP401"]),
        ("# noqa: AMP401 — AMP402", ["AMP401"]),
        ("# noqa: AMP401 amp is off here", ["AMP401"]),
        ("# noqa: AMP401 AMP is off here", ["AMP401"]),
        ("# noqa: AMP401 fp16 overflows", ["AMP401"]),
        ("# noqa: AMP401, fp16 overflows", ["AMP401"]),
        ("# noqa: AMP401 T4s only", ["AMP401"]),
        ("# noqa: AMP401, clip2 is next", ["AMP401"]),
        ("# noqa: AMP401,AMP402,E501 - why", ["AMP401", "AMP402", "E501"]),
        ("# noqa: AMP401 AMP402 E501 why", ["AMP401", "AMP402", "E501"]),
        ("# noqa: AMP401,, AMP402 , E501,why", ["AMP401", "AMP402", "E501"]),
        ("# noqa: AMP401, AMP", ["AMP401", "AMP"]),
        ("# noqa: amp401, amp, e501 - why", ["AMP401", "AMP", "E501"]),
        ("# noqa: amp401 fp16 overflows", ["AMP401"]),
        ("# amplint: ignore[AMP401] because of AMP402", ["AMP401"]),
        ("# amplint: ignore[AMP401 AMP402, E501] why", ["AMP401", "AMP402", "E501"]),
    ],
)
def test_no_codes_are_read_out_of_the_reason(comment: str, codes: list[str]) -> None:
    (directive,) = Suppressions(Source("file.py", f"x = 1  {comment}\n")).directives
    assert [code.text for code in directive.codes or ()] == codes


@pytest.mark.parametrize(
    "text",
    [
        "MARK(\n    a,  # noqa: AMP101\n)\n",
        "MARK(\n    a,\n)  # noqa: AMP101\n",
        "f(  # noqa: AMP101\n    MARK,\n)\n",
        "f(\n    # noqa: AMP101\n    MARK,\n)\n",
        "a = MARK + \\\n    b  # noqa: AMP101\n",
        'MARK("""\n""")  # noqa: AMP101\n',
        "a; MARK(); b  # noqa: AMP101\n",
        "if MARK: pass  # noqa: AMP101\n",
        "with a(\n    MARK,\n) as b:  # noqa: AMP101\n    pass\n",
        "@MARK()  # noqa: AMP101\ndef f():\n    pass\n",
        "def f(\n    a=MARK,\n):  # noqa: AMP101\n    pass\n",
        "\n\n\n    \nMARK()  # noqa: AMP101",
        "if a:\n    pass\nelif MARK:  # noqa: AMP101\n    pass\n",
    ],
)
def test_a_comment_holds_for_all_lines_of_its_statement(text: str) -> None:
    for newline in ("\n", "\r\n", "\r"):
        assert silenced(text.replace("\n", newline), "AMP101")


@pytest.mark.parametrize(
    "text",
    [
        "MARK()\na()  # noqa: AMP101\n",
        "# noqa: AMP101\nMARK()\n",
        "with MARK:\n    pass  # noqa: AMP101\n",
        "with a:  # noqa: AMP101\n    MARK\n",
        "@MARK()\ndef f():  # noqa: AMP101\n    pass\n",
        "def f():  # noqa: AMP101\n    MARK\n",
        "if MARK:\n    pass\nelse:  # noqa: AMP101\n    pass\n",
        "MARK('# noqa: AMP101')\n",
        "MARK('''\n# noqa: AMP101\n''')\n",
        "'''\n# amplint: ignore-file\n'''\nMARK\n",
        "MARK\n\x0c# noqa: AMP101\n",
    ],
)
def test_a_comment_does_not_hold_for_others(text: str) -> None:
    assert not silenced(text, "AMP101")


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("# amplint: ignore-file", True),
        ("   # amplint: ignore-file because it is generated", True),
        ("# amplint: ignore-file[AMP101]", True),
        ("# amplint: ignore-file[AMP1, AMP401]", True),
        ("# amplint: ignore-file[AMP401]", False),
        ("# amplint: ignore-file [AMP101]", True),
        ("# amplint: ignore-file [AMP401]", False),
        ("# amplint: ignore-file[]", False),
        ("x = 1  # amplint: ignore-file", False),
        ("# amplint: ignore-file-not", False),
    ],
)
@pytest.mark.parametrize("template", ["{}\nMARK\n", "MARK\n{}\n", "def f():\n    a\n{}\n    MARK\n"])
def test_a_file_can_be_left_alone(template: str, comment: str, expected: bool) -> None:
    assert silenced(template.format(comment), "AMP101") == expected


def test_no_comment_hides_that_a_file_was_not_checked() -> None:
    assert not silenced("MARK  # noqa\n", "AMP001")
    assert not silenced("MARK  # noqa: AMP001, AMP000\n", "AMP001")
    assert not silenced("MARK  # noqa\n", "AMP000")
    assert not silenced("# amplint: ignore-file[AMP000]\nMARK\n", "AMP000")
    assert silenced("# amplint: ignore-file[AMP001]\nMARK\n", "AMP001")


@given(
    st.lists(st.sampled_from(["# noqa: AMP101", "'''", "(", ")", "\\", "\n", "\t", "  ", "\r", "\x0c", "é", "\0", "$"]))
)
def test_texts_that_are_no_python_are_searched_as_far_as_possible(parts: list[str]) -> None:
    source = Source("file.py", "".join(parts))
    comments = Suppressions(source)
    assert comments.whole_file is False
    assert comments.keep([]) == []


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"x  # noqa: AMP101", True),
        (b"x  # NOQA:E501,AMP4", True),
        (b"# amplint: ignore-file", True),
        (b"x  # noqa", False),
        (b"x  # noqa: E501\nAMP", False),
        (b"amp", False),
    ],
)
def test_only_files_that_name_our_codes_are_looked_at(data: bytes, expected: bool) -> None:
    assert names_codes(data) == expected


LEGACY = "import torch\nx = torch.cuda.amp.GradScaler()"


def unused(text: str, settings: Settings = EVERYTHING) -> list[tuple[int, str]]:
    result = check_bytes(text.encode(), "file.py", settings)
    source = result.source or Source("file.py", text)
    return [(source.row(each.start), each.message) for each in result.findings if each.code == "AMP002"]


def fixed(text: str, settings: Settings = EVERYTHING) -> str:
    return fix_bytes(text.encode(), "file.py", settings, unsafe=False).data.decode()


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa",
        "# noqa: AMP102",
        "# noqa: AMP1",
        "# noqa: AMP102, E501",
        "# amplint: ignore[AMP102] old release",
        "# noqa: AMP102  # amplint: ignore[AMP102]",
    ],
)
def test_a_comment_that_silences_something_is_used(comment: str) -> None:
    assert unused(f"{LEGACY}  {comment}\n") == []


@pytest.mark.parametrize(
    "comment", ["# noqa", "# noqa: E501", "# noqa: E501, W291 AMPLE", "# amplint: ignore-file[AMP102]"]
)
def test_what_names_none_of_our_codes_is_not_ours_to_judge(comment: str) -> None:
    assert unused(f"import torch\n{comment}\nx = 1  {comment}\n# noqa: AMP999\n") != []
    assert len(unused(f"import torch\nx = 1  {comment}\n# noqa: AMP999\n")) == 1


@pytest.mark.parametrize(
    ("before", "after", "codes"),
    [
        ("x = 1  # noqa: AMP102\n", "x = 1\n", "AMP102"),
        ("x = 1 # noqa: AMP102, AMP101 for old releases\n", "x = 1\n", "AMP102 or AMP101"),
        ("x = 1  # noqa: E501, AMP102\n", "x = 1  # noqa: E501\n", "AMP102"),
        ("x = 1  # noqa: AMP102, E501\n", "x = 1  # noqa: E501\n", "AMP102"),
        ("x = 1  # noqa: AMP102 E501\n", "x = 1  # noqa: E501\n", "AMP102"),
        ("x = 1  # noqa:E501,AMP102,W291 why\n", "x = 1  # noqa:E501,W291 why\n", "AMP102"),
        ("x = 1  # noqa: amp102, e501\n", "x = 1  # noqa: e501\n", "AMP102"),
        ("x = 1  # keep this  # noqa: AMP102\n", "x = 1  # keep this\n", "AMP102"),
        ("x = 1  # noqa: AMP102  # type: ignore\n", "x = 1  # type: ignore\n", "AMP102"),
        ("x = 1  # noqa: AMP102 see #12\n", "x = 1\n", "AMP102"),
        ("x = 1  # noqa: AMP102 - fp16, in E501\n", "x = 1\n", "AMP102"),
        ("x = 1  # noqa: AMP102, E501 -- fp16\n", "x = 1  # noqa: E501 -- fp16\n", "AMP102"),
        ("x = 1  # type: ignore  # noqa: AMP102  # fmt: skip\n", "x = 1  # type: ignore  # fmt: skip\n", "AMP102"),
        ("x = 1  # amplint: ignore[AMP102] why\n", "x = 1\n", "AMP102"),
        ("x = 1  # amplint: ignore[AMP102, AMP101]\n", "x = 1\n", "AMP102 or AMP101"),
        ("x = 1\n    # noqa: AMP102\ny = 2\n", "x = 1\ny = 2\n", "AMP102"),
        ("# noqa: AMP102\r\ny = 2\r\n", "y = 2\r\n", "AMP102"),
        ("y = 2\r# noqa: AMP102\ry = 2\r", "y = 2\ry = 2\r", "AMP102"),
        ("x = 1  # noqa: AMP102", "x = 1", "AMP102"),
        ("x = 1  # noqa: AMP102 # amplint: ignore[AMP101]\n", "x = 1\n", "AMP102"),
        ("é = 'é'  # noqa: AMP102\n", "é = 'é'\n", "AMP102"),
    ],
)
def test_an_unused_comment_is_found_and_removed(before: str, after: str, codes: str) -> None:
    assert unused(before)[0][1] == f"unused suppression: nothing here is reported as {codes}"
    assert fixed(before) == after
    assert unused(after) == []


def test_only_the_unused_codes_go() -> None:
    before = f"{LEGACY}  # noqa: AMP101, AMP102, E501\n"
    assert len(unused(before)) == 1
    assert fixed(before) == f"{LEGACY}  # noqa: AMP102, E501\n"


def test_codes_that_are_no_rule_are_said_to_be() -> None:
    assert unused("x = 1  # noqa: AMP999\n") == [(1, "unused suppression: there is no rule AMP999")]
    ((_, message),) = unused("x = 1  # amplint: ignore[AMP102, E501, AMP9]\n")
    assert message == "unused suppression: nothing here is reported as AMP102, and there is no rule E501 or AMP9"
    assert fixed(f"{LEGACY}  # noqa: AMP1020, AMP102\n") == f"{LEGACY}  # noqa: AMP102\n"


def test_what_was_not_selected_is_not_judged() -> None:
    some = Settings(frozenset({"AMP000", "AMP001", "AMP002", "AMP102"}), isolated=True)
    assert unused("x = 1  # noqa: AMP101\n", some) == []
    assert unused("x = 1  # noqa: AMP102\n", some) != []
    assert unused("x = 1  # noqa: AMP1\n", some) == []
    assert unused("x = 1  # noqa: AMP1\n") != []
    assert fixed("x = 1  # noqa: AMP101, AMP102\n", some) == "x = 1  # noqa: AMP101\n"


def test_nothing_is_said_where_amp002_is_off() -> None:
    some = Settings(EVERYTHING.codes - {"AMP002"}, isolated=True)
    assert unused("torch.cuda.amp.GradScaler\nx = 1  # noqa: AMP102\n", some) == []


def test_amp002_is_silenced_only_by_its_own_code_or_by_everything() -> None:
    assert unused("x = 1  # noqa: AMP102, AMP002\n") == []
    assert unused("f(  # noqa: AMP102\n    a,  # noqa: AMP002\n)\n") == []
    assert unused("f(  # noqa: AMP102\n    a,  # noqa\n)\n") == []
    assert len(unused("f(  # noqa: AMP102\n    a,  # amplint: ignore[AMP0]\n)\n")) == 2
    assert unused("# amplint: ignore-file[AMP002]\nx = 1  # noqa: AMP102\n") == []
    assert unused("# amplint: ignore-file\ntorch.cuda.amp.GradScaler  # noqa: AMP101\n") == []


def test_a_rule_that_did_not_finish_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(module: object) -> list[object]:
        raise RuntimeError

    text = "import torch\ntorch.cuda.amp.autocast  # noqa: AMP102, AMP103\ntorch.cuda.amp.GradScaler\ncustom_fwd = 1\n"
    assert unused(text)[0][1].endswith("AMP102 or AMP103")
    monkeypatch.setattr(all_rules()["AMP102"], "run", fail)
    assert unused(text)[0][1].endswith("reported as AMP103")


def test_a_file_that_can_t_be_parsed_has_no_unused_comments() -> None:
    result = check_bytes(b"x = (  # noqa: AMP102\n", "file.py", EVERYTHING)
    assert [each.code for each in result.findings] == ["AMP001"]


def test_its_finding_is_a_warning_with_a_place() -> None:
    result = check_bytes(b"x = 1  # why  # noqa: AMP102\n", "file.py", EVERYTHING)
    (finding,) = result.findings
    assert (finding.severity, finding.name) == (Severity.WARNING, "unused-suppression")
    assert result.source is not None
    assert result.source.text[finding.start : finding.end] == "# noqa: AMP102"


@pytest.mark.parametrize("comment", ["# amplint: off[AMP101", "# amplint: off [AMP101", "# amplint: ignore-file[AMP4"])
def test_a_bracket_that_is_not_closed_silences_nothing(comment: str) -> None:
    assert [each.code for each in check(f"{comment}\n{LEGACY}\n")] == ["AMP102"]


_TWO_USES = """\
from torch.cuda.amp import GradScaler, autocast{import_comment}


def compared(x):
    with autocast():{use_comment}
        return x


def new(x):
    with autocast():
        return x, GradScaler()
"""


@pytest.mark.parametrize(
    ("import_comment", "use_comment"),
    [
        ("", "  # noqa: AMP101 - what the new one is compared with"),
        ("", "  # noqa"),
        ("", "  # amplint: ignore[AMP101]"),
        ("  # noqa: AMP101", ""),
        ("  # noqa: AMP102", ""),
        ("  # amplint: ignore[AMP1]", ""),
        ("  # noqa", ""),
    ],
)
def test_a_fix_leaves_silenced_lines_as_they_are(import_comment: str, use_comment: str) -> None:
    text = _TWO_USES.format(import_comment=import_comment, use_comment=use_comment)
    result = fix_bytes(text.encode(), "file.py", EVERYTHING, unsafe=True)
    assert result.data.decode() == text
    found = [each for each in result.result.findings if each.code in ("AMP101", "AMP102")]
    assert {each.code for each in found} == {"AMP101", "AMP102"}
    assert all("where a comment silences" in str(each.withheld) for each in found)
    assert not any(each.code == "AMP002" for each in result.result.findings)


@pytest.mark.parametrize("comment", ["  # noqa: AMP101 - as in the paper", "  # amplint: ignore[AMP101]"])
def test_a_line_stays_silenced_where_the_rule_of_its_comment_is_not_selected(comment: str) -> None:
    text = _TWO_USES.format(import_comment="", use_comment=comment)
    fixed = fix_bytes(text.encode(), "file.py", Settings(frozenset({"AMP102"}), isolated=True)).data.decode()
    assert fixed != text
    assert [each for each in fixed.splitlines() if comment in each] == [
        each for each in text.splitlines() if comment in each
    ]


@pytest.mark.parametrize("comment", ["AMP101", "AMP10"])
def test_the_reason_names_the_rule_that_the_comment_names(comment: str) -> None:
    text = f"from torch.cuda.amp import autocast, GradScaler  # noqa: {comment}\n\ns = GradScaler()\nr = autocast()\n"
    [first, *_] = check_bytes(text.encode(), "file.py", EVERYTHING).findings
    assert (first.code, first.withheld) == (
        "AMP102",
        f"the fix would change line 1, where a comment silences {comment}",
    )


@pytest.mark.parametrize("comment", ["  # noqa: E501", "  # noqa: F401 AMP4", "  # type: ignore"])
def test_a_comment_about_something_else_keeps_no_fix_away(comment: str) -> None:
    text = _TWO_USES.format(import_comment=comment, use_comment="")
    fixed = fix_bytes(text.encode(), "file.py", Settings(frozenset({"AMP101", "AMP102"}), isolated=True)).data.decode()
    assert f"from torch.amp import GradScaler, autocast{comment}\n" in fixed


def test_each_use_by_the_module_is_silenced_by_itself() -> None:
    text = "import torch\n\na = torch.cuda.amp.GradScaler()  # noqa: AMP102\nb = torch.cuda.amp.GradScaler()\n"
    fixed = fix_bytes(text.encode(), "file.py", EVERYTHING).data.decode()
    assert fixed == text[: text.index("b =")] + 'b = torch.amp.GradScaler("cuda")\n'


DEPRECATED = "import torch\n\nscaler = torch.cuda.amp.GradScaler()  # "
TAKES_CODES = "a `noqa` takes only codes; with the name"


class TestNoqaWithANameInPlaceOfACode:
    """It has no code, so it silences all, as in flake8: that is told."""

    @pytest.mark.parametrize(
        ("comment", "said", "fixed"),
        [
            (
                "noqa: deprecated-grad-scaler",
                f"{TAKES_CODES} deprecated-grad-scaler it silences all rules here; write `# noqa: AMP102`",
                "noqa: AMP102",
            ),
            (
                "NOQA:Deprecated-Grad-Scaler for old releases  # type: ignore",
                f"{TAKES_CODES} Deprecated-Grad-Scaler it silences all rules here; write `# noqa: AMP102`",
                "NOQA:AMP102 for old releases  # type: ignore",
            ),
            (
                "noqa: deprecated",
                f"{TAKES_CODES} deprecated it silences all rules here; write `# noqa: AMP1`",
                "noqa: AMP1",
            ),
            (
                "noqa: deprecated-grad-scaler, E501",
                f"{TAKES_CODES} deprecated-grad-scaler it silences all rules here; write `# noqa: AMP102, E501`",
                "noqa: AMP102, E501",
            ),
            (
                "noqa: scaler, deprecated-grad-scaler",
                "a `noqa` takes only codes; with the names scaler and deprecated-grad-scaler it silences all rules "
                "here; write `# noqa: AMP4, AMP102`",
                "noqa: AMP4, AMP102",
            ),
            # What is meant is a guess.
            (
                "noqa: deprecated-grad-scalr",
                f"{TAKES_CODES} deprecated-grad-scalr it silences all rules here; did you mean AMP102?",
                "noqa: deprecated-grad-scalr",
            ),
        ],
    )
    def test_it_is_told(self, comment: str, said: str, fixed: str) -> None:
        text = f"{DEPRECATED}{comment}\n"
        (found,) = check(text)
        assert (found.code, found.message) == ("AMP002", said)
        assert fix_bytes(text.encode(), "file.py", Settings(frozenset({"AMP002"}))).data.decode() == (
            f"{DEPRECATED}{fixed}\n"
        )

    @pytest.mark.parametrize(
        "comment",
        [
            "noqa",
            "noqa: deprecated names",  # prose, with a word that is a family's name, too
            "noqa: a-line-of-its-own",
            "noqa: because of the scaler",
            "noqa: AMP102",
            "noqa: AMP102 deprecated-grad-scaler",
            "noqa  # deprecated-grad-scaler",
        ],
    )
    def test_others_are_not(self, comment: str) -> None:
        assert check(f"{DEPRECATED}{comment}\n") == []

    def test_a_file_without_amp_is_read_for_it(self) -> None:
        (found,) = check("x = 1  # noqa: clip-without-unscale\n")
        assert found.code == "AMP002"


@pytest.mark.parametrize(
    ("comment", "said", "stays"),
    [
        ("ignore[missing-updat]", "the comment names no rule; did you mean missing-update?", True),
        ("ignore[clip]", "the comment names no rule", False),
    ],
)
def test_a_slip_in_a_name_is_told(comment: str, said: str, stays: bool) -> None:
    text = f"x = 1  # amplint: {comment}\n"
    (found,) = check(text)
    assert found.message == f"unused suppression: {said}"
    assert fix(text) == (text if stays else "x = 1\n")
