"""`# amplint: off` and `on`: how far they reach, what they keep away, and when they are unused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amplint.api import check, fix
from amplint.config.settings import Settings
from amplint.engine.file import check_bytes, fix_bytes
from amplint.registry import all_rules
from amplint.sources.comments import layout
from amplint.sources.source import Source
from amplint.suppression.directives import Ranges, directives
from amplint.suppression.suppressions import Suppressions
from tests import ROOT
from tests.conftest import processor_time
from tests.suppression.test_suppressions import EVERYTHING, fixed, silenced, unused

NEWLINES = ("\n", "\r\n", "\r")


@pytest.mark.parametrize(
    "text",
    [
        "# amplint: off\nMARK\n",
        "#amplint:off\nMARK\n",
        "# AMPLINT: OFF\nMARK\n",
        "# amplint: off[AMP101]\nMARK\n",
        "# amplint: off[AMP4, amp1] an old trainer\nMARK\n",
        "# amplint: off an old trainer\nMARK\n",
        "# a reason  # amplint: off\nMARK\n",
        "# amplint: off  # fmt: off\nMARK\n",
        "# amplint: off\n\n\nx\nif x:\n    MARK\n# amplint: on\n",
        "# amplint: off\nx\n# amplint: on[AMP4]\nMARK\n",
        "# amplint: off [AMP101]\nMARK\n",
        "# amplint: off[AMP1]\nx\n# amplint: on[AMP4]\nMARK\n",
        "# amplint: off[AMP1]\nx\n# amplint: on [AMP4]\nMARK\n",
        "# amplint: off[AMP1]\nx\n# amplint: on[AMP102]\nMARK\n",
        "# amplint: off\n# amplint: on\n# amplint: off\nMARK\n",
        "# amplint: off[AMP4]\n# amplint: off\n# amplint: on[AMP4]\nMARK\n",
        "def f():\n    # amplint: off\n    if x:\n        MARK\n",
        "def f():\n    x\n# amplint: off\n    MARK\n",
        "def f():\n    # amplint: off\n    '''\nleft'''\n    x = (\n1)\n    MARK\n",
        "f(\n    # amplint: off\n    MARK,\n    # amplint: on\n)\n",
        "class A:\n\t# amplint: off\n        MARK\n",
        "if x:\n    x\n    # amplint: off\n    # amplint: on[AMP4]\n# amplint: on[AMP3]\n    MARK\n",
    ],
)
def test_off(text: str) -> None:
    for newline in NEWLINES:
        assert silenced(text.replace("\n", newline), "AMP101")


@pytest.mark.parametrize(
    "text",
    [
        "MARK\n# amplint: off\n",
        "MARK  # amplint: off\n",
        "x  # amplint: off\nMARK\n",
        "# amplint: offline\nMARK\n",
        "# amplint: off-by-one\nMARK\n",
        "# amplint: off[]\nMARK\n",
        "# amplint: off[clip]\nMARK\n",
        "# amplint: off[AMP4]\nMARK\n",
        "# amplint: off [AMP401]\nMARK\n",
        "# amplint: off[AMP1]\nx\n# amplint: on [AMP101]\nMARK\n",
        "'# amplint: off'\nMARK\n",
        "'''\n# amplint: off\n'''\nMARK\n",
        "# amplint: off\nx\n# amplint: on\nMARK\n",
        "# amplint: off\nx\n# amplint: on[AMP1]\nMARK\n",
        "# amplint: off[AMP101, AMP4]\nx\n# amplint: on[AMP1]\nMARK\n",
        "# amplint: off[AMP1]\nx\n# amplint: on[AMP101] from here on\nMARK\n",
        "# amplint: off\n# amplint: off\nx\n# amplint: on\nMARK\n",
        "# amplint: off\n# amplint: off[AMP1]\nx\n# amplint: on\nMARK\n",
        "if x:\n    # amplint: off\n    x\n# amplint: on\nMARK\n",
        "# amplint: off\nif x:\n    x\n    # amplint: on\n    x\nMARK\n",
        "def f():\n    # amplint: off\n    x\nMARK\n",
        "def f():\n    # amplint: off\n    x\n# what stands between counts as nothing\n\nMARK\n",
        "if x:\n    # amplint: off\n    x\nelif MARK:\n    x\n",
        "if x:\n    # amplint: off\n    x\nelse:\n    MARK\n",
        "if x:\n    x\n    # amplint: off\nMARK\n",
        "class A:\n        # amplint: off\n\tx\nMARK\n",
        "x\n\x0c    # amplint: off\nMARK\n",
    ],
)
def test_not_off(text: str) -> None:
    for newline in NEWLINES:
        assert not silenced(text.replace("\n", newline), "AMP101")


def test_a_file_that_was_not_checked_is_never_off() -> None:
    assert not silenced("# amplint: off\nMARK\n", "AMP000")
    assert not silenced("# amplint: off[AMP001]\nMARK\n", "AMP001")


def test_where_a_host_does_noqa_off_is_off() -> None:
    text = "import torch\n# amplint: off\ntorch.cuda.amp.GradScaler()\n"
    assert check_bytes(text.encode(), "a.py", EVERYTHING, noqa=False).findings == ()


OLD = "torch.cuda.amp.GradScaler()\n"


@pytest.mark.parametrize(
    "text",
    [
        f"import torch\n# amplint: off\n{OLD}# amplint: on\nx = 1\n",
        f"import torch\n# amplint: off[AMP102] why\n{OLD}",
        f"import torch\n# amplint: off[AMP1]\n# amplint: off[AMP102]\n{OLD}# amplint: on[AMP1]\n",
        f"import torch\n# amplint: off\nx = 1  # noqa: AMP101\n{OLD}",
        "# amplint: off[AMP101, AMP002]\nx = 1\n# amplint: on\n",
    ],
)
def test_what_is_used_is_not_reported(text: str) -> None:
    assert unused(text) == []


@pytest.mark.parametrize(
    ("before", "after", "messages"),
    [
        ("# amplint: off\nx = 1\n", "x = 1\n", ["nothing here is reported"]),
        ("x = 1\n  # amplint: off[AMP4] why\n", "x = 1\n", ["nothing here is reported as AMP4"]),
        ("# amplint: off\nx = 1\n# amplint: on\ny = 2\n", "x = 1\ny = 2\n", ["nothing here is reported"]),
        ("# amplint: off\nx = 1\n# amplint: on  # fmt: on\n", "x = 1\n# fmt: on\n", ["nothing here is reported"]),
        (
            "# amplint: off[AMP4]\nx = 1\n# amplint: on[AMP4]\n# amplint: off[AMP1]\ny = 2\n# amplint: on\n",
            "x = 1\ny = 2\n",
            ["nothing here is reported as AMP4", "nothing here is reported as AMP1"],
        ),
        (
            f"import torch\n# amplint: off[AMP4, AMP102]\n{OLD}# amplint: on[AMP4, AMP102]\n",
            f"import torch\n# amplint: off[AMP102]\n{OLD}# amplint: on[AMP102]\n",
            ["nothing here is reported as AMP4"],
        ),
        (
            f"import torch\n# amplint: off[AMP4]\n# amplint: off\n{OLD}# amplint: on\n",
            f"import torch\n# amplint: off\n{OLD}# amplint: on\n",
            ["nothing here is reported as AMP4"],
        ),
        (
            "# amplint: off[AMP4]\n# amplint: off[AMP5]\nx = 1\n# amplint: on\n",
            "x = 1\n",
            ["nothing here is reported as AMP4", "nothing here is reported as AMP5"],
        ),
        ("x = 1\n# amplint: on\n", "x = 1\n", ["nothing is off here"]),
        ("# amplint: on[AMP4, AMP5]\n", "", ["AMP4 or AMP5 is not off here"]),
        (
            f"import torch\n# amplint: off[AMP1]\n{OLD}# amplint: on[AMP1, AMP4]\n",
            f"import torch\n# amplint: off[AMP1]\n{OLD}# amplint: on[AMP1]\n",
            ["AMP4 is not off here"],
        ),
        ("# amplint: off[AMP999]\nx = 1\n", "x = 1\n", ["there is no rule AMP999"]),
        (
            f"import torch\n# amplint: off[AMP1]\n{OLD}# amplint: on[AMP999]\n",
            f"import torch\n# amplint: off[AMP1]\n{OLD}",
            ["AMP999 is not off here"],
        ),
        ("# amplint: off[clip]\nx = 1\n", "x = 1\n", ["the comment names no rule"]),
        ("x = 1  # amplint: ignore[clip]\n", "x = 1\n", ["the comment names no rule"]),
        ("x = 1  # amplint: off\n", "x = 1  # amplint: off\n", ["`off` must be on its own line"]),
    ],
)
def test_unused(before: str, after: str, messages: list[str]) -> None:
    for newline in NEWLINES:
        assert [message for _, message in unused(before.replace("\n", newline))] == [
            f"unused suppression: {each}" for each in messages
        ]
        assert fixed(before.replace("\n", newline)) == after.replace("\n", newline)


def test_what_did_not_run_is_not_judged() -> None:
    some = Settings(frozenset({"AMP000", "AMP001", "AMP002", "AMP102"}), isolated=True)
    assert unused("# amplint: off\nx = 1\n# amplint: off[AMP1]\n# amplint: off[AMP401]\n# amplint: on\n", some) == []
    assert len(unused("# amplint: off[AMP102]\nx = 1\n", some)) == 1
    assert len(unused("x = 1\n# amplint: on\n", some)) == 1


def test_rules_that_are_off_by_default_keep_no_comment_from_being_judged() -> None:
    default = frozenset(code for code, rule in all_rules().items() if rule.default)
    assert len(unused("# amplint: off\nx = 1\n", Settings(default, isolated=True))) == 1


RENAMED = """\
import torch
{}
from torch.cuda.amp import autocast
{}
def f(x):
    with autocast():
        return x
