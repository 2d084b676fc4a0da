"""Loops under the doctor: misuse of the scaler that a run shows, at its line, and right twins that are left alone."""

from __future__ import annotations

import textwrap
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("torch")

from amplint.doctor import observe
from amplint.doctor.findings import Related, Report

START = """\
import gc

import torch
from torch import nn

torch.manual_seed(0)
model, other = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2)), nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
second = torch.optim.SGD(other.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
another = torch.amp.GradScaler("cpu", init_scale=2048.0)


def loss_of(net, rows=4):
    with torch.autocast("cpu", dtype=torch.float16):
        return nn.functional.cross_entropy(net(torch.randn(rows, 8)).float(), torch.randint(0, 2, (rows,)))


for step in range(6):
"""


def watched(body: str, path: Path) -> Report:
    path.write_text(START + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n", "utf-8")
    code = compile(path.read_text("utf-8"), str(path), "exec")
    with suppress(Exception), observe(quiet=True) as seen:
        exec(code, {"__name__": "__main__", "__file__": str(path)})
    assert seen.report is not None
    assert not any("failed" in note for note in seen.report.notes), seen.report.notes
    return seen.report


WRONG = {
    "clip before unscale_": """
        optimizer.zero_grad()
        scaler.scale(loss_of(model)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)  # AMP401
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    """,
    "clip by value": """
        optimizer.zero_grad()
        scaler.scale(loss_of(model)).backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.5)  # AMP401
        scaler.step(optimizer)
        scaler.update()
    """,
    "clip of a part": """
        optimizer.zero_grad()
        scaler.scale(loss_of(model)).backward()
        nn.utils.clip_grad_norm_(model[2].parameters(), 0.1)  # AMP401
        scaler.step(optimizer)
        scaler.update()
    """,
    "the optimizer steps past the scaler": """
        optimizer.zero_grad()
        scaler.scale(loss_of(model)).backward()
        optimizer.step()  # AMP402
    """,
    "a loss that nobody scaled": """
        optimizer.zero_grad()
        if step:
            scaler.scale(loss_of(model)).detach()
        else:
            scaler.scale(loss_of(other)).backward()
        loss_of(model).backward()  # AMP403
        scaler.step(optimizer)
        scaler.update()
    """,
    "one of two losses": """
        optimizer.zero_grad()
        scaler.scale(loss_of(model)).backward()
        loss_of(model).backward()  # AMP403
        scaler.step(optimizer)
        scaler.update()
    """,
    "no update": """
        optimizer.zero_grad()
        scaler.scale(loss_of(model)).backward()
        scaler.step(optimizer)  # AMP404
    """,
    "unscale_ twice": """
        optimizer.zero_grad()
        scaler.scale(loss_of(model)).backward()
        scaler.unscale_(optimizer)
        scaler.unscale_(optimizer)  # AMP405
        scaler.step(optimizer)
        scaler.update()
    """,
    "unscale_ by two optimizers over the same parameters": """
        twin = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer.zero_grad()
        scaler.scale(loss_of(model)).backward()
        scaler.unscale_(optimizer)
        scaler.unscale_(twin)  # AMP405
        scaler.step(optimizer)
        scaler.update()
    """,
    "unscale_ after the step": """
        optimizer.zero_grad()
        scaler.scale(loss_of(model)).backward()
        scaler.step(optimizer)
        scaler.unscale_(optimizer)  # AMP406
        scaler.update()
    """,
    "cleared before the step": """
        scaler.scale(loss_of(model)).backward()
        optimizer.zero_grad()  # AMP407
        scaler.step(optimizer)
        scaler.update()
    """,
    "cleared to zeros before the step": """
        scaler.scale(loss_of(model)).backward()
        optimizer.zero_grad(set_to_none=False)  # AMP407
        scaler.step(optimizer)
        scaler.update()
    """,
    "a scaler for each step": """
        scaler = torch.amp.GradScaler("cpu")  # AMP408
        optimizer.zero_grad()
        scaler.scale(loss_of(model)).backward()
        scaler.step(optimizer)
        scaler.update()
    """,
    "clamped by hand": """
        optimizer.zero_grad()
        scaler.scale(loss_of(model)).backward()
        for p in model.parameters():
            p.grad.clamp_(-0.5, 0.5)  # AMP409
        scaler.step(optimizer)
        scaler.update()
    """,
    "clipped by hand": """
        optimizer.zero_grad()
        scaler.scale(loss_of(model)).backward()
        total = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
        for p in model.parameters():
            p.grad.mul_(0.1 / (total + 1e-6))  # AMP409
        scaler.step(optimizer)
        scaler.update()
    """,
    "decay by hand": """
        optimizer.zero_grad()
        scaler.scale(loss_of(model)).backward()
        for p in model.parameters():
            p.grad.add_(p.data, alpha=1e-2)  # AMP409
        scaler.step(optimizer)
        scaler.update()
    """,
    "update before the step": """
        optimizer.zero_grad()
        scaler.scale(loss_of(model)).backward()
        scaler.unscale_(optimizer)
        scaler.update()  # AMP410
        scaler.step(optimizer)
    """,
    "update with nothing to update": """
        optimizer.zero_grad()
        scaler.scale(loss_of(model)).backward()
        scaler.update()  # AMP410
        scaler.step(optimizer)
    """,
    "the scale changes between two optimizers": """
        scaler.set_growth_interval(1)
        optimizer.zero_grad()
        second.zero_grad()
        scaler.scale(loss_of(model) + loss_of(other)).backward()
        scaler.step(optimizer)
        scaler.update()  # AMP410
        scaler.step(second)
        scaler.update()
    """,
    "no update where the step is skipped": """
        loss = loss_of(model)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)  # AMP404
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        if torch.isnan(loss) or step == 3:
            continue
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    """,
    "unscale_ in each micro step": """
        scaler.scale(loss_of(model) / 3).backward()
        scaler.unscale_(optimizer)  # AMP405
        if (step + 1) % 3 == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    """,
    "scaled gradients on unscaled ones": """
        if step % 2 == 0:
            optimizer.zero_grad()
        scaler.scale(loss_of(model)).backward()  # AMP411
        scaler.unscale_(optimizer)
        if step % 2:
            scaler.step(optimizer)
        scaler.update()
    """,
    "a closure": """
        optimizer.zero_grad()
        scaler.scale(loss_of(model)).backward()
        scaler.step(optimizer, closure=lambda: loss_of(model))  # AMP415
        scaler.update()
    """,
    "the scaler has scaled nothing": """
        optimizer.zero_grad()
        loss_of(model).backward()
        scaler.unscale_(optimizer)  # AMP403
    """,
    "a step of a scaler that has scaled nothing": """
        optimizer.zero_grad()
        loss_of(model).backward()  # AMP403
        scaler.step(optimizer)
    """,
    "clip after the step, by the value": """
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()
        nn.utils.clip_grad_value_(model.parameters(), 0.001)  # AMP419
    """,
    "clip after the step": """
        optimizer.zero_grad()
        scaler.scale(loss_of(model)).backward()
        scaler.step(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)  # AMP419
        scaler.update()
    """,
    "another scaler steps": """
        optimizer.zero_grad()
        scaler.scale(loss_of(model)).backward()
        another.scale(loss_of(other)).backward()
        another.step(optimizer)  # AMP421
        another.update()
    """,
    "half parameters": """
        half = nn.Linear(8, 2).half()
        optimizer = torch.optim.SGD(half.parameters(), lr=0.1)
        scaler.scale(half(torch.randn(2, 8).half()).float().sum()).backward()
        scaler.step(optimizer)  # AMP208
    """,
    "a loss in half outside of the region": """
        if step == 0:
            scaler = torch.amp.GradScaler("cpu")
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(torch.randn(4, 8))
        loss = (out - 1).square().mean()
        scaler.scale(loss).backward()  # AMP303
        scaler.step(optimizer)
        scaler.update()
    """,
}
RIGHT = {
    "the norm is logged after the step": """
        optimizer.zero_grad()
        scaler.scale(loss_of(model)).backward()
        scaler.step(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), float("inf"))
        scaler.update()
    """,
    "what is left after the step is clipped, and added to": """
        loss_of(model).backward()
        optimizer.step()
        nn.utils.clip_grad_norm_(model.parameters(), 0.001)
    """,
    "gradients are set by hand, and clipped, before another step": """
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()
        for p in model.parameters():
            p.grad.copy_(torch.ones_like(p))
        nn.utils.clip_grad_norm_(model.parameters(), 0.001)
        optimizer.step()
    """,
    "one optimizer of two models that train in turns": """
        if step == 0:
            optimizer = torch.optim.SGD([*model.parameters(), *other.parameters()], lr=0.05)
        trained = other if step % 2 else model
        loss_of(trained).backward()
        nn.utils.clip_grad_norm_(trained.parameters(), 0.001)
        optimizer.step()
        trained.zero_grad(set_to_none=True)
    """,
    "copies of the weights that get their gradients by hand": """
        if step == 0:
            copies = [each.detach().clone().requires_grad_(True) for each in model.parameters()]
            optimizer = torch.optim.SGD(copies, lr=0.05)
        loss_of(model).backward()
        for copy, p in zip(copies, model.parameters()):
            copy.grad = p.grad.clone()
            p.grad = None
        nn.utils.clip_grad_norm_(copies, 0.001)
        optimizer.step()
    """,
    "a loss in half outside of the region, by a scale that float16 holds": """
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(torch.randn(4, 8))
        loss = (out - 1).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    """,
    "a loss in half that is scaled to be shown": """
        if step == 0:
            scaler = torch.amp.GradScaler("cpu")
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(torch.randn(4, 8))
        loss = (out - 1).square().mean()
        print(scaler.scale(loss).item())
        scaler.scale(loss.float() if step else loss.float() * 1e30).backward()
        scaler.step(optimizer)
        scaler.update()
    """,
    "a scale of 1 that nothing is divided by": """
        if step == 0:
            scaler = torch.amp.GradScaler("cpu", init_scale=1.0)
        optimizer.zero_grad()
        scaler.scale(loss_of(model)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.001)
        optimizer.step()
        optimizer.zero_grad()
        loss_of(model).backward()
        scaler.step(optimizer)
        scaler.update()
    """,
    "unscale_, clip, step, update": """
        optimizer.zero_grad()
        scaler.scale(loss_of(model)).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()
    """,
    "a bound that is multiplied by the scale": """
        optimizer.zero_grad()
        scaler.scale(loss_of(model)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1 * scaler.get_scale())
        scaler.step(optimizer)
        scaler.update()
    """,
    "accumulation": """
        scaler.scale(loss_of(model) / 2).backward()
        if step % 2:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    """,
    "update where the step is skipped, too": """
        loss = loss_of(model)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        if torch.isnan(loss) or step == 3:
            scaler.update()
            optimizer.zero_grad()
            continue
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    """,
    "two optimizers, one backward, one update": """
        optimizer.zero_grad()
        second.zero_grad()
        scaler.scale(loss_of(model) + loss_of(other)).backward()
        scaler.step(optimizer)
        scaler.step(second)
        scaler.update()
    """,
    "two scalers": """
        optimizer.zero_grad()
        second.zero_grad()
        scaler.scale(loss_of(model)).backward()
        another.scale(loss_of(other)).backward()
        scaler.step(optimizer)
        another.step(second)
        scaler.update()
        another.update()
    """,
    "an update after each backward and step of its own": """
        scaler.set_growth_interval(1)
        second.zero_grad()
        scaler.scale(loss_of(other)).backward()
        scaler.step(second)
        scaler.update()
        optimizer.zero_grad()
        scaler.scale(loss_of(model)).backward()
        scaler.step(optimizer)
        scaler.update()
    """,
    "an optimizer that no scaler knows": """
        second.zero_grad()
        loss_of(other).backward()
        nn.utils.clip_grad_norm_(other.parameters(), 0.1)
        second.step()
        optimizer.zero_grad()
        scaler.scale(loss_of(model)).backward()
        scaler.step(optimizer)
        scaler.update()
    """,
    "gradients divided by hand": """
        optimizer.zero_grad()
        scale = scaler.get_scale()
        scaler.scale(loss_of(model)).backward()
        for p in model.parameters():
            p.grad.div_(scale)
        optimizer.step()
    """,
    "gradients averaged by hand": """
        optimizer.zero_grad()
        scaler.scale(loss_of(model)).backward()
        scaler.scale(loss_of(model)).backward()
        for p in model.parameters():
            p.grad.div_(2)
        scaler.step(optimizer)
        scaler.update()
    """,
    "cleared in between on purpose": """
        scaler.scale(loss_of(model)).backward()
        optimizer.zero_grad()
        scaler.scale(loss_of(model)).backward()
        scaler.step(optimizer)
        scaler.update()
    """,
    "a scaler for each model": """
        model = nn.Linear(8, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        scaler = torch.amp.GradScaler("cpu")
        for _ in range(2):
            optimizer.zero_grad()
            scaler.scale(loss_of(model)).backward()
            scaler.step(optimizer)
            scaler.update()
    """,
    "a scaler for each model, whose optimizer takes the address of an earlier one": """
        if step == 0:

            class Large(torch.optim.SGD):  # hardly anything else is of its size, to take its address
                __slots__ = tuple(f"unused_{number}" for number in range(52))

        optimizer, others = None, []
        gc.collect()
        model = nn.Linear(8, 2)
        optimizer = Large(model.parameters(), lr=0.05)
        if step == 0:
            address = id(optimizer)
        while step % 2 == 0 and id(optimizer) != address and len(others) < 1000:
            others.append(optimizer)
            optimizer = Large(model.parameters(), lr=0.05)
        scaler = torch.amp.GradScaler("cpu")
        for _ in range(2):
            optimizer.zero_grad()
            scaler.scale(loss_of(model)).backward()
            scaler.step(optimizer)
            scaler.update()
    """,
    "a scaler that is off, in float32": """
        scaler = torch.amp.GradScaler("cpu", enabled=False)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(torch.randn(4, 8)), torch.randint(0, 2, (4,)))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()
    """,
    "a penalty that is divided by the scale": """
        x = torch.randn(4, 8, requires_grad=True)
        (found,) = torch.autograd.grad(scaler.scale(model(x).sum()), x, create_graph=True)
        penalty = ((found / scaler.get_scale()).norm(dim=1) - 1).pow(2).mean()
        optimizer.zero_grad()
        scaler.scale(loss_of(model) + penalty).backward()
        scaler.step(optimizer)
        scaler.update()
    """,
    "a norm that is only measured": """
        optimizer.zero_grad()
        scaler.scale(loss_of(model)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), float("inf"))
        scaler.step(optimizer)
        scaler.update()
    """,
    "a part that this loss doesn't reach": """
        optimizer.zero_grad()
        second.zero_grad()
        if step % 2:
            scaler.scale(loss_of(other)).backward()
            scaler.step(second)
        else:
            scaler.scale(loss_of(model)).backward()
            scaler.step(optimizer)
        scaler.update()
    """,
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_misuse_is_named_at_its_line(body: str, tmp_path: Path) -> None:
    report = watched(body, tmp_path / "loop.py")
    lines = (tmp_path / "loop.py").read_text("utf-8").splitlines()
    ((line, code),) = [(n, text.partition("# ")[2]) for n, text in enumerate(lines, 1) if "# AMP" in text]
    assert report.findings
    first = report.findings[0]
    assert (first.code, first.place and first.place.line) == (code, line), first


@pytest.mark.parametrize(
    ("name", "linter"),
    [
        ("no update where the step is skipped", "`scaler.update()` is skipped if"),
        ("unscale_ in each micro step", "`unscale_()` runs on every micro step"),
    ],
)
def test_a_second_unscale_is_one_problem_with_the_linters_word(name: str, linter: str, tmp_path: Path) -> None:
    (finding,) = watched(WRONG[name], tmp_path / "loop.py").findings
    assert "a backward pass ran in between" in finding.message
    assert finding.related is not None
    assert finding.related.message.startswith(linter)


HIDDEN = """
    optimizer.zero_grad()
    getattr(scaler, "scale")(loss_of(model)).backward()
    for _ in range(2):
        getattr(scaler, "unscale" + "_")(optimizer)
"""


def test_where_the_linter_sees_nothing_the_rule_is_that_of_the_exception(tmp_path: Path) -> None:
    (finding,) = watched(HIDDEN, tmp_path / "loop.py").findings
    assert (finding.code, finding.related) == ("AMP405", Related(is_missed=True))
    assert "in between" not in finding.message


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_right_use_is_left_alone(body: str, tmp_path: Path) -> None:
    assert watched(body, tmp_path / "loop.py").findings == ()
