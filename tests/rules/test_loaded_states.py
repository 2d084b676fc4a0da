"""AMP413 where a scaler's state is loaded that nothing saves, or is saved under a key that nobody reads."""

from __future__ import annotations

import pytest

from amplint import check, fix
from amplint.base.findings import Confidence, Finding

PROGRAM = """\
import copy
import torch


def main(loader, other, resume=None):
    model = torch.nn.Linear(4, 4).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    if resume:
        ckpt = torch.load(resume)
        model.load_state_dict(ckpt["model"])
        optimizer.load_state_dict(ckpt["optimizer"])
LOAD
    for epoch in range(10):
        for x, y in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = torch.nn.functional.mse_loss(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()SAVE}
        torch.save(state, "last.pt")
"""
PLAIN = 'scaler.load_state_dict(ckpt["scaler"])'
ASKED = 'if "scaler" in ckpt:\n    scaler.load_state_dict(ckpt["scaler"])'
TAKEN = 'saved = ckpt.get("scaler")\nif saved:\n    scaler.load_state_dict(saved)'
CAUGHT = 'try:\n    scaler.load_state_dict(ckpt["scaler"])\nexcept KeyError:\n    pass'


def program(load: str, save: str = "") -> str:
    lines = "\n".join(f"        {line}" for line in load.splitlines())
    return PROGRAM.replace("LOAD", lines).replace("SAVE", save)


def found(text: str) -> list[Finding]:
    return [each for each in check(text) if each.code == "AMP413"]


@pytest.mark.parametrize("load", [PLAIN, ASKED, TAKEN, CAUGHT])
def test_it_is_loaded_and_never_saved(load: str) -> None:
    text = program(load)
    (one,) = found(text)
    assert one.confidence is Confidence.LIKELY
    assert "which is loaded on line" in one.message
    fixed = fix(text, unsafe=True)
    assert fixed == program(load, ', "scaler": scaler.state_dict()')
    assert not found(fixed)


def test_it_is_saved_under_the_key_that_is_loaded() -> None:
    assert ', "grad": scaler.state_dict()}' in fix(program(ASKED.replace('"scaler"', '"grad"')), unsafe=True)


@pytest.mark.parametrize(
    "load",
    [
        "scaler.load_state_dict(other.state_dict())",  # taken over from another one
        "kept = copy.deepcopy(other)\nscaler.load_state_dict(kept)",
        "scaler.load_state_dict(find(ckpt))",  # what that finds is out of sight
        'scaler.load_state_dict(ckpt["amp"] if "amp" in ckpt else ckpt["scaler"])',
    ],
)
def test_what_may_not_come_from_the_checkpoint_is_not_missing_in_it(load: str) -> None:
    assert not found(program(load))


@pytest.mark.parametrize("load", [PLAIN, ASKED, TAKEN, CAUGHT])
def test_it_is_saved_under_a_key_that_nobody_reads(load: str) -> None:
    (one,) = found(program(load, ', "amp_scaler": scaler.state_dict()'))
    assert one.confidence is Confidence.LIKELY
    assert 'saved as "amp_scaler"' in one.message
    assert one.fix is None


@pytest.mark.parametrize(
    ("load", "save"),
    [
        (PLAIN, ', "scaler": scaler.state_dict()'),
        (PLAIN, ', "amp": {"scaler": scaler.state_dict()}'),
        (PLAIN, ', "amp": scaler.state_dict(), "scaler": scaler.state_dict()'),
        (PLAIN.replace('["scaler"]', '["amp"]["scaler"]'), ', "amp": {"scaler": scaler.state_dict()}'),
        ('if "amp" in ckpt:\n    ckpt["scaler"] = ckpt.pop("amp")\n' + PLAIN, ', "amp": scaler.state_dict()'),
        ('key = "amp"\nif key not in ckpt:\n    key = "scaler"\n' + PLAIN.replace('"scaler"', "key"),
         ', "amp": scaler.state_dict()'),
        (PLAIN, ', "amp" + str(epoch): scaler.state_dict()'),
        (PLAIN + '\nscaler.load_state_dict(ckpt.get("amp", {}))', ', "amp": scaler.state_dict()'),
    ],
)  # fmt: skip
def test_it_is_saved_under_a_key_that_is_read(load: str, save: str) -> None:
    assert not found(program(load, save))


TWO = """
import torch


def main(loader, generator, critic, resume=None):
    opt_g = torch.optim.Adam(generator.parameters())
    opt_d = torch.optim.Adam(critic.parameters())
    scaler_g = torch.amp.GradScaler("cuda")
    scaler_d = torch.amp.GradScaler("cuda")
    if resume:
        saved = torch.load(resume)
        opt_g.load_state_dict(saved["opt_g"])
        opt_d.load_state_dict(saved["opt_d"])
    for x in loader:
        with torch.autocast("cuda"):
            loss, other = generator(x), critic(x)
        scaler_g.scale(loss).backward()
        scaler_g.step(opt_g)
        scaler_g.update()
        scaler_d.scale(other).backward()
        scaler_d.step(opt_d)
        scaler_d.update()
    torch.save(
        {
            "g": generator.state_dict(),
            "d": critic.state_dict(),
            "opt_g": opt_g.state_dict(),
            "opt_d": opt_d.state_dict(),
        },
        "last.pt",
    )
"""


def test_of_several_scalers_each_is_named() -> None:
    named = [each.message.partition("not that of ")[2].partition(":")[0] for each in found(TWO)]
    assert named == ["`scaler_g`", "`scaler_d`"]
