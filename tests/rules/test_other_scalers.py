"""Scalers of a library, of a class of one's own, and scalers that only look used (AMP413, AMP425)."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Finding
from amplint.config.settings import Settings

LIBRARY = """\
import torch
from timm.utils import NativeScaler

model = torch.nn.Linear(3, 3).cuda()
optimizer = torch.optim.Adam(model.parameters())
scaler = NativeScaler()
saved = torch.load("last.pth")
model.load_state_dict(saved["model"])
optimizer.load_state_dict(saved["optimizer"])
{loads}
for epoch in range(10):
    for x in range(100):
        with torch.autocast("cuda"):
            loss = model(torch.randn(3, 3).cuda()).sum()
        scaler(loss, optimizer, parameters=model.parameters())
    torch.save({{"model": model.state_dict(), "optimizer": optimizer.state_dict(){saves}}}, "last.pth")
"""


@pytest.mark.parametrize(
    ("loads", "saves", "count"),
    [
        ("", "", 1),
        ('scaler.load_state_dict(saved["scaler"])', ', "scaler": scaler.state_dict()', 0),
        ("keep(scaler)", "", 0),
        ("def save(scaler, path):\n    torch.save(scaler.state_dict(), path)\nsave(scaler, 'scaler.pth')", "", 0),
        ("def run(scaler, loss):\n    scaler(loss, optimizer)\nrun(scaler, model.weight.sum())", "", 1),
    ],
)
def test_the_state_of_a_librarys_scaler(loads: str, saves: str, count: int) -> None:
    text = LIBRARY.format(loads=loads, saves=saves)
    found = check(text, settings=Settings(frozenset({"AMP413"}), isolated=True))
    assert ["not that of `scaler`" in each.message for each in found] == [True] * count


RESUMED = """\
import torch

def main(model, loader, dtype, kinds):
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cuda", enabled=dtype == "{on}")
    saved = torch.load("last.pth")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    kinds = {{"float32": torch.float32, "float16": torch.float16}}
    for epoch in range(10):
        for x in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=kinds[dtype], enabled=dtype != "float32"):
                loss = model(x).mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        torch.save({{"model": model.state_dict(), "optimizer": optimizer.state_dict()}}, "last.pth")
"""


@pytest.mark.parametrize(("on", "count"), [("float16", 1), ("float32", 0)])
def test_a_scaler_that_is_off_in_float16_has_no_state_to_lose(on: str, count: int) -> None:
    """That it is off there is said by AMP210."""
    found = check(RESUMED.format(on=on), settings=Settings(frozenset({"AMP413", "AMP210"}), isolated=True))
    assert len([each for each in found if each.code == "AMP413"]) == count
    assert len(found) == 1


LEFTOVER = """\
import torch
from somewhere import OwnScaler

def train(model, loader, amp):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cuda", enabled=amp)
    {other}
    for x in loader:
        loss = model(x)
        {backward}
        {step}
        print(scaler.get_scale())
"""


def leftover(other: str, backward: str, step: str) -> list[Finding]:
    text = LEFTOVER.format(other=other, backward=backward, step=step)
    return check(text, settings=Settings(frozenset({"AMP425"}), isolated=True))


def test_another_scaler_scales_the_loss() -> None:
    (found,) = leftover(
        "grad_scaler = OwnScaler()", "grad_scaler.scale(loss).backward()", "grad_scaler.step(optimizer)"
    )
    assert "`grad_scaler.scale` on line 10 does; remove `scaler`" in found.message


def test_no_scaler_scales_the_loss() -> None:
    (found,) = leftover("pass", "loss.backward()", "optimizer.step()")
    assert "never scales a loss, and no other scaler does" in found.message
