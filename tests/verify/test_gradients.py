"""What a run shows of gradients: what is added to them, made of them, left behind a skipped step, changed too late."""

from __future__ import annotations

import pytest

from amplint.verify.steps.judge import RIGHT, UNKNOWN, WRONG
from amplint.verify.steps.verdict import decide
from tests.interpreting import Ran, interpret

STEP = """
import torch
from torch import nn


def train(model, loader, weight_decay, sigma=0.01):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        CLEAR
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        BODY
"""
MADE = "scaler.step(optimizer)\nscaler.update()\n"
UNSCALED = "scaler.unscale_(optimizer)\n"
EACH = "for p in model.parameters():\n    "


def ran(body: str, clear: str = "optimizer.zero_grad()") -> Ran:
    (found,) = interpret(STEP.replace("CLEAR", clear).replace("BODY", body.strip().replace("\n", "\n        ")))
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "added",
    [
        "p.grad.add_(torch.randn_like(p.grad) * sigma)",
        "p.grad.add_(torch.randn_like(p.grad), alpha=sigma)",
        "p.grad += 1e-4 * torch.randn_like(p.grad)",
        "p.grad += torch.normal(0.0, sigma, size=p.grad.shape, device=p.grad.device)",
        "p.grad += sigma * torch.randn(p.grad.size())",
        "p.grad += sigma * torch.randn(*p.grad.shape)",
        "p.grad.data.add_(torch.empty_like(p.grad).normal_(0, sigma))",
        "p.grad.data.sub_(torch.zeros_like(p.grad).uniform_(-1, 1))",
        "p.grad.add_(p.data, alpha=weight_decay)",
        "p.grad -= 1e-5 * p.data",
    ],
)
def test_what_is_added_to_scaled_gradients_is_too_small(added: str) -> None:
    bad = ran(EACH + added + "\n" + MADE)
    assert bad.judged.state == WRONG
    assert "what is added to gradients was 0.0" in bad.judged.faults[0].text
    assert ran(UNSCALED + EACH + added + "\n" + MADE).judged.state == RIGHT


@pytest.mark.parametrize(
    "added",
    [
        "p.grad.add_(torch.randn_like(p.grad) * sigma * scaler.get_scale())",
        "p.grad.add_(p.grad.clone())",
        "p.data.add_(torch.randn_like(p), alpha=0.0)",
    ],
)
def test_what_has_the_scale_can_be_added_to_scaled_gradients(added: str) -> None:
    assert ran(EACH + added + "\n" + MADE).judged.state == RIGHT


# Weights are moved along their gradients by a part of their own size, and moved back behind a second backward.
PERTURBED = """
old = {}
for name, p in model.named_parameters():
    if p.grad is not None:
        old[name] = p.data.clone()
        PERTURBATION
optimizer.zero_grad()
with torch.autocast("cuda", dtype=torch.float16):
    loss = nn.functional.mse_loss(model(x), y)
scaler.scale(loss).backward()
for name, p in model.named_parameters():
    p.data = old[name]
"""


@pytest.mark.parametrize(
    "perturbation",
    [
        "norm = torch.norm(p.grad)\n        p.data.add_(0.01 * p.grad / (norm + 1e-6) * (torch.norm(p.data) + 1e-6))",
        "factor = 0.01 / (p.grad.norm() + 1e-12)\n        p.data.add_(p.grad * factor)",
        "norm = p.grad.norm()\n        if norm != 0:\n            p.data.add_(p.grad / norm, alpha=0.01)",
    ],
)
def test_scaled_gradients_can_be_divided_by_their_norm(perturbation: str) -> None:
    step = PERTURBED.replace("PERTURBATION", perturbation)
    assert ran(step + MADE).judged.state == RIGHT


@pytest.mark.parametrize("key", ["name", "p"])
def test_gradients_can_be_divided_by_their_norm_and_multiplied_by_a_number_out_of_sight(key: str) -> None:
    step = PERTURBED.replace(
        "PERTURBATION", "factor = weight_decay / p.grad.norm()\n        p.data.add_(p.grad * factor)"
    )
    assert ran(step.replace("[name]", f"[{key}]") + MADE).judged.state == RIGHT


