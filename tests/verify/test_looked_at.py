"""What verify takes for a training step, in which file, and what it says where it sees none."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")

from amplint.api import make_settings
from amplint.verify.steps.looked_at import Looker
from amplint.verify.steps.looks import Kind
from amplint.verify.steps.verdict import NOT_CHECKABLE
from amplint.verify.steps.verify import Checked, Verifier
from tests.conftest import Ran
from tests.interpreting import code_of, project

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


# --- what another file's step runs

STEP = """
import torch
IMPORT

def train(model, optimizer, scaler, loader):
    SETUP
    for x, y in loader:
        optimizer.zero_grad()
        loss = LOSS
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
FACTORY = """
import torch

def get_score_fn(model, dtype=torch.float16):
    with torch.autocast("cuda", dtype=dtype):
        def score(x):
            return model(x)
    return score
"""
INNER = """
import torch

def get_score_fn(model):
    def score(x):
        with torch.autocast("cuda"):
            return model(x)
    return score
"""
DECORATOR = """
import torch

def in_half(function):
    def inner(*args):
        with torch.autocast("cuda"):
            return function(*args)
    return inner
"""


@pytest.mark.parametrize(
    ("helper", "use"),
    [
        (FACTORY, ("from helper import get_score_fn", "score = get_score_fn(model)", "score(x).mean()")),
        (FACTORY, ("import helper", "pass", "helper.get_score_fn(model)(x).mean()")),
        (INNER, ("from helper import get_score_fn", "score = get_score_fn(model)", "score(x).mean()")),
        (INNER, ("import helper", "pass", "helper.get_score_fn(model)(x).mean()")),
        (
            "import torch\n\ndef predict(model, x):\n    with torch.autocast('cuda'):\n        return model(x)\n",
            ("import helper", "pass", "helper.predict(model, x).mean()"),
        ),
    ],
)
def test_a_region_that_a_function_made_elsewhere_opens_is_a_part_of_the_step(
    verifier: Verifier, tmp_path: Path, helper: str, use: tuple[str, str, str]
) -> None:
    train = STEP
    for word, text in zip(("IMPORT", "SETUP", "LOSS"), use, strict=True):
        train = train.replace(word, text)
    folder = project(tmp_path, helper=helper, train=train)
    found = check(verifier, folder / "helper.py")
    assert (found.rows, names(found)) == ([], ["train.py"])
    assert found.looked.looks[-1].why == "a part of train of train.py"
    assert said(check(verifier, folder / "train.py")) == [("train", "clean")]


def test_a_decorator_of_another_file_is_a_part_of_the_step_that_it_wraps(verifier: Verifier, tmp_path: Path) -> None:
    train = STEP.replace(
        "IMPORT", "from helper import in_half\n\n@in_half\ndef forward(model, x):\n    return model(x)"
    )
    train = train.replace("SETUP", "pass").replace("LOSS", "forward(model, x).mean()")
    folder = project(tmp_path, helper=DECORATOR, train=train)
    found = check(verifier, folder / "helper.py")
    assert (found.rows, names(found)) == ([], ["train.py"])
    (row,) = check(verifier, folder / "train.py").rows
    assert (row.verdict, ["torch.autocast" in text for _, text, _ in row.notes].count(True)) == ("clean", 1)


@pytest.mark.parametrize(("decorated", "verdict"), [("", "clean"), ("@in_half\n", "misbehaves")])
def test_a_decorator_of_the_program_runs_around_the_step(
    verifier: Verifier, tmp_path: Path, decorated: str, verdict: str
) -> None:
    step = (
        f"\n{decorated}def step(model, optimizer, scaler, batch):\n    optimizer.zero_grad()\n"
        "    with torch.autocast('cuda'):\n        loss = model(batch).mean()\n    scaler.scale(loss).backward()\n"
        "    scaler.step(optimizer)\n    scaler.update()\n"
    )
    found = check(verifier, project(tmp_path, a=DECORATOR + step) / "a.py")
    assert said(found) == [("step", verdict)]
    assert [each.shows for each in found.rows[0].before.faults] == (["autocast-state"] if decorated else [])


FACTORIES = """
import torch

def get_optimize_fn(bound):
    def optimize(optimizer, scaler, params):
        UNSCALE
        torch.nn.utils.clip_grad_norm_(params, bound)
        scaler.step(optimizer)
        scaler.update()
    return optimize

def get_step_fn(optimize, accum):
    count = 0

    def step(state, batch):
        nonlocal count
        with torch.autocast("cuda"):
            loss = state["model"](batch).mean() / accum
        state["scaler"].scale(loss).backward()
        count += 1
        if count == accum:
            count = 0
            optimize(state["optimizer"], state["scaler"], state["model"].parameters())
            state["optimizer"].zero_grad()
        return loss

    return step
"""
RUN_STEPS = """
import torch
import steps

def run(cfg, model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    state = dict(optimizer=optimizer, scaler=torch.amp.GradScaler("cuda"), model=model)
    train_step = steps.get_step_fn(steps.get_optimize_fn(cfg.bound), cfg.accum)
    for batch in loader:
        train_step(state, batch)
"""


