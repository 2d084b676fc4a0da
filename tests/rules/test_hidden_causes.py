"""Misuse of the scaler that another one stood in front of, or that a form hid: what is said, and of which right twins
nothing."""

from __future__ import annotations

import pytest

from amplint import check

TRAIN = """import torch
from torch.nn.utils import clip_grad_norm_
{before}

def train({arguments}):
{made}
    for x, y in loader:
{body}
"""


def program(body: str, arguments: str, made: str = "", before: str = "") -> str:
    """A training loop, with what is made before it, as text."""
    made = f'{made}\nscaler = torch.amp.GradScaler("cuda")' if "GradScaler" not in made else made
    indented = ["\n".join(" " * by + line for line in text.strip().splitlines()) for text, by in ((made, 4), (body, 8))]
    return TRAIN.format(before=before, arguments=arguments, made=indented[0], body=indented[1])


def said(text: str) -> list[str]:
    """The codes of what is found, with the lines."""
    return [f"{each.code} {text[each.start :].partition(chr(10))[0].strip()}" for each in check(text)]


BACKWARD = "o.zero_grad()\nscaler.scale(m(x).mean()).backward()\n"
CLIP = "clip_grad_norm_(m.parameters(), 1.0)\n"
OPTIMIZERS = 'opts = {"enc": torch.optim.SGD(enc.parameters(), 0.1), "dec": torch.optim.SGD(dec.parameters(), 0.1)}'
BOTH = "for o in opts.values():\n    o.zero_grad()\nscaler.scale(dec(enc(x)).mean()).backward()\n"
GAN = (
    "opt_g.zero_grad()\nscaler.scale(d(g(x)).mean()).backward()\n{step}\n"
    "opt_d.zero_grad()\nscaler.scale(d(x).mean()).backward()\nscaler.step(opt_d)\nscaler.update()"
)
LOSSES = (
    'opt.zero_grad()\nlosses = {{"main": m(x).mean(), "aux": aux(x).mean()}}\n'
    'scaler.scale(losses["main"]).backward()\n{}.backward()\nscaler.step(opt)\nscaler.update()'
)
TWO_LOSSES = "opt = torch.optim.SGD([*m.parameters(), *aux.parameters()], 0.1)"
TWO_SCALERS = (
    'a, b = torch.amp.GradScaler("cuda"), torch.amp.GradScaler("cuda")\n'
    "og, od = torch.optim.SGD(g.parameters(), 0.1), torch.optim.SGD(d.parameters(), 0.1)"
)
TWO_STEPS = (
    "od.zero_grad()\nb.scale(d(x).mean()).backward()\nb.step(od)\nb.update()\nif y:\n    continue\n"
    "og.zero_grad()\n{}.scale(d(g(x)).mean()).backward()\na.step(og)\na.update()"
)
SCOPE = """
class Updating:
    def __init__(self, scaler):
        self.scaler = scaler

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.scaler.update()


class Timer:
    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.took = 0

"""
INSIDE = "o.zero_grad()\nwith {}:\n    scaler.scale(m(x).mean()).backward()\n    scaler.step(o)"
OWN = "o = torch.optim.SGD(m.parameters(), 0.1)"
CLEARED = "loss = {loss}\nscaler.scale(loss).backward()\n{clear}.zero_grad()\nscaler.step(optimizer)\nscaler.update()"

