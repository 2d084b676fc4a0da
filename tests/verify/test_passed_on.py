"""AMP's names that a file has from another one of its project: it has AMP, and its step is run."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from amplint.config.settings import Settings
from amplint.verify.steps.verify import Verifier

MAIN = """\
import torch
IMPORTS


def train(model, optimizer, loader):
    scaler = AMP.GradScaler()
    for x, y in loader:
        optimizer.zero_grad()
        with AMP.autocast():
            loss = torch.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        CLIP
        scaler.step(optimizer)
        scaler.update()
"""
COMPAT = {
    "plainly": "from torch.cuda.amp import autocast, GradScaler\n",
    "where it is there": """\
from contextlib import contextmanager


@contextmanager
def nullcontext(enter_result=None, **kwargs):
    yield enter_result


try:
    from torch.cuda.amp import autocast, GradScaler
except ImportError:
    GradScaler = nullcontext
    autocast = nullcontext
""",
}
IMPORTS = {
    "from lib.compat import autocast, GradScaler": "",
    "from lib.compat import *": "",
    "from lib import compat": "compat.",
    "import lib.compat as other": "other.",
}
CLIPS = {"torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)": "misbehaves", "pass": "clean"}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("imports", IMPORTS)
@pytest.mark.parametrize("how", COMPAT)
def test_a_step_with_names_that_another_file_passes_on_is_run(
    tmp_path: Path, how: str, imports: str, clip: str
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "compat.py").write_text(COMPAT[how])
    text = MAIN.replace("IMPORTS", imports).replace("AMP.", IMPORTS[imports]).replace("CLIP", clip)
    path = tmp_path / "train.py"
    path.write_text(text)
    with Verifier() as verifier:
        rows = verifier.check(str(path), text.encode(), Settings(frozenset(), isolated=True)).rows
    assert [(each.name, each.verdict) for each in rows] == [("train", CLIPS[clip])], rows