@pytest.mark.parametrize(("unscale", "verdict"), [("scaler.unscale_(optimizer)", "clean"), ("pass", "confirmed")])
def test_a_step_that_a_function_makes_of_what_another_one_makes(
    verifier: Verifier, tmp_path: Path, unscale: str, verdict: str
) -> None:
    folder = project(tmp_path, steps=FACTORIES.replace("UNSCALE", unscale), run=RUN_STEPS)
    assert said(check(verifier, folder / "steps.py")) == [("get_step_fn.step", verdict)]
    found = check(verifier, folder / "run.py")
    assert (found.rows, names(found)) == ([], ["steps.py"])


def test_what_a_step_of_another_file_uses_is_a_part_of_it(verifier: Verifier, tmp_path: Path) -> None:
    amp = (
        "import torch\n\nhalf = torch.autocast('cuda')\n\nclass Amp:\n    def __init__(self):\n"
        "        self.scaler = torch.amp.GradScaler('cuda')\n\n    def backward(self, loss):\n"
        "        self.scaler.scale(loss).backward()\n\n    def step(self, optimizer):\n"
        "        self.scaler.step(optimizer)\n        self.scaler.update()\n"
    )
    train = (
        "import amp\n\ndef train(model, optimizer, loader):\n    own = amp.Amp()\n    for batch in loader:\n"
        "        optimizer.zero_grad()\n        with amp.half:\n            loss = model(batch).mean()\n"
        "        own.backward(loss)\n        own.step(optimizer)\n"
    )
    folder = project(tmp_path, amp=amp, train=train)
    found = check(verifier, folder / "amp.py")
    assert (found.rows, names(found)) == ([], ["train.py"])
    assert {each.why for each in found.looked.looks} == {"a part of train of train.py"}
    assert said(check(verifier, folder / "train.py")) == [("train", "clean")]


def test_what_no_step_of_another_file_runs_is_no_part_of_one(verifier: Verifier, tmp_path: Path) -> None:
    helper = INNER + "\ndef forward(model, x):\n    with torch.autocast('cuda'):\n        return model(x)\n"
    train = STEP.replace("IMPORT", "import helper").replace("SETUP", "pass")
    train = train.replace("LOSS", "helper.get_score_fn(model)(x).mean()")
    found = check(verifier, project(tmp_path, helper=helper, train=train) / "helper.py")
    assert said(found) == [("forward", "not checkable")]
    assert names(found) == ["train.py"]


CRITERION = """
import torch
from torch import nn

class Criterion(nn.Module):
    def forward(self, x, y):
        with torch.autocast("cuda", enabled=False):
            return (x.float() - y).square().mean()
"""


@pytest.mark.parametrize("where", ["train", "beside"])
def test_a_region_in_a_module_is_not_denied_its_step(verifier: Verifier, tmp_path: Path, where: str) -> None:
    train = STEP.replace("LOSS", "criterion(model(x), y)")
    if where == "train":
        train = train.replace("IMPORT", "from loss import Criterion").replace("SETUP", "criterion = Criterion()")
        main = ""
    else:
        train = train.replace("IMPORT", "").replace("SETUP", "criterion = model.criterion")
        main = "from loss import Criterion\nfrom train import train\n\ntrain(build(Criterion()), 1, 2, [])\n"
    found = check(verifier, project(tmp_path, loss=CRITERION, train=train, main=main) / "loss.py")
    assert said(found) == [("Criterion.forward", "not checkable")]
    made = "train.py" if where == "train" else "main.py"
    assert found.rows[0].reason == (
        'line 7 has torch.autocast("cuda", enabled=False), in a module that '
        f"{made} creates next to a training step: amplint doesn't interpret what a module computes"
    )
    assert names(found) == ["train.py"]


LAYERS = """
import torch
from torch import nn

class Norm(nn.Module):
    @torch.autocast("cuda", enabled=False)
    def forward(self, x):
        return x / x.norm()

class Scale(nn.Module):
    @torch.autocast("cuda", enabled=False)
    def forward(self, x):
        return x * 2

class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.scale = Norm(), Scale()

    def forward(self, x):
        return self.scale(self.norm(x))
"""
BLOCK = """
import torch
from torch import nn
from layers import Plain

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Plain() for _ in range(4)])

    AMP
    def forward(self, x):
        for each in self.layers:
            x = each(x)
        return x

def build_block(cfg):
    return Block()
"""
MAKES = "from block import build_block\nfrom train import train\n\ntrain(build_block(1), 1, 2, [])\n"
DECORATOR_OFF = "@torch.autocast('cuda', enabled=False)"