def test_a_step_along_scaled_gradients_is_too_large() -> None:
    assert ran(PERTURBED.replace("PERTURBATION", "p.data.add_(p.grad, alpha=0.01)") + MADE).judged.state == WRONG


@pytest.mark.parametrize(
    "rounds",
    [
        "for i in range(out.shape[0] // 128):\n    part = out[i * 128:(i + 1) * 128]\n",
        "for i in range(out.size(0) // 128):\n    part = out[i * 128:(i + 1) * 128]\n",
        "rows, width = out.shape\nfor i in range(0, rows - 128, 128):\n    part = out[i:i + 128]\n",
    ],
)
def test_a_batch_of_the_program_can_have_more_rows_than_one_of_the_bench(rounds: str) -> None:
    chunks = "out = model(x) * 2.0\n" + rounds + "    scaler.scale(part.square().mean()).backward(retain_graph=True)\n"
    assert ran(chunks + MADE).judged.state == RIGHT


# The features are computed once, and their gradients chunk by chunk.
CACHED = """
features = model(x)
leaf = features.detach().requires_grad_()
for part in leaf.chunk(4, dim=0):
    scaler.scale(nn.functional.mse_loss(part, y)).backward()
START
"""


@pytest.mark.parametrize(
    "start",
    [
        "features.backward(leaf.grad)",
        "features.backward(gradient=leaf.grad)",
        "torch.autograd.backward(features, leaf.grad)",
        "torch.autograd.backward([features], grad_tensors=[leaf.grad])",
    ],
)
def test_a_backward_that_starts_from_the_gradients_of_another_is_not_checkable(start: str) -> None:
    found = ran(CACHED.replace("START", start) + MADE)
    assert found.judged.state == UNKNOWN
    assert "amplint can't see the gradients that a backward starts from" in found.judged.reason


def test_a_backward_can_start_from_ones() -> None:
    cached = "scaled = scaler.scale(nn.functional.mse_loss(model(x), y))\nscaled.backward(torch.ones_like(scaled))\n"
    assert ran(cached + MADE).judged.state == RIGHT


def test_random_data_are_no_numbers_of_the_bench() -> None:
    body = "noise = torch.randn(1 << 40)\nmore = torch.normal(0.0, 1.0, size=(1 << 30, 1 << 30))\n"
    assert ran(body + MADE).judged.state == RIGHT
    text = STEP.replace("CLEAR", "x = torch.randn(64, 32).requires_grad_()\n        optimizer.zero_grad()")
    (found,) = interpret(text.replace("BODY", MADE.replace("\n", "\n        ") + "print(x.grad.abs().mean())"))
    assert found.judged.state == RIGHT


TRIED = "before = scaler.get_scale()\n" + MADE
CLIPPED = UNSCALED + "norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"


@pytest.mark.parametrize(
    ("bad", "good"),
    [
        (
            TRIED + "if scaler.get_scale() >= before:\n    optimizer.zero_grad()",
            TRIED + "if scaler.get_scale() >= before:\n    print('taken')\noptimizer.zero_grad()",
        ),
        (
            TRIED + "if not scaler.get_scale() < before:\n    for p in model.parameters():\n        p.grad = None",
            TRIED
            + "if scaler.get_scale() >= before:\n    optimizer.zero_grad()\nelse:\n    "
            + EACH.replace("\n", "\n    ")
            + "p.grad = None",
        ),
        (
            CLIPPED
            + "if torch.isfinite(norm):\n    scaler.step(optimizer)\n    optimizer.zero_grad()\nscaler.update()",
            CLIPPED + "if torch.isfinite(norm):\n    scaler.step(optimizer)\noptimizer.zero_grad()\nscaler.update()",
        ),
    ],
)
def test_gradients_of_a_step_that_was_left_out_have_to_go(bad: str, good: str) -> None:
    assert ran(bad, "pass").shown == {"skips"}
    assert "gradients of the overflow remained" in ran(bad, "pass").judged.faults[0].text
    assert ran(good, "pass").judged.state == RIGHT


def test_where_gradients_are_cleared_out_of_sight_none_are_left() -> None:
    found = ran(CLIPPED + "if torch.isfinite(norm):\n    scaler.step(optimizer)\nscaler.update()", "pass")
    assert "skips" not in found.shown


