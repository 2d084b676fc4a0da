"""AMP413: states that a loop over the names of attributes saves and loads."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.config.settings import Settings

TEXT = """\
import torch


class Runner:
    def __init__(self, model, config):
        self.model = model
        self.opt = torch.optim.Adam(model.parameters())
        self.scaler = torch.amp.GradScaler("cuda")
        self.rounds = 0
        {more}
        if config.resume is not None:
            self.load(config.resume)

    def train(self, loader):
        for x, y in loader:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = torch.nn.functional.mse_loss(self.model(x), y)
            self.opt.zero_grad()
            self.scaler.scale(loss).backward()
            self.scaler.step(self.opt)
            self.scaler.update()
            self.save("last.pt")

    def save(self, path):
        {save}
        torch.save(state, path)

    def load(self, path):
        state = torch.load(path)
        for name in {names}:
            getattr(self, name).load_state_dict(state[name])
"""
LOOP = "state = {{}}\n        for name in {names}:\n            state[name] = getattr(self, name).state_dict()"
COMPREHENSION = "state = {{name: getattr(self, name).state_dict() for name in {names}}}"
WITHOUT, WITH = '("model", "opt")', '("model", "opt", "scaler")'


def found(save: str, names: str, more: str = "pass") -> int:
    text = TEXT.format(save=save.format(names=names), names=names, more=more)
    return len(check(text, settings=Settings(frozenset({"AMP413"}), isolated=True)))


@pytest.mark.parametrize("save", [LOOP, COMPREHENSION])
@pytest.mark.parametrize(("names", "wanted"), [(WITHOUT, 1), (WITH, 0), ("self.kept", 0)])
def test_the_scaler_is_among_the_names_or_not(save: str, names: str, wanted: int) -> None:
    assert found(save, names) == wanted


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ("self.every = Every(lambda: getattr(self, config.unit))", 1),
        ("self.keep = Keep(lambda name: getattr(self, name))", 0),
    ],
)
def test_a_function_that_reads_one_attribute_takes_no_state(more: str, wanted: int) -> None:
    assert found(LOOP, WITHOUT, more) == wanted


@pytest.mark.parametrize(("enabled", "wanted"), [("torch.is_autocast_enabled()", 0), ("True", 1)])
def test_a_region_that_goes_on_as_before_is_never_float16_here(enabled: str, wanted: int) -> None:
    text = TEXT.format(save=LOOP.format(names=WITHOUT), names=WITHOUT, more="pass")
    text = text.replace("dtype=torch.float16", f"enabled={enabled}")
    assert len(check(text, settings=Settings(frozenset({"AMP413"}), isolated=True))) == wanted