def layered(folder: Path, amp: str, main: str = MAKES) -> Path:
    train = STEP.replace("IMPORT", "").replace("SETUP", "pass").replace("LOSS", "model(x).mean()")
    return project(folder, layers=LAYERS, block=BLOCK.replace("AMP", amp), train=train, main=main)


def test_modules_of_a_model_that_a_step_trains_are_one_cause(verifier: Verifier, tmp_path: Path) -> None:
    (row,) = check(verifier, layered(tmp_path, "") / "layers.py").rows
    assert (row.name, row.verdict) == ("Norm.forward", "not checkable")
    assert row.reason == (
        'line 6 has torch.autocast("cuda", enabled=False), and so has 1 more of the file\'s modules, in a module that '
        "main.py creates next to a training step: amplint doesn't interpret what a module computes"
    )


def test_a_module_of_one_that_has_amp_is_a_part_of_it(verifier: Verifier, tmp_path: Path) -> None:
    found = check(verifier, layered(tmp_path, DECORATOR_OFF) / "layers.py")
    assert (found.rows, names(found)) == ([], ["block.py"])
    assert {each.why for each in found.looked.looks} == {"a part of Block of block.py"}
    found = check(verifier, tmp_path / "block.py")
    assert said(found) == [("Block.forward", "not checkable")]
    assert "in a module that main.py creates next to a training step" in found.rows[0].reason


def test_modules_that_nothing_makes_are_one_cause_too(verifier: Verifier, tmp_path: Path) -> None:
    (row,) = check(verifier, layered(tmp_path, "", "") / "layers.py").rows
    assert (
        "and so has 1 more of the file's modules, but amplint doesn't see the training step that runs it" in row.reason
    )


BASE_TRAINER = """
import torch

class BaseTrainer:
    def __init__(self, config, model):
        self.model, self.config = model, config
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        MADE

    def run(self, epochs):
        for epoch in range(epochs):
            self.train_one_epoch()
"""
OWN_TRAINER = """
import torch
from BASE import BaseTrainer

class Trainer(BaseTrainer):
    def train_one_epoch(self):
        for x, y in self.loader:
            self.optimizer.zero_grad()
            with torch.autocast("cuda", enabled=self.config.amp):
                loss = self.model(x).mean()
            USE
"""
SCALED = """self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()"""
HELD = 'self.scaler = torch.amp.GradScaler("cuda", enabled=config.amp)'


@pytest.mark.parametrize("made", [HELD, f"self.setup(config)\n\n    def setup(self, config):\n        {HELD}"])
@pytest.mark.parametrize("between", [False, True])
def test_a_scaler_that_a_subclass_in_another_file_uses(
    verifier: Verifier, tmp_path: Path, made: str, between: bool
) -> None:
    base, middle = "core.base_trainer", "from core.base_trainer import BaseTrainer as Base\n\n"
    own = OWN_TRAINER.replace("USE", SCALED).replace("BASE", "core.middle" if between else base)
    middle += "class BaseTrainer(Base):\n    def backward(self, loss):\n        loss.backward()\n"
    text = BASE_TRAINER.replace("MADE", made)
    folder = project(tmp_path, core__base_trainer=text, core__own_trainer=own, core__middle=middle if between else "")
    found = check(verifier, folder / "core" / "base_trainer.py")
    assert (found.rows, names(found)) == ([], ["own_trainer.py"])
    assert said(check(verifier, folder / "core" / "own_trainer.py")) == [("Trainer.train_one_epoch", "clean")]


def test_a_scaler_that_no_subclass_uses(verifier: Verifier, tmp_path: Path) -> None:
    use = "loss.backward()\n            self.optimizer.step()"
    own = OWN_TRAINER.replace("USE", use).replace("BASE", "base_trainer")
    folder = project(tmp_path, base_trainer=BASE_TRAINER.replace("MADE", HELD), own_trainer=own)
    assert said(check(verifier, folder / "base_trainer.py")) == [("BaseTrainer.__init__", "not checkable")]


# --- fixes that are for one of several lines


def test_a_deprecated_name_that_no_fix_is_for_refutes_none(verifier: Verifier, tmp_path: Path) -> None:
    train = (
        "import torch\n\ndef train(model, optimizer, loader, scaler):\n    for x, y in loader:\n"
        "        optimizer.zero_grad()\n        with torch.cuda.amp.autocast():\n            out = model(x)\n"
        "        with torch.cuda.amp.autocast():  # noqa: AMP101\n            loss = (out - y).square().mean()\n"
        "        scaler.scale(loss).backward()\n        scaler.step(optimizer)\n        scaler.update()\n"
    )
    (row,) = check(verifier, project(tmp_path, train=train) / "train.py").rows
    assert (row.verdict, row.reason) == ("confirmed", "only a deprecation warning is left: what was compared is right")
    assert [(each.code, each.row, each.fixed) for each in row.findings] == [("AMP101", 6, True)]


# --- steps that are out of sight


