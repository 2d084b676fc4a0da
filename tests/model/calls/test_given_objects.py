"""An object that is made with a scaler or optimizer has that one: what its methods do is done to it."""

from __future__ import annotations

import pytest

from amplint.api import check
from amplint.config.settings import Settings
from amplint.registry import all_rules

CLASSES = {
    "kept": """
class Stepper:
    def __init__(self, scaler, optimizer):
        self.scaler = scaler
        self.opt = optimizer
    def prepare(self):
        {unscale}
    def finish(self):
        self.scaler.step(self.opt)
        self.scaler.update()
""",
    "dataclass": """
from dataclasses import dataclass
@dataclass
class Stepper:
    scaler: torch.amp.GradScaler
    opt: torch.optim.Optimizer
    def prepare(self):
        {unscale}
    def finish(self):
        self.scaler.step(self.opt)
        self.scaler.update()
""",
    "inside another": """
class Inner:
    def __init__(self, scaler, optimizer):
        self.scaler = scaler
        self.opt = optimizer
class Stepper:
    def __init__(self, scaler, optimizer):
        self.inner = Inner(optimizer=optimizer, scaler=scaler)
    def prepare(self):
        {inner}
    def finish(self):
        self.inner.scaler.step(self.inner.opt)
        self.inner.scaler.update()
""",
}
USES = {
    "before the loop": """
def train(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cuda")
    stepper = Stepper(scaler, optimizer)
    for x in batches:
        optimizer.zero_grad()
        scaler.scale(model(x)).backward()
        stepper.prepare()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        {finish}
""",
    "as an attribute": """
class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), 0.1)
        self.scaler = torch.amp.GradScaler("cuda")
        self.stepper = Stepper(self.scaler, self.optimizer)
    def train(self, batches):
        optimizer, scaler, stepper = self.optimizer, self.scaler, self.stepper
        for x in batches:
            optimizer.zero_grad()
            scaler.scale(self.model(x)).backward()
            self.stepper.prepare()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            {finish}
""",
    "at the top": """
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
scaler = torch.amp.GradScaler("cuda")
stepper = Stepper(scaler, optimizer)
for x in batches:
    optimizer.zero_grad()
    scaler.scale(model(x)).backward()
    stepper.prepare()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    {finish}
""",
}
FINISH = ("scaler.step(optimizer); scaler.update()", "stepper.finish()")


@pytest.mark.parametrize("finish", FINISH)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("made", CLASSES)
@pytest.mark.parametrize(("unscale", "wanted"), [("self.scaler.unscale_(self.opt)", False), ("pass", True)])
def test_what_a_method_does_is_done_to_what_it_was_given(
    made: str, use: str, finish: str, unscale: str, wanted: bool
) -> None:
    inner = unscale.replace("self.", "self.inner.")
    code = "import torch" + CLASSES[made].format(unscale=unscale, inner=inner) + USES[use].format(finish=finish)
    flow = frozenset(each for each in all_rules() if each.startswith("AMP4")) - {"AMP413"}
    assert [each.code for each in check(code, "train.py", Settings(flow, isolated=True))] == ["AMP401"] * wanted


SHARDED = """\
import torch
from own_optimizers import Own
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def train(model, loader, optimizer, scaler, criterion):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(RUN(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def main(net, other, loader, criterion):
    sharded = FSDP(net)
    scaler = torch.amp.GradScaler("cuda")
    optimizer = Own(sharded.groups(), lr=0.1)
    train(sharded, loader, optimizer, scaler, criterion)
"""


@pytest.mark.parametrize(("run", "codes"), [("model", ["AMP416"]), ("criterion.teacher", [])])
def test_a_sharded_model_is_trained_where_it_is_given_with_the_scaler(run: str, codes: list[str]) -> None:
    assert [each.code for each in check(SHARDED.replace("RUN", run))] == codes
    assert not check(SHARDED.replace("RUN", run).replace("train(sharded,", "train(other,"))
