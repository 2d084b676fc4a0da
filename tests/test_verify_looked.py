"""What verify takes for a training step, in which file, and what it says where it sees none."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")

from amplint.api import make_settings
from amplint.verify.training import Checked, Verifier
from tests.conftest import Ran

Amplint = Callable[..., Ran]

MISC = """
import torch

class NativeScaler:
    def __init__(self):
        self._scaler = torch.amp.GradScaler("cuda")

    def __call__(self, loss, optimizer, clip_grad=None, parameters=None, update_grad=True):
        self._scaler.scale(loss).backward()
        if update_grad:
            if clip_grad is not None:
                UNSCALE
                torch.nn.utils.clip_grad_norm_(parameters, clip_grad)
            self._scaler.step(optimizer)
            self._scaler.update()

    def state_dict(self):
        return self._scaler.state_dict()
"""
RIGHT, WRONG = "self._scaler.unscale_(optimizer)", "pass"
ENGINE = """
import torch
import util.lr_sched as lr_sched

def train_one_epoch(model, loader, optimizer, device, epoch, loss_scaler, max_norm=None, args=None):
    optimizer.zero_grad()
    for step, (samples, targets) in enumerate(loader):
        if step % args.accum_iter == 0:
            lr_sched.adjust(optimizer, step / len(loader) + epoch, args)
        with torch.autocast("cuda"):
            loss = torch.nn.functional.cross_entropy(model(samples), targets)
        loss /= args.accum_iter
        loss_scaler(loss, optimizer, clip_grad=max_norm, parameters=model.parameters(),
                    update_grad=(step + 1) % args.accum_iter == 0)
        if (step + 1) % args.accum_iter == 0:
            optimizer.zero_grad()

@torch.no_grad()
def evaluate(model, loader):
    for samples, targets in loader:
        with torch.autocast("cuda"):
            model(samples)
"""
MAIN = """
import torch
from SCALER import NativeScaler
from engine import train_one_epoch, evaluate

def main(args, model, loader):
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    loss_scaler = None if args.no_amp else NativeScaler()
    for epoch in range(args.epochs):
        train_one_epoch(model, loader, optimizer, "cuda", epoch, loss_scaler, args.clip_grad, args=args)
        evaluate(model, loader)

if __name__ == "__main__":
    main(parse())
"""
SCHED = """
def adjust(optimizer, epoch, args):
    for each in optimizer.param_groups:
        each["lr"] = args.lr * epoch
"""
BASE = """
import torch

class Base:
    def __init__(self, model, scaler):
        self.model, self.scaler = model, scaler
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def use(self, loss):
        self.scaler(loss, self.optimizer, parameters=self.model.parameters())
"""
TRAINER = """
import torch
from base import Base

class Trainer(Base):
    def train(self, loader):
        for samples, targets in loader:
            self.optimizer.zero_grad()
            with torch.autocast("cuda"):
                loss = torch.nn.functional.cross_entropy(self.model(samples), targets)
            self.use(loss)
"""
RUN = """
from trainer import Trainer
from util.misc import NativeScaler

def make(model):
    return Trainer(model, NativeScaler())