def test_a_wrapper_of_another_library_is_not_checkable(verifier: Verifier, tmp_path: Path) -> None:
    folder = layout(tmp_path, RIGHT, "timm.utils")
    found = check(verifier, folder / "engine.py")
    assert said(found) == [("train_one_epoch", "not checkable")]
    assert found.rows[0].reason.startswith("line 13: amplint can't see what loss_scaler(loss, optimizer, ")
    assert found.rows[0].reason.endswith("does: timm.utils.NativeScaler is not in the project")
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


INHERITED = """
import torch
from library.trainers import Trainer
from torch import nn

class Own(BASE):
    def train(self, model, loader):
        self.prepare()
        for x, y in loader:
            with torch.autocast("cuda"):
                loss = nn.functional.mse_loss(model(x), y)
            self.scaler.scale(loss).backward()
            self.run_callbacks("on_train_batch")
            self.optimizer_step()
"""


def test_a_step_of_a_class_out_of_sight(verifier: Verifier, tmp_path: Path) -> None:
    found = check(verifier, project(tmp_path, a=INHERITED.replace("BASE", "Trainer")) / "a.py")
    (row,) = found.rows
    line = INHERITED.partition("self.optimizer_step()")[0].count("\n") + 1
    said = f"line {line}: amplint can't see what self.optimizer_step() of Trainer does"
    assert (row.verdict, row.reason) == ("not checkable", said)


@pytest.mark.parametrize(
    ("base", "own"),
    [
        ("nn.Module", ""),
        ("Trainer", "    def optimizer_step(self):\n        self.steps += 1\n"),
        ("Trainer", "    def set(self):\n        self.optimizer_step = self.count\n"),
    ],
)
def test_a_method_that_is_in_sight_is_not_said_to_be_hidden(
    verifier: Verifier, tmp_path: Path, base: str, own: str
) -> None:
    text = INHERITED.replace("BASE", base) + own
    (row,) = check(verifier, project(tmp_path, a=text) / "a.py").rows
    assert row.verdict == "not checkable"
    assert "but no optimizer step is reached from it" in row.reason


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


@pytest.mark.parametrize(("most", "kind"), [(48, None), (2, Kind.HIDDEN)])
def test_a_script_that_calls_what_trains_behind_many_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, kind: Kind | None
) -> None:
    infer = (
        "import torch\n\n@torch.no_grad()\ndef demix(model, x):\n    with torch.autocast('cuda'):\n        model(x)\n"
    )
    train = STEP.replace("IMPORT", "import extra").replace("SETUP", "pass")
    train = train.replace("LOSS", "torch.autocast('cuda')(model)(x).mean()")
    script = (
        "from infer import demix\nfrom extra import more\nfrom train import train\n\ndef test(args):\n"
        "    demix(args.model, args.x)\n    more(args)\n    train(args.model, args.o, args.s, args.l)\n"
    )
    extra = "def more(args):\n    return args.scaler\n"
    path = project(tmp_path, infer=infer, extra=extra, train=train, script=script) / "script.py"
    monkeypatch.setattr("amplint.verify.program.files._MOST", most)
    found = Looker(code_of(script, str(path))).look()
    assert [each.kind for each in found.looks] == ([] if kind is None else [kind])
    assert [Path(each).name for each in found.follow] == (["train.py"] if kind is None else [])
    assert kind is None or found.looks[0].why.endswith(" that amplint reads")


# --- what is made where all goes well

FALLBACK = """
import torch

try:
    autocast = torch.autocast
except AttributeError:
    class autocast:
        def __init__(self, device_type, enabled=True):
            pass

        def __enter__(self):
            pass

        def __exit__(self, *args):
            pass
"""
CLASSIFIER = """
import torch
from torch.nn.functional import cross_entropy
from net import autocast

def train(model, optimizer, loader, scaler):
    for x, y in loader:
        optimizer.zero_grad()
        with autocast("cuda"):
            out = model(x)
            INSIDE
        OUTSIDE
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

def main(model, loader):
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), loader, torch.amp.GradScaler("cuda"))
"""
EVALUATION = """
import torch
from net import autocast

@torch.no_grad()
def validate(model, batches):
    for x in batches:
        with autocast("cuda"):
            model(x)
"""


@pytest.mark.parametrize("falls_back", [True, False])
def test_a_region_of_another_file_with_a_fallback_is_one(
    verifier: Verifier, tmp_path: Path, *, falls_back: bool
) -> None:
    made = FALLBACK if falls_back else FALLBACK.replace("autocast = torch.autocast", "other = torch.autocast")
    path = project(tmp_path, net=made, evaluate=EVALUATION) / "evaluate.py"
    found = verifier.check(str(path), EVALUATION.encode(), make_settings(select=["ALL"]))
    verdicts = [(row.name, row.verdict) for row in found.rows]
    assert verdicts == ([("validate", "no training step")] if falls_back else [])


