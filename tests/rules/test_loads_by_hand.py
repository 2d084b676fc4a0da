"""AMP413 where a function loads the optimizer's state: how sure it is depends on who calls that function."""

from __future__ import annotations

import pytest

from amplint import check

TEXT = """\
import torch


def save_state(model, optimizer, path):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)


def load_state(path, model, optimizer=None):
    saved = torch.load(path)
    model.load_state_dict(saved["model"])
    if optimizer is not None:
        optimizer.load_state_dict(saved["optimizer"])
    else:
        optimizer = None
    return model, optimizer


model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda")
LOAD
for epoch in range(10):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    save_state(model, optimizer, "last.pt")
"""


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        ('load_state("last.pt", model, optimizer)', ["certain"]),
        ("# load_state('last.pt', model)", ["likely"]),
        ('model, _ = load_state("pretrained.pt", model, None)', []),
    ],
    ids=["it is called", "nobody calls it", "it is given no optimizer"],
)
def test_who_calls_the_load(load: str, expected: list[str]) -> None:
    found = check(TEXT.replace("LOAD", load))
    assert [each.confidence.value for each in found if each.code == "AMP413"] == expected
