from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType

import pytest

from amplint.doctor import observe
from amplint.doctor.findings import Cause, Evidence, Finding, Place, Related
from amplint.doctor.related import related_to
from tests.conftest import UNSAFE

Write = Callable[[dict[str, str | bytes]], Path]
needs_positions = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python doesn't say which part of a line ran")

TRAIN = """\
import torch


def train(model, optimizer, batches):
    scaler = torch.amp.GradScaler("cuda")
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.mse_loss(
                model(x),
                y,
            )
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(
            model.parameters(),
            1.0,
        )
        scaler.step(optimizer)
        scaler.update()


def other():
    pass
"""


def ask(path: Path, line: int, code: str | None = "AMP401", **more: str) -> Related | None:
    finding = Finding(Cause.PROTOCOL, Evidence.SEEN, "message", Place(str(path), line), code)
    return related_to(finding, more.get("folder", str(path.parent)))


@pytest.mark.parametrize("line", [14, 15, 16, 17])
def test_the_statement(project: Write, line: int) -> None:
    path = project({"train.py": TRAIN}) / "train.py"
    found = ask(path, line)
    assert found is not None
    assert found.message.startswith("gradients are clipped")
    assert found.fix
    assert found.command == "amplint --fix --select AMP401 train.py"
    assert not found.is_missed


def test_the_function(project: Write) -> None:
    path = project({"train.py": TRAIN}) / "train.py"
    found = ask(path, 18)
    assert found is not None
    assert found.message.startswith("line 14: gradients are clipped")
    assert found.fix.startswith("line 14: ")
    assert ask(path, 22) == ask(path, 1) == Related(is_missed=True)


def test_the_linter_sees_nothing(project: Write) -> None:
    path = project({"train.py": TRAIN}) / "train.py"
    assert ask(path, 18, "AMP404") == Related(is_missed=True)
    (path.parent / "plain.py").write_text("x = 1\n")
    assert ask(path.parent / "plain.py", 1) == Related(is_missed=True)


def test_an_unsafe_fix(project: Write) -> None:
    path = project({"my train.py": UNSAFE}) / "my train.py"
    found = ask(path, 5, "AMP201")
    assert found is not None
    assert found.command == "amplint --fix --unsafe-fixes --select AMP201 'my train.py'"
    found = ask(path, 5, "AMP201", folder="/")
    assert found is not None
    assert found.command.endswith(f" '{str(path)[1:]}'")


def test_comments_and_settings_hide_nothing(project: Write) -> None:
    silenced = TRAIN.replace("clip_grad_norm_(\n", "clip_grad_norm_(  # noqa: AMP401\n")
    settings = "[tool.amplint]\nignore = ['AMP401']\nunfixable = ['AMP401']\n"
    path = project({"train.py": silenced, "pyproject.toml": settings}) / "train.py"
    found = ask(path, 14)
    assert found is not None
    assert found.command
    path.write_text(f"# amplint: ignore-file\n{TRAIN}")
    assert ask(path, 15) is None  # whether the linter sees it isn't known