@pytest.mark.parametrize("inside", [True, False])
def test_a_step_runs_with_what_is_made_where_all_goes_well(verifier: Verifier, tmp_path: Path, *, inside: bool) -> None:
    loss = "loss = cross_entropy(out, y)"
    text = CLASSIFIER.replace("INSIDE", loss if inside else "pass").replace("OUTSIDE", "pass" if inside else loss)
    path = project(tmp_path, net=FALLBACK, train=text) / "train.py"
    (row,) = verifier.verify(str(path), text.encode(), make_settings(select=["ALL"]))
    assert row.before.dtypes == (["float32"] if inside else ["float16"]), row
    assert (row.verdict, [each.shows for each in row.before.faults]) == (
        ("clean", []) if inside else ("misbehaves", ["dtype"])
    )


# --- the command


@pytest.mark.parametrize(
    ("file", "code", "verdicts", "summary"),
    [
        ("main.py", 0, ["clean", "clean"], "2 clean; "),
        ("predict.py", 0, ["no training step"], "1 with no training step\n"),
        ("util/lr_sched.py", 0, [], "nothing to check: 1 file has no AMP\n"),
        ("wrong.py", 1, ["misbehaves"], "1 misbehaves; "),
        ("timm_main.py", 2, ["not checkable"], "1 not checkable; 1 file has its steps in another file\n"),
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


ONLY_NAMED = [
    "import torch\n\nclass Mul(torch.autograd.Function):\n    @staticmethod\n"
    "    @torch.amp.custom_fwd(device_type='cuda')\n    def forward(ctx, x):\n        return x\n",
    "from torch.cuda.amp import custom_bwd, custom_fwd\n",
    "import torch\n\ndef dtype(x):\n    return torch.float16 if torch.is_autocast_enabled() else x.dtype\n",
]


def test_what_only_names_something_of_amp_is_not_without_it(verifier: Verifier, tmp_path: Path) -> None:
    for at, text in enumerate(ONLY_NAMED):
        found = check(verifier, project(tmp_path, **{f"a{at}": text}) / f"a{at}.py")
        assert (found.rows, found.has_amp) == ([], True), text


def test_apex_is_not_checkable(verifier: Verifier, tmp_path: Path) -> None:
    text = (
        "from apex import amp\n\ndef train(model, optimizer, loader):\n    for batch in loader:\n"
        "        optimizer.zero_grad()\n        with amp.scale_loss(model(batch).mean(), optimizer) as loss:\n"
        "            loss.backward()\n        optimizer.step()\n"
    )
    (row,) = check(verifier, project(tmp_path, a=text) / "a.py").rows
    assert (row.verdict, row.reason) == (
        "not checkable",
        "line 6 has amp.scale_loss(model(batch).mean(), optimizer), which is apex's: amplint doesn't interpret apex",
    )


def test_all_files_are_counted(amplint: Amplint, tmp_path: Path) -> None:
    layout(tmp_path, RIGHT)
    project(
        tmp_path,
        **{f"named{at}": text for at, text in enumerate(ONLY_NAMED)},
        region="import torch\n\ndef half():\n    return torch.autocast('cuda')\n",
        step="import torch\nfrom region import half\n\ndef train(model, optimizer, scaler, batch):\n"
        "    optimizer.zero_grad()\n    with half():\n        loss = model(batch).mean()\n"
        "    scaler.scale(loss).backward()\n    scaler.step(optimizer)\n    scaler.update()\n",
        predict="import torch\n\ndef predict(model, x):\n    with torch.autocast('cuda'):\n        return model(x)\n",
    )
    ran = amplint("verify", tmp_path, "--ignore", "ALL")
    (summary,) = [line for line in ran.out.splitlines() if " files have " in line]
    assert "3 files have AMP, but no autocast region and no scaler" in summary
    assert "2 files have their steps in other files" in summary  # main.py and region.py
    counted = sum(map(int, re.findall(r"(\d+) files? ha(?:s|ve) ", summary)))
    rows = json.loads(amplint("verify", tmp_path, "--ignore", "ALL", "--output-format", "json").out)
    listed = {each["path"] for each in rows}
    assert counted + len(listed) == len([*tmp_path.rglob("*.py")])


def test_verbose_says_what_was_looked_at(amplint: Amplint, tmp_path: Path) -> None:
    layout(tmp_path, RIGHT)
    ran = amplint("verify", "-v", tmp_path / "main.py", tmp_path / "util" / "lr_sched.py")
    assert "main.py: read with" in ran.err
    assert "engine.py, which is checked too" in ran.err
    assert "  5 train_one_epoch: a training step\n" in ran.err
    assert " evaluate: not a step: line " in ran.err
    assert "lr_sched.py: no AMP\n" in ran.err


TABLED = """
import torch

def NAME(model, opt, scaler, x, y):
    with torch.autocast("cuda"):
        loss = torch.nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    UNSCALE
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(opt)
    scaler.update()
    opt.zero_grad()
"""
FIT = """
def fit(name, model, opt, loader):
    scaler = torch.amp.GradScaler("cuda")
    step = TAKEN
    opt.zero_grad()
    for x, y in loader:
        step(model, opt, scaler, x, y)
"""
REGISTER = """
HOOKS = {}

def register(name):
    def store(f):
        HOOKS[name] = f
        return f
    return store

@register("sgd")
"""
BY_NAME = """
import torch

class Trainer:
    def __init__(self, model, opt):
        self.model, self.opt = model, opt
        self.scaler = torch.amp.GradScaler("cuda")
        self.table = {"a": self.step_a, "b": self.step_b}

    def step_a(self, loss):
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()

    def step_b(self, loss):
        self.scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.opt)
        self.scaler.update()

    def fit(self, loader, mode):
        for x, y in loader:
            self.opt.zero_grad()
            with torch.autocast("cuda"):
                loss = torch.nn.functional.cross_entropy(self.model(x), y)
            TAKEN(loss)
"""
BESIDE = """
import steps
import torch
STEPS = steps.load()

def train(model, opt, loader, name, plain):
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        opt.zero_grad()
        with torch.autocast("cuda"):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        if not plain:
            WITHIN
        scaler.step(opt)
        scaler.update()

def dispatch(name, model, opt):
    scaler = torch.amp.GradScaler("cuda")
    BESIDE
"""


def step(name: str, unscale: str) -> str:
    return TABLED.replace("NAME", name).replace("UNSCALE", unscale)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("unscale", "verdict"), [("scaler.unscale_(opt)", "clean"), ("pass", "misbehaves")])
@pytest.mark.parametrize("taken", ["STEPS[name]", "STEPS.get(name)"])
@pytest.mark.parametrize(
    "table", ['STEPS = {"one": one, "two": two}', 'STEPS = {}\nSTEPS["one"] = one\nSTEPS["two"] = two']
)
def test_all_functions_of_a_table_are_run(
    verifier: Verifier, tmp_path: Path, table: str, taken: str, unscale: str, verdict: str
) -> None:
    run = "import torch\nfrom steps import STEPS\n" + FIT.replace("TAKEN", taken)
    steps = step("one", "scaler.unscale_(opt)") + step("two", unscale) + f"\n{table}\n"
    folder = project(tmp_path, run=run, steps=steps)
    assert said(check(verifier, folder / "run.py")) == [("fit", verdict)]


IN_REGIONS = """
import torch
from contextlib import nullcontext

def fit(model, opt, loader, name):
    regions = {"fp32": nullcontext(), "bf16": torch.autocast("cuda", dtype=torch.bfloat16)}
    dtypes = {"fp32": torch.float32, "bf16": torch.bfloat16}
    for x, y in loader:
        opt.zero_grad()
        with TAKEN:
            loss = torch.nn.functional.mse_loss(model(x), y)
            WITHIN
        BEHIND
        opt.step()
"""


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("within", "verdict"), [(False, "clean"), (True, "confirmed")])
@pytest.mark.parametrize(
    "taken",
    [
        "regions[name]",
        "regions.get(name)",
        'torch.autocast("cuda", dtype=dtypes[name], enabled=name != "fp32")',
        '{"fp32": nullcontext(), "bf16": torch.autocast("cuda", dtype=torch.bfloat16)}[name]',
    ],
)
def test_all_regions_of_a_table_are_run(
    verifier: Verifier, tmp_path: Path, taken: str, within: bool, verdict: str
) -> None:
    """The first one is no region: a backward within it is right."""
    backward, nothing = "loss.backward()", "print(x)"
    run = IN_REGIONS.replace("TAKEN", taken).replace("WITHIN", backward if within else nothing)
    run = run.replace("BEHIND", nothing if within else backward)
    assert said(check(verifier, project(tmp_path, run=run) / "run.py")) == [("fit", verdict)]


