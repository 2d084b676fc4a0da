"""AMP301 names a part without autocast only where it computes a product: else backward gives the same gradients."""

from __future__ import annotations

import pytest

from amplint import Severity, check
from amplint.config.settings import Settings

TEXT = """\
import torch
from torch import nn


def gap(real, fake):
    return torch.mean((1 - real.float()) ** 2) + torch.mean(fake.float() ** 2)


def scores(real, fake):
    return (real.float() @ fake.float().T).mean()


def train(model, loader, optimizer, scaler):
    for x, y in loader:
        with torch.autocast("cuda"):
            out = model(x)
            with torch.autocast("cuda", enabled=False):
                loss = LOSS
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
"""


@pytest.mark.parametrize(
    ("loss", "severity"),
    [
        ("scores(out, y)", Severity.ERROR),
        ("nn.functional.linear(out.float(), y).sum()", Severity.ERROR),
        ("gap(out, y)", Severity.WARNING),
        ("nn.functional.mse_loss(out.float(), y)", Severity.WARNING),
    ],
)
def test_only_a_product_is_cast_in_the_backward_pass(loss: str, severity: Severity) -> None:
    told = check(TEXT.replace("LOSS", loss), "train.py", Settings(frozenset({"AMP301"}), isolated=True))
    assert [each.severity for each in told] == [severity]
    assert ("`enabled=False` part" in told[0].message) is (severity is Severity.ERROR)
