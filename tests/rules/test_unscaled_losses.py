"""What may have scaled a loss before its plain backward, and what can't have (AMP403)."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint import check
from amplint.base.findings import Confidence

_STEP = """\
import torch


class Trainer:
    def __init__(self, model, loader, weight, clip):
        self.model = model.cuda()
        self.loader, self.weight, self.clip = loader, weight, clip
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.scaler = torch.amp.GradScaler("cuda")

    def size(self, norm, scale):
        return norm / scale

    def train(self):
        for x, y in self.loader:
            self.optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = torch.nn.functional.cross_entropy(self.model(x), y)
            BEFORE
            loss.backward()
            AFTER
            self.scaler.step(self.optimizer)
            self.scaler.update()
"""
_UNSCALED = "self.scaler.unscale_(self.optimizer)"


def found(before: str, after: str = _UNSCALED) -> list[str]:
    """The codes of the losses that amplint takes for unscaled in a step."""
    text = _STEP.replace("BEFORE", before).replace("AFTER", after)
    return [each.code for each in check(text) if each.code == "AMP403"]


@pytest.mark.parametrize(
    "before",
    [
        "print(self.scaler.get_scale())",
        "norm = self.size(1.0, self.scaler.get_scale())",
        "average = self.size(loss.item(), self.scaler)",
    ],
)
def test_a_scale_that_does_not_get_into_the_loss(before: str) -> None:
    """Who logs the scale, or passes it on, doesn't scale a loss that is made of something else."""
    assert found(before) == ["AMP403"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("loss = loss * self.scaler.get_scale()", _UNSCALED),
        ("loss *= self.scaler.get_scale()", _UNSCALED),
        ("factor = self.scaler.get_scale(); loss = factor * loss", _UNSCALED),
        ("loss = self.scaled(loss, self.scaler)", _UNSCALED),
        ("", "for p in self.model.parameters(): p.grad.mul_(self.scaler.get_scale())"),
        ("scale = self.scaler.scale; loss = scale(loss)", _UNSCALED),
    ],
)
def test_a_loss_or_gradients_scaled_by_hand(before: str, after: str) -> None:
    """These are scaled, or may be."""
    assert found(before or "pass", after) == []


_ARMS = """\
import torch


def train(model, loader, optimizer, scaler, TESTED):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x, y).mean()
        if TEST:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = loss + model(x.flip(0), y).mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            scaler.step(optimizer)
            scaler.update()
"""


@pytest.mark.parametrize(
    ("tested", "test", "codes"),
    [
        ("weight", "weight != 0.0", ["AMP403"]),
        ("weight", "weight > 0.0", ["AMP403"]),
        ("mode", "mode", []),  # may be AMP's own flag: with it off, the scaler passes the step on
        ("fp16", "fp16 > 0", []),
    ],
)
def test_an_arm_that_amp_does_not_choose(tested: str, test: str, codes: list[str]) -> None:
    """How much something weighs doesn't decide whether AMP is on, so the other arm excuses nothing."""
    text = _ARMS.replace("TESTED", tested).replace("TEST", test)
    assert [each.code for each in check(text) if each.code == "AMP403"] == codes


_WRAPPER = """\
import torch


class Steps:
    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.scaler = torch.amp.GradScaler("cuda")

    def NAME(self, loss):
        loss.backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
"""


@pytest.mark.parametrize(("name", "likely"), [("__call__", True), ("optimize", True), ("_optimize", False)])
def test_a_loss_that_a_method_is_given(name: str, *, likely: bool) -> None:
    """Callers of a public method know nothing of the scaler; a subclass that calls a private one may scale the loss."""
    sure = [each.confidence for each in check(_WRAPPER.replace("NAME", name)) if each.code == "AMP403"]
    assert sure == [Confidence.LIKELY] * likely


def test_a_subclass_in_another_file_scales_its_own_loss(tmp_path: Path) -> None:
    """A method that makes its loss itself isn't excused by a method of a subclass that does so as well."""
    text = _STEP.replace("BEFORE", "pass").replace("AFTER", _UNSCALED)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "trainer.py").write_text(text)
    (tmp_path / "other.py").write_text(
        "from trainer import Trainer\n\n\nclass Other(Trainer):\n    def train(self):\n"
        + text.partition("    def train(self):\n")[2].replace("loss.backward()", "self.scaler.scale(loss).backward()")
    )
    assert [each.code for each in check(text, tmp_path / "trainer.py") if each.code == "AMP403"] == ["AMP403"]


_GAN = """\
import torch


def train_step(real, generator, critic, generator_optimizer, critic_optimizer, scaler):
    generator.zero_grad(set_to_none=True)
    critic.zero_grad(set_to_none=True)
    with torch.autocast("cuda", dtype=torch.float16):
        fake = generator(real)
        critic_loss = critic(fake.detach()).mean() - critic(real).mean()
    FIRST.backward()
    STEP_FIRST
    with torch.autocast("cuda", dtype=torch.float16):
        generator_loss = -critic(fake).mean()
    SECOND.backward()
    STEP_SECOND
    scaler.update()
"""
_OF_CRITIC, _OF_GENERATOR = "scaler.scale(critic_loss)", "scaler.scale(generator_loss)"


@pytest.mark.parametrize(
    ("first", "step", "second", "step_second", "codes"),
    [
        ("critic_loss", "scaler.step(critic_optimizer)", _OF_GENERATOR, "scaler.step(generator_optimizer)", ["AMP403"]),
        (_OF_CRITIC, "scaler.step(critic_optimizer)", _OF_GENERATOR, "scaler.step(generator_optimizer)", []),
        ("critic_loss", "critic_optimizer.step()", _OF_GENERATOR, "scaler.step(generator_optimizer)", []),
        (_OF_CRITIC, "scaler.step(critic_optimizer)", "generator_loss", "generator_optimizer.step()", []),
    ],
)
def test_gradients_that_are_cleared_by_models(
    first: str, step: str, second: str, step_second: str, codes: list[str]
) -> None:
    """Which of two optimizers that are parameters a `model.zero_grad()` clears can't be told: it may leave none."""
    text = _GAN.replace("STEP_FIRST", step).replace("STEP_SECOND", step_second)
    text = text.replace("FIRST", first).replace("SECOND", second)
    assert [each.code for each in check(text) if each.code == "AMP403"] == codes