@pytest.mark.parametrize(("unscale", "verdict"), [("scaler.unscale_(opt)", "clean"), ("pass", "misbehaves")])
def test_functions_that_a_decorator_registers_are_run(
    verifier: Verifier, tmp_path: Path, unscale: str, verdict: str
) -> None:
    loops = step("loop", unscale).replace("\ndef loop", f"{REGISTER}def loop")
    run = "import torch\nfrom loops import HOOKS\n" + FIT.replace("TAKEN", "HOOKS[name]")
    assert said(check(verifier, project(tmp_path, loops=loops, run=run) / "run.py")) == [("fit", verdict)]


@pytest.mark.parametrize("taken", ['getattr(self, f"step_{mode}")', "self.table[mode]"])
def test_methods_by_a_name_that_is_computed_are_followed(verifier: Verifier, tmp_path: Path, taken: str) -> None:
    """A step without a clip, and one with a clip that is wrong: both are run."""
    found = check(verifier, project(tmp_path, run=BY_NAME.replace("TAKEN", taken)) / "run.py")
    assert said(found) == [("Trainer.fit", "confirmed")]
    assert [each.code for each in found.rows[0].findings] == ["AMP401"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "call",
    [
        "STEPS[name](model, opt, scaler)",
        "STEPS[name](model, tools=[scaler])",
        "getattr(steps, name)(model, scaler)",
        "steps.Learner(model, scaler).fit()",
    ],
)
@pytest.mark.parametrize(("where", "name"), [("BESIDE", "dispatch"), ("WITHIN", "train")])
def test_a_scaler_given_to_what_can_t_be_followed_is_not_checkable(
    verifier: Verifier, tmp_path: Path, call: str, where: str, name: str
) -> None:
    text = BESIDE.replace(where, call).replace("BESIDE", "pass").replace("WITHIN", "pass")
    rows = check(verifier, project(tmp_path, run=text) / "run.py").rows
    found = [each for each in rows if each.verdict == NOT_CHECKABLE]
    assert [each.name for each in found] == [name]
    assert "can't see" in found[0].reason


