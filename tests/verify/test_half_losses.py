"""Losses that stay float16 outside of every region: what a step's run shows of them, and what it can't tell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from amplint.config.settings import Settings
from amplint.verify.steps.output import as_tables
from amplint.verify.steps.verify import StepRow, Verifier

CODES = frozenset(("AMP102", "AMP303"))
HEAD = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from library import build, Criterion

"""
LOOP = """
def train(settings, loader{params}):
    model = {model}.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda"{scaler})
    for x, y in loader:
        x, y = x.cuda(), y.cuda()
        optimizer.zero_grad()
{body}
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
IN_A_REGION = 'with torch.autocast("cuda"):\n    out = model(x)\n'
SMOOTH = """
class Smooth(nn.Module):
    def __init__(self):
        super().__init__()
        self.log = nn.LogSoftmax(dim=-1)

    def forward(self, logits, targets):
        return -self.log(logits{cast}).gather(-1, targets.unsqueeze(1)).mean()
"""
NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 4)
"""
DECORATED = NET + '\n    @torch.autocast("cuda")\n    def forward(self, x):\n        return self.layer(x){cast}\n'
INSIDE = (
    NET
    + '\n    def forward(self, x):\n        with torch.autocast("cuda"):\n            out = self.layer(x)\n'
    + "        return out{cast}\n"
)
CROSS_ENTROPY = "loss = F.cross_entropy(out, y)"


WEIGHED = """
class Weighed(nn.Module):
    def forward(self, logits, targets):
        loss = F.cross_entropy(logits{cast}, targets, reduction="none")
        return (loss.sigmoid() ** 2 * loss).mean()
"""


def program(body: str, before: str = "", model: str = "build(settings)", scaler: str = "", params: str = "") -> str:
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    return HEAD + before + LOOP.format(body=lines, model=model, scaler=scaler, params=params)


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    with Verifier() as found:
        yield found


def verified(verifier: Verifier, text: str, *, unsafe: bool = False) -> StepRow:
    (row,) = verifier.verify("train.py", text.encode(), Settings(CODES, isolated=True, unsafe_fixes=unsafe))
    return row


