"""AMP305: an autocast object in a variable that nothing reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint import check

STEP = """\
import contextlib
import torch

KEPT = torch.autocast("cuda")


def step(model, x, low, helper):
    ctx = VALUE
    USE
    return model(x)
"""
REGION = 'torch.autocast("cuda", dtype=torch.bfloat16)'


def found(value: str, use: str = "pass") -> list[str]:
    text = STEP.replace("VALUE", value).replace("USE", use)
    return [each.message for each in check(text) if each.code == "AMP305"]


@pytest.mark.parametrize(
    "value",
    [REGION, f"{REGION} if low else torch.no_grad()", f"contextlib.nullcontext() if low else {REGION}"],
)
def test_one_that_nothing_reads(value: str) -> None:
    (message,) = found(value)
    assert message == (
        "the autocast object in `ctx` is never entered and has no effect; write `with ctx:` around the "
        "forward pass and the loss"
    )


@pytest.mark.parametrize(
    ("value", "use"),
    [
        (REGION, "with ctx:\n        model(x)"),
        (REGION, "helper(ctx)"),
        (REGION, "run = lambda: ctx"),
        (REGION, "helper(**locals())"),
        (f"helper({REGION})", "pass"),
        (f"{REGION} if low else helper()", "pass"),
        ("KEPT and low", "pass"),
    ],
)
def test_one_that_may_be_entered(value: str, use: str) -> None:
    assert found(value, use) == []


def test_what_another_file_reads_of_its_own(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    engine = STEP.replace("VALUE", REGION).replace("USE", "with ctx:\n        model(x)")
    (tmp_path / "engine.py").write_text(engine, "utf-8")
    text = "import torch\nfrom engine import step\n\nscaler = torch.amp.GradScaler()\nstep(None, None, True, print)\n"
    file = tmp_path / "train.py"
    file.write_text(text, "utf-8")
    assert "AMP305" not in {each.code for each in check(text, str(file))}


SCRIPT = """\
import contextlib
import torch

BEFORE
ctx = VALUE
model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def evaluate(x):
    return AFTER


for x, y in load():
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
"""
TRAINER = """\
import torch


class Trainer(BASE):
    def __init__(self, model):
        self.model, self.optimizer = model, torch.optim.SGD(model.parameters(), lr=0.1)
        self.ctx = torch.autocast("cuda", dtype=torch.bfloat16)
        self.device = getattr(model, "device")

    def step(self, x, y):
        loss = torch.nn.functional.mse_loss(self.model(x), y)
        USE
        loss.backward()
        self.optimizer.step()
"""


def of_text(text: str, filename: str = "<string>") -> list[str]:
    return [f"{each.confidence.value} {each.message}" for each in check(text, filename) if each.code == "AMP305"]


def of_script(value: str, after: str = "model(x)", before: str = "") -> list[str]:
    return of_text(SCRIPT.replace("VALUE", value).replace("AFTER", after).replace("BEFORE", before))


@pytest.mark.parametrize("value", [REGION, f"contextlib.nullcontext() if DEVICE == 'cpu' else {REGION}"])
def test_one_of_a_program(value: str) -> None:
    (message,) = of_script(value)
    assert message.startswith(
        "likely the autocast object in `ctx` is never entered and has no effect; write `with ctx:`"
    )
    assert of_script(value, before="names = [each for each in globals()]") == [message]


@pytest.mark.parametrize(
    ("after", "before"),
    [
        ("run(ctx, x)", ""),
        ("run(globals(), x)", ""),
        ("model(x)", '__all__ = ["ctx"]'),
    ],
)
def test_one_of_a_program_that_may_be_entered(after: str, before: str) -> None:
    assert of_script(REGION, after, before) == []


def test_one_next_to_another_region() -> None:
    text = SCRIPT.replace("VALUE", REGION).replace("AFTER", "x").replace("BEFORE", "")
    text = text.replace("    loss = ", '    with torch.autocast("cuda"):\n        loss = ')
    (message,) = of_text(text)
    assert message.endswith("the forward pass already runs in the region on line 15; remove this object")


def test_one_that_a_file_without_training_offers() -> None:
    text = SCRIPT.replace("VALUE", REGION).replace("AFTER", "x").replace("BEFORE", "")
    assert of_text(text.replace("    loss.backward()\n", "")) == []


@pytest.mark.parametrize(
    ("use", "base", "count"),
    [
        ("pass", "", 1),
        ("pass", "torch.nn.Module", 1),
        ("with self.ctx: self.model(x)", "", 0),
        ('with getattr(self, "ctx"): self.model(x)', "", 0),
        ("run(**vars(self))", "", 0),
        ("pass", "Base", 0),
    ],
)
def test_an_attribute(use: str, base: str, count: int) -> None:
    assert len(of_text(TRAINER.replace("USE", use).replace("BASE", base))) == count


@pytest.mark.parametrize(("text", "name"), [(SCRIPT, "ctx"), (TRAINER, "trainer.ctx")])
def test_what_another_file_may_enter(tmp_path: Path, text: str, name: str) -> None:
    (tmp_path / ".git").mkdir()
    file, other = tmp_path / "train.py", tmp_path / "main.py"
    text = text.replace("VALUE", REGION).replace("AFTER", "x").replace("BEFORE", "").replace("(BASE)", "")
    text = text.replace("USE", "pass")
    file.write_text(text, "utf-8")
    other.write_text("import train\nfrom train import *\n\ntrain.run()\n", "utf-8")
    assert len(of_text(text, str(file))) == 1
    other.write_text(f"import train\nfrom train import *\n\nwith {name}:\n    train.run()\n", "utf-8")
    assert of_text(text, str(file)) == []