@pytest.mark.parametrize("call", ["save(scaler)", "print(scaler)", "torch.save(scaler, name)", "log.state(scaler)"])
def test_a_scaler_that_is_only_kept_hides_nothing(verifier: Verifier, tmp_path: Path, call: str) -> None:
    text = BESIDE.replace("BESIDE", call).replace("WITHIN", "pass")
    assert said(check(verifier, project(tmp_path, run=text) / "run.py")) == [("train", "clean")]


@pytest.mark.parametrize("use", ["from common import gs", "import common", "from common import made as gs"])
@pytest.mark.parametrize(("unscale", "verdict"), [("gs.unscale_(opt)", "clean"), ("pass", "misbehaves")])
def test_a_scaler_that_another_file_makes(
    verifier: Verifier, tmp_path: Path, use: str, unscale: str, verdict: str
) -> None:
    text = step("one", unscale).replace("scaler, ", "").replace("scaler.", "gs.")
    text = text.replace("import torch", f"import torch\n{use}", 1)
    text = text.replace("gs.", "common.gs.") if use == "import common" else text
    scaler = "torch.amp.GradScaler('cuda')"
    common = f"import torch\ndef make():\n    return {scaler}\ngs = {scaler}\nmade = make()\n"
    if unscale == "pass" and use == "from common import gs":
        verdict = "confirmed"  # the linter sees this one as well, and fixes it
    assert said(check(verifier, project(tmp_path, common=common, run=text) / "run.py")) == [("one", verdict)]


def test_a_helper_that_is_too_large_is_out_of_sight(amplint: Amplint, tmp_path: Path) -> None:
    text = "import torch\nfrom helper import one\n" + FIT.replace("TAKEN", "one")
    folder = project(tmp_path, helper=step("one", "pass") + "#" * (1 << 18), run=text)
    ran = amplint("verify", "-v", folder / "run.py")
    assert ran.code == 2
    assert "helper.py is not read: the file has more than 256 KiB" in ran.err
    assert ran.err.startswith("project: ")
    assert "(contains pyproject.toml)\n" in ran.err


def test_what_failed_is_not_said_to_be_nothing(amplint: Amplint, tmp_path: Path) -> None:
    ran = amplint("verify", tmp_path / "missing.py")
    assert ran.code == 2
    assert ran.out == "nothing was checked: 1 error\n"


def test_one_run_writes_what_the_fixes_of_other_files_allow(amplint: Amplint, tmp_path: Path) -> None:
    layout(tmp_path, WRONG)
    engine = tmp_path / "engine.py"
    engine.write_text(engine.read_text().replace('torch.autocast("cuda")', "torch.cuda.amp.autocast()", 1))
    amplint("--fix", "--verify", tmp_path)
    after = {path: path.read_bytes() for path in tmp_path.rglob("*.py")}
    assert "torch.cuda.amp" not in engine.read_text()
    amplint("--fix", "--verify", tmp_path)
    assert {path: path.read_bytes() for path in after} == after


KEPT = """
import functools
import torch

class Runner:
    def __init__(self, cfg, model, loader):
        self.cfg, self.model, self.loader = cfg, model, loader
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda")
        self.run = None
        self.finish = None

    def prepare(self):
        CHOOSE

    def by_epochs(self, count=1):
        for x, y in self.loader:
            self.optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = torch.nn.functional.cross_entropy(self.model(x), y)
            self.finish(loss)

    def scaled(self, loss):
        self.scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def plain(self, loss):
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()

    def train(self):
        self.prepare()
        self.run()
"""
STARTS = """
from runner import Runner

def main(cfg, model, loader):
    runner = Runner(cfg, model, loader)
    runner.train()
"""


