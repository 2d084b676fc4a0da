"""Random edits through the server object: what it says is what a fresh run says."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amplint import check
from amplint.base.findings import Finding
from amplint.base.interruption import Interrupted
from amplint.integrations import lsp_server
from amplint.integrations.lsp_documents import Document
from amplint.sources.source import Source
from tests.editing import Editor, edited

SCRIPT = """\
import torch
from torch.cuda.amp import GradScaler, autocast


class Trainer:
    def __init__(self, model, amp):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scaler = GradScaler(enabled=amp)

    def step(self, inputs, targets):
        with autocast():
            loss = torch.nn.functional.cross_entropy(self.model(inputs), targets)
        self.scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.item()


def accuracy(outputs, targets):
    right = outputs.argmax(dim=1) == targets
    return right.sum().item() / 100


def train(model, batches):
    trainer = Trainer(model, True)
    for inputs, targets in batches:
        trainer.optimizer.zero_grad()
        print(trainer.step(inputs, targets))
"""


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=8)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 4))
def test_what_is_said_is_what_a_fresh_run_says(
    seed: int, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lsp_server, "PAUSE", 0)

    async def work() -> None:
        editor, text, chance = Editor(tmp_path), SCRIPT, random.Random(seed)
        await editor.start()
        await editor.opened("train.py", text)
        for version in range(2, count + 2):
            text = edited(text, chance)
            said = await editor.changed("train.py", text, version)
            fresh = check(text, str(tmp_path / "train.py"))
            assert said == _document(text, fresh).diagnostics()
            tried = await editor.server.tried((tmp_path / "train.py").as_uri())
            assert tried is not None
            assert tried.findings == fresh
            assert tried.diagnostics() == said

    asyncio.run(work())


def test_work_on_a_text_that_has_changed_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version that comes while the last one is analysed is the next that is published."""
    monkeypatch.setattr(lsp_server, "PAUSE", 0)
    begun: list[int] = []
    dropped: list[int] = []
    going = lsp_server.draft

    async def work() -> None:
        editor = Editor(tmp_path)
        await editor.start()
        loop = asyncio.get_running_loop()

        def slow(text: str, *rest: object) -> object:
            begun.append(len(begun))
            if len(begun) == 2:  # the editor goes on typing
                loop.call_soon_threadsafe(editor.change, "train.py", SCRIPT, 3)
                while editor.server.workspace.text_documents[uri].version != 3:
                    pass
            try:
                return going(text, *rest)  # type: ignore[arg-type]
            except Interrupted:
                dropped.append(len(begun))
                raise

        monkeypatch.setattr(lsp_server, "draft", slow)
        uri = (tmp_path / "train.py").as_uri()
        await editor.opened("train.py", SCRIPT)
        editor.change("train.py", f"{SCRIPT}\n", 2)
        published = await editor.published.get()
        assert published.version == 3
        assert published.diagnostics == _document(SCRIPT, check(SCRIPT, str(tmp_path / "train.py"))).diagnostics()
        assert (begun, dropped) == ([0, 1, 2], [2])

    asyncio.run(work())


def _document(text: str, findings: list[Finding]) -> Document:
    return Document(Source("train.py", text), findings, None, "utf-16")
