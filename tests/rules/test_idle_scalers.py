"""AMP207: a scaler that scales nothing is none, though it is saved and loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

import amplint

PROGRAM = """\
import torch
from torch import nn
from torch.amp import GradScaler
IMPORTS

def train(model, loader, path):
    optimizer = torch.optim.AdamW(model.parameters())
    MADE
    for x, y in loader:
        with torch.autocast("cuda", dtype=DTYPE):
            loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        STEP
        optimizer.step()
    END
"""
SAVED = 'torch.save({"model": model.state_dict(), "scaler": scaler.state_dict()}, path)'
OF_A_CLASS = """\
import torch
from torch import nn


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters())
        self.scaler = torch.cuda.amp.GradScaler()

    def step(self, x, y):
        self.optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()

    def state_dict(self):
        return {"model": self.model.state_dict(), "scaler": self.scaler.state_dict()}
"""


def codes(made: str, step: str = "loss.backward()", end: str = "", imports: str = "", dtype: str = "") -> list[str]:
    text = PROGRAM.replace("MADE", made).replace("STEP", step).replace("END", end).replace("IMPORTS", imports)
    return found(text.replace("DTYPE", dtype or "torch.float16"))


def found(text: str) -> list[str]:
    return [each.code for each in amplint.check(text) if each.code == "AMP207"]


@pytest.mark.parametrize(
    ("made", "step", "end"),
    [
        ('scaler = GradScaler("cuda")', "loss.backward()", SAVED),
        ('scaler = GradScaler("cuda"); scaler.load_state_dict(torch.load(path)["scaler"])', "loss.backward()", SAVED),
        ('grad_scaler = torch.amp.GradScaler("cuda")', "loss.backward(); print(grad_scaler.get_scale())", ""),
    ],
)
def test_a_scaler_that_scales_nothing(made: str, step: str, end: str) -> None:
    assert codes(made, step, end) == ["AMP207"]
    assert codes(made, step, end, dtype="torch.bfloat16") == []


def test_of_a_class() -> None:
    assert found(OF_A_CLASS) == ["AMP207"]
    assert found(OF_A_CLASS.replace("loss.backward()", "self.backward(loss, self.scaler)")) == []


@pytest.mark.parametrize(
    ("made", "step", "imports"),
    [
        (
            'scaler = GradScaler("cuda")',
            "helper(loss, optimizer, scaler); loss.backward()",
            "from helpers import helper",
        ),
        (
            'scaler, loss_scaler = GradScaler("cuda"), NativeScaler()',
            "loss = loss_scaler.times(loss); loss.backward()",
            "from timm.utils import NativeScaler",
        ),
        ('scaler = GradScaler("cuda"); others = [scaler]', "loss.backward()", ""),
        (
            'scaler = GradScaler("cuda")',
            "loss = loss * loss_scaler(); loss.backward()",
            "from helpers import loss_scaler",
        ),
    ],
)
def test_what_may_scale(made: str, step: str, imports: str) -> None:
    assert codes(made, step, imports=imports) == []


@pytest.mark.parametrize(
    ("base", "more", "found"),
    [
        ("", "", ["certain"]),
        ("(Base)", "", ["likely"]),
        ("(Base)", "self.register(self.scaler)", []),
        ("(Base)", "self.scaler.unscale_(self.optimizer)", []),
    ],
)
def test_a_base_class_out_of_sight_may_use_the_scaler(base: str, more: str, found: list[str]) -> None:
    text = OF_A_CLASS.replace("class Trainer:", f"class Trainer{base}:").replace(
        "\nclass", "from lib import Base\n\nclass", 1
    )
    text = text.replace("self.optimizer.zero_grad()", f"self.optimizer.zero_grad(); {more or 'pass'}")
    assert [each.confidence.value for each in amplint.check(text) if each.code == "AMP207"] == found


OF_TWO = """\
import torch