@pytest.mark.parametrize(
    "choose",
    [
        "self.run, self.finish = self.by_epochs, self.scaled",
        "self.run = self.by_epochs\n        self.finish = self.scaled if self.cfg.amp else self.plain",
        "self.finish = self.plain\n        if self.cfg.amp:\n            self.finish = self.scaled\n"
        "        self.run = self.by_epochs",
        "self.run = functools.partial(self.by_epochs, count=2)\n        self.finish = functools.partial(self.scaled)",
        "self.run = {'epochs': self.by_epochs}[self.cfg.by]\n"
        "        self.finish = {'amp': self.scaled, 'plain': self.plain}[self.cfg.how]",
    ],
)
def test_a_method_that_an_attribute_keeps_is_followed(verifier: Verifier, tmp_path: Path, choose: str) -> None:
    project(tmp_path, runner=KEPT.replace("CHOOSE", choose), start=STARTS)
    found = check(verifier, tmp_path / "runner.py")
    assert said(found) == [("Runner.by_epochs", "confirmed")]
    start = check(verifier, tmp_path / "start.py")
    assert not start.rows
    assert [Path(each).name for each in start.looked.follow] == ["runner.py"]


HIDES = """
import torch

class Runner:
    def __init__(self, cfg, model, loader):
        self.cfg, self.model, self.loader = cfg, model, loader
        self.trainer = TRAINER

    @torch.no_grad()
    def validate(self):
        for x, y in self.loader:
            with torch.autocast("cuda"):
                self.model(x)

    def by_epochs(self):
        print(self.cfg)

    def train(self):
        self.trainer(self.cfg.epochs)
        self.validate()
"""


@pytest.mark.parametrize("trainer", ["cfg.trainer", "build(cfg)", "getattr(cfg, cfg.mode)"])
def test_what_is_kept_out_of_sight_may_train(verifier: Verifier, tmp_path: Path, trainer: str) -> None:
    project(tmp_path, runner=HIDES.replace("TRAINER", trainer), start=STARTS)
    (row,) = check(verifier, tmp_path / "start.py").rows
    assert row.verdict == "not checkable"
    assert "amplint can't see what self.trainer(self.cfg.epochs) does" in row.reason


def test_what_is_kept_in_sight_and_trains_nothing_hides_nothing(verifier: Verifier, tmp_path: Path) -> None:
    project(tmp_path, runner=HIDES.replace("TRAINER", "self.by_epochs"), start=STARTS)
    assert {each.verdict for each in check(verifier, tmp_path / "start.py").rows} == {"no training step"}


OWN_SCALER = """
from scalers import Clipped


def train(model, heads, loader, optimizer, half):
    scaler = Clipped(128) if half else None
    for x, y in loader:
        features = model(x)
        given, loss = heads.forward_backward(y, features, optimizer)
        if half:
            features.backward(scaler.scale(given))
            scaler.step(optimizer)
            scaler.update()
"""


@pytest.mark.parametrize(("base", "has_amp"), [("GradScaler", True), ("dict", False)])
def test_a_scaler_of_a_class_of_another_file(verifier: Verifier, tmp_path: Path, base: str, has_amp: bool) -> None:
    scalers = f"from torch.cuda.amp import GradScaler\n\n\nclass Clipped({base}):\n    pass\n"
    project(tmp_path, scalers=scalers, runner=OWN_SCALER)
    found = check(verifier, tmp_path / "runner.py")
    assert found.has_amp is has_amp
    assert ("train" in {row.name for row in found.rows}) is has_amp


OWN_STEP = """
import torch

ctx = torch.autocast("cuda", dtype=torch.bfloat16)
optimizer = model.configure_optimizers(lr)
for x, y in loader:
    with ctx:
        loss = model(x, y)
    loss.backward()
    optimizer.STEP
    optimizer.zero_grad()
"""


def test_a_step_of_an_optimizer_s_own_is_named_as_what_can_t_be_seen(verifier: Verifier, tmp_path: Path) -> None:
    found = check(verifier, project(tmp_path, train=OWN_STEP.replace("STEP", "step(bs=32)")) / "train.py")
    assert said(found) == [("<module>", "not checkable")]
    assert found.rows[0].reason == "line 10: amplint can't see what optimizer.step(bs=32) does"
    found = check(verifier, project(tmp_path, train=OWN_STEP.replace("STEP", "step()")) / "train.py")
    assert said(found) == [("<module>", "clean")]
    found = check(verifier, project(tmp_path, train=OWN_STEP.replace("STEP", "state_dict()")) / "train.py")
    assert found.rows[0].reason.endswith("but no optimizer step is reached from it")


def test_functions_that_hand_parts_of_what_they_get_to_one_another() -> None:
    """Each parameter comes from an attribute of the other's: that is followed so far, and no further."""
    text = """
import torch
from somewhere import log

class Model:
    def __init__(self):
        self.scaler = torch.amp.GradScaler("cuda")

    def describe(self, net):
        log(net.inner)
        self.other(net.inner)

    def other(self, net):
        log(net.inner)
        self.describe(net.inner)
"""
    code = code_of(text)
    call = next(each for each in code.module.calls if code.text(each) == "log(net.inner)")
    assert not code.unfollowed.is_given_scaler(code, call)
