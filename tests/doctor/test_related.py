from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from amplint.doctor.findings import Cause, Evidence, Finding, Place, Related
from amplint.doctor.related import related_to
from tests.conftest import UNSAFE

Write = Callable[[dict[str, str | bytes]], Path]

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
