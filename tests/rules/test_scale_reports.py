"""AMP402, AMP409, AMP417 and AMP422 where the function reads the loss scale: a log of it divides nothing."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence

LOOP = """\
import logging
import torch
import wandb


def train(model, optimizer, scaler, loader, writer, meter, pbar{more}):
    history, metrics, before = [], {{}}, 0.0
    for i, x in enumerate(loader):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
        print(norm)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
{after}
"""

REPORTS = [
    "print(scaler.get_scale())",
    'print("scale", round(scaler.get_scale(), 2))',
    'writer.add_scalar("scale", scaler.get_scale(), i)',
    'writer.add_scalar("scale", scaler._scale.item(), i)',
    'wandb.log({"loss": loss.item(), "scale": scaler.get_scale()})',
    'scale = scaler.get_scale()\nlogging.info("%f", scale)',
    'logging.info("scale %f" % scaler.get_scale())',
    'logging.info("scale {}".format(scaler.get_scale()))',
    'logging.info(f"scale {scaler.get_scale():.1f}")',
    "pbar.set_postfix(loss=loss.item(), scale=scaler.get_scale())",
    "meter.update(scale=scaler.get_scale())",
    'metrics["scale"] = scaler.get_scale()\nwandb.log(metrics)',
    'metrics = {"scale": scaler.get_scale()}\nfor k, v in metrics.items():\n    writer.add_scalar(k, v, i)',
    'metrics.update({"scale": scaler.get_scale()})\nwandb.log(metrics, step=i)',
    "if scaler.get_scale() < 1:\n    break",
    'scale = scaler.get_scale()\nif scale < before:\n    print("skipped")\nbefore = scaler.get_scale()',
]
USES = [
    "print(norm / scaler.get_scale())",
    "scale = scaler.get_scale()\nprint(norm / scale)",
    "norm.div_(scaler.get_scale())",
    "inverse = 1.0 / scaler.get_scale()\nprint(norm * inverse)",
    'metrics["scale"] = scaler.get_scale()\nprint(norm / metrics["scale"])',
    'metrics.update({"scale": scaler.get_scale()})\nprint(norm / metrics["scale"])',
    'metrics = {"scale": scaler.get_scale()}\nreturn norm, metrics',
    "history.append(scaler.get_scale())\nprint(norm / history[-1])",
    "return norm, scaler.get_scale()",
    "report(norm, scaler.get_scale())",
    "self.scale = scaler.get_scale()",
    "if norm > scaler.get_scale():\n    break",
    "print(norm / float(scaler.get_scale()))",
    "scaler.update(scaler.get_scale())",
]


def program(after: str) -> str:
    more = ", self" if "self" in after else ""
    lines = "\n".join(f"        {line}" for line in after.splitlines())
    return LOOP.format(after=lines, more=more)


@pytest.mark.parametrize("after", REPORTS)
def test_a_size_is_read_scaled_where_the_scale_is_only_reported(after: str) -> None:
    (found,) = [each for each in check(program(after)) if each.code == "AMP409"]
    assert found.confidence is Confidence.LIKELY  # whoever reads the log may divide


@pytest.mark.parametrize("after", USES)
def test_a_scale_that_is_used_may_divide(after: str) -> None:
    assert "AMP409" not in {each.code for each in check(program(after))}


@pytest.mark.parametrize(
    ("test", "count"),
    [
        ("p.grad is not None and (torch.isnan(p.grad).any() or torch.isinf(p.grad).any())", 0),
        ("p.grad is not None and not torch.isfinite(p.grad).all()", 0),
        ("p.grad is not None and torch.isfinite(p.grad).all()", 1),
        ("p.grad is not None and not torch.isfinite(loss)", 1),
    ],
)
def test_gradients_that_are_not_finite_are_so_at_any_scale(test: str, count: int) -> None:
    text = program("pass").replace(
        "        print(norm)\n",
        f"        for p in model.parameters():\n            if {test}:\n                print(p.grad.min())\n",
    )
    assert [each.code for each in check(text)].count("AMP409") == count


def test_a_scaled_loss_is_reported_beside_the_scale() -> None:
    text = program("print(1)").replace(
        "scaler.scale(loss).backward()",
        "loss = scaler.scale(loss)\n        loss.backward()\n        print(loss.item())\n        AFTER",
    )
    for after, count in (("print(scaler.get_scale())", 1), ("print(loss.item() / scaler.get_scale())", 0)):
        assert [each.code for each in check(text.replace("AFTER", after))].count("AMP417") == count


SCALED = """\
import torch


def train(model, optimizer, scaler, loader, writer):
    for i, x in enumerate(loader):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).mean()
        scaled = scaler.scale(loss)
        scaled.backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        REPORT
"""


@pytest.mark.parametrize(
    ("report", "count"),
    [
        ('writer.add_scalar("loss", scaled.item(), i)', 1),
        ('writer.add_scalar("scaled_loss", scaled.item(), i)', 0),
        ('yield {"loss": loss.item(), "scaled_loss": scaled.item()}', 0),
        ('writer.log({"loss": scaled.item()})', 1),
        ("writer.log(loss=loss.item(), scaled_loss=scaled.item())", 0),
    ],
)
def test_a_loss_that_is_called_scaled(report: str, count: int) -> None:
    assert sum(each.code == "AMP417" for each in check(SCALED.replace("REPORT", report))) == count
