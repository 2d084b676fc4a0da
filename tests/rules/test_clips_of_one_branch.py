"""AMP420 about clips that only one of two branches runs, where something else looks like a clip for both."""

from __future__ import annotations

import pytest

from amplint import check
from amplint.base.findings import Confidence, Finding

WHOLE_STEPS = """
import torch


def train(model, batches, optimizer, scaler, use_amp):
    {before}
    for inputs, targets in batches:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16, enabled=use_amp):
            loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        if use_amp:
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
"""
TWO_MODELS = """
import torch


def train(net_g, net_d, batches, optimizer_g, optimizer_d, scaler_g, scaler_d, mixed, losses):
    for low, high in batches:
        with torch.autocast("cuda", enabled=mixed):
            loss_d = losses(net_d(low), net_d(high))
        optimizer_d.zero_grad()
        if mixed:
            scaler_d.scale(loss_d).backward()
            scaler_d.step(optimizer_d)
            scaler_d.update()
        else:
            loss_d.backward()
            torch.nn.utils.clip_grad_norm_(net_d.parameters(), 1.0)
            optimizer_d.step()
        with torch.autocast("cuda", enabled=mixed):
            loss_g = losses(net_d(net_g(low)), high)
        optimizer_g.zero_grad()
        if mixed:
            scaler_g.scale(loss_g).backward()
            scaler_g.step(optimizer_g)
            scaler_g.update()
        else:
            loss_g.backward()
            torch.nn.utils.clip_grad_norm_(net_g.parameters(), 1.0)
            optimizer_g.step()
"""
BEFORE_STEPS = """
import torch


def train(model, loader, optimizer, args):
    scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
    for inputs in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16, enabled=args.amp):
            loss = model(inputs).mean()
        scaler.scale(loss).backward()
        {clip}
        scaler.step(optimizer)
        scaler.update()
"""
OTHERWISE = """
import torch


def train(model, loader, optimizer, scaler, args):
    for inputs in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", enabled=args.amp):
            loss = model(inputs).mean()
        if args.amp:
            scaler.scale(loss).backward()
        else:
            loss.backward()
        {clip}
        if args.amp:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
"""
CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
UNSCALE = "scaler.unscale_(optimizer)"


def _lines(*lines: str) -> str:
    return "\n        ".join(lines)


def _found(text: str) -> list[Finding]:
    return [each for each in check(text, "train.py") if each.code == "AMP420"]


def test_a_clip_before_the_loop_has_no_gradients() -> None:
    (finding,) = _found(WHOLE_STEPS.format(before=CLIP))
    assert finding.message.startswith("this branch clips the gradients, but the branch without the scaler")
    assert not _found(WHOLE_STEPS.format(before="clip_in_hooks(model)"))


def test_the_clip_of_another_models_branch_is_not_its_own() -> None:
    assert len(_found(TWO_MODELS)) == 2


@pytest.mark.parametrize(("call", "found"), [("net_g(low).clip(0, 1)", 2), ("clip(net_g)", 0), ("clip(low, min=0)", 2)])
def test_pixels_are_no_gradients(call: str, found: int) -> None:
    assert len(_found(TWO_MODELS.replace("net_d(net_g(low))", f"net_d({call})"))) == found


@pytest.mark.parametrize("test", ["args.amp", "scaler.is_enabled()", "args.bound > 0 and scaler.is_enabled()"])
@pytest.mark.parametrize("otherwise", [(), ("else:", "    norm = norm_of(model)")])
def test_a_clip_only_where_the_scaler_is_on(test: str, otherwise: tuple[str, ...]) -> None:
    (finding,) = _found(BEFORE_STEPS.format(clip=_lines(f"if {test}:", f"    {UNSCALE}", f"    {CLIP}", *otherwise)))
    assert finding.confidence is Confidence.LIKELY
    assert finding.message == (
        "only the branch with the scaler clips the gradients: without the scaler, the step on line "
        f"{15 + len(otherwise)} uses gradients that are not clipped; unscale in this branch, and clip after the `if` "
        "in both cases"
    )


@pytest.mark.parametrize(
    "lines",
    [
        ("if args.bound > 0:", f"    {UNSCALE}", f"    {CLIP}"),
        # With and without a bound the scaler steps.
        ("if args.bound > 0:", f"    {UNSCALE}", f"    {CLIP}", "else:", "    norm = norm_of(model)"),
        ("if args.amp:", f"    {UNSCALE}", CLIP),
        ("if args.amp:", f"    {UNSCALE}", f"    {CLIP}", "if not args.amp:", f"    {CLIP}"),
        ("if args.amp:", f"    {UNSCALE}", f"    {CLIP}", "else:", "    clip_by_value(model)"),
    ],
)
def test_a_clip_in_either_case_or_by_an_option_of_its_own(lines: tuple[str, ...]) -> None:
    assert not _found(BEFORE_STEPS.format(clip=_lines(*lines)))


@pytest.mark.parametrize("after", ["", "    for p in model.parameters():\n                print(p.grad.norm())"])
def test_a_clip_only_without_the_scaler(after: str) -> None:
    clip = _lines("if args.amp:", f"    {UNSCALE}", "else:", f"    {CLIP}", after)
    (finding,) = _found(OTHERWISE.format(clip=clip))
    assert "only the branch without the scaler clips the gradients: with the scaler, the step" in finding.message
    assert not _found(OTHERWISE.format(clip=_lines("if args.amp:", f"    {UNSCALE}", CLIP)))


def test_a_clip_that_measures_is_none() -> None:
    measure = CLIP.replace("1.0", "float('inf')")
    assert not _found(OTHERWISE.format(clip=_lines("if args.amp:", f"    {UNSCALE}", "else:", f"    norm = {measure}")))
