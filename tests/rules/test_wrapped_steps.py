"""AMP420: the branch with the scaler steps what an optimizer wraps, and misses what the wrapper's own `step` does."""

from __future__ import annotations

from pathlib import Path

import pytest

import amplint

PROGRAM = """\
import torch


class Noam:
    def __init__(self, params, warmup):
        self.inner = torch.optim.Adam(params, lr=1e-3)
        self.number, self.warmup = 1, warmup

    def advance(self):
        self.number += 1
        for group in self.inner.param_groups:
            group["lr"] = self.number / self.warmup

    def step(self):
        BODY

    def zero_grad(self):
        self.inner.zero_grad()


OptimizerType = Noam


def train(model, loader, criterion, use_amp, OPTIMIZER):
    MADE
    scaler = torch.amp.GradScaler("cuda", enabled=use_amp)
    for x, y in loader:
        NAME.zero_grad()
        with torch.autocast("cuda", enabled=use_amp):
            loss = criterion(model(x), y)
        if use_amp:
            scaler.scale(loss).backward()
            SCALED
            scaler.update()
        else:
            loss.backward()
            NAME.step()
        AFTER
"""
ADVANCES = ["self.inner.step()\n        self.advance()", "self.advance()\n        return self.inner.step()"]
INLINE = "self.inner.step()\n        for group in self.inner.param_groups:\n            group['lr'] *= 0.99"
MADE = "optimizer = Noam(model.parameters(), 10)"


def codes(
    body: str,
    made: str = MADE,
    given: str = "extra",
    scaled: str = "scaler.step(NAME.inner)",
    after: str = "pass",
    name: str = "optimizer",
) -> list[str]:
    text = PROGRAM.replace("BODY", body).replace("MADE", made).replace("OPTIMIZER", given).replace("SCALED", scaled)
    return [
        each.code for each in amplint.check(text.replace("AFTER", after).replace("NAME", name)) if "420" in each.code
    ]


@pytest.mark.parametrize("body", [*ADVANCES, INLINE])
def test_the_wrappers_own_step_does_more(body: str) -> None:
    assert codes(body) == ["AMP420"]
    assert codes(body, "pass", "optimizer: Noam") == ["AMP420"]
    assert codes(body, "pass", "optimizer: OptimizerType") == ["AMP420"]


def test_it_does_no_more() -> None:
    assert codes("self.inner.step()") == []
    assert codes("'''Step.'''\n        return self.inner.step()") == []
    assert codes("self.number += 1\n        self.inner.step()") == []


@pytest.mark.parametrize(
    "scaled",
    [
        "scaler.step(NAME.inner); NAME.advance()",
        "scaler.step(NAME)",
        "scaler.step(NAME.inner); NAME.step(skip_inner=True)",
    ],
)
def test_the_branch_does_it_too(scaled: str) -> None:
    assert codes(ADVANCES[0], scaled=scaled) == []


def test_it_is_done_after_both() -> None:
    assert codes("self.inner.step()\n        self.advance()", after="optimizer.advance()") == []


def test_a_wrapper_out_of_sight() -> None:
    assert codes(ADVANCES[0], "pass", "optimizer") == []


@pytest.mark.parametrize(
    ("name", "made", "given"),
    [
        ("OptimizerType", "pass", "optimizer: OptimizerType"),
        ("OptimizerType", "optimizer = OptimizerType(model.parameters(), 1)", "more"),
        ("Noam", "optimizer = Noam(model.parameters(), 1)", "more"),
    ],
)
def test_the_class_is_in_another_file(tmp_path: Path, name: str, made: str, given: str) -> None:
    text = PROGRAM.replace("BODY", ADVANCES[0]).replace("NAME", "optimizer").replace("AFTER", "pass")
    text = text.replace("MADE", made).replace("SCALED", "scaler.step(optimizer.inner)").replace("OPTIMIZER", given)
    wrapper, training = text.split("def train(")
    (tmp_path / "wrapper.py").write_text(wrapper)
    main = tmp_path / "main.py"
    main.write_text(f"import torch\nfrom wrapper import {name}\n\n\ndef train({training}")
    assert [each.code for each in amplint.check(main.read_bytes(), str(main)) if "420" in each.code] == ["AMP420"]


CLIPPED = """\
import torch
from timm.utils import NativeScaler


def main(args, model, loader, criterion):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = NativeScaler() if args.amp else None
    train(model, loader, criterion, optimizer, scaler, args.clip_grad)


def train(model, loader, criterion, optimizer, loss_scaler, clip_grad):
    for x, y in loader:
        optimizer.zero_grad()
        if loss_scaler is None:
            loss = criterion(model(x), y)
            loss.backward()
            PLAIN
        else:
            with torch.autocast("cuda"):
                loss = criterion(model(x), y)
            loss_scaler(loss, optimizer, clip_grad=BOUND, parameters=model.parameters())
"""


def clipped(plain: str = "optimizer.step()", bound: str = "clip_grad") -> list[str]:
    text = CLIPPED.replace("PLAIN", plain).replace("BOUND", bound)
    return [each.message for each in amplint.check(text, "train.py") if each.code == "AMP420"]


def test_an_object_that_clips_as_it_steps() -> None:
    (message,) = clipped()
    assert message.startswith(
        "this branch clips the gradients, but the branch without the scaler, on line 17, does not"
    )


@pytest.mark.parametrize(
    ("plain", "bound"),
    [
        ("torch.nn.utils.clip_grad_norm_(model.parameters(), clip_grad)\n            optimizer.step()", "clip_grad"),
        ("dispatch_clip_grad(model.parameters(), clip_grad)\n            optimizer.step()", "clip_grad"),
        ("self.finish(optimizer)\n            optimizer.step()", "clip_grad"),
        ("pass", "clip_grad"),
        ("model.step()", "clip_grad"),  # DeepSpeed clips by itself
        ("optimizer.step()", "None"),
    ],
)
def test_a_branch_that_clips_or_may_clip(plain: str, bound: str) -> None:
    assert not clipped(plain, bound)
