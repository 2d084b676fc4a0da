"""AMP310 about a region after a model out of sight: what it may hold besides a loss, and what may run before it."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.config.settings import Settings

PROGRAM = """\
import torch
import torch.nn.functional as F

def both(first, second, target):
    return F.cross_entropy(first, target) + F.mse_loss(second, target)

def hinge_loss(first, second):
    return F.relu(1 - first).mean() + F.relu(1 + second).mean()

def projected_loss(first, table):
    return (first @ table.weight).mean()

def projected(first, table):
    return F.cross_entropy(F.linear(first, table), target)

def train(model, images, target, criterion, project, scaler, optimizer):
    model.train()
    {before}
    with torch.autocast("cuda", dtype=torch.float16):
        {inside}
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
FORWARD = "first, second = model(images)"


def confidences(before: str = FORWARD, inside: str = "loss = criterion(first, target)") -> list[str]:
    found = check(PROGRAM.format(before=before, inside=inside), "train.py")
    return [each.confidence.value for each in found if each.code == "AMP310"]


@pytest.mark.parametrize(
    "inside",
    [
        "loss = criterion(first, target)",
        "loss = criterion(first.view(-1, 4), target.long()) / 2",
        "loss = F.cross_entropy(first, target)",
        "loss = both(first, second, target)",
        "loss = hinge_loss(first, second)",
        "loss = F.cross_entropy(first @ second.t(), target)",
        "loss = F.cross_entropy(4.0 * first.mm(second.t()), target)",
        "loss = F.cross_entropy(torch.einsum('bd,cd->bc', first, second), target)",
        "loss = criterion(F.normalize(first), F.softmax(second, 1)) + torch.log(second).mean()",
        "loss = sum(criterion(each, target) for each in (first, second))",
    ],
)
def test_a_region_of_losses(inside: str) -> None:
    assert confidences(inside=inside) == ["likely"]


@pytest.mark.parametrize(
    "inside",
    [
        "loss = criterion(project(first), target)",
        "loss = criterion(model(first), target)",
        "loss = criterion.network(first, target)",
        "loss = projected(first, target)",
        "loss = projected_loss(first, target)",
        "loss = F.cross_entropy(F.linear(first, target), target)",
        "loss = F.cross_entropy(first @ project.weight.t(), target)",
        "loss = F.cross_entropy(first.mm(project.weight), target)",
        "loss = F.cross_entropy(first @ torch.eye(4), target)",
        "loss = F.cross_entropy(torch.nn.functional.multi_head_attention_forward(first), target)",
        "loss = criterion(images, target)",
        "loss = (first - target).mean()",
    ],
)
def test_a_region_that_may_compute_more(inside: str) -> None:
    assert confidences(inside=inside) == []


@pytest.mark.parametrize(
    ("before", "found"),
    [
        ("first = model(images)", True),
        ("outputs = model(**images)\n    first = outputs.logits[:, 0]", True),
        ("first = model(images)\n    target = target.long()\n    first = first.squeeze()", True),
        ("with torch.no_grad():\n        first = model(images)", False),
        ("first = project(images)", False),
        ("first = model.initial_inference(images)", True),
        ("first = model.forward(images)", True),
        ("first = model.encode(images)", False),
        ("with torch.no_grad():\n        first = model.initial_inference(images)", False),
        (
            "first = model.initial_inference(images)\n    with torch.autocast('cuda'):\n        second = model(images)",
            False,
        ),
        (
            "first = model(images)\n    with torch.autocast('cuda'):\n        second = model.forward_features(images)",
            False,
        ),
        ("model.requires_grad_(False)\n    first = model(images)", False),
        ("first = model(images)\n    with torch.autocast('cuda'):\n        second = model(images)", False),
        ("first = model(images)\n    with amp_context:\n        second = model(images)", False),
        ("first = model(images)\n    first = project(target)", False),
        ("model.half()\n    first = model(images)", False),
        # in a block of its own
        ("with torch.autograd.detect_anomaly():\n        first = model(images)", True),
        ("with torch.enable_grad():\n        first = model(images)", True),
        ("try:\n        first = model(images)\n    except RuntimeError:\n        raise", True),
        ("if target:\n        first = model(images)\n    else:\n        first = model(target)", True),
        ("if target:\n        first = model(images)\n    else:\n        first = project(target)", False),
        ("with amp_context:\n        first = model(images)", False),
        ("first = model(images)\n    with torch.autocast('cuda'):\n        first = project(first)", False),
        ("first = model(images)\n    with torch.no_grad():\n        first = project(first)", False),
        ("first = model(images)\n    with torch.autograd.detect_anomaly():\n        first = first[:, 0]", True),
    ],
)
def test_what_runs_before_the_region(before: str, found: bool) -> None:
    assert len(confidences(before=before)) == found