WRONG = {
    "a function of torch's": program(IN_A_REGION + CROSS_ENTROPY),
    "a part of it": program(IN_A_REGION + "loss = F.cross_entropy(out[0], y) / 4"),
    "a criterion of torch's": program(
        IN_A_REGION + "loss = criterion(out, y)", "criterion = nn.CrossEntropyLoss(label_smoothing=0.1).cuda()\n"
    ),
    "its own criterion": program(
        IN_A_REGION + "loss = criterion(out, y)", SMOOTH.format(cast="") + "criterion = Smooth().cuda()\n"
    ),
    "its own weighed loss": program(
        IN_A_REGION + "loss = criterion(out, y)", WEIGHED.format(cast="") + "criterion = Weighed()\n"
    ),
    "a decorated forward": program("loss = F.cross_entropy(model(x), y)", DECORATED.format(cast=""), "Net()"),
    "a region in forward": program("out = model(x)\n" + CROSS_ENTROPY, INSIDE.format(cast=""), "Net()"),
    "two outputs": program(IN_A_REGION + "with torch.autocast('cuda'):\n    other = model(x + 1)\n"
                           + "loss = F.mse_loss(out, other)"),
    "the usual scale, given": program(IN_A_REGION + CROSS_ENTROPY, scaler=", init_scale=65536.0"),
}  # fmt: skip
RIGHT = {
    "cast": program(IN_A_REGION + "loss = F.cross_entropy(out.float(), y)"),
    "in the region": program(IN_A_REGION + f"    {CROSS_ENTROPY}"),
    "a target of float32": program(IN_A_REGION + "loss = F.mse_loss(out, y)"),
    "a criterion with such a target": program(
        IN_A_REGION + "loss = criterion(out, y)", "criterion = nn.BCEWithLogitsLoss()\n"
    ),
    "its own criterion casts": program(
        IN_A_REGION + "loss = criterion(out, y)", SMOOTH.format(cast=".float()") + "criterion = Smooth()\n"
    ),
    "its own weighed loss casts": program(
        IN_A_REGION + "loss = criterion(out, y)", WEIGHED.format(cast=".float()") + "criterion = Weighed()\n"
    ),
    "a decorated forward casts": program(
        "loss = F.cross_entropy(model(x), y)", DECORATED.format(cast=".float()"), "Net()"
    ),
    "a region in forward, and a cast behind it": program(
        "out = model(x)\n" + CROSS_ENTROPY, INSIDE.format(cast=".float()"), "Net()"
    ),
    "bfloat16": program(IN_A_REGION.replace('"cuda"', '"cuda", dtype=torch.bfloat16') + CROSS_ENTROPY),
    "a lower scale": program(IN_A_REGION + CROSS_ENTROPY, scaler=", init_scale=1024.0"),
    "a scale that is given": program(
        IN_A_REGION + CROSS_ENTROPY, scaler=", init_scale=settings.scale"
    ),
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", WRONG)
def test_a_float16_loss_that_a_new_scaler_scales_misbehaves(verifier: Verifier, name: str) -> None:
    row = verified(verifier, WRONG[name])
    assert (row.verdict, [each.shows for each in row.before.faults]) == ("misbehaves", ["dtype"]), row
    assert "the first step is skipped" in row.before.faults[0].text


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", RIGHT)
def test_what_is_float32_or_fits_is_clean(verifier: Verifier, name: str) -> None:
    row = verified(verifier, RIGHT[name])
    assert (row.verdict, row.reason, row.before.faults) == ("clean", "", []), row


def test_the_fix_that_takes_the_criterion_into_the_region_heals_it(verifier: Verifier) -> None:
    row = verified(verifier, WRONG["a function of torch's"], unsafe=True)
    assert (row.verdict, row.reason) == ("confirmed", ""), row
    assert [(each.code, each.fixed, each.shown) for each in row.findings] == [("AMP303", True, True)]


def test_a_fix_that_ends_a_warning_alone_does_not_heal_it(verifier: Verifier) -> None:
    text = WRONG["a function of torch's"].replace('torch.amp.GradScaler("cuda"', "torch.cuda.amp.GradScaler(")
    row = verified(verifier, text)
    assert (row.verdict, row.reason) == (
        "misbehaves",
        "gone after the fix: a warning; left: a loss of the wrong dtype",
    ), row


def test_a_fix_that_ends_a_warning_alone_says_so(verifier: Verifier) -> None:
    text = RIGHT["cast"].replace('torch.amp.GradScaler("cuda"', "torch.cuda.amp.GradScaler(")
    row = verified(verifier, text)
    assert (row.verdict, row.reason) == (
        "confirmed", "only a deprecation warning disappears: what was compared was already right",
    ), row  # fmt: skip


LOSSES = """\
import torch
from torch.nn.functional import one_hot


class Poly(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.softmax = torch.nn.Softmax(1)
        self.criterion = torch.nn.CrossEntropyLoss(reduction="none")

    def forward(self, outputs, targets):
        {cast}
        right = one_hot(targets, outputs.size()[1]) * self.softmax(outputs)
        return (self.criterion(outputs, targets) + 2.0 * (1.0 - right.sum(dim=1))).mean()
"""
HELPER = """
def forward(x, y, model, criterion):
    with torch.autocast("cuda"):
        out = model(x)
    return criterion(out, y)
"""


@pytest.mark.parametrize("helper", [True, False])
@pytest.mark.parametrize("cast", [True, False])
def test_a_criterion_of_another_file_that_has_no_amp_is_read(
    verifier: Verifier, tmp_path: Path, *, cast: bool, helper: bool
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "nets").mkdir()  # without `__init__.py`
    (tmp_path / "nets" / "losses.py").write_text(
        LOSSES.format(cast="outputs = outputs.float()" if cast else "outputs = outputs.contiguous()")
    )
    body = "loss = forward(x, y, model, criterion)" if helper else f"{IN_A_REGION}loss = criterion(out, y)"
    before = "from nets import losses\n" + HELPER * helper + "\ncriterion = losses.Poly().cuda()\n"
    text = program(body, before)
    path = tmp_path / "train.py"
    path.write_text(text)
    (row,) = verifier.verify(str(path), text.encode(), Settings(CODES, isolated=True))
    found = [(each.code, each.row, each.shown) for each in row.findings]
    called = next(at for at, line in enumerate(text.splitlines(), start=1) if " criterion(out" in line)
    if cast:
        assert (row.verdict, row.reason, found) == ("clean", "", []), row
    else:
        assert (row.verdict, [each.shows for each in row.before.faults]) == ("misbehaves", ["dtype"]), row
        assert found == [("AMP303", called, True)]


MIXED = "if settings.mixup:\n    x, y = mixup(x, y)\nx = x + 1\n" + IN_A_REGION


@pytest.mark.parametrize("indices", [True, False])
def test_targets_that_are_cast_to_integers_are_no_probabilities(verifier: Verifier, *, indices: bool) -> None:
    loss = "loss = criterion(out, y.long())" if indices else "loss = criterion(out, y)"
    row = verified(verifier, program(MIXED + loss, "from library import mixup\ncriterion = nn.CrossEntropyLoss()\n"))
    if indices:
        assert (row.verdict, [each.shows for each in row.before.faults]) == ("misbehaves", ["dtype"]), row
        assert [(each.code, each.shown) for each in row.findings] == [("AMP303", True)]
    else:
        assert (row.verdict, row.findings) == ("clean", []), row
        assert row.reason.endswith("amplint can't see whether criterion(out, y) gives a float16 loss")


def test_what_a_criterion_out_of_sight_makes_of_float16_is_said_to_be_unseen(verifier: Verifier) -> None:
    row = verified(verifier, program(IN_A_REGION + "loss = criterion(out, y)", "criterion = Criterion()\n"))
    assert row.verdict == "clean"
    assert row.reason == "line 17: amplint can't see whether criterion(out, y) gives a float16 loss"


def test_a_region_that_may_be_in_the_model_is_said_to_be_unseen(verifier: Verifier) -> None:
    row = verified(verifier, program("loss = F.cross_entropy(model(x), y)"))
    assert row.verdict == "clean"
    assert row.reason == "the step has a scaler and no region: amplint doesn't look into the model, which may have one"


def test_a_disabled_scaler_scales_nothing(verifier: Verifier) -> None:
    text = program(IN_A_REGION + CROSS_ENTROPY, scaler=", enabled=False")
    row = verified(verifier, text)
    said = "line 15 runs in float16, and no scaler scales the loss: it depends on how small your gradients are"
    assert (row.verdict, row.reason) == ("not checkable", said), row


ROUNDED = """\
import torch
import torch.nn as nn
import torch.nn.functional as F

def train(loader):
    model = nn.Linear(16, 4).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        x, y = x.cuda(), y.cuda()
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = model(x)
        LOSS
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("loss", "is_half"), [("F.cross_entropy(out, y)", True), ("F.cross_entropy(out.float(), y)", False)]
)
def test_rounding_that_can_be_avoided_is_not_called_right(verifier: Verifier, loss: str, is_half: bool) -> None:
    row = verified(verifier, ROUNDED.replace("LOSS", f"loss = {loss}"))
    said = as_tables([row])
    assert ("so much is rounding, some of which AMP303 finds avoidable\n" in said) is is_half
    assert ("so much is rounding, and right\n" in said) is not is_half
    assert ("AMP303 line 13: the run doesn't tell it from other rounding" in said) is is_half
