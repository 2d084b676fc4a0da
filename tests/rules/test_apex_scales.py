"""AMP207: apex's mixed precision without a loss scale."""

from __future__ import annotations

import pytest

import amplint
from amplint.base.findings import Confidence

PROGRAM = """\
from apex import amp


def main(args, model, optimizer, loader):
    level = "O2"
    model, optimizer = amp.initialize(GIVEN)
    for x in loader:
        loss = model(x).mean()
        with amp.scale_loss(loss, optimizer) as scaled:
            scaled.backward()
        MORE
        optimizer.step()
"""


def found(given: str, more: str = "pass") -> list[Confidence]:
    text = PROGRAM.replace("GIVEN", given).replace("MORE", more)
    return [each.confidence for each in amplint.check(text) if each.code == "AMP207"]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ('model, optimizer, opt_level="O1", loss_scale=1.0', True),
        ("model, optimizer, loss_scale=1", True),
        ('model, optimizer, True, level, loss_scale="1.0"', True),
        ('model, optimizer, opt_level="O0", loss_scale=1.0', False),
        ('model, optimizer, opt_level="O3", loss_scale=1.0', False),
        ("model, optimizer, opt_level=args.level, loss_scale=1.0", False),
        ('model, optimizer, opt_level="O1", loss_scale=128.0', False),
        ('model, optimizer, opt_level="O1", loss_scale="dynamic"', False),
        ('model, optimizer, opt_level="O1", loss_scale=args.scale', False),
        ('model, optimizer, opt_level="O1"', False),
        ('model, optimizer, enabled=args.amp, opt_level="O1", loss_scale=1.0', False),
        ('model, opt_level="O1", loss_scale=1.0', False),
        ('model, optimizer, opt_level="O2", cast_model_type=args.dtype, loss_scale=1.0', False),
    ],
)
def test_a_scale_of_one(given: str, wanted: bool) -> None:
    assert found(given) == [Confidence.CERTAIN] * wanted


def test_gradients_that_are_divided() -> None:
    more = "for p in model.parameters(): p.grad /= args.scale"
    assert found('model, optimizer, opt_level="O1", loss_scale=1.0', more) == [Confidence.LIKELY]