def first(net, loader):
    optimizer = torch.optim.Adam(net.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        with torch.autocast("cuda"):
            loss = torch.nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

def second(net, loader, *rest):
    optimizer = torch.optim.Adam(net.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        with torch.autocast("cuda"):
            loss = torch.nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
ADVERSARIAL = """\
import torch

def train(g, d, loaderPARAMS):
    MADE
    scaler_d = torch.amp.GradScaler("cuda")
    for z, x in loader:
        with torch.autocast("cuda"):
            loss_d = d(x).mean() - d(g(z).detach()).mean()
        opt_d.zero_grad()
        scaler_d.scale(loss_d).backward()
        scaler_d.step(opt_d)
        scaler_d.update()
        with torch.autocast("cuda"):
            loss_g = -d(g(z)).mean()
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()
"""
TWO_OPTIMIZERS = "opt_g, opt_d = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())"


def test_a_scaler_of_another_function() -> None:
    assert found(OF_TWO) == ["AMP207"]
    before, second = OF_TWO.split("def second")
    assert found(f"{before}def second{second.replace('loss.backward', 'scaler.scale(loss).backward')}") == []
    assert found(f"{before}def second{second.replace('    for', '    keep(scaler)' + chr(10) + '    for')}") == []
    given = second.replace("*rest", "scaler").replace("scaler = torch", "made = torch")
    assert found(f"{before}def second{given}") == ["AMP207"]  # which nothing reads
    assert found(f"{before}def second{given.replace('loss.backward', 'scaler(loss).backward')}") == []


@pytest.mark.parametrize("count", [1, 0])
def test_a_scaler_of_data_in_another_file(tmp_path: Path, count: int) -> None:
    """What is called so in code that the training doesn't run says nothing of its loss."""
    (tmp_path / "data.py").write_text(
        "class Scaled:\n    def __init__(self, scaler):\n        self.scaler = scaler\n\n"
        "    def __call__(self, x):\n        return self.scaler(x)\n"
    )
    text = OF_TWO[OF_TWO.index("def second") :].replace("*rest", "data")
    text = f"import torch\nfrom data import Scaled\n\ndef prepare(x, fn):\n    return Scaled(fn)(x)\n\n{text}"
    if not count:
        text = text.replace("loss.backward()", "change = Scaled(data); change(loss).backward()")
    file = tmp_path / "train.py"
    file.write_text(text)
    codes = [each.code for each in amplint.check(text, str(file))]
    assert codes.count("AMP207") == count


@pytest.mark.parametrize("made", [TWO_OPTIMIZERS, ""])
def test_a_scaler_of_other_losses(made: str) -> None:
    text = ADVERSARIAL.replace("MADE", made or "pass").replace("PARAMS", "" if made else ", opt_g, opt_d")
    assert found(text) == ["AMP207"]
    assert found(text.replace("scaler_d", "scaler")) == ["AMP207"]
    assert found(text.replace("loss_g.backward", "scaler_d.scale(loss_g).backward")) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("opt_g.step()", "scaler_d.step(opt_g); opt_d.step()"),  # AMP403
        ("scaler_d.step(opt_d)", "for each in (opt_d, opt_g): scaler_d.step(each)"),
        ("scaler_d.scale(loss_d).backward()", "scaled = scaler_d.scale(loss_d); run(scaled)"),
        ("scaler_d.step(opt_d)", "step(scaler_d, opt_d)"),
        ("loss_g = -", "loss_g = scaler_d._scale * -"),
    ],
)
def test_a_scaler_that_may_be_for_this_loss(old: str, new: str) -> None:
    text = "from elsewhere import run, step\n" + ADVERSARIAL.replace("MADE", TWO_OPTIMIZERS).replace("PARAMS", "")
    assert found(text) == ["AMP207"]
    assert found(text.replace(old, new)) == []


def test_stages_with_the_same_names() -> None:
    second = OF_TWO[OF_TWO.index("    optimizer = ", OF_TWO.index("def second")) :]
    text = OF_TWO[: OF_TWO.index("\ndef second")] + second
    assert found(text) == ["AMP207"]
    plain = "        if flag():\n            loss.backward()\n            optimizer.step()\n            continue\n"
    one = text.replace(second, "").replace("        scaler.scale(", f"{plain}        scaler.scale(")
    assert found(one) == []
