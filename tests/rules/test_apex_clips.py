"""AMP401 with NVIDIA's apex: a clip of gradients that are still scaled, or that the optimizer doesn't step with."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence
from amplint.config.settings import Settings

TEXT = """\
import torch
from apex import amp


def train(model, other, optimizer, loader, level):
    model, optimizer = amp.initialize(model, optimizer, opt_level=LEVEL)
    for x in loader:
        loss = model(x).mean()
        with amp.scale_loss(loss, optimizer) as scaled:
            scaled.backward()
            INSIDE
        AFTER
        optimizer.step()
        optimizer.zero_grad()
"""
CLIP = "torch.nn.utils.clip_grad_norm_(WHOSE, 1.0)"
MODELS, COPIES = "model.parameters()", "amp.master_params(optimizer)"


def found(inside: str = "pass", after: str = "pass", level: str = '"O1"') -> list[str]:
    """The messages of what is found."""
    text = TEXT.replace("INSIDE", inside).replace("AFTER", after).replace("LEVEL", level)
    return [each.message for each in check(text, settings=Settings(frozenset({"AMP401"}), isolated=True))]


@pytest.mark.parametrize("whose", [MODELS, COPIES])
@pytest.mark.parametrize("level", ['"O1"', '"O2"', "level"])
def test_inside_of_the_with(whose: str, level: str) -> None:
    (message,) = found(inside=CLIP.replace("WHOSE", whose), level=level)
    assert "inside `amp.scale_loss`" in message


@pytest.mark.parametrize(
    ("whose", "level", "count"),
    [
        (MODELS, '"O2"', 1),
        (COPIES, '"O2"', 0),
        ("other.parameters()", '"O2"', 0),
        # In O1 the parameters are float32; of an option it can't be told.
        (MODELS, '"O1"', 0),
        (MODELS, "level", 0),
        (MODELS, '"O2", master_weights=False', 0),
    ],
)
def test_after_the_with(whose: str, level: str, count: int) -> None:
    messages = found(after=CLIP.replace("WHOSE", whose), level=level)
    assert [each.endswith("clip `amp.master_params(optimizer)`") for each in messages] == [True] * count


def test_a_norm_that_is_only_measured() -> None:
    assert not found(inside=CLIP.replace("WHOSE", MODELS).replace("1.0", "float('inf')"))


CHOSEN = """\
import torch
from apex import amp


def train(model, loader, args):
    optimizer = torch.optim.Adam(model.parameters())
    if args.half:
        model, optimizer = amp.initialize(model, optimizer, opt_level="O2")
    for x in loader:
        loss = model(x).mean()
        if args.half:
            with amp.scale_loss(loss, optimizer) as scaled:
                scaled.backward()
            torch.nn.utils.clip_grad_norm_(FIRST, 1.0)
        else:
            loss.backward()
            torch.nn.utils.clip_grad_norm_(SECOND, 1.0)
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(("first", "rows"), [(COPIES, []), (MODELS, [14])])
def test_the_branch_without_apex_clips_the_models_own(first: str, rows: list[int]) -> None:
    text = CHOSEN.replace("FIRST", first).replace("SECOND", MODELS)
    findings = check(text, settings=Settings(frozenset({"AMP401"}), isolated=True))
    assert [each.location.row for each in findings if each.location] == rows
    assert all(each.confidence is Confidence.LIKELY for each in findings)
