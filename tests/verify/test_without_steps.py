"""What verify says of a file that has neither a region nor a scaler, and AMP all the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")

from amplint.api import make_settings
from amplint.verify.steps.output import as_tables
from amplint.verify.steps.verdict import NOT_CHECKABLE
from amplint.verify.steps.verify import Checked, Verifier
from tests.interpreting import project

LIGHTNING = """
import lightning as L

trainer = L.TRAINER(accelerator="gpu", precision=PRECISION)
trainer.fit(Model(), loader)
"""
TRANSFORMERS = """
from transformers import Trainer, TrainingArguments

args = TrainingArguments("out", fp16=FP16)
Trainer(model, args, train_dataset=data).train()
"""
HALF = """
import torch

def train(loader):
    model = torch.nn.Linear(4, 4).cuda()CAST
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
"""
NO_AMP = "nothing to check: 1 file has no AMP\n"


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    with Verifier() as found:
        yield found


def check(verifier: Verifier, folder: Path, text: str) -> Checked:
    path = project(folder, train=text) / "train.py"
    return verifier.check(str(path), path.read_bytes(), make_settings())


@pytest.mark.parametrize("more", ["", "import pandas as pd\n", "from sklearn.preprocessing import StandardScaler\n"])
@pytest.mark.parametrize("precision", ["16", "'16-mixed'", "'bf16-mixed'", "'bf16'"])
def test_a_precision_of_lightning_s_trainer_is_amp(
    verifier: Verifier, tmp_path: Path, more: str, precision: str
) -> None:
    text = LIGHTNING.replace("TRAINER", "Trainer").replace("PRECISION", precision)
    found = check(verifier, tmp_path, more + text)
    (row,) = found.rows
    assert (row.verdict, row.row) == (NOT_CHECKABLE, 4 + bool(more))
    assert row.reason == "the framework runs the training step: the file has none of its own to run"


@pytest.mark.parametrize("precision", ["config.get('precision', 'bf16-mixed')", "'16-mixed' if args.half else 32"])
def test_a_precision_that_a_setting_chooses_is_amp(verifier: Verifier, tmp_path: Path, precision: str) -> None:
    found = check(verifier, tmp_path, LIGHTNING.replace("TRAINER", "Trainer").replace("PRECISION", precision))
    assert [each.verdict for each in found.rows] == [NOT_CHECKABLE]


@pytest.mark.parametrize(("trainer", "precision"), [("Trainer", "32"), ("Fabric", "'16-mixed'"), ("show", "16")])
def test_other_precisions_are_none(verifier: Verifier, tmp_path: Path, trainer: str, precision: str) -> None:
    found = check(verifier, tmp_path, LIGHTNING.replace("TRAINER", trainer).replace("PRECISION", precision))
    assert as_tables(found.rows, files=[found]) == NO_AMP


@pytest.mark.parametrize(("fp16", "rows"), [("True", 1), ("options.fp16", 1), ("False", 0)])
def test_an_argument_of_transformers_is_amp(verifier: Verifier, tmp_path: Path, fp16: str, rows: int) -> None:
    found = check(verifier, tmp_path, TRANSFORMERS.replace("FP16", fp16))
    assert len(found.rows) == rows
    assert all("the framework runs the training step" in row.reason for row in found.rows)


def test_what_the_linter_finds_is_amp(verifier: Verifier, tmp_path: Path) -> None:
    found = check(verifier, tmp_path, HALF.replace("CAST", ".half()"))
    (row,) = found.rows
    assert (row.verdict, [each.code for each in row.findings]) == (NOT_CHECKABLE, ["AMP217"])
    assert "AMP217 line 5: no run can show it (verify's model has float32 parameters)" in as_tables([row])
    right = check(verifier, tmp_path, HALF.replace("CAST", ""))
    assert as_tables(right.rows, files=[right]) == NO_AMP


def test_a_finding_where_nothing_is_trained_leaves_nothing_unchecked(verifier: Verifier, tmp_path: Path) -> None:
    text = "import torch\n\nclass Layer(torch.autograd.Function):\n    @staticmethod\n    @torch.cuda.amp.custom_fwd\n"
    found = check(verifier, tmp_path, f"{text}    def forward(ctx, x):\n        return x\n")
    assert (found.rows, found.has_amp) == ([], True)
