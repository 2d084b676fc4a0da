"""AMP416: scalers of sharded models, where conditions decide on both."""

from __future__ import annotations

import pytest

from amplint import check

PROGRAM = """\
import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def train(model, loader, args):
    if args.fsdp:
        model = FSDP(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", enabled=ENABLED)
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        if STEPS:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
"""


@pytest.mark.parametrize(
    ("enabled", "steps", "wanted"),
    [
        ("True", "args.amp", 1),
        ("True", "args.fsdp", 1),
        ("args.fsdp", "args.amp", 1),
        ("True", "not args.fsdp", 0),
        ("not args.fsdp", "args.amp", 0),
        ("args.fsdp and args.plain", "args.amp", 0),
    ],
)
def test_a_condition_that_holds_for_both_is_no_reason(enabled: str, steps: str, wanted: int) -> None:
    text = PROGRAM.replace("ENABLED", enabled).replace("STEPS", steps)
    assert [each.code for each in check(text)].count("AMP416") == wanted