make(build()).train(batches())
"""


def project(folder: Path, **files: str) -> Path:
    (folder / "pyproject.toml").write_text("")
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def layout(folder: Path, unscale: str, scaler: str = "util.misc") -> Path:
    main, misc = MAIN.replace("SCALER", scaler), MISC.replace("UNSCALE", unscale)
    return project(folder, main=main, engine=ENGINE, util__misc=misc, util__lr_sched=SCHED)


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    with Verifier() as found:
        yield found


def check(verifier: Verifier, path: Path) -> Checked:
    return verifier.check(str(path), path.read_bytes(), make_settings())


def said(checked: Checked) -> list[tuple[str, str]]:
    return [(row.name, row.verdict) for row in checked.rows]


def names(found: Checked) -> list[str]:
    return sorted(Path(each).name for each in found.looked.follow)


# --- steps that need more than one file


@pytest.mark.parametrize(("unscale", "verdict"), [(RIGHT, "clean"), (WRONG, "misbehaves")])
def test_a_wrapper_that_a_parameter_is_given_in_another_file(
    verifier: Verifier, tmp_path: Path, unscale: str, verdict: str
) -> None:
    found = check(verifier, layout(tmp_path, unscale) / "engine.py")
    assert said(found) == [("train_one_epoch", verdict)]
    if verdict == "misbehaves":
        assert "clip saw 128 x the true norm" in found.rows[0].before.faults[0].text


def test_the_file_that_calls_it_leads_to_it(verifier: Verifier, tmp_path: Path) -> None:
    found = check(verifier, layout(tmp_path, RIGHT) / "main.py")
    assert (found.rows, names(found)) == ([], ["engine.py", "misc.py"])


def test_the_wrapper_is_a_step_itself(verifier: Verifier, tmp_path: Path) -> None:
    assert said(check(verifier, layout(tmp_path, RIGHT) / "util" / "misc.py")) == [("NativeScaler.__call__", "clean")]


def test_what_a_constructor_is_given_in_another_file(verifier: Verifier, tmp_path: Path) -> None:
    misc = MISC.replace("UNSCALE", RIGHT)
    project(tmp_path, run=RUN, trainer=TRAINER, base=BASE, util__misc=misc)
    assert said(check(verifier, tmp_path / "trainer.py")) == [("Trainer.train", "clean")]
    found = check(verifier, tmp_path / "run.py")
    assert found.rows == []
    assert "trainer.py" in names(found)


def test_a_file_without_amp_leads_to_it_too(verifier: Verifier, tmp_path: Path) -> None:
    step = TRAINER.replace("from base import Base", "").replace("(Base)", "")
    step = step.replace("self.use(loss)", "self.scaler.scale(loss).backward(); self.scaler.step(self.optimizer)")
    project(tmp_path, pkg__trainer=step, run="import pkg.trainer\n\npkg.trainer.Trainer().train([])\n")
    found = check(verifier, tmp_path / "run.py")
    assert (found.rows, found.has_amp, names(found)) == ([], False, ["trainer.py"])


@pytest.mark.parametrize("name", ["region.py", "train.py"])
def test_a_helper_is_checked_in_the_step_that_calls_it(verifier: Verifier, tmp_path: Path, name: str) -> None:
    region = "import torch\n\ndef region():\n    return torch.autocast('cuda', dtype=torch.bfloat16)\n"
    train = (
        "from region import region\n\ndef train(model, optimizer, loader):\n    for batch in loader:\n"
        "        with region():\n            loss = model(batch).mean()\n        optimizer.zero_grad()\n"
        "        loss.backward()\n        optimizer.step()\n"
    )
    found = check(verifier, project(tmp_path, region=region, train=train) / name)
    assert said(found) + names(found) == (["train.py"] if name == "region.py" else [("train", "clean")])


# --- steps that are out of sight


def test_a_wrapper_of_another_library_is_not_checkable(verifier: Verifier, tmp_path: Path) -> None:
    folder = layout(tmp_path, RIGHT, "timm.utils")
    found = check(verifier, folder / "engine.py")
    assert said(found) == [("train_one_epoch", "not checkable")]
    assert found.rows[0].reason.startswith("line 13: what loss_scaler(loss, optimizer, ")
    assert found.rows[0].reason.endswith("does can't be seen: timm.utils.NativeScaler is not in the project")
    main = check(verifier, folder / "main.py")
    assert (main.rows, names(main)) == ([], ["engine.py"])


@pytest.mark.parametrize(
    "text",
    [
        ENGINE,
        "import torch\n\nscaler = torch.amp.GradScaler('cuda')\n",
        "import torch\nfrom torch import nn\n\nclass Net(nn.Module):\n    @torch.autocast('cuda')\n"
        "    def forward(self, x):\n        return self.net(x)\n",
        "import torch\n\nclass Lit(LightningModule):\n    def training_step(self, batch, at):\n"
        "        with torch.autocast('cuda'):\n            loss = self.net(batch)\n"
        "        self.manual_backward(loss)\n",
        "import torch\n\nclass Hooks:\n    def backward(self, loss):\n        self.scaler.scale(loss).backward()\n",
        "def train(accelerator, model, batch):\n    accelerator.backward(model(batch))\n",
        "from transformers import TrainingArguments\n\nargs = TrainingArguments(fp16=True)\n",
        "import lightning as L\n\nL.Trainer(precision='16-mixed').fit(model)\n",
        "import torch\nwith torch.autocast('cuda':\n    pass\n",
    ],
)
def test_what_may_train_and_has_no_step_in_sight_is_not_checkable(
    verifier: Verifier, tmp_path: Path, text: str
) -> None:
    found = check(verifier, project(tmp_path, a=text) / "a.py")
    assert [row.verdict for row in found.rows] == ["not checkable"]
    assert found.rows[0].reason


# --- what trains nothing


@pytest.mark.parametrize(
    "text",
    [
        "import torch\n\n@torch.inference_mode()\ndef run(model, batch):\n    with torch.autocast('cuda'):\n"
        "        return model(batch)\n",
        "import torch\n\ndef run(model, batch):\n    model.eval()\n    with torch.autocast('cuda'):\n"
        "        return model(batch)\n",
        "import torch\n\ndef predict(model, batch):\n    with torch.autocast('cuda'):\n        return model(batch)\n",
        "import torch\n\nwith torch.autocast('cuda'):\n    print(pipe('a horse'))\n",
        "import torch\n\ndef run():\n    with torch.autocast('cuda'):\n        print(pipe('a horse'))\n\nrun()\n",
    ],
)
def test_what_only_infers_has_no_training_step(verifier: Verifier, tmp_path: Path, text: str) -> None:
    found = check(verifier, project(tmp_path, a=text) / "a.py")
    assert [row.verdict for row in found.rows] == ["no training step"]
    assert found.rows[0].reason.endswith("is reached from it: nothing to check")


def test_evaluation_beside_a_step_is_not_listed(verifier: Verifier, tmp_path: Path) -> None:
    found = check(verifier, layout(tmp_path, RIGHT) / "engine.py")
    assert [each.name for each in found.looked.looks] == ["train_one_epoch", "evaluate"]
    assert len(found.rows) == 1


@pytest.mark.parametrize(
    "text", ["x = 1\n", "# autocast\n", "import torch\nloss.backward()\n", "import util.lr_sched\n"]
)
def test_what_has_no_amp(verifier: Verifier, tmp_path: Path, text: str) -> None:
    found = check(verifier, project(tmp_path, a=text, util__lr_sched=SCHED) / "a.py")
    assert (found.rows, found.has_amp, found.looked.follow) == ([], False, [])


# --- the command


@pytest.mark.parametrize(
    ("file", "code", "verdicts", "summary"),
    [
        ("main.py", 0, ["clean", "clean"], "2 clean; "),
        ("predict.py", 0, ["no training step"], "1 with no training step\n"),
        ("util/lr_sched.py", 0, [], "nothing to check: 1 file has no AMP\n"),
        ("wrong.py", 1, ["misbehaves"], "1 misbehaves; "),
        ("timm_main.py", 2, ["not checkable"], "1 not checkable\n"),
        (".", 2, None, "1 file has no AMP; "),
    ],
)
def test_exit_code_json_and_summary_agree(
    amplint: Amplint, tmp_path: Path, file: str, code: int, verdicts: list[str] | None, summary: str
) -> None:
    layout(tmp_path, RIGHT)
    loop = "import torch\n\ndef train(model, optimizer, batch, scaler):\n    optimizer.zero_grad()\n"
    project(
        tmp_path,
        timm_main=MAIN.replace("SCALER", "timm.utils").replace("from engine", "from timm_engine"),
        timm_engine=ENGINE,
        predict="import torch\n\ndef predict(model, x):\n    with torch.autocast('cuda'):\n        return model(x)\n",
        wrong=f"{loop}    with torch.autocast('cuda'):\n        loss = model(batch).mean()\n"
        "    scaler.scale(loss).backward()\n    optimizer.step()\n    scaler.update()\n",
    )
    ran = amplint("verify", tmp_path / file, "--ignore", "ALL")
    assert (ran.code, ran.err) == (code, "")
    assert summary in ran.out
    as_json = amplint("verify", tmp_path / file, "--ignore", "ALL", "--output-format", "json")
    found = [each["verdict"] for each in json.loads(as_json.out)]
    assert as_json.code == code
    assert verdicts is None or found == verdicts
    assert code == (2 if "not checkable" in found else 1 if "misbehaves" in found else 0)


def test_verbose_says_what_was_looked_at(amplint: Amplint, tmp_path: Path) -> None:
    layout(tmp_path, RIGHT)
    ran = amplint("verify", "-v", tmp_path / "main.py", tmp_path / "util" / "lr_sched.py")
    assert "main.py: read with" in ran.err
    assert "engine.py, which is checked as well" in ran.err
    assert "  5 train_one_epoch: a training step\n" in ran.err
    assert " evaluate: not a step: line " in ran.err
    assert "lr_sched.py: no AMP\n" in ran.err