FOUND = {
    "a step past the scaler behind a clip": (
        program(f"{BACKWARD}{CLIP}o.step()", "m, loader", OWN),
        ["AMP401 clip_grad_norm_(m.parameters(), 1.0)", "AMP402 o.step()"],
    ),
    "of an optimizer that is given by a short name": (
        program(f"{BACKWARD}o.step()", "m, o, loader"),
        ["AMP402 o.step()"],
    ),
    "of one that a dictionary holds": (
        program(f'{BOTH}scaler.step(opts["enc"])\nopts["dec"].step()\nscaler.update()', "enc, dec, loader", OPTIMIZERS),
        ['AMP402 opts["dec"].step()'],
    ),
    "of one of two that are given": (
        program(GAN.format(step="opt_g.step()"), "g, d, opt_g, opt_d, loader"),
        ["AMP402 opt_g.step()"],
    ),
    "an update before the step behind a clip": (
        program(f"{BACKWARD}{CLIP}scaler.update()\nscaler.step(o)", "m, loader", OWN),
        ["AMP401 clip_grad_norm_(m.parameters(), 1.0)", "AMP410 scaler.update()"],
    ),
    "the one model cleared before the step of an optimizer that is given": (
        program(CLEARED.format(loss="criterion(model(x), y)", clear="model"), "model, criterion, optimizer, loader"),
        ["AMP407 scaler.step(optimizer)"],
    ),
    "one of several losses in a dictionary": (
        program(LOSSES.format('losses["aux"]'), "m, aux, loader", TWO_LOSSES),
        ['AMP403 losses["aux"].backward()'],
    ),
    "the other of two scalers that are made together": (
        program(TWO_STEPS.format("b"), "g, d, loader", TWO_SCALERS),
        ["AMP418 a.step(og)"],
    ),
    "no update where another manager has one": (
        program(INSIDE.format("Timer()"), "m, loader", OWN, SCOPE),
        ["AMP404 scaler.step(o)"],
    ),
}
SILENT = {
    "stepped through the scaler": program(f"{BACKWARD}scaler.step(o)\nscaler.update()", "m, o, loader"),
    "an engine that is stepped": program(
        "e.zero_grad()\ne.backward(scaler.scale(m(x).mean()))\ne.step()", "m, e, loader"
    ),
    "the other arm of AMP's own flag": program(
        f"{BACKWARD}if amp:\n    scaler.step(o)\n    scaler.update()\nelse:\n    o.step()",
        "m, o, loader, amp",
        'scaler = torch.amp.GradScaler("cuda", enabled=amp)',
    ),
    "both of a dictionary": program(
        f'{BOTH}scaler.step(opts["enc"])\nscaler.step(opts["dec"])\nscaler.update()', "enc, dec, loader", OPTIMIZERS
    ),
    "one of a dictionary whose loss has no scale": program(
        'opts["enc"].zero_grad()\nscaler.scale(enc(x).mean()).backward()\nscaler.step(opts["enc"])\nscaler.update()\n'
        'opts["dec"].zero_grad()\ndec(enc(x).detach()).mean().backward()\nopts["dec"].step()',
        "enc, dec, loader",
        OPTIMIZERS,
    ),
    "both that are given": program(GAN.format(step="scaler.step(opt_g)"), "g, d, opt_g, opt_d, loader"),
    "the model cleared where another tensor is trained": program(
        CLEARED.format(loss="model(x + delta).mean()", clear="model"), "model, delta, optimizer, loader"
    ),
    "a part of what is trained cleared": program(
        CLEARED.format(loss="head(model(x)).mean()", clear="model"), "model, head, optimizer, loader"
    ),
    "all losses in a dictionary scaled": program(
        LOSSES.format('scaler.scale(losses["aux"])'), "m, aux, loader", TWO_LOSSES
    ),
    "losses in a dictionary of two optimizers": program(
        'losses = {"g": g(x).mean(), "d": d(x).mean()}\nog.zero_grad()\nod.zero_grad()\n'
        'scaler.scale(losses["g"]).backward()\nlosses["d"].backward()\nscaler.step(og)\nod.step()\nscaler.update()',
        "g, d, loader",
        "og = torch.optim.SGD(g.parameters(), 0.1)\nod = torch.optim.SGD(d.parameters(), 0.1)",
    ),
    "two scalers, made together": program(TWO_STEPS.format("a"), "g, d, loader", TWO_SCALERS),
    "a manager that updates": program(INSIDE.format("Updating(scaler)"), "m, loader", OWN, SCOPE),
    "a manager that may be one": program(INSIDE.format("manager"), "m, manager, loader", OWN, SCOPE),
}


@pytest.mark.parametrize(("text", "expected"), FOUND.values(), ids=FOUND)
def test_found(text: str, expected: list[str]) -> None:
    assert said(text) == expected


@pytest.mark.parametrize("text", SILENT.values(), ids=SILENT)
def test_silent(text: str) -> None:
    assert said(text) == []


REASONS = {
    "bypasses the scaler": f"{BACKWARD}{CLIP}o.step()",
    "comes before the step": f"{BACKWARD}{CLIP}scaler.update()\nscaler.step(o)",
    "may be among these": "scaler.scale(m(x).mean()).backward()\n"
    f"{CLIP}scaler.step(o)\nscaler.update()\nif y % 2 == 0:\n    o.zero_grad()",
}


@pytest.mark.parametrize(("reason", "body"), REASONS.items(), ids=REASONS)
def test_the_reason_against_a_clips_fix_is_its_own(reason: str, body: str) -> None:
    (clip,) = [each for each in check(program(body, "m, loader", OWN)) if each.code == "AMP401"]
    assert reason in (clip.withheld or "")


def test_what_a_clip_says_to_call_has_the_names_of_its_function() -> None:
    (clip, _) = check(program(f"{BACKWARD}{CLIP}o.step()", "m, loader", OWN))
    assert "`scaler.unscale_(o)`" in clip.message
    body = (
        "og.zero_grad()\nod.zero_grad()\na.scale(g(x).mean()).backward()\na.scale(d(x).mean()).backward()\n"
        "clip_grad_norm_(g.parameters(), 1.0)\nclip_grad_norm_(d.parameters(), 1.0)\na.step(og)\na.step(od)\na.update()"
    )
    messages = [each.message for each in check(program(body, "g, d, loader", TWO_SCALERS))]
    assert [("unscale_(og)" in each, "unscale_(od)" in each) for each in messages] == [(True, False), (False, True)]


def test_an_update_before_the_step_raises() -> None:
    (found,) = check(program(f"{BACKWARD}scaler.update()\nscaler.step(o)", "m, loader", OWN))
    assert " raises: " in found.message