@pytest.mark.parametrize(
    ("around", "found"),
    [
        ("with torch.autograd.detect_anomaly():", True),
        ("with profiled('loss'):", True),
        ("for criterion in criteria:", True),
        ("try:", True),
        ("with torch.autocast('cuda'):", False),
        ("with amp_context:", False),
    ],
)
def test_what_is_around_the_region(around: str, found: bool) -> None:
    text = PROGRAM.format(before=FORWARD, inside="loss = criterion(first, target)")
    region = text[text.index("    with torch.autocast(") : text.index("    scaler.scale")]
    inner = "".join(f"    {line}\n" for line in region.splitlines())
    after = "    finally:\n        pass\n" if around == "try:" else ""
    text = text.replace(region, f"    {around}\n{inner}{after}")
    assert any(each.code == "AMP310" for each in check(text, "train.py")) is found


@pytest.mark.parametrize(("between", "count"), [("print(1)", 1), ("x = other", 0), ("x = x.cuda()", 0)])
def test_another_call_under_the_same_names(between: str, count: int) -> None:
    """A forward is computed again only if its model and its inputs are still the same."""
    text = f"""
import torch

model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.AdamW(model.parameters())


def step(x, other):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        y = model(x)
    {between}
    y = model(x)
    loss = torch.nn.functional.cross_entropy(y, other)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    assert sum(each.code == "AMP310" for each in check(text, "a.py")) == count


@pytest.mark.parametrize(
    ("logits", "count"), [("out.logits", 1), ("out.logits.float()", 0), ("out.last_hidden_state", 0), ("out.loss", 0)]
)
def test_the_logits_of_a_model_out_of_sight(logits: str, count: int) -> None:
    """What comes from a head is half; a last hidden state often comes from a norm, which autocast runs in float32."""
    text = f"""
import torch
from models import build


def train(loader):
    model = build().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = model(input_ids=x)
        logits = {logits}
        loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
    assert sum(each.code == "AMP303" for each in check(text, "a.py")) == count


FLAG = """\
import torch


def predict(model, x):
    return model(x)


def train(model, loader, criterion, optimizer, use_amp):
    model.train()
    for x, y in loader:
        out = FORWARD
        if use_amp:
            with torch.autocast("cuda"):
                loss = criterion(out, y)
        else:
            loss = criterion(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("forward", "codes"),
    [
        ("model(x)", ["AMP310"]),
        ("model(x).float()", ["AMP310"]),
        ("predict(model, x)", ["AMP310"]),
        ("predict(model, x).view(-1)", ["AMP310"]),
        # What is no model's output may have been computed in float16, so the loss is one of a float16 region.
        ("other(x)", ["AMP207"]),
    ],
)
def test_a_forward_before_the_branch_of_the_region(forward: str, codes: list[str]) -> None:
    text = FLAG.replace("FORWARD", forward)
    settings = Settings(frozenset({"AMP207", "AMP310"}), isolated=True)
    assert [each.code for each in check(text, "train.py", settings)] == codes


@pytest.mark.parametrize(
    ("measured", "count"),
    [
        ("out.logits, y", 1),
        ("out.logits.detach(), y.detach()", 0),
        ("out.logits.data, y.data", 0),
        ("out.logits, y.detach()", 1),
        ("out.logits.detach(), y", 1),
    ],
)
def test_a_distance_of_detached_tensors_is_a_metric(measured: str, count: int) -> None:
    text = f"""
import torch
from models import build


def train(loader):
    model = build().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for x in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = model(input_ids=x)
            y = torch.nn.functional.linear(x, x)
        loss = torch.nn.functional.mse_loss({measured})
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
    assert sum(each.code == "AMP303" for each in check(text, "a.py")) == count