@pytest.mark.parametrize(
    "change",
    [
        "p.grad.clamp_(-0.1, 0.1)",
        "p.grad.mul_(0.1)",
        "p.grad *= 0.1",
        "p.grad.copy_(p.grad.clamp(-0.1, 0.1))",
        "p.grad = p.grad.clamp(-0.1, 0.1)",
    ],
)
def test_gradients_changed_behind_the_step_are_changed_for_nothing(change: str) -> None:
    late = "gradients are clipped or changed after the step that used them"
    for clear, after in (("optimizer.zero_grad()", ""), ("pass", "\noptimizer.zero_grad()")):
        assert [each.text for each in ran(MADE + EACH + change + after, clear).judged.faults] == [late]
    assert ran(UNSCALED + EACH + change + "\n" + MADE).judged.state == RIGHT


@pytest.mark.parametrize(
    "body",
    [
        "p.grad.zero_()",
        "p.grad.detach_().zero_()",
        "p.grad = None",
        "p.grad.mul_(0.5)\nprint(sum(p.grad.norm() for p in model.parameters()))",
    ],
)
def test_gradients_can_be_cleared_behind_the_step_or_made_ready_for_a_log(body: str) -> None:
    assert ran(MADE + EACH + body).judged.state == RIGHT


PENALTY = """
import torch
from torch import nn


def d_step(D, optimizer, scaler, real, fake, it, gamma=10.0):
    optimizer.zero_grad()
    mixed = MIXED
    with torch.autocast("cuda", dtype=torch.float16):
        scores = D(mixed)
        loss = nn.functional.softplus(D(fake)).mean() + nn.functional.softplus(-scores).mean()
    if it % 16 == 0:
        scaled = torch.autograd.grad(scaler.scale(scores.sum()), mixed, create_graph=True)[0]
        gradients = scaled.float()DIVIDED
        loss = loss + gamma / 2 * gradients.pow(2).sum([1]).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


def main(D, loader):
    optimizer = torch.optim.SGD(D.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for it, (real, fake) in enumerate(loader):
        d_step(D, optimizer, scaler, real, fake, it)
"""


@pytest.mark.parametrize(
    "mixed",
    [
        "real.requires_grad_(True)",
        "(0.5 * real + 0.5 * fake).requires_grad_()",
        "torch.autograd.Variable(real, requires_grad=True)",
        "real",
    ],
)
def test_a_penalty_of_scaled_gradients_of_inputs_is_too_large(mixed: str) -> None:
    (bad,) = interpret(PENALTY.replace("MIXED", mixed).replace("DIVIDED", ""))
    assert bad.shown == {"gradient", "update"}
    (good,) = interpret(PENALTY.replace("MIXED", mixed).replace("DIVIDED", " / scaler.get_scale()"))
    assert good.judged.state == RIGHT


def test_a_penalty_of_what_no_model_in_sight_is_given_is_not_checkable() -> None:
    text = PENALTY.replace("MIXED", "real").replace("D(mixed)", "D.last()").replace("DIVIDED", "")
    (found,) = interpret(text)
    assert "what torch.autograd.grad(" in found.judged.reason


TWO = """
import torch
from torch import nn


def train(enc, dec, loader):
    of_enc = torch.optim.SGD(enc.parameters(), lr=0.1)
    of_dec = torch.optim.SGD(dec.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        of_enc.zero_grad()
        of_dec.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.mse_loss(dec(enc(x)), y)
        scaler.scale(loss).backward()
        FIX
        nn.utils.clip_grad_norm_(enc.parameters(), 1.0)
        scaler.step(of_enc)
        of_dec.step()
        scaler.update()
"""


@pytest.mark.parametrize("left", [[], ["AMP402"]])
def test_a_fix_that_mends_one_of_two_misuses_is_said_to_do_that(left: list[str]) -> None:
    (before,), (after,) = (interpret(TWO.replace("FIX", fix)) for fix in ("pass", "scaler.unscale_(of_enc)"))
    found = decide(before.judged, after.judged, ["AMP401"], left)
    ended = "wrong gradients (clip, optimizer 1), wrong updates (optimizer 1)"
    left = "wrong gradients (optimizer 2), wrong updates (optimizer 2)"
    assert found == ("misbehaves", f"gone after the fix: {ended}; left: {left}")