"""


def test_no_fix_reaches_into_what_is_off() -> None:
    modern = RENAMED.replace("cuda.amp", "amp").replace("autocast()", 'autocast("cuda")')
    assert fix(RENAMED.format("# here", "# there")) == modern.format("# here", "# there")
    for off in ("# amplint: off[AMP002, AMP4]", "# amplint: off[AMP101, AMP002]", "# amplint: off"):
        text = RENAMED.format(off, "# amplint: on")
        *_, finding = check(text)
        if "AMP4" in off:
            assert fix(text) == modern.format(off, "# amplint: on")
        else:
            assert finding.withheld == "the fix would change lines where amplint is off"
            assert fix(text) == text


def test_no_fix_for_others_changes_what_is_off() -> None:
    text = RENAMED.format("# amplint: off[AMP101]", "").replace("import autocast", "import GradScaler, autocast")
    text = text.replace("\n# amplint: off[AMP101]\n\ndef f(x):", "\n\n\ndef f(x):\n    # amplint: off[AMP101]")
    text += "scaler = GradScaler()\n"
    (finding,) = check(text)
    assert (finding.code, finding.withheld) == ("AMP102", "the fix would change lines where amplint is off")
    assert fix(text) == text
    assert "cuda.amp" not in fix(text.replace("# amplint: off[AMP101]", "# here"))


INSIDE = """\
import torch
from tests.conftest import processor_time


