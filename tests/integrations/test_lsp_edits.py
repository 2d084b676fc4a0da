"""Random edits through the server object: what it says is what a fresh run says."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amplint import check, settings_for
from amplint.api import draft
from amplint.base.findings import Finding
from amplint.base.interruption import Interrupted
from amplint.engine.reading import forget
from amplint.integrations import lsp_server
from amplint.integrations.lsp_documents import Document
from amplint.sources.source import Source
from tests.editing import Editor, rearranged

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


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 5))
def test_what_is_said_is_what_a_fresh_run_says(
    seed: int, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All edits come first: what the server keeps from one to the next is forgotten by a fresh run."""
    monkeypatch.setattr(lsp_server, "PAUSE", 0)
    texts, said, tried = [SCRIPT], list[object](), dict[int, list[Finding]]()

    async def work() -> None:
        editor, chance = Editor(tmp_path), random.Random(seed)
        await editor.start()
        await editor.opened("train.py", SCRIPT)
        for version in range(2, count + 2):
            undone = chance.random() < 0.2 and len(texts) > 2
            texts.append(chance.choice(texts[:-1]) if undone else rearranged(texts[-1], chance))
            said.append(await editor.changed("train.py", texts[-1], version))
            if chance.random() < 0.5:
                document = await editor.server.tried((tmp_path / "train.py").as_uri())
                assert document is not None
                tried[len(texts) - 1] = document.findings
                while not editor.published.empty():  # some now say why they have no fix
                    editor.published.get_nowait()

    asyncio.run(work())
    filename = str(tmp_path / "train.py")
    for number, (text, diagnostics) in enumerate(zip(texts[1:], said, strict=True), 1):
        forget()
        fresh = check(text, filename)
        assert tried.get(number, fresh) == fresh
        drafted, _ = draft(text, filename, settings_for(filename))
        assert diagnostics == _document(text, drafted).diagnostics()


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
