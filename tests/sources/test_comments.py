"""No fix takes a comment away: what stands behind a statement that goes gets a line of its own."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from amplint import fix
from amplint.base.edits import apply
from amplint.engine.file import check_text
from amplint.sources.comments import layout
from tests import some
from tests.suppression.test_suppressions import EVERYTHING
from tests.test_fixtures import VARIANTS

# Those for which there is a fix; what is fixed of other rules in the rest is fixed in fixtures of theirs.
# Every second one: what a fix makes of all of them, comments included, the snapshots hold.
FIXTURES = [each.bad for each in VARIANTS if each.bad.suffix and each.marker["fix"] != "hand"][::2]

TWICE = """\
def f(scaler, optimizer, loss, flag):
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    {}
"""


def comments(text: str) -> Counter[str]:
    return Counter(each.text for each in layout(text).comments)


def with_comments(text: str) -> str:
    """A text with a comment of its own on each line that has room for one."""
    lines, known = text.splitlines(), layout(text)
    taken = {each.row for each in known.comments}
    return "".join(
        f"{line}  # {row}\n" if row in known.room - taken and line.strip() else f"{line}\n"
        for row, line in enumerate(lines, 1)
    )


@pytest.mark.parametrize("path", some(FIXTURES, 25), ids=lambda path: f"{path.parts[-3][:6]}-{path.parts[-2]}")
def test_fixes_of_fixtures_keep_all_comments(path: Path) -> None:
    text = with_comments(path.read_text("utf-8"))
    for each in check_text(text, str(path), EVERYTHING).findings:
        if each.fix and each.code != "AMP002":
            fixed, _ = apply(text, [each.fix])
            assert not comments(text) - comments(fixed), each.message


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("scaler.update()  # twice, as in the paper", "# twice, as in the paper"),
        ("if flag:  # why\n        scaler.update()  # twice", "# why\n    # twice"),
        ("scaler.update()  # type: ignore[attr]", None),
        ("scaler.update()  # noqa: E501 - long", None),
        ("scaler.update()", None),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_what_stands_behind_a_statement_that_goes(line: str, left: str | None, end: str) -> None:
    imported = "import torch\ns = torch.amp.GradScaler('cuda')\n"
    text = imported + TWICE.format(line)
    fixed = imported + (TWICE.format(left) if left else TWICE.rpartition("    {}")[0])
    if not end:
        text, fixed = text.rstrip("\n"), fixed.rstrip("\n") if left else fixed
    else:
        text, fixed = text.replace("\n", end), fixed.replace("\n", end)
    assert fix(text, settings=EVERYTHING) == fixed