def train(model, optimizer, scaler, batches):
    for x in batches:
        with torch.autocast("cuda"):
            loss = model(x)
            {}
            scaler.scale(loss).backward()
        {}
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    scaler.state_dict()
"""


def test_no_fix_moves_the_end_of_what_is_off() -> None:
    def left(first: str, second: str) -> bool:
        text = INSIDE.format(first, second)
        assert [each.code for each in check(text) if each.code != "AMP002"] == ["AMP301"]
        return fix(text).replace("# amplint: off[AMP4, AMP002]\n", "") == text.replace(
            "# amplint: off[AMP4, AMP002]\n", ""
        )

    assert not left("# here", "# there")
    # A comment that moved out of the region with the call would hold for what follows.
    assert left("# amplint: off[AMP4, AMP002]", "# there")
    assert not left("# here", "# amplint: off[AMP4, AMP002]")


@given(
    st.lists(
        st.sampled_from(
            [
                *("# amplint: off\n", "    # amplint: off[AMP4]\n", "# amplint: on\n", "# amplint: on[AMP4]\n"),
                *("    # amplint: on[AMP401]\n", "# amplint: off[AMP401, AMP1]\n", "x = 1\n", "if x:\n    y\n"),
                *("'''", "(", ")", "\\\n", "\r", "\x0c", "\t", "    x\n"),
            ]
        ),
        max_size=14,
    )
)
def test_ranges_are_what_is_read_line_by_line(parts: list[str]) -> None:
    source = Source("a.py", "".join(parts))
    found = layout(source.text)
    comments = Suppressions(source)
    switches = [each for each in directives(source, found) if each.kind in ("off", "on") and each.alone]
    ranges = Ranges(source, found, switches)
    for part in ranges.found:
        assert 0 <= part.start <= len(source.text)
    firsts = {rows.start for rows in found.statements}
    off: list[tuple[int, str, set[str]]] = []  # how far the comment is indented, its code, what is on again
    for row in range(1, len(source.line_starts) + 1):
        line = source.line(row)
        width = len(line[: len(line) - len(line.lstrip(" \t\f"))].rpartition("\f")[2].expandtabs(8))
        if row in firsts:
            off = [each for each in off if each[0] <= width]
        for each in switches:
            if source.row(each.start) == row:
                for code in each.codes or ():
                    if each.kind == "off":
                        off.append((width, code.text, set()))
                    else:
                        off = [one for one in off if not one[1].startswith(code.text)]
                        for one in off:
                            one[2].add(code.text)
        for code in ("AMP101", "AMP401", "AMP402"):
            finding = all_rules()["AMP101"].finding((source.offset(row, 1),) * 2, "m")._replace(code=code)
            expected = any(code.startswith(one[1]) and not code.startswith(tuple(one[2])) for one in off)
            if not any(source.row(each.start) == row for each in switches):
                assert (comments.keep([finding]) == []) == expected


def switched_off(text: str) -> list[str]:
    """What of a text is off."""
    source = Source("a.py", text)
    found = layout(text)
    return [text[each.start : each.end] for each in Ranges(source, found, directives(source, found)).found]


@settings(max_examples=12)
@given(
    st.sampled_from(sorted((ROOT / "fixtures").glob("AMP*/*/bad.py"))),
    st.lists(
        st.tuples(st.integers(0, 80), st.sampled_from(["off", "on", "off[AMP4]", "off[AMP1, AMP2, AMP3]"])), min_size=1
    ),
)
def test_what_is_off_is_what_it_was_after_all_fixes(path: Path, comments: list[tuple[int, str]]) -> None:
    lines = path.read_text("utf-8").splitlines(keepends=True)
    starts = sorted({rows.start for rows in layout("".join(lines)).statements})
    for at, said in sorted(comments, reverse=True):
        row = starts[at % len(starts)]
        line = lines[row - 1]
        lines.insert(row - 1, f"{line[: len(line) - len(line.lstrip())]}# amplint: {said}\n")
    text = "".join(lines)
    # AMP002 would take comments away, and what they kept from being fixed would be fixed then.
    some = Settings(EVERYTHING.codes - {"AMP002"}, isolated=True)
    after = fix_bytes(text.encode(), "a.py", some, unsafe=True).data.decode()
    if "off[" not in text:
        assert switched_off(after) == switched_off(text)
    assert [line.strip() for line in after.splitlines() if "# amplint: o" in line] == [
        line.strip() for line in text.splitlines() if "# amplint: o" in line
    ]
    left = check_bytes(after.encode(), "a.py", some)
    assert not [each for each in left.findings if each.code in ("AMP000", "AMP001")]


@pytest.mark.parametrize(
    "text",
    [
        "# amplint: off[AMP4]\nx = 1\n" * 3000,
        "# amplint: off[AMP4]\nx = 1\n# amplint: on\n" * 3000,
        "# amplint: off\n" * 3000 + "".join(f"# amplint: on[AMP{number}]\nx\n" for number in range(3000)),
    ],
)
def test_time_grows_with_the_file_and_not_with_its_square(text: str) -> None:
    source = Source("a.py", text)
    comments = Suppressions(source)
    with processor_time(at_most=30):
        list(comments.unused(EVERYTHING.codes))