def test_nothing_is_said(project: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = project({"train.py": TRAIN, "broken.py": "def f(:\n", "a.ipynb": "{}", "latin.py": b"# \xe9"}) / "train.py"
    assert ask(path, 14, None) is None
    assert ask(path, 14, "AMP999") is None
    assert ask(path.parent / "nowhere.py", 14) is None
    assert ask(path.parent, 14) is None
    for name in ("broken.py", "latin.py"):
        assert ask(path.parent / name, 1) is None
    assert related_to(Finding(None, Evidence.SEEN, "", None, "AMP401")) is None
    finding = Finding(None, Evidence.SEEN, "", Place("<string>", 1), "AMP401")
    assert related_to(finding) is None
    since = os.stat(path).st_mtime
    finding = Finding(None, Evidence.SEEN, "", Place("train.py", 14), "AMP401")
    assert related_to(finding, since=since + 1) is not None
    assert related_to(finding, since=since - 1) is None
    monkeypatch.setattr("amplint.doctor.related.check_bytes", lambda *_, **__: 1 / 0)
    assert related_to(finding) is None


TWO = """\
import torch


class Head(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x):
        a, b = self.a(x), self.b(x)
        c = a**2
        return torch.sum(a**2) + torch.relu(b**2 + c)


def train(model, optimizer, scaler, x):
    with torch.autocast("cpu", dtype=torch.float16):
        loss = model(x).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


model = Head()
train(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu"), torch.randn(2, 8))
"""


def seen_at(path: Path, text: str, line: int) -> Place:
    """The place of the call or operation that is written like this, as a frame that runs it gives it."""
    source = path.read_text("utf-8")
    written = source.splitlines()[line - 1]
    waiting = [compile(source, str(path), "exec")]
    while waiting:
        code = waiting.pop()
        waiting += [each for each in code.co_consts if isinstance(each, CodeType)]
        for number, (row, _, start, end) in enumerate(code.co_positions()):
            if row == line and written[start:end] == text:
                return Place(str(path), line, code.co_name, code, 2 * number)
    raise AssertionError(text)


def ask_of(path: Path, text: str, line: int, code: str = "AMP510") -> Related | None:
    finding = Finding(Cause.OVERFLOW, Evidence.REPRODUCED, "message", seen_at(path, text, line), code)
    return related_to(finding, str(path.parent))


@needs_positions
def test_of_two_operations_in_a_line_the_one_that_was_seen(project: Write) -> None:
    path = project({"two.py": TWO}) / "two.py"
    for name in "ab":
        found = ask_of(path, f"{name}**2", 12)
        assert found is not None
        assert f"`{name}`" in found.fix
        assert found.command == "amplint --fix --unsafe-fixes --select AMP510 two.py"


@needs_positions
def test_no_fix_of_another_operation_of_the_line_or_function(project: Write) -> None:
    path = project({"two.py": TWO}) / "two.py"
    assert ask_of(path, "torch.relu(b**2 + c)", 12) == Related(is_missed=True)
    assert ask_of(path, "self.a(x)", 10) == Related(is_missed=True)


@needs_positions
def test_a_run_says_which_operation_it_was(project: Write) -> None:
    pytest.importorskip("torch")
    large = TWO.replace("model = Head()", "model = Head()\nmodel.b.weight.data.mul_(2000)")
    path = project({"two.py": large}) / "two.py"
    with observe(quiet=True) as seen:
        runpy.run_path(str(path))
    (finding,) = [each for each in seen.findings if each.code == "AMP510"]
    found = related_to(finding, str(path.parent))
    assert found is not None
    assert "`b`" in found.fix


MASKED = """\
import torch

with torch.autocast("cpu", dtype=torch.float16):
    scores = torch.ones(2, 2) @ torch.ones(2, 2)
    scores = scores.masked_fill(scores > 1, -1e9) + scores.masked_fill(scores > 1, 0)
"""


def test_what_raises_has_the_fix_of_its_call(project: Write) -> None:
    pytest.importorskip("torch")
    path = project({"masked.py": MASKED}) / "masked.py"
    with pytest.raises(RuntimeError, match="without overflow"), observe(quiet=True) as seen:
        runpy.run_path(str(path))
    (finding,) = seen.findings
    assert (finding.code, finding.place and finding.place.line) == ("AMP502", 5)
    assert finding.advice == "use the lowest number of the tensor's own dtype"
    if sys.version_info >= (3, 11):
        assert finding.related is not None
        assert "torch.finfo(scores.dtype).min" in finding.related.fix
        assert "--select AMP502" in finding.related.command


CLIPS = """\
import torch
from torch.nn.utils import clip_grad_norm_


def train(model, other, scaler, optimizer, batches):
    for x, y in batches:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        clip_grad_norm_(other.parameters(), 1.0)
        clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""


@needs_positions
def test_nothing_of_another_call_of_the_same_function(project: Write) -> None:
    path = project({"clips.py": CLIPS}) / "clips.py"
    found = ask_of(path, "clip_grad_norm_(other.parameters(), 1.0)", 10, "AMP401")
    assert found is not None
    assert found.message
    assert ask_of(path, "clip_grad_norm_(model.parameters(), 1.0)", 11, "AMP401") == Related(is_missed=True)
    found = ask_of(path, "scaler.step(optimizer)", 12, "AMP401")
    assert found is not None
    assert found.message.startswith("line 10: ")