def test_a_fix_that_makes_another_part_wrong_is_refuted() -> None:
    text = TWO.replace("of_dec.step()", "scaler.step(of_dec)")
    (before,), (after,) = (
        interpret(each) for each in (text.replace("FIX", "pass"), TWO.replace("FIX", "scaler.unscale_(of_enc)"))
    )
    assert decide(before.judged, after.judged, ["AMP401"], []).verdict == "refuted"


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        # No step was compared before it raised: what is wrong behind it may always have been so.
        (UNSCALED * 2 + EACH + "p.grad.mul_(2.0 * scaler.get_scale())\n" + MADE, UNSCALED, "misbehaves"),
        # One was, and it was right.
        (UNSCALED + "scaler.step(optimizer)", "optimizer.step()", "refuted"),
    ],
)
def test_what_an_exception_may_have_hidden_is_no_fault_of_the_fix(before: str, after: str, verdict: str) -> None:
    bad, fixed = ran(before), ran(before.replace(UNSCALED * 2, after) if UNSCALED * 2 in before else after)
    assert "exception" in bad.shown
    assert fixed.shown == {"gradient", "update"}
    assert decide(bad.judged, fixed.judged, ["AMP404"], []).verdict == verdict


LOSS = """
import torch
from torch.nn import functional


def train(model, optimizer, scaler, loader, weight=1.0):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            BODY
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


def lossy(*body: str) -> Ran:
    (found,) = interpret(LOSS.replace("BODY", "\n            ".join(body)))
    return found


@pytest.mark.parametrize(
    "divergence",
    [
        "-0.5 * torch.mean(1 + log_variance - mean.pow(2) - log_variance.exp())",
        "torch.mean(-0.5 * torch.sum(1 + log_variance - mean**2 - torch.exp(log_variance), dim=1))",
        "(weight - torch.sum((0.5 * log_variance).exp(), dim=1).mean()) ** 2",
    ],
)
def test_what_a_model_returns_for_an_exponent_is_no_loss(divergence: str) -> None:
    ran = lossy("mean, log_variance = model.encode(x)", f"loss = functional.mse_loss(model(x), y) + {divergence}")
    assert ran.judged.state == RIGHT


def test_a_scale_that_is_too_high_at_first_comes_down_before_anything_is_compared() -> None:
    ran = lossy("loss = functional.cross_entropy(model(x), y) * 1e5")
    assert ran.judged.state == RIGHT
    (path,) = ran.runs.paths
    assert path.observed.gradient.count


@pytest.mark.parametrize(
    "loss",
    [
        "functional.cross_entropy(model(x) * 1e6 * 1e-6, y)",
        "functional.nll_loss(torch.log(torch.sigmoid(model(x)) * 1e-9), y)",
    ],
)
def test_a_loss_that_is_finite_in_float32_only_misbehaves_at_any_scale(loss: str) -> None:
    ran = lossy(f"loss = {loss}")
    assert [each.shows for each in ran.judged.faults] == ["gradient"]
    assert "not finite at any scale" in ran.judged.faults[0].text


def test_gradients_that_are_not_finite_without_amp_either_are_no_fault_of_it() -> None:
    mixed = "with torch.autocast('cuda', enabled=weight > 1):\n            out = model(x)\n        "
    loss = "loss = functional.cross_entropy(out * 1e30 * 1e30, y)"
    body = "        " + mixed + loss + "\n        loss.backward()\n        optimizer.step()\n"
    text = LOSS.partition("        with")[0] + body
    (ran,) = interpret(text)
    assert ran.judged.state == UNKNOWN
    assert "even without AMP" in ran.judged.reason


NORM = """
import torch

def norm(parameters, scale=1):
    total = 0.0
    for p in parameters:
        if p.grad is not None:
            total += (p.grad.detach().data / scale).norm(2).item() ** 2
    return total ** 0.5

def train(model, optimizer, loader, scaler, args):
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        print(norm(model.parameters(), scale=GIVEN))
        scaler.step(optimizer)
        scaler.update()
"""


@pytest.mark.parametrize(
    ("given", "state"), [("scaler.get_scale()", RIGHT), ("args.factor", WRONG), ("len(loader)", WRONG)]
)
def test_a_norm_that_a_function_divides_by_the_scale(given: str, state: str) -> None:
    (found,) = interpret(NORM.replace("GIVEN", given))
    assert found.judged.state == state
